"""Play: many random worlds, and the table of what was found."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.core.worlds.chat import ChatWorld
from tests.core.worlds.crowd import NOTHING_NEW, New
from tests.core.worlds.dialect import WorldDialect
from tests.core.worlds.gemini import GeminiWorld
from tests.core.worlds.judge import FAULTS
from tests.core.worlds.messages import MessagesWorld
from tests.core.worlds.responses import ResponsesWorld
from tests.core.worlds.world import RandomWorld

Counts = Counter[tuple[str, str]]
DIALECTS: dict[str, type[WorldDialect]] = {
    kind.name: kind for kind in (ResponsesWorld, ChatWorld, MessagesWorld, GeminiWorld)
}
FAULTS_TOLD = 20
HEAD = f"{'client':<32}{'due':>9}{'injected':>10}{'share':>8}"
FOUND = ("wrong", "part", "guess", "twins", "cut", "hint", "named", "moved", "refused", "faulty")


def play(
    numbers: Iterable[int],
    kind: type[WorldDialect] = ResponsesWorld,
    new: New = NOTHING_NEW,
    faulty: frozenset[str] = FAULTS,
) -> tuple[Counts, list[str]]:
    """Play the worlds with these numbers; return the counts, and one fault of each world."""
    counts = Counts()
    faults: list[str] = []
    for number in numbers:
        world = RandomWorld(number, kind, new, faulty)
        world.play()
        counts.update(world.judge.counts)
        counts["conversations", "all"] += world.size
        counts["faulty", "all"] += bool(world.judge.faults)
        options = f"--dialect {kind.name}{new.option}"
        repeat = f"python -m tests.core.worlds {number} {number + 1} {options}"
        faults += [f"{repeat}: {fault}" for fault in world.judge.faults[:1]]
    return counts, faults


def told(counts: Counts, faults: Sequence[str]) -> str:
    """Return a table by kind of client, and the first faults."""
    kinds = sorted({kind for _, kind in counts} - {"all"})
    lines = [HEAD + "".join(f"{what:>8}" for what in FOUND)]
    lines += [_row(kind, counts, kind) for kind in ("all", *kinds) if counts["due", kind]]
    played = f"{counts['conversations', 'all']:,} conversations"
    found = f"{counts['faulty', 'all']} worlds with faults"
    return "\n".join([*lines, *faults[:FAULTS_TOLD], f"{played}, {found}"])


def _row(name: str, counts: Counts, kind: str) -> str:
    due, injected = counts["due", kind], counts["injected", kind]
    found = "".join(f"{counts[what, kind]:>8}" for what in FOUND)
    return f"{name:<32}{due:>9}{injected:>10}{injected / max(1, due):>8.1%}{found}"
