"""Replay on a WebSocket: dropped reasoning is injected, and nothing else is changed."""

import asyncio
import contextlib

import pytest
from reasoning_replay.adapters.stores.base import Store
from reasoning_replay.web.pipeline.replay import Replay

from tests.patience import SOON_S
from tests.web.pipeline.test_save_before_release import Gate
from tests.web.sockets import (
    CLOSE,
    CONTINUED,
    HANDSHAKE,
    KEY,
    PING,
    TEXT,
    close,
    frame,
    said,
    tunnelled,
)
from tests.web.websocket.creates import create, failed, told, turn
from tests.web.wire import (
    ASK,
    CALL,
    LOST,
    MESSAGE,
    NEXT,
    PAIRING,
    RESULT,
    RS,
    as_json,
)
from tests.web.world import MODEL, Hooked, Logged, eventually, logged, world

WHOLE = [ASK, RS, CALL, RESULT]


async def test_dropped_reasoning_is_injected() -> None:
    """Dropped reasoning is injected; every other byte of the message is the client's."""
    odd = b'{ "type":"response.create", "model":"gpt-5.4", "n":1.0e5, "input": [%s , %s,%s] }'
    mine = odd % (as_json(ASK), as_json(CALL), as_json(RESULT))
    want = odd % (as_json(ASK), as_json(RS) + b"," + as_json(CALL), as_json(RESULT))
    async with world() as w, tunnelled(w) as (client, upstream):
        seen = await turn(client, upstream, create(ASK), told(RS, CALL))
        assert seen["input"] == [ASK]
        await client.send(said(mine, key=KEY) + frame(PING, b"?", key=KEY))
        await upstream.gets(said(want, key=KEY), frame(PING, b"?", key=KEY))
        await upstream.send(b"".join(told(MESSAGE)))
        await client.gets(*told(MESSAGE))
        assert w.counted("items_total", outcome="injected") == 1
        assert w.counted("requests_total", result="planned") == 2
        assert w.counted("captures_total", result="saved") == 2
        assert w.counted("exchanges_total", route="create", outcome="ok") == 2


async def test_a_message_in_fragments_is_edited_as_a_whole() -> None:
    """A fragmented message is edited as a whole; control frames between its fragments go first."""
    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), told(RS, CALL))
        body = as_json({"type": "response.create", "model": MODEL, "input": LOST})
        ping = frame(PING, b"?", key=KEY)
        first = frame(TEXT, body[:40], final=False, key=KEY)
        await client.send(first + ping + frame(CONTINUED, body[40:], key=b"abcd"))
        want = as_json({"type": "response.create", "model": MODEL, "input": WHOLE})
        await upstream.gets(ping, said(want, key=KEY))


@pytest.mark.parametrize(
    "message",
    [
        create(*WHOLE),
        create(*LOST, previous_response_id="resp_1"),
        create(*LOST, conversation="conv_1"),
        said({"type": "response.steer", "previous_response_id": "resp_1", "input": LOST}, key=KEY),
        said({"type": "response.inject", "response.create": 1, "input": LOST}, key=KEY),
        said(b'{"type":"response.create","type":"response.create","input":[]}', key=KEY),
        said(b'["response.create"]', key=KEY),
    ],
)
async def test_other_messages_pass_unchanged(message: bytes) -> None:
    """These lack nothing, have their history at upstream, or are no requests."""
    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), told(RS, CALL))
        await client.send(message)
        await upstream.gets(message)


@pytest.mark.parametrize("mode", ["shadow", "off"])
async def test_other_modes_change_nothing(mode: str) -> None:
    """Shadow mode decides and counts without a change, and mode `off` reads nothing."""
    async with world(mode=mode) as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), told(RS, CALL))
        await client.send(create(*LOST))
        await upstream.gets(create(*LOST))
        await upstream.send(b"".join(told(MESSAGE)))
        await client.gets(*told(MESSAGE))
        assert w.counted("items_total", outcome="injected") == (mode == "shadow")


async def test_no_credential_means_no_replay() -> None:
    """Without a credential there is no scope, so nothing is replayed, as over HTTP."""
    async with world() as w, tunnelled(w, *HANDSHAKE) as (client, upstream):
        for request in (create(ASK), create(*LOST)):
            await client.send(request)
            await upstream.gets(request)
            await upstream.send(b"".join(told(RS, CALL)))
            await client.gets(*told(RS, CALL))
        assert w.counted("requests_total", result="no_scope") == 2


async def test_the_message_that_completes_an_item_waits_for_its_save() -> None:
    """Earlier messages have passed by then, and the client's control frames pass meanwhile."""
    answer = told(RS, CALL)
    async with world(has_store=True) as w, tunnelled(w) as (client, upstream):
        gate = Gate(w)
        await client.send(create(ASK))
        await upstream.event()
        await upstream.send(b"".join(answer))
        await client.gets(*answer[:4])
        await eventually(lambda: gate.saving == 1)
        assert await client.is_silent()
        await client.send(frame(PING, key=KEY))
        await upstream.gets(frame(PING, key=KEY))
        gate.opens()
        await client.gets(*answer[4:])


async def test_events_flow_while_a_request_is_prepared() -> None:
    """Events pass while a request is prepared; later messages of the client keep their order."""
    recalls = asyncio.Event()

    async def before(operation: str) -> None:
        if operation == "recall":
            await recalls.wait()

    async with world(has_store=True) as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), told(RS, CALL))
        inner: Store = w.store
        w.app.store.inner = Hooked(inner, before)
        await client.send(create(*LOST) + frame(PING, key=KEY))
        delta = said({"type": "response.output_text.delta", "delta": "7"})
        await upstream.send(delta)
        await client.gets(delta)
        assert await upstream.is_silent()
        recalls.set()
        assert (await upstream.event())["input"] == WHOLE
        await upstream.gets(frame(PING, key=KEY))


async def test_a_refused_injection_is_not_the_clients_error() -> None:
    """The request is sent again as the client wrote it, and the client never sees the refusal."""
    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), told(RS, CALL))
        await client.send(create(*LOST))
        assert (await upstream.event())["input"] == WHOLE
        await upstream.send(failed("That is odd.", param="input"))
        await upstream.gets(create(*LOST))
        await upstream.send(b"".join(told(MESSAGE)))
        await client.gets(*told(MESSAGE))
        assert w.counted("heals_total", diagnosis="input", result="cured") == 1
        assert w.counted("items_total", outcome="lacking", reason="refused") == 1
        assert w.counted("items_total", outcome="injected") == 0


@pytest.mark.parametrize("is_captured", [True, False])
async def test_a_refusal_of_its_own_request_is_the_clients(*, is_captured: bool) -> None:
    """If all attempts are refused, the client gets the refusal of what it sent itself."""
    first, last = failed(PAIRING), failed("No.", param="model")
    missing = failed(f"Item with id '{RS['id']}' not found.", 404)
    async with world() as w, tunnelled(w) as (client, upstream):
        if is_captured:
            await turn(client, upstream, create(ASK), told(RS, CALL))
        await client.send(create(*LOST))
        assert (await upstream.event())["input"] == (WHOLE if is_captured else LOST)
        await upstream.send(missing if is_captured else first)
        assert (await upstream.event())["input"] not in (WHOLE, LOST)
        await upstream.send(failed(PAIRING))
        if is_captured:
            await upstream.gets(create(*LOST))
            await upstream.send(last)
        await client.gets(last if is_captured else first)
        await turn(client, upstream, create(ASK), told(MESSAGE))
        assert w.counted("items_total", outcome="injected") == 0
        refused = sum(
            w.counted("heals_total", diagnosis=word, result="refused")
            for word in ("not_found", "lacks_reasoning")
        )
        assert refused == (2 if is_captured else 1)


async def test_the_last_resort_is_the_clients_own_request() -> None:
    """It follows a cure that was refused, unless the error was no refusal."""
    missing = failed(f"Item with id '{RS['id']}' not found.", 404)
    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), told(RS, CALL))
        await client.send(create(*LOST))
        for refusal in (missing, failed(PAIRING)):
            await upstream.event()
            await upstream.send(refusal)
        await upstream.gets(create(*LOST))
        await upstream.send(b"".join(told(MESSAGE, rid="resp_2")))
        await client.gets(*told(MESSAGE, rid="resp_2"))
        await client.send(create(*LOST))
        for refusal in (missing, failed("Slow.", 429)):
            await upstream.event()
            await upstream.send(refusal)
        await client.gets(failed("Slow.", 429))
        assert w.counted("heals_total", diagnosis="not_found", result="cured") == 1
        assert w.counted("heals_total", diagnosis="not_found", result="refused") == 2


async def test_what_nothing_can_heal_is_named(capsys: Logged) -> None:
    """The log names a refusal that nothing can cure, and what to do about it."""
    blob = failed("Encrypted function output content could not be decrypted or decoded.")
    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), [blob])
    (line,) = [line for line in logged(capsys, "exchange") if line["route"] == "create"]
    assert line["unhealed"] == "blob;of=agent"
    assert "account" in line["hint"]


async def test_a_held_refusal_is_not_lost() -> None:
    """A held refusal is forwarded if upstream leaves without answering the retry."""
    first = failed(f"Item with id '{RS['id']}' not found.", 404)
    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), told(RS, CALL))
        await client.send(create(*LOST))
        await upstream.event()
        await upstream.send(first)
        await upstream.event()
        upstream.leave()
        await client.gets(first)
        assert await client.ended()


@pytest.mark.parametrize(
    ("message", "status"), [("no such model", 400), ("Item with id 'x' not found.", 500)]
)
async def test_other_refusals_pass(message: str, status: int) -> None:
    """A refusal that the proxy did not cause is forwarded, and nothing is sent again."""
    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), told(RS, CALL))
        bad = failed(message, status, param="model")
        await turn(client, upstream, create(*LOST), [bad])
        await client.send(frame(PING, key=KEY))
        await upstream.gets(frame(PING, key=KEY))


async def test_long_messages_pass_unread_and_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only the first of thousands is logged, and later turns are captured by ids alone."""
    long = create(ASK | {"content": "x" * 5000})
    async with world(inspect_max_bytes=4000) as w, tunnelled(w) as (client, upstream):
        await client.send(long * 3)
        await upstream.gets(long * 3)
        assert w.counted("requests_total", result="too_large") == 3
        await turn(client, upstream, create(NEXT), told(RS, CALL))
        await client.send(create(*LOST))
        assert (await upstream.event())["input"] == WHOLE  # by the ids of the call
    assert capsys.readouterr().out.count('"too_large"') == 1


async def test_messages_over_the_memory_budget_pass_unread_and_are_counted() -> None:
    """All connections share the budget; a connection returns its share when it ends."""
    long = create(ASK | {"content": "x" * 60_000}, CALL, RESULT)
    recalls = asyncio.Event()

    async def before(operation: str) -> None:
        if operation == "recall":
            await recalls.wait()

    async with (
        world(has_store=True, inspect_total_max_bytes=100_000) as w,
        tunnelled(w) as (client, upstream),
        tunnelled(w) as (other, other_upstream),
    ):
        w.app.store.inner = Hooked(w.app.store.inner, before)
        await client.send(long)
        assert await upstream.is_silent()
        for _ in range(2):
            await other.send(long)
            await other_upstream.gets(long)
        assert w.counted("requests_total", result="busy") == 2
        client.writer.transport.abort()
        recalls.set()
        await eventually(lambda: w.app.handler.admission.count == 1)
        await other.send(long)
        await other_upstream.message()
        assert w.counted("requests_total", result="busy") == 2


async def test_a_long_answer_passes_unread_and_is_counted() -> None:
    """A response over `inspect_max_bytes` passes and is counted, even if only its end is long."""
    big = told(RS, MESSAGE | {"content": [{"type": "output_text", "text": "x" * 5000}]})
    async with world(inspect_max_bytes=4000) as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), big)
        assert w.counted("captures_total", result="too_large") == 1
        await turn(client, upstream, create(ASK), told(RS, CALL))
        await client.send(create(*LOST))
        assert (await upstream.event())["input"] == WHOLE


@pytest.mark.parametrize("method", ["prepare", "capture"])
async def test_after_a_bug_everything_passes_unread(
    method: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a bug in the session, all later messages pass unread, and it is logged once."""

    async def fails(*_: object) -> bytes:
        raise ValueError("secret")

    monkeypatch.setattr(f"reasoning_replay.web.websocket.session.Session.{method}", fails)
    async with world() as w, tunnelled(w) as (client, upstream):
        for _ in range(2):
            await turn(client, upstream, create(ASK), told(RS, CALL))
    log = capsys.readouterr().out
    assert log.count("websocket_unread") == 1
    assert "secret" not in log


async def test_a_request_that_cannot_be_prepared_passes_unchanged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A request that cannot be prepared passes unchanged and is counted; reading goes on."""

    async def fails(*_: object) -> None:
        raise ValueError("secret")

    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), told(RS, CALL))
        with monkeypatch.context() as broken:
            broken.setattr(Replay, "prepare", fails)
            await client.send(create(*LOST))
            await upstream.gets(create(*LOST))
            await upstream.send(b"".join(told(MESSAGE)))
            await client.gets(*told(MESSAGE))
        await client.send(create(*LOST))
        assert (await upstream.event())["input"] == WHOLE
        assert w.counted("requests_total", result="failed") == 1
    log = capsys.readouterr().out
    assert log.count("replay_failed") == 1
    assert "secret" not in log


@pytest.mark.parametrize("operation", ["recall", "save"])
async def test_messages_pass_while_the_store_fails(operation: str) -> None:
    """Messages pass while the store fails, as over HTTP."""

    async def before(given: str) -> None:
        if given == operation:
            raise OSError

    async with world(has_store=True) as w, tunnelled(w) as (client, upstream):
        w.app.store.inner = Hooked(w.app.store.inner, before)
        for _ in range(2):
            await turn(client, upstream, create(ASK, CALL, RESULT), told(RS, MESSAGE))


async def test_the_number_of_captured_streams_is_limited() -> None:
    """The number of captured streams is limited; messages of further streams pass unread."""
    async with world() as w, tunnelled(w) as (client, upstream):
        for number in range(70):
            message = create(ASK, stream_id=f"stream-{number}")
            await client.send(message)
            await upstream.gets(message)
        assert w.counted("requests_total", result="too_large") == 6


# --- the end of a process ---


async def test_an_idle_tunnel_is_closed_when_the_process_drains() -> None:
    """It stays open during the grace period; the process does not wait for it any longer."""
    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), told(RS, CALL))
        w.app.handler.leave()
        assert await client.is_silent()
        w.app.handler.drain()
        assert await client.message() == (CLOSE, b"\x03\xe9")
        assert await upstream.message() == (CLOSE, b"\x03\xe9")
        await client.send(close(1001, key=KEY))
        assert await client.ended()
        client.leave()
        await upstream.send(close(1001))
        upstream.leave()
        await asyncio.wait_for(w.app.handler.admission.idle.wait(), SOON_S)
        assert w.counted("exchanges_total", route="websocket", outcome="ok") == 1


async def test_a_running_answer_may_finish_first() -> None:
    """The drain closes a WebSocket only after its running response has ended."""
    begin, *rest = told(RS, CALL)
    async with world() as w, tunnelled(w) as (client, upstream):
        await client.send(create(ASK))
        await upstream.event()
        await upstream.send(begin)
        await client.gets(begin)
        w.app.handler.drain()
        assert await client.is_silent()
        await upstream.send(b"".join(rest))
        await client.gets(*rest)
        assert await client.message() == (CLOSE, b"\x03\xe9")
        client.leave()
        upstream.leave()
        await asyncio.wait_for(w.app.handler.admission.idle.wait(), SOON_S)
        assert w.counted("exchanges_total", route="create", outcome="ok") == 1


@pytest.mark.parametrize("target", ["/v1/responses", "/v1/realtime"])
async def test_a_websocket_that_outlasts_the_drain_is_cut_off(target: str) -> None:
    """A response that is still running, or an unread tunnel, is cut off at the end of the drain."""
    async with contextlib.AsyncExitStack() as stopping:
        w = await stopping.enter_async_context(world())
        async with tunnelled(w, target=target) as (client, upstream):
            await client.send(create(ASK))
            await upstream.event()
            await upstream.send(told(RS)[0])
            await client.gets(told(RS)[0])
            await asyncio.wait_for(stopping.aclose(), SOON_S)
            assert await client.ended()
            assert w.app.handler.admission.count == 0


async def test_a_handshake_whose_tenant_cannot_be_found_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The WebSocket is relayed, and its messages are not read."""

    def fails(*_: object) -> None:
        raise ValueError("secret")

    async with world() as w:
        monkeypatch.setattr(Replay, "identify", fails)
        async with tunnelled(w) as (client, upstream):
            await client.send(create(ASK))
            await upstream.gets(create(ASK))
    log = capsys.readouterr().out
    assert log.count("replay_failed") == 1
    assert "secret" not in log
