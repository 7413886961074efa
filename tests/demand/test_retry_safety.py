"""One second try at the most, before any byte went out, and no answer worse than the first."""

import asyncio
import gzip
from collections.abc import Callable

import pytest

from tests.demand.faults import FAULTS, OK, OPENED, WORSE, Fault, curable, in_stream
from tests.web.line import line_to, request
from tests.web.scripted import Script, cut, send, wait
from tests.web.wire import (
    ASK,
    CALL,
    END,
    MESSAGE,
    NEXT,
    RESULT,
    RS,
    RS_2,
    as_json,
    chunk,
    events,
    head,
    response,
    stream_head,
    whole,
)
from tests.web.world import World, eventually, post, world

FAULT = FAULTS[0]
KEY = "Authorization: Bearer sk-a"
JSON = "Content-Type: application/json"
every_fault = pytest.mark.parametrize("fault", curable())


async def assert_no_more(w: World, tries: int) -> None:
    """Upstream has seen so many requests, nothing is under way, and nothing comes after."""
    await eventually(lambda: w.app.handler.admission.count == 0)
    assert len(w.upstream.received) == tries


@every_fault
async def test_a_fault_is_mended_once(fault: Fault) -> None:
    """The second answer is the client's, whole; what was sent again differs from what came."""
    async with world() as w:
        w.upstream.answers(fault.refusal, OK)
        got = await w.post(fault.body)
        assert got.status == 200
        assert OK.endswith(got.body)
        assert w.upstream.received[1].body != fault.body
        assert f"healed={fault.diagnosis}" in (got.mark or "")
        assert w.counted("heals_total", diagnosis=fault.diagnosis, result="cured") == 1
        await assert_no_more(w, 2)


@every_fault
@pytest.mark.parametrize("kind", ["error", "flat", "failed"])
async def test_a_fault_that_opens_a_stream_is_mended_once(fault: Fault, kind: str) -> None:
    """The client sees one stream, the second; of the first not a byte."""
    async with world() as w:
        w.upstream.answers(in_stream(fault, kind), OPENED)
        got = await w.post(fault.body[:-1] + b',"stream":true}')
        assert got.status == 200
        assert got.body == b"".join(events(MESSAGE))
        await assert_no_more(w, 2)


@every_fault
@pytest.mark.parametrize("worse", WORSE)
async def test_an_answer_that_is_no_better_is_not_the_clients(
    fault: Fault, worse: Callable[[], Script]
) -> None:
    """It gets the first one, byte for byte, and upstream no third request."""
    async with world() as w:
        w.upstream.answers(fault.refusal)
        w.upstream.plays(worse())
        got = await w.post(fault.body)
        assert got.status == int(fault.status[:3])
        assert fault.refusal.endswith(b"\r\n\r\n" + got.body)
        assert w.counted("heals_total", diagnosis=fault.diagnosis, result="refused") == 1
        await assert_no_more(w, 2)


@pytest.mark.parametrize("worse", WORSE)
async def test_a_stream_that_is_no_better_is_not_the_clients(worse: Callable[[], Script]) -> None:
    """The first stream is still there, from its first byte to its last."""
    async with world() as w:
        first = in_stream(FAULT)
        w.upstream.answers(first)
        w.upstream.plays(worse())
        got = await w.post(FAULT.body[:-1] + b',"stream":true}')
        assert got.status == 200
        assert chunk(got.body) in first
        await assert_no_more(w, 2)


@every_fault
@pytest.mark.parametrize(
    "status",
    ["401 No", "403 No", "408 Late", "409 No", "429 Slow", "500 Oops", "503 Busy", "529 Busy"],
)
async def test_other_statuses_are_never_tried_again(fault: Fault, status: str) -> None:
    """Whatever they say: those retries are the client's to make."""
    refusal = Fault(fault.diagnosis, fault.items, fault.message, fault.param, status).refusal
    async with world() as w:
        w.upstream.answers(refusal)
        got = await w.post(fault.body)
        assert got.status == int(status[:3])
        assert refusal.endswith(b"\r\n\r\n" + got.body)
        await assert_no_more(w, 1)


@pytest.mark.parametrize("size", [1, 7, 50])
async def test_a_first_event_in_pieces_is_one_event(size: int) -> None:
    """However upstream cuts it."""
    told = in_stream(FAULT).partition(b"\r\n\r\n")[2].split(b"\r\n")[1]
    pieces = [chunk(told[at : at + size]) for at in range(0, len(told), size)]
    async with world() as w:
        w.upstream.plays(Script([send(stream_head() + b"".join(pieces) + END)]))
        w.upstream.answers(OPENED)
        got = await w.post(FAULT.body[:-1] + b',"stream":true}')
        assert got.body == b"".join(events(MESSAGE))
        await assert_no_more(w, 2)


async def test_after_the_first_event_nothing_is_tried_again() -> None:
    """It is with the client before the error comes, and every byte of both arrives."""
    created = events(CALL)[0]
    failed = in_stream(FAULT).partition(b"\r\n\r\n")[2]
    script = Script([send(stream_head() + chunk(created)), wait(), send(failed)])
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(post(FAULT.body[:-1] + b',"stream":true}'))
        assert (await line.head()).status == 200
        assert await line.exactly(len(created)) == created

        script.go()
        assert chunk(await line.rest()) + END == failed
        await assert_no_more(w, 1)


async def test_a_stream_cut_off_inside_its_first_event_is_not_tried_again() -> None:
    """What there is of it goes to the client, and breaks off there as well."""
    started = b'event: error\ndata: {"type":"error","error":{"mess'
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(Script([send(stream_head() + chunk(started)), cut()]))
        await line.send(post(FAULT.body[:-1] + b',"stream":true}'))
        assert (await line.head()).status == 200
        assert await line.until_it_ends() == (started, False)
        await assert_no_more(w, 1)


@pytest.mark.parametrize("is_chunked", [False, True], ids=["with-length", "chunked"])
async def test_a_body_that_was_streamed_is_not_tried_again(*, is_chunked: bool) -> None:
    """It is gone: of what is too large to be held nothing is left to send."""
    refusal, body = FAULT.refusal, FAULT.body
    if is_chunked:
        framing = [KEY, JSON, "Transfer-Encoding: chunked"]
        data = request("POST", "/v1/responses", *framing) + chunk(body[:200])
        data += chunk(body[200:]) + END
    else:
        data = post(body)
    async with world(inspect_max_bytes=len(body) - 1) as w:
        w.upstream.answers(refusal)
        got = await w.ask(data)
        assert (got.status, got.mark) == (400, "injected=0, asked=too_large")
        assert refusal.endswith(got.body)
        assert w.upstream.received[0].body == body
        await assert_no_more(w, 1)


async def test_a_body_that_just_fits_is_tried_again_however_it_came() -> None:
    """In chunks, but not too large."""
    framing = [KEY, JSON, "Transfer-Encoding: chunked"]
    data = request("POST", "/v1/responses", *framing) + chunk(FAULT.body) + END
    async with world(inspect_max_bytes=len(FAULT.body)) as w:
        w.upstream.answers(FAULT.refusal, OK)
        assert (await w.ask(data)).status == 200
        await assert_no_more(w, 2)


async def test_a_request_in_gzip_is_mended_as_well() -> None:
    """It was read, so it can be; a client that gets no cure gets the first answer here too."""
    data = gzip.compress(FAULT.body)
    headers = [KEY, JSON, "Content-Encoding: gzip"]
    async with world() as w:
        w.upstream.answers(FAULT.refusal, OK, FAULT.refusal, FAULT.refusal)
        cured = await w.post(data, *headers)
        refused = await w.post(data, *headers)
        assert (cured.status, refused.status) == (200, 400)
        assert FAULT.refusal.endswith(refused.body)
        assert w.upstream.received[0].body == w.upstream.received[2].body == data
        await assert_no_more(w, 4)


async def test_a_client_that_leaves_during_the_refusal_starts_no_second_try() -> None:
    """Its first request ends with it."""
    start = head(JSON, "Content-Length: 5000", status="400 Bad Request")
    script = Script([send(start + b'{"error":'), wait()])
    async with world() as w:
        async with line_to(w.app.url) as line:
            w.upstream.plays(script)
            await line.send(post(FAULT.body))
            await script.arrived.wait()
        await asyncio.wait_for(script.left.wait(), 1.0)
        await assert_no_more(w, 1)


async def test_a_client_that_leaves_during_the_second_try_ends_it() -> None:
    """Upstream's connection is closed, nobody waits for the answer, and there is no third try."""
    second = Script([wait()])
    async with world() as w:
        async with line_to(w.app.url) as line:
            w.upstream.answers(FAULT.refusal)
            w.upstream.plays(second)
            await line.send(post(FAULT.body))
            await asyncio.wait_for(second.arrived.wait(), 5.0)
        await asyncio.wait_for(second.left.wait(), 1.0)
        await assert_no_more(w, 2)


async def test_switched_off_nothing_is_tried_again() -> None:
    """`heal: off` leaves every refusal to the client."""
    async with world(heal="off") as w:
        w.upstream.answers(FAULT.refusal)
        got = await w.post(FAULT.body)
        assert FAULT.refusal.endswith(got.body)
        await assert_no_more(w, 1)


@pytest.mark.parametrize("mode", ["shadow", "off"])
async def test_a_proxy_that_changes_nothing_tries_nothing_again(mode: str) -> None:
    """A second try would be a change."""
    async with world(mode=mode) as w:
        w.upstream.answers(FAULT.refusal)
        assert (await w.post(FAULT.body)).status == 400
        await assert_no_more(w, 1)


async def test_a_cure_works_on_what_was_sent() -> None:
    """What we had added stays: its own refusal would otherwise be the next one."""
    odd = RS_2 | {"status": "completed"}
    fault = Fault("field", (), "Unknown parameter: 'input[4].status'.", "input[4].status")
    async with world() as w:
        w.upstream.answers(whole(as_json(response(RS, CALL))), fault.refusal, OK)
        await w.turn(ASK)
        got = await w.turn(ASK, CALL, RESULT, odd, MESSAGE, NEXT)
        assert got.status == 200
        assert w.sent()["input"] == [ASK, RS, CALL, RESULT, RS_2, MESSAGE, NEXT]
        await assert_no_more(w, 3)


async def test_a_second_answer_that_breaks_off_is_the_clients() -> None:
    """Its beginning was good, and is with the client: it breaks off there as well."""
    begun = events(MESSAGE)[0]
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.answers(FAULT.refusal)
        w.upstream.plays(Script([send(stream_head() + chunk(begun)), cut()]))
        await line.send(post(FAULT.body[:-1] + b',"stream":true}'))
        assert (await line.head()).status == 200
        assert await line.until_it_ends() == (begun, False)
        await assert_no_more(w, 2)


@pytest.mark.parametrize("diagnosis", ["blob", "no_reasoning_model"])
async def test_what_was_refused_is_left_out_before_the_first_try(diagnosis: str) -> None:
    """The next request of the conversation is served at once."""
    fault = next(fault for fault in FAULTS if fault.diagnosis == diagnosis)
    async with world() as w:
        w.upstream.answers(fault.refusal, OK, OK)
        await w.post(fault.body)
        cured = w.sent()
        got = await w.post(fault.body)
        assert got.status == 200
        assert "repaired=" in (got.mark or "")
        assert w.sent() == cured
        await assert_no_more(w, 3)
