"""Save before release: a client sees a call only after every replica can find its reasoning."""

import asyncio
import time

import pytest
from reasoning_replay.adapters.stores.base import Store

from tests.patience import LONG_S, SOON_S
from tests.web.line import Line, line_to
from tests.web.scripted import Script, close, send, wait
from tests.web.wire import (
    ASK,
    CALL,
    END,
    RESULT,
    RS,
    as_json,
    chunk,
    events,
    head,
    response,
    stream_head,
    whole,
)
from tests.web.world import MODEL, Hooked, World, eventually, post, world

HELD_S = 0.03
BODY = as_json(response(RS, CALL))
DELTA = b'event: response.output_text.delta\ndata: {"type":"x","delta":"7"}\n\n'
CREATED, RS_ADDED, RS_DONE, CALL_ADDED, CALL_DONE, COMPLETED = events(RS, CALL)
UNTIL_THE_CALL = CREATED + RS_ADDED + RS_DONE + CALL_ADDED


class Gate:
    """Blocks every save until it is opened."""

    def __init__(self, w: World) -> None:
        self.saving = 0
        self._open = asyncio.Event()
        self.inner: Store = w.store
        w.app.store.inner = Hooked(self.inner, self._before)

    async def _before(self, operation: str) -> None:
        if operation == "save":
            self.saving += 1
            await self._open.wait()

    def opens(self) -> None:
        """Let all saves continue."""
        self._open.set()


@pytest.fixture(autouse=True)
def _the_head_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait for the first event, as these scripts pause before it."""
    monkeypatch.setattr("reasoning_replay.web.pipeline.healing_retry.LOOK_MAX_S", 0.01)


async def silent(line: Line) -> bool:
    """Return whether no byte arrives for a while."""
    try:
        await asyncio.wait_for(line._reader.read(1), HELD_S)
    except TimeoutError:
        return True
    return False


async def asked(w: World, line: Line, script: Script) -> None:
    """Send a request and read the head of its response."""
    w.upstream.plays(script)
    await line.send(post({"model": MODEL, "input": [ASK]}))
    assert (await line.head()).status == 200


async def asked_whole(w: World, line: Line, script: Script) -> bytes:
    """Send a request and read its whole response."""
    await asked(w, line, script)
    return await line.rest()


async def test_the_chunk_that_completes_an_item_waits_for_its_save() -> None:
    """The chunk that completes an item is held until its save is done; earlier ones are not."""
    script = Script([send(stream_head() + chunk(UNTIL_THE_CALL)), wait(), send(chunk(CALL_DONE))])
    async with world(has_store=True) as w, line_to(w.app.url) as line:
        gate = Gate(w)
        await asked(w, line, script)
        assert await line.exactly(len(UNTIL_THE_CALL)) == UNTIL_THE_CALL
        script.go()
        await eventually(lambda: gate.saving == 1)
        assert await silent(line)

        gate.opens()
        assert await line.exactly(len(CALL_DONE)) == CALL_DONE


async def test_the_next_request_is_served_while_the_answer_still_streams() -> None:
    """A client may answer a call at once, while the response still streams."""
    script = Script(
        [send(stream_head() + chunk(UNTIL_THE_CALL) + chunk(CALL_DONE)), wait(), send(END)]
    )
    async with world() as w, line_to(w.app.url) as line:
        await asked(w, line, script)
        await line.exactly(len(UNTIL_THE_CALL + CALL_DONE))
        w.upstream.answers(whole(b"{}"))
        got = await w.turn(ASK, CALL, RESULT)
        assert got.mark == "injected=1"
        assert not script.ended.is_set()
        script.go()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(whole(BODY), id="with-a-length"),
        pytest.param(
            head("Content-Type: application/json", "Transfer-Encoding: chunked")
            + chunk(BODY[:99])
            + chunk(BODY[99:])
            + END,
            id="in-chunks",
        ),
    ],
)
async def test_a_plain_answer_is_not_whole_before_it_is_saved(answer: bytes) -> None:
    """The end of a JSON response is held until its save is done."""
    async with world(has_store=True) as w, line_to(w.app.url) as line:
        gate = Gate(w)
        reading = asyncio.ensure_future(asked_whole(w, line, Script([send(answer)])))
        await eventually(lambda: gate.saving == 1)
        await asyncio.wait([reading], timeout=HELD_S)
        assert not reading.done()

        gate.opens()
        assert await reading == BODY


async def test_a_head_that_arrives_with_its_body_waits_for_the_budget_at_most() -> None:
    """A store that hangs delays a whole JSON response, head included, by the budget."""
    async with world(has_store=True, store_budget_ms=20) as w, line_to(w.app.url) as line:
        gate = Gate(w)
        assert await asked_whole(w, line, Script([send(whole(BODY))])) == BODY
        assert gate.saving == 1
        gate.opens()


async def test_bytes_received_while_a_chunk_is_held_are_not_lost_in_a_break() -> None:
    """If upstream breaks off while a chunk is held, the client still gets all bytes before it."""
    steps = [send(stream_head() + chunk(CREATED)), wait(), send(chunk(CALL_DONE))]
    script = Script([*steps, wait(), send(chunk(DELTA)), close()])
    async with world(has_store=True) as w, line_to(w.app.url) as line:
        gate = Gate(w)
        await asked(w, line, script)
        assert await line.exactly(len(CREATED)) == CREATED
        script.go()
        await eventually(lambda: gate.saving == 1)
        script.go()
        await script.ended.wait()
        await asyncio.sleep(HELD_S)  # until the break has arrived
        gate.opens()
        assert await line.until_it_ends() == (CALL_DONE + DELTA, False)


async def test_what_completes_nothing_is_never_held() -> None:
    """Chunks that complete no item pass at once, whatever the store does."""
    script = Script(
        [send(stream_head() + chunk(CREATED)), wait(), send(chunk(DELTA)), wait(), send(END)]
    )
    async with world(has_store=True) as w, line_to(w.app.url) as line:
        gate = Gate(w)
        await asked(w, line, script)
        assert await line.exactly(len(CREATED)) == CREATED
        script.go()
        assert await line.exactly(len(DELTA)) == DELTA
        assert gate.saving == 0
        script.go()
        assert await line.rest() == b""


async def test_a_store_that_hangs_holds_a_chunk_for_the_budget_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chunk is held for the budget at most; the late save still finishes and is counted."""
    monkeypatch.setattr("reasoning_replay.web.wiring.STORE_TIMEOUT_S", LONG_S)
    script = Script(
        [send(stream_head() + chunk(UNTIL_THE_CALL)), wait(), send(chunk(CALL_DONE) + END)]
    )
    async with world(has_store=True, store_budget_ms=80) as w, line_to(w.app.url) as line:
        gate = Gate(w)
        await asked(w, line, script)
        await line.exactly(len(UNTIL_THE_CALL))
        started = time.monotonic()
        script.go()
        assert await line.rest() == CALL_DONE
        assert time.monotonic() - started > 0.06
        await eventually(lambda: w.app.handler.admission.count == 0)
        assert w.counted("captures_total", result="late") == 1
        gate.opens()
        await eventually(
            lambda: w.counted("store_operations_total", operation="save", outcome="late") == 1
        )
        w.upstream.answers(whole(b"{}"))
        assert (await w.turn(ASK, CALL, RESULT)).mark == "injected=1"


async def test_a_store_that_hangs_costs_one_budget_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hanging store costs a response one budget in total, and all is saved later."""
    monkeypatch.setattr("reasoning_replay.web.wiring.STORE_TIMEOUT_S", LONG_S)
    calls = [CALL | {"id": f"fc_{n:016x}", "call_id": f"call_{n:016x}"} for n in range(20)]
    told = events(RS, *calls)
    script = Script([send(stream_head()), *[s for e in told for s in (wait(), send(chunk(e)))]])
    async with world(has_store=True, store_budget_ms=30) as w, line_to(w.app.url) as line:
        gate = Gate(w)
        await asked(w, line, script)
        started = time.monotonic()
        for event in told:  # one by one, so that no two events share a chunk
            script.go()
            assert await line.exactly(len(event)) == event
        assert time.monotonic() - started < SOON_S
        assert gate.saving == 1  # the others wait for it, as one save
        gate.opens()
        await eventually(
            lambda: w.counted("store_operations_total", operation="save", outcome="late") == 2
        )
        w.upstream.answers(whole(b"{}"))
        history = [part for call in calls for part in (call, RESULT | {"call_id": call["call_id"]})]
        assert (await w.turn(ASK, *history)).mark == "injected=1"


async def test_each_save_holds_what_came_before_it() -> None:
    """Parallel calls are saved one by one, before the client sees them."""
    call_2 = CALL | {"id": "fc_7766554433221100aabb", "call_id": "call_Pq8NvX2mK4tR6yB1"}
    first, last = events(RS, CALL, call_2)[:5], events(RS, CALL, call_2)[5:]
    script = Script(
        [
            send(stream_head() + chunk(b"".join(first))),
            wait(),
            send(chunk(b"".join(last)) + END),
        ]
    )
    async with world() as w, line_to(w.app.url) as line:
        await asked(w, line, script)
        await line.exactly(len(b"".join(first)))
        script.go()
        assert await line.rest() == b"".join(last)
        w.upstream.answers(whole(b"{}"))
        await w.turn(ASK, CALL, call_2, RESULT, RESULT | {"call_id": call_2["call_id"]})
        assert w.sent()["input"][1:4] == [RS, CALL, call_2]
