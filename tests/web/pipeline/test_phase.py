"""Phase, through the app: added and counted."""

from tests.web.wire import ASK, MESSAGE, NEXT, RS, as_json, response, whole
from tests.web.world import World, world

PHASED = MESSAGE | {"phase": "final_answer"}
OK = whole(b'{"ok":true}')


async def taught(w: World) -> None:
    """Let the proxy capture a message with a phase."""
    w.upstream.answers(whole(as_json(response(RS, PHASED))))
    await w.turn(ASK)


async def test_a_dropped_phase_is_added_and_counted() -> None:
    """Each request of the conversation has it at the same place, so the prefix does not move."""
    async with world() as w:
        await taught(w)
        w.upstream.answers(OK, OK)
        got = await w.turn(ASK, MESSAGE, NEXT)
        assert got.mark == "injected=1, phase=1"
        first = w.sent()["input"]
        assert first == [ASK, RS, PHASED, NEXT]
        await w.turn(ASK, MESSAGE, NEXT, MESSAGE | {"id": "msg_2"}, NEXT)
        assert w.sent()["input"][:4] == first
        assert w.counted("item_forms_total", form="phase") == 2
