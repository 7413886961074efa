"""Healing: a refused request is retried once, without the proxy's edits or with a cure."""

import gzip
from collections.abc import Callable
from functools import partial

import pytest
from reasoning_replay.adapters.runtime.offload import Offloader

from tests.web.line import line_to
from tests.web.scripted import Script, close, send, wait
from tests.web.wire import (
    ASK,
    CALL,
    PAIRING,
    RESULT,
    RS,
    as_json,
    error,
    head,
    response,
    whole,
)
from tests.web.world import MODEL, World, post, world

INCLUDED = ["reasoning.encrypted_content"]
BODY = as_json({"model": MODEL, "input": [ASK, CALL, RESULT], "include": INCLUDED})
ENCRYPTED = "The encrypted content gAAA...ob== could not be verified."
OK = whole(b'{"ok":true}')


async def taught(w: World) -> None:
    """Let the proxy capture something to inject."""
    w.upstream.answers(whole(as_json(response(RS, CALL))))
    await w.turn(ASK, include=INCLUDED)
    w.upstream.received.clear()


@pytest.mark.parametrize(
    ("refusal", "fault"),
    [
        pytest.param(
            whole(
                b"The encrypted content could not be verified.",
                "Content-Type: text/plain",
                status="400 Bad",
            ),
            "blob",
            id="plain-text",
        ),
        pytest.param(
            whole(
                gzip.compress(as_json({"error": {"message": ENCRYPTED, "param": "input"}})),
                "Content-Encoding: gzip",
                status="400 Bad Request",
            ),
            "blob",
            id="in-gzip",
        ),
        pytest.param(
            whole(
                b"data: " + as_json({"type": "error", "message": ENCRYPTED}) + b"\n\n",
                "Content-Type: text/event-stream",
                "Content-Encoding: identity",
            ),
            "blob",
            id="first-event-in-identity",
        ),
    ],
)
async def test_a_refusal_may_have_any_form(refusal: bytes, fault: str) -> None:
    """It is healed once: the second attempt does not contain the refused edit."""
    async with world() as w:
        await taught(w)
        w.upstream.answers(refusal, OK)
        got = await w.post(BODY)
        assert (got.status, got.body) == (200, b'{"ok":true}')
        assert f"healed={fault}" in (got.mark or "")
        assert len(w.upstream.received) == 2
        assert w.counted("heals_total", diagnosis=fault, result="cured") == 1


FOLLOWER = (
    f"Item '{RS['id']}' of type 'reasoning' was provided without its required following item."
)


async def test_a_refusal_of_its_own_bytes_is_the_clients() -> None:
    """If the request is refused without the proxy's edits, too, the client gets that refusal."""
    async with world() as w:
        await taught(w)
        last = error("Without ids, too.")
        w.upstream.answers(error("reasoning is odd", "input[1]"), error("Its own fault."), last)
        got = await w.post(BODY)
        assert (got.status, got.mark) == (400, "injected=0, lacking=1, refused=1")
        assert error("Its own fault.").endswith(got.body)
        assert [one.body == BODY for one in w.upstream.received] == [False, True, False]
        for diagnosis in ("input", "form"):
            assert w.counted("heals_total", diagnosis=diagnosis, result="refused") == 1


async def test_the_last_resort_is_the_clients_own_request() -> None:
    """A cure that is refused does not fail a request that passes without the proxy's edits."""
    async with world() as w:
        await taught(w)
        w.upstream.answers(error(FOLLOWER), error(PAIRING), OK)
        got = await w.post(BODY)
        assert (got.status, got.mark) == (
            200,
            "injected=0, lacking=1, refused=1, healed=lacks_follower",
        )
        assert [one.body == BODY for one in w.upstream.received] == [False, False, True]
        for result in ("refused", "cured"):
            assert w.counted("heals_total", diagnosis="lacks_follower", result=result) == 1


async def test_the_refusal_of_the_last_resort_is_the_clients() -> None:
    """There is no fourth attempt, and no refusal of an edit reaches the client."""
    async with world() as w:
        await taught(w)
        w.upstream.answers(error(FOLLOWER), error(PAIRING), error("Its own fault."))
        got = await w.post(BODY)
        assert (got.status, got.mark) == (400, "injected=0, lacking=1, refused=1")
        assert error("Its own fault.").endswith(got.body)
        assert len(w.upstream.received) == 3
        assert w.counted("heals_total", diagnosis="lacks_follower", result="refused") == 2


async def test_an_error_that_is_no_refusal_ends_the_attempts() -> None:
    """The client gets it, because it may send the request again: the refusal was not its own."""
    busy = error("Slow.", None, "429 Too Many Requests")
    async with world() as w:
        await taught(w)
        w.upstream.answers(error(FOLLOWER), busy)
        got = await w.post(BODY)
        assert (got.status, busy.endswith(got.body)) == (429, True)
        assert len(w.upstream.received) == 2


@pytest.mark.parametrize("attempts", [1, 2])
async def test_without_another_response_the_first_refusal_is_the_clients(attempts: int) -> None:
    """The upstream closes the connection at the cure, or at the last resort."""
    async with world() as w:
        await taught(w)
        w.upstream.answers(*[error(FOLLOWER)] * attempts)
        w.upstream.plays(Script([close()]))
        got = await w.post(BODY)
        assert (got.status, error(FOLLOWER).endswith(got.body)) == (400, True)


async def test_a_refusal_without_an_end_is_not_waited_for() -> None:
    """A refusal that is too large for an API error is streamed to the client."""
    page = b"x" * (300 * 1024)
    start = head("Content-Type: text/html", "Content-Length: 409600", status="400 Bad Request")
    script = Script([send(start + page), wait(), send(b"y" * (409_600 - len(page)))])
    async with world() as w, line_to(w.app.url) as line:
        await taught(w)
        w.upstream.plays(script)
        await line.send(post(BODY))
        assert (await line.head()).status == 400
        assert await line.exactly(len(page)) == page

        script.go()
        assert len(await line.rest()) == 409_600 - len(page)


async def test_a_refusal_that_is_cut_off_stays_upstreams() -> None:
    """A refusal that breaks off is passed on, and breaks off for the client."""
    start = head("Content-Type: application/json", "Content-Length: 500", status="400 Bad Request")
    async with world() as w, line_to(w.app.url) as line:
        await taught(w)
        w.upstream.plays(Script([send(start + b'{"error":'), close()]))
        await line.send(post(BODY))
        assert (await line.head()).status == 400
        assert await line.until_it_ends() == (b'{"error":', False)


async def test_a_repair_is_taken_back_whatever_is_refused() -> None:
    """Any refusal takes a repair back, as the client did not ask for it."""
    twice = as_json({"model": MODEL, "input": [ASK, RS, RS, CALL, RESULT]})
    async with world() as w:
        w.upstream.answers(error("No such thing.", "thing"), OK)
        got = await w.post(twice)
        assert (got.status, "healed=form" in (got.mark or "")) == (200, True)
        first, again = w.upstream.received
        assert (first.body != twice, again.body) == (True, twice)


async def test_a_short_request_with_long_reasoning_is_cured_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What counts is the request that was refused, with what the proxy had added to it."""
    run, in_thread = Offloader.run, []

    async def runs(
        self: Offloader, work: Callable[[], object], tenant: bytes | None, *, is_long: bool = True
    ) -> object:
        if isinstance(work, partial):
            in_thread.append((work.func.__name__, is_long))
        return await run(self, work, tenant, is_long=is_long)

    monkeypatch.setattr(Offloader, "run", runs)
    blob = "gAAAAABp" + "x" * 512 * 1024
    async with world() as w:
        w.upstream.answers(whole(as_json(response({**RS, "encrypted_content": blob}, CALL))))
        await w.turn(ASK, include=INCLUDED)
        w.upstream.answers(error(ENCRYPTED, None), OK)
        assert (await w.turn(ASK, CALL, RESULT, include=INCLUDED)).status == 200
    assert ("cure", True) in in_thread
    assert ("decide", False) in in_thread
