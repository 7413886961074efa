"""Metrics of exchanges."""

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from reasoning_replay.adapters.stores.base import StoreError

from tests.web.line import line_to, request
from tests.web.scripted import Script, send, wait
from tests.web.sockets import said, tunnelled
from tests.web.usages import BILLED, DONE, PLAIN, RS_BYTES, SAID, TOKENS
from tests.web.websocket.creates import create, told
from tests.web.wire import (
    ASK,
    CALL,
    END,
    LOST,
    PAIRING,
    RESULT,
    RS,
    as_json,
    chunk,
    error,
    events,
    head,
    response,
    stream,
    stream_head,
    whole,
)
from tests.web.world import Hooked, World, eventually, post, world

ENDED = as_json({"type": "response.completed", "response": response(usage=SAID)})
UNKNOWN = CALL | {"id": "fc_9z8y7x6w5v4u", "call_id": "call_Qx7Lm2Np9Rt4Vw6Z"}
STREAMED = stream([*events(RS, CALL)[:-1], b"data: " + ENDED + b"\n\n"])


async def scraped(w: World, name: str) -> dict[tuple[str, ...], float]:
    """Return the non-zero samples of a metric in `/metrics`: label values -> value."""
    text = (await w.ask_admin("/metrics")).body.decode()
    return {
        tuple(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "reasoning_replay_" + name and sample.value
    }


@pytest.mark.parametrize(
    ("status", "label", "outcome"),
    [
        ("200 OK", "200", "ok"),
        ("418 Teapot", "4xx", "refused"),
        ("503 Away", "503", "upstream_error"),
    ],
)
async def test_exchanges_are_counted_by_status(status: str, label: str, outcome: str) -> None:
    """Common statuses have their own label, others share the label of their class."""
    async with world() as w:
        w.upstream.answers(whole(b"{}", status=status))
        await w.get("/v1/models")
        await eventually(lambda: w.counted("exchanges_total", route="models", status=label) == 1)
        text = (await w.ask_admin("/metrics")).body.decode()
        labels = f'{{outcome="{outcome}",route="models",status="{label}"}}'
        assert f"reasoning_replay_exchanges_total{labels} 1.0" in text


@pytest.mark.usefixtures("leaves_at_once")
async def test_an_exchange_without_a_head_has_no_status() -> None:
    """An exchange whose client left before the head has the status `none`."""
    async with world() as w, line_to(w.app.url) as line:
        script = Script([wait()])
        w.upstream.plays(script)
        await line.send(post({"model": "gpt-5.4", "input": [ASK]}))
        await script.arrived.wait()
        await line.leave()
        gone = {"route": "responses", "outcome": "client_gone", "status": "none"}
        await eventually(lambda: w.counted("exchanges_total", **gone) == 1)


@pytest.mark.parametrize("answer", [PLAIN, STREAMED], ids=["plain", "streamed"])
async def test_what_upstream_says_an_answer_took_is_repeated(answer: bytes) -> None:
    """The tokens of each response are counted once, by kind."""
    async with world() as w:
        w.upstream.answers(answer, DONE)
        await w.turn(ASK)
        await w.turn(*LOST)  # its response has no usage
        assert await scraped(w, "tokens_total") == {
            ("responses", kind, "whole"): tokens for kind, tokens in BILLED.items()
        }


@pytest.mark.parametrize(
    ("mode", "items", "kind"),
    [
        pytest.param("on", LOST, "injected", id="injected"),
        pytest.param("shadow", LOST, "lacking", id="would-be-injected"),
        pytest.param("on", [ASK, UNKNOWN, RESULT], "lacking", id="missed"),
        pytest.param("on", [ASK, RS, CALL, RESULT], "whole", id="sent-by-the-client"),
    ],
)
async def test_tokens_count_by_what_the_request_got(
    mode: str, items: list[dict[str, Any]], kind: str
) -> None:
    """The cached share of requests with injected reasoning can be compared with that of others."""
    async with world(mode=mode) as w:
        w.upstream.answers(PLAIN, PLAIN)
        await w.turn(ASK)
        before = w.counted("tokens_total", kind="cached", request=kind)
        await w.turn(*items)
        after = w.counted("tokens_total", kind="cached", request=kind)
        assert after - before == TOKENS["cached"]


async def test_tokens_of_a_request_without_the_store_are_of_one_that_lacks_reasoning() -> None:
    """What the proxy could not look up was not injected."""
    async with world(has_store=True) as w:

        async def fails(_: str) -> None:
            raise StoreError("gone")

        w.app.store.inner = Hooked(w.app.store.inner, fails)
        w.upstream.answers(PLAIN)
        await w.turn(*LOST)
        assert w.counted("tokens_total", kind="cached", request="lacking") == TOKENS["cached"]


async def test_listed_models_count_by_name() -> None:
    """A snapshot counts as its model, and every other model as `other`, whatever clients send."""
    async with world(metrics_models="gpt-5.4, gpt-5") as w:
        w.upstream.otherwise = PLAIN
        for model in ("openai/gpt-5.4-2026-03-05", "gpt-5", "gpt-5", "mine", "x" * 200):
            await w.turn(*LOST, model=model)
        counted = {"gpt-5.4": 1, "gpt-5": 2, "other": 2}
        for model, count in counted.items():
            assert w.counted("requests_total", model=model, result="planned") == count
            assert w.counted("items_total", model=model) >= count
            assert w.counted("tokens_total", model=model, kind="input") == count * TOKENS["input"]
        assert {labels[1] for labels in await scraped(w, "requests_total")} == {*counted}


async def test_an_answer_that_is_fetched_again_took_its_tokens_once() -> None:
    """A fetched response does not count its tokens again."""
    async with world() as w:
        w.upstream.answers(whole(as_json(response(CALL, usage=SAID))), *[PLAIN] * 3)
        await w.turn(ASK)
        for _ in range(3):
            await w.get("/v1/responses/resp_0c1d2e3f4a5b6071")
        assert await scraped(w, "tokens_total") == {
            ("responses", kind, "whole"): tokens for kind, tokens in BILLED.items()
        }


async def test_bytes_are_of_reasoning_alone() -> None:
    """Captured bytes count once, injected bytes once for each request."""
    async with world() as w:
        w.upstream.answers(PLAIN, DONE, DONE, DONE)
        await w.turn(ASK)
        kept = await scraped(w, "captured_bytes_total")
        await w.turn(*LOST)
        await w.turn(*LOST)
        await w.turn(ASK, RS, CALL, RESULT)  # lacks no reasoning
        assert kept == {("responses",): RS_BYTES}
        assert await scraped(w, "injected_bytes_total") == {("responses",): 2 * RS_BYTES}
        assert await scraped(w, "captured_bytes_total") == {("responses",): RS_BYTES}


async def test_a_request_that_was_healed_counts_as_it_was_taken() -> None:
    """A healed request counts only the injected bytes of the accepted attempt."""
    async with world() as w:
        w.upstream.answers(PLAIN, error("The encrypted content could not be verified."), DONE)
        await w.turn(ASK)
        got = await w.turn(*LOST)
        assert "healed=blob" in (got.mark or "")
        assert await scraped(w, "injected_bytes_total") == {}
        assert await scraped(w, "heals_total") == {("blob", "responses", "cured"): 1}


async def test_a_cure_counts_with_what_it_adds() -> None:
    """Reasoning that only the second attempt injects is counted."""
    recalls = 0

    async def fails_once(operation: str) -> None:
        nonlocal recalls
        recalls += operation == "recall"
        if recalls == 1:
            raise ConnectionError

    async with world(has_store=True, local_max_bytes=0) as w:
        w.upstream.answers(PLAIN, error(PAIRING), DONE)
        await w.turn(ASK)
        w.app.store.inner = Hooked(w.app.store.inner, fails_once)
        got = await w.turn(*LOST)
        assert (got.mark or "").startswith("injected=1, healed=lacks_reasoning")
        assert await scraped(w, "injected_bytes_total") == {("responses",): RS_BYTES}


@pytest.mark.parametrize("answer", [PLAIN, STREAMED], ids=["plain", "streamed"])
async def test_time_that_we_add_is_told_by_phase(answer: bytes) -> None:
    """Each phase of overhead is observed once an exchange, on replayed routes only."""
    async with world() as w:
        w.upstream.answers(answer, DONE)
        await w.turn(ASK)
        await w.get("/v1/models")
        found = await scraped(w, "overhead_seconds_count")
        assert found == {("before",): 1, ("between",): 1, ("after",): 1}


async def spent(w: World) -> tuple[dict[str, float], float]:
    """Return the overhead of exchanges by phase, and the rest of their time, in seconds."""
    held = {phase: s for (phase,), s in (await scraped(w, "overhead_seconds_sum")).items()}
    return held, w.counted("exchange_seconds_sum") - sum(held.values())


async def test_upstreams_time_is_not_overhead() -> None:
    """The time between two chunks of upstream is not overhead."""
    seconds = 0.2
    script = Script([send(stream_head() + chunk(events(RS, CALL)[0])), wait(), send(END)])
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(post({"model": "gpt-5.4", "input": [ASK]}))
        await line.head()
        await line.some()
        await asyncio.sleep(seconds)
        script.go()
        await line.rest()
        held, rest = await spent(w)
        assert held.keys() == {"before", "between", "after"}
        assert rest >= seconds


async def test_a_save_that_holds_a_chunk_up_is_overhead() -> None:
    """The time for which a save holds a chunk is overhead of the phase `between`."""
    seconds = 0.2

    async def slowly(operation: str) -> None:
        if operation == "save":
            await asyncio.sleep(seconds)

    async with world(has_store=True) as w:
        w.app.store.inner = Hooked(w.app.store.inner, slowly)
        w.upstream.answers(STREAMED)
        await w.turn(ASK)
        held, rest = await spent(w)
        assert held["between"] >= seconds
        assert rest >= 0


@pytest.mark.parametrize(("operation", "phase"), [("recall", "before"), ("save", "between")])
async def test_time_that_a_client_does_not_wait_for_is_overhead(operation: str, phase: str) -> None:
    """The time of a store call counts as overhead even if the client leaves during it."""
    held, over = asyncio.Event(), asyncio.Event()

    async def holds(one: str) -> None:
        if one == operation:
            held.set()
            await over.wait()

    async with world(has_store=True) as w:
        w.app.store.inner = Hooked(w.app.store.inner, holds)
        w.upstream.answers(STREAMED)
        async with line_to(w.app.url) as line:
            await line.send(post({"model": "gpt-5.4", "input": LOST}))
            await held.wait()
            await asyncio.sleep(0.05)
            await line.leave()
        await eventually(lambda: w.counted("exchanges_total", outcome="client_gone") == 1)
        assert w.counted("overhead_seconds_sum", phase=phase) >= 0.05
        over.set()


async def test_a_slow_clients_time_is_not_overhead() -> None:
    """The time for which a slow client does not read is not overhead."""
    seconds = 0.4
    answer = head("Transfer-Encoding: chunked") + chunk(b"x" * (1 << 18)) * 64 + END
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(Script([send(answer)]))
        body = as_json({"model": "gpt-5.4", "input": [ASK]})
        asked = request("POST", "/v1/responses/compact", "Authorization: Bearer sk-a", body=body)
        await line.send(asked)
        await line.head()
        await asyncio.sleep(seconds)
        await line.rest()
        _, rest = await spent(w)
        assert rest >= seconds / 2  # buffers absorb the first part


async def test_a_budget_that_is_used_up_is_no_failure_of_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An exhausted budget is `budget_exceeded`; once the breaker opens it is `store_failed`."""
    monkeypatch.setattr("reasoning_replay.web.wiring.STORE_TIMEOUT_S", 60.0)
    never = asyncio.Event()

    async def hangs(_: str) -> None:
        await never.wait()

    async with world(has_store=True, store_budget_ms=20) as w:
        w.app.store.inner = Hooked(w.app.store.inner, hangs)
        w.upstream.otherwise = DONE
        marks = [(await w.turn(*LOST)).mark for _ in range(5)]
        assert marks[0] == "injected=0, asked=budget_exceeded"
        assert marks[-1] == "injected=0, asked=store_failed"
        assert await scraped(w, "requests_total") == {
            ("responses", "budget_exceeded"): 3,
            ("responses", "store_failed"): 2,
        }
        never.set()


async def test_a_create_is_counted_as_a_request_is() -> None:
    """A `response.create` message is counted with its tokens, bytes and overhead."""
    answer = [*told(RS, CALL)[:-1], said(ENDED)]
    async with world() as w, tunnelled(w) as (client, upstream):
        for items in ([ASK], LOST):
            await client.send(create(*items))
            await upstream.event()
            await upstream.send(b"".join(answer))
            await client.gets(*answer)
        await eventually(lambda: w.counted("exchanges_total", route="create") == 2)
        assert await scraped(w, "tokens_total") == {
            ("responses", kind, request): tokens
            for kind, tokens in BILLED.items()
            for request in ("whole", "injected")
        }
        assert await scraped(w, "injected_bytes_total") == {("responses",): RS_BYTES}
        assert await scraped(w, "overhead_seconds_count") == {("before",): 2, ("between",): 2}
