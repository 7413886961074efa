"""
Saves that go on by themselves, in the order in which each turn was captured.

Of one turn at most one save is under way and one waits: the newest form of it, with the keys of
all. What is not finished is bounded in number and bytes, as a store may hang for long.

**Saved twice.** A save that failed was given up by us: the network, or what stands between, may
deliver it later, behind a newer form of the turn, which it would overwrite. So once a later save
of that turn works it is done again after `again_after_s`, and the turn counts as kept only then. An
order in what is stored would need a script or a transaction for every save, to guard against what
happens to few.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from reasoning_replay.core.history.turns import Turn

__all__ = ["SaveQueue", "Snapshot", "size_of"]

UNFINISHED_MAX = 1024
UNFINISHED_MAX_BYTES = 32 << 20
# Turns of which a failed save is remembered, for their next save.
LOST_MAX = 1024

_Name = tuple[bytes, bytes]  # (scope, turn id)


@dataclass(slots=True)
class Snapshot:
    """
    One form of a turn, to be saved.

    Attributes:
        keys: Those that shall lead to it, and may not yet.
        kept: What came of it, when it is known.
        is_late: Whether nobody waits for it any more.
        is_tried: Whether the store has been asked to.
    """

    scope: bytes
    turn: Turn
    keys: dict[bytes, None]
    kept: asyncio.Future[bool]
    is_late: bool = False
    is_tried: bool = False


@dataclass(slots=True)
class _Line:
    """The saves of one turn."""

    conversation: bytes
    waiting: Snapshot | None
    task: asyncio.Task[None] | None = None

    def take(self) -> Snapshot | None:
        """Return what waits, which does so no longer."""
        waiting, self.waiting = self.waiting, None
        return waiting


@dataclass(slots=True)
class _Load:
    count: int = 0
    size_bytes: int = 0

    def add(self, turn: Turn) -> None:
        self.count += 1
        self.size_bytes += size_of(turn)

    def remove(self, turn: Turn) -> None:
        self.count -= 1
        self.size_bytes -= size_of(turn)


@dataclass(slots=True)
class SaveQueue:
    """
    Saves in the background, a few at once.

    Attributes:
        act: Saves one, and tells whether it is kept. Never raises.
        tell: Told of each save that ended, and whether it is kept.
        at_once: So many are under way at the most.
        again_after_s: How late a save that was given up may still reach the store.
    """

    act: Callable[[Snapshot], Awaitable[bool]]
    tell: Callable[[bytes, Turn, bool], None]
    at_once: asyncio.Semaphore
    again_after_s: float
    _lines: dict[_Name, _Line] = field(default_factory=dict)
    _doubted: OrderedDict[_Name, None] = field(default_factory=OrderedDict)
    _agains: dict[_Name, tuple[Snapshot, asyncio.TimerHandle]] = field(default_factory=dict)
    _is_closing: bool = False
    _lost: OrderedDict[_Name, dict[bytes, None]] = field(default_factory=OrderedDict)
    _load: _Load = field(default_factory=_Load)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """What is under way."""
        return [line.task for line in self._lines.values() if line.task is not None]

    def add(self, scope: bytes, turn: Turn, keys: Sequence[bytes]) -> Snapshot | None:
        """Save a turn behind what is under way of it; None when there is no room for it."""
        name = (scope, turn.id)
        if self._take_again(name):
            self._doubt(name)  # this form is the one that is to be saved twice
        line = self._lines.get(name)
        if line is not None and line.waiting is not None:
            waiting = line.waiting  # never begun: this form takes its place
            self._load.remove(waiting.turn)
            self._load.add(turn)
            waiting.turn, waiting.is_late = turn, False
            waiting.keys.update(dict.fromkeys(keys))
            return waiting
        size = self._load.size_bytes + size_of(turn)
        if self._load.count >= UNFINISHED_MAX or size > UNFINISHED_MAX_BYTES:
            self.lose(scope, turn, keys)
            return None
        self._load.add(turn)
        united = self._lost.pop(name, {}) | dict.fromkeys(keys)
        snapshot = Snapshot(scope, turn, united, asyncio.get_running_loop().create_future())
        if line is not None:
            line.waiting = snapshot
        else:
            line = self._lines[name] = _Line(turn.conversation, snapshot)
            line.task = asyncio.ensure_future(self._run(name, line))
        return snapshot

    def lose(self, scope: bytes, turn: Turn, keys: Sequence[bytes]) -> None:
        """Take it that a turn was not saved: its keys go with its next save."""
        name = (scope, turn.id)
        line = self._lines.get(name)
        if line is not None and line.waiting is not None:
            line.waiting.keys.update(dict.fromkeys(keys))
        elif keys:
            self._lost[name] = self._lost.pop(name, {}) | dict.fromkeys(keys)
            if len(self._lost) > LOST_MAX:
                self._lost.popitem(last=False)
        self.tell(scope, turn, False)  # noqa: FBT003 - an answer, not a switch

    def hurry(self) -> None:
        """Save now what is to be saved again, and nothing twice from here on: we close."""
        self._is_closing = True
        for name in [*self._agains]:
            self._save_again(name)

    def drop(self, scope: bytes, conversation: bytes) -> list[asyncio.Task[None]]:
        """Save no more of a conversation than what is under way, which is returned."""
        for name, (snapshot, _) in [*self._agains.items()]:
            if name[0] == scope and snapshot.turn.conversation == conversation:
                self._take_again(name)
        ours = [
            line
            for (whose, _), line in self._lines.items()
            if whose == scope and line.conversation == conversation
        ]
        for line in ours:
            if waiting := line.take():
                self._end(waiting, is_kept=False)
        return [line.task for line in ours if line.task is not None]

    async def withdraw(self, scope: bytes, conversation: bytes, timeout_s: float) -> None:
        """As `drop`, and wait for what is under way."""
        if running := self.drop(scope, conversation):
            await asyncio.wait(running, timeout=timeout_s)

    async def _run(self, name: _Name, line: _Line) -> None:
        taken: Snapshot | None = None
        try:
            while line.waiting is not None:
                async with self.at_once:
                    taken = line.take()  # the newest by now; None: withdrawn meanwhile
                    is_kept = taken is not None and await self.act(taken)
                if taken is not None:
                    self._end(taken, is_kept=is_kept)
        finally:
            del self._lines[name]
            for left in (taken, line.take()):  # cancelled
                if left is not None and not left.kept.done():
                    self._end(left, is_kept=False)

    def _end(self, snapshot: Snapshot, *, is_kept: bool) -> None:
        name = (snapshot.scope, snapshot.turn.id)
        self._load.remove(snapshot.turn)
        snapshot.kept.set_result(is_kept)
        if not is_kept:
            if snapshot.is_tried:
                self._doubt(name)
            self.lose(snapshot.scope, snapshot.turn, [*snapshot.keys])
        elif not self._is_again_due(name, snapshot):
            self.tell(snapshot.scope, snapshot.turn, True)  # noqa: FBT003 - as above

    # Saving twice...

    def _doubt(self, name: _Name) -> None:
        """Take it that a form of this turn may still reach the store."""
        self._doubted[name] = None
        self._doubted.move_to_end(name)
        if len(self._doubted) > LOST_MAX:
            self._doubted.popitem(last=False)

    def _is_again_due(self, name: _Name, kept: Snapshot) -> bool:
        """See to it that what is kept now is saved once more; False where that is not needed."""
        if name not in self._doubted or self._is_closing:
            return False
        line = self._lines.get(name)
        if line is not None and line.waiting is not None:
            return True  # a newer form, which goes on being doubted
        del self._doubted[name]
        size = self._load.size_bytes + size_of(kept.turn)
        if self._load.count >= UNFINISHED_MAX or size > UNFINISHED_MAX_BYTES:
            return False
        self._load.add(kept.turn)
        loop = asyncio.get_running_loop()
        self._agains[name] = (kept, loop.call_later(self.again_after_s, self._save_again, name))
        return True

    def _save_again(self, name: _Name) -> None:
        snapshot = self._take_again(name)
        if snapshot is not None:  # its keys are there: a save never takes any away
            again = self.add(snapshot.scope, snapshot.turn, [])
            if again is not None:
                again.is_late = True

    def _take_again(self, name: _Name) -> Snapshot | None:
        """Return what was to be saved again, and is no longer."""
        if name not in self._agains:
            return None
        snapshot, timer = self._agains.pop(name)
        timer.cancel()
        self._load.remove(snapshot.turn)
        return snapshot


def size_of(turn: Turn) -> int:
    """Return about how many bytes a turn holds."""
    return sum(len(item.raw) + sum(len(part.raw) for part in item.run) + 500 for item in turn.items)
