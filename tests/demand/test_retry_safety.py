"""Safety of retries: at most one, before the first byte to the client, never a worse response."""

import asyncio
import gzip
from collections.abc import Callable

import pytest

from tests.demand.faults import FAULTS, OK, OPENED, WORSE, Fault, curable, in_stream
from tests.fast_lane import first
from tests.patience import SOON_S
from tests.web.line import line_to, request
from tests.web.scripted import Script, cut, send, wait
from tests.web.wire import (
    CALL,
    END,
    MESSAGE,
    chunk,
    events,
    head,
    stream_head,
)
from tests.web.world import World, eventually, post, world

FAULT = FAULTS[0]
KEY = "Authorization: Bearer sk-a"
JSON = "Content-Type: application/json"
every_fault = pytest.mark.parametrize("fault", curable())


async def assert_no_more(w: World, tries: int) -> None:
    """Assert the number of requests at upstream, with none in flight."""
    await eventually(lambda: w.app.handler.admission.count == 0)
    assert len(w.upstream.received) == tries


@every_fault
async def test_a_fault_is_healed_once(fault: Fault) -> None:
    """The client receives the whole second response; the second request differs from the first."""
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
async def test_a_fault_that_opens_a_stream_is_healed_once(fault: Fault, kind: str) -> None:
    """The client receives only the second stream, and no byte of the first."""
    async with world() as w:
        w.upstream.answers(in_stream(fault, kind), OPENED)
        got = await w.post(fault.body[:-1] + b',"stream":true}')
        assert got.status == 200
        assert got.body == b"".join(events(MESSAGE))
        await assert_no_more(w, 2)


@pytest.mark.parametrize("fault", first(2, curable()))
@pytest.mark.parametrize("worse", WORSE)
async def test_a_second_response_that_is_no_better_is_dropped(
    fault: Fault, worse: Callable[[], Script]
) -> None:
    """The client receives the first response byte for byte, after three requests at most."""
    async with world() as w:
        w.upstream.answers(fault.refusal)
        w.upstream.plays(worse())
        got = await w.post(fault.body)
        assert got.status == int(fault.status[:3])
        assert fault.refusal.endswith(b"\r\n\r\n" + got.body)
        assert w.counted("heals_total", diagnosis=fault.diagnosis, result="refused") == 1
        assert len(w.upstream.received) <= 3
        await assert_no_more(w, len(w.upstream.received))


@pytest.mark.parametrize("worse", WORSE)
async def test_a_second_stream_that_is_no_better_is_dropped(worse: Callable[[], Script]) -> None:
    """The client receives the whole first stream."""
    async with world() as w:
        first = in_stream(FAULT)
        w.upstream.answers(first)
        w.upstream.plays(worse())
        got = await w.post(FAULT.body[:-1] + b',"stream":true}')
        assert got.status == 200
        assert chunk(got.body) in first
        await assert_no_more(w, 2)


@pytest.mark.parametrize("size", [1, 7, 50])
async def test_a_first_event_in_pieces_is_healed(size: int) -> None:
    """Upstream may split the event at any place."""
    told = in_stream(FAULT).partition(b"\r\n\r\n")[2].split(b"\r\n")[1]
    pieces = [chunk(told[at : at + size]) for at in range(0, len(told), size)]
    async with world() as w:
        w.upstream.plays(Script([send(stream_head() + b"".join(pieces) + END)]))
        w.upstream.answers(OPENED)
        got = await w.post(FAULT.body[:-1] + b',"stream":true}')
        assert got.body == b"".join(events(MESSAGE))
        await assert_no_more(w, 2)


async def test_after_the_first_event_nothing_is_retried() -> None:
    """The client has it before the error arrives, and receives every byte of both events."""
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


async def test_a_stream_cut_off_inside_its_first_event_is_not_retried() -> None:
    """The client receives the same part of the event, and its stream is cut off as well."""
    started = b'event: error\ndata: {"type":"error","error":{"mess'
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(Script([send(stream_head() + chunk(started)), cut()]))
        await line.send(post(FAULT.body[:-1] + b',"stream":true}'))
        assert (await line.head()).status == 200
        assert await line.until_it_ends() == (started, False)
        await assert_no_more(w, 1)


@pytest.mark.parametrize("is_chunked", [False, True], ids=["with-length", "chunked"])
async def test_a_body_that_was_streamed_is_not_retried(*, is_chunked: bool) -> None:
    """A body that is too large to buffer is not available for a second attempt."""
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


async def test_a_chunked_body_that_just_fits_is_retried() -> None:
    """A chunked body within the limit is buffered and can be retried."""
    framing = [KEY, JSON, "Transfer-Encoding: chunked"]
    data = request("POST", "/v1/responses", *framing) + chunk(FAULT.body) + END
    async with world(inspect_max_bytes=len(FAULT.body)) as w:
        w.upstream.answers(FAULT.refusal, OK)
        assert (await w.ask(data)).status == 200
        await assert_no_more(w, 2)


async def test_a_request_in_gzip_is_healed_as_well() -> None:
    """The body was decoded, so it can be edited; without a cure the first response is passed on."""
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


async def test_a_client_that_leaves_during_the_refusal_starts_no_second_attempt() -> None:
    """The upstream request ends when the client disconnects."""
    start = head(JSON, "Content-Length: 5000", status="400 Bad Request")
    script = Script([send(start + b'{"error":'), wait()])
    async with world() as w:
        async with line_to(w.app.url) as line:
            w.upstream.plays(script)
            await line.send(post(FAULT.body))
            await script.arrived.wait()
        await asyncio.wait_for(script.left.wait(), SOON_S)
        await assert_no_more(w, 1)


@pytest.mark.usefixtures("leaves_at_once")
async def test_a_client_that_leaves_during_the_second_attempt_ends_it() -> None:
    """The upstream connection is closed, and there is no third attempt."""
    second = Script([wait()])
    async with world() as w:
        async with line_to(w.app.url) as line:
            w.upstream.answers(FAULT.refusal)
            w.upstream.plays(second)
            await line.send(post(FAULT.body))
            await asyncio.wait_for(second.arrived.wait(), SOON_S)
        await asyncio.wait_for(second.left.wait(), SOON_S)
        await assert_no_more(w, 2)


@pytest.mark.parametrize("mode", ["shadow", "off"])
async def test_a_mode_without_changes_does_not_retry(mode: str) -> None:
    """A second attempt would be a change."""
    async with world(mode=mode) as w:
        w.upstream.answers(FAULT.refusal)
        assert (await w.post(FAULT.body)).status == 400
        await assert_no_more(w, 1)


async def test_a_second_response_that_breaks_off_is_passed_on() -> None:
    """Its first event was good and is sent, so the client's stream is cut off at the same place."""
    begun = events(MESSAGE)[0]
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.answers(FAULT.refusal)
        w.upstream.plays(Script([send(stream_head() + chunk(begun)), cut()]))
        await line.send(post(FAULT.body[:-1] + b',"stream":true}'))
        assert (await line.head()).status == 200
        assert await line.until_it_ends() == (begun, False)
        await assert_no_more(w, 2)
