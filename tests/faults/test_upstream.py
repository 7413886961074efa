"""
Faults of upstream: what the client sees of each, and that nothing is left open afterwards.

One row is one fault, played for each kind of exchange. After it, upstream's connection is closed,
or is used again if the response was complete. Reasoning that was captured before is injected for
the next client, on the same connection and on another.
"""

import asyncio
import contextlib
import gc
from collections.abc import Callable, Coroutine, Iterator

import pytest
import uvloop

from tests.faults.kinds import ALL, KEY, READ, Kind, Seen, reads
from tests.faults.stage import ROOM_BYTES, Stage, staged
from tests.faults.steps import half_close, hang, pause, reset, stall
from tests.faults.upstream_rows import ROWS, SHORT_S, Row
from tests.patience import SOON_S
from tests.web.line import line_to, request
from tests.web.scripted import Script, Step, close, send
from tests.web.wire import END, as_json, chunk, head, whole
from tests.web.world import eventually

# Hundreds of exchanges leave some cancelled timers that have not expired yet; one exchange
# that is not released would be dozens of objects.
OBJECTS_MAX = 500


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_a_fault_of_upstream(row: Row) -> None:
    """The client sees what the table says; afterwards everything works as before."""
    async with staged(**row.settings) as stage:
        for kind in row.kinds:
            await play(stage, row, kind)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_many_faults_leave_no_objects(run: Callable[[Coroutine[None, None, None]], None]) -> None:
    """One proxy that goes through all faults several times holds no more objects."""
    rows = {name: row for name, row in ROWS.items() if not row.settings}
    held: list[int] = []

    async def suffer() -> None:
        async with staged() as stage:
            for turn in range(3):
                for number, (name, row) in enumerate(rows.items()):
                    if number % 3 == turn or turn == 0:
                        with naming(name):
                            await play(stage, row, row.kinds[0])
                stage.door.received.clear()  # memory of the test
                stage.w.app.recorder._over.clear()  # the inspector's, which has a bound of its own
                gc.collect()
                held.append(len(gc.get_objects()))

    run(suffer())
    assert held[-1] - held[0] < OBJECTS_MAX


@contextlib.contextmanager
def naming(what: str) -> Iterator[None]:
    """Add the name of the running row to an error."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"row: {what}")
        raise


async def play(stage: Stage, row: Row, kind: Kind) -> None:
    """Play one row for one kind of exchange."""
    route = "responses" if kind in READ else "files"

    def cut_off() -> float:
        return stage.w.counted("exchanges_total", route=route, outcome="cut_off")

    before = cut_off()
    async with line_to(stage.w.app.url) as line:
        stage.door.plays(script := Script(row.does(kind)))
        await line.send(kind.data)
        seen = await reads(line)
        assert seen in [sees(kind) for sees in (row.sees, row.or_sees) if sees is not None]
        await asyncio.wait_for(script.arrived.wait(), SOON_S)
        if seen.is_whole:
            await stage.holds(lines=int(row.is_kept), clients=1)
            await stage.works(line)
        else:
            assert await line.is_closed()
    if not seen.is_whole:
        await stage.holds(lines=int(row.is_kept))
    await eventually(lambda: cut_off() == before + (not seen.is_whole))
    await stage.is_as_before()
    assert stage.is_fresh() != row.is_kept


async def test_an_upstream_that_refuses_connections() -> None:
    """Each request gets a 502, and the next one works if upstream is back."""
    async with staged() as stage:
        await stage.hangs_up()
        async with stage.door.shut_for_now(), line_to(stage.w.app.url) as line:
            for kind in ALL:
                await line.send(kind.data)
                assert await reads(line) == Seen(502, code="upstream_unreachable")
        await stage.is_as_before()


LARGE = b"x" * (8 << 20)  # more than kernels buffer
NO = whole(b"no", status="413 Too Large")
TOLD_NO = Seen(413, b"no")
READ_S = 2.0  # how long an upstream that has answered may stall before the upload is cut
EARLY: dict[str, tuple[list[Step], list[Seen]]] = {
    "and stalls": ([send(NO), stall()], [TOLD_NO]),
    "and says that it will close": (
        [send(whole(b"no", "Connection: close", status="413 Too Large")), stall()],
        [TOLD_NO],
    ),
    "and closes its side": ([send(NO), half_close(), hang()], [TOLD_NO]),
    "and closes": ([send(NO), pause(), close()], [TOLD_NO]),
    "with success": ([send(whole(b"no")), stall()], [Seen(200, b"no")]),
}


@pytest.mark.parametrize("framing", [f"Content-Length: {len(LARGE)}", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("target", ["/v1/responses", "/v1/files"])
@pytest.mark.parametrize(("steps", "allowed"), EARLY.values(), ids=EARLY)
async def test_an_answer_before_the_body_is_read(
    steps: list[Step], allowed: list[Seen], target: str, framing: str
) -> None:
    """The client gets an early response, and that upstream connection is not used again."""
    async with staged(inspect_total_max_bytes=2 * len(LARGE), read_timeout_s=READ_S) as stage:
        stage.door.plays(script := Script(steps, reads_body=False))
        async with line_to(stage.w.app.url) as line:
            await line.send(request("POST", target, KEY, framing))
            body = LARGE if "Length" in framing else chunk(LARGE) + END
            sending = asyncio.ensure_future(line.send(body))
            assert await reads(line) in allowed
            await asyncio.gather(sending, return_exceptions=True)
        script.go()
        await stage.holds(lines=0)
        await stage.is_as_before()
        assert stage.is_fresh()


REFUSAL = as_json({"error": {"message": "The encrypted content could not be verified."}})
REFUSED = head(
    "Content-Type: application/json", "Transfer-Encoding: chunked", status="400 Bad Request"
) + (chunk(REFUSAL) + END)
SECOND = [
    pytest.param([close()], id="closes"),
    pytest.param([reset()], id="resets"),
    pytest.param([hang()], id="hangs"),
    pytest.param([send(b"\x00" * 99 + b"\r\n\r\n"), hang()], id="garbage"),
    pytest.param([send(REFUSED[:-9]), hang()], id="refuses and hangs"),
]


@pytest.mark.parametrize("second", SECOND)
async def test_a_fault_at_the_second_attempt(second: list[Step]) -> None:
    """If no attempt is accepted, the client gets a refusal, and nothing is learnt."""
    room_bytes = 2 * ROOM_BYTES  # a cure is a third form of the request
    async with staged(
        first_byte_timeout_s=SHORT_S, read_timeout_s=SHORT_S, inspect_total_max_bytes=room_bytes
    ) as stage:
        for kind in READ:
            # The last one is for the client's own request, if the second one is refused, too.
            last = Script([send(REFUSED)])
            stage.door.plays(Script([send(REFUSED)]), tried := Script(second), last)
            async with line_to(stage.w.app.url) as line:
                await line.send(kind.data)
                assert await reads(line) == Seen(400, REFUSAL)
                assert tried.arrived.is_set()
                await stage.works(line)
            await stage.is_as_before()
