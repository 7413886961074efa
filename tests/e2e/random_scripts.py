"""
Random scripts: histories of clients that grow, fork, shrink and are edited, in three APIs.

A script is drawn whole before anything is sent, so that a part of it can be played alone.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.e2e.three_apis import API, WRITERS, Entry, Habit, Item, Part, refusal, tools
from tests.e2e.two_sides import Deed, Exchange, Step

__all__ = ["PROFILES", "script"]

PROFILES: dict[API, tuple[str, ...]] = {
    "responses": ("openai", "generic"),
    "chat": ("deepseek", "generic"),
    "messages": ("anthropic", "generic"),
}
MODELS: dict[API, tuple[str, ...]] = {
    "responses": ("gpt-5.4", "gpt-5.4-mini", "gpt-5.4-2026-03-05"),
    "chat": ("deepseek-v4", "kimi-k3"),
    "messages": ("claude-opus-4-6", "claude-sonnet-4-5", "claude-opus-5-5"),
}
SHORT = ("ok", "continue", "yes", "Done.", "Look again.", "Où ?", "“Fine”")
WORDS = [
    "rain",
    "snow",
    "wind",
    "river",
    "bergen",
    "oslo",
    "tomorrow",
    "harbour",
    "ferry",
    "cloud",
    "émigré",
    "glass",
    "stone",
]
MOST_STATES = 12


@dataclass(frozen=True)
class State:
    """One state of a client: what it has, and how it writes."""

    entries: tuple[Entry, ...]
    habit: Habit
    model: str


def text(rng: random.Random, least: int) -> str:
    """Return words of at least this many characters."""
    found = ""
    while len(found) < least:
        found += rng.choice(WORDS) + " "
    return found + str(rng.randrange(10**6))


def said(rng: random.Random) -> str:
    """Return a short text that others say as well, or a long one."""
    return rng.choice(SHORT) if rng.random() < 0.4 else text(rng, rng.choice((30, 90, 400)))


def hexes(rng: random.Random, count: int = 32) -> str:
    """Return hex digits."""
    return f"{rng.getrandbits(4 * count):0{count}x}"


def emission(rng: random.Random, counted: bool) -> tuple[Part, ...]:
    """Draw what a response emits."""
    shape = rng.choice(("rc", "rm", "rcc", "rcrc", "rmc", "m", "c", "rrm", "rmrm", "rc", "rm", "r"))
    parts = []
    for n, kind in enumerate(shape):
        call_id = ""
        if kind == "c":
            call_id = f"call_{n}" if counted else f"call_{hexes(rng, 24)}"
        said_ = text(rng, 20) if kind == "r" else said(rng)
        phase = rng.choice(("", "", "commentary", "final_answer")) if kind == "m" else ""
        parts.append(Part(kind, hexes(rng), said_, call_id, phase))
    return tuple(parts)


def outputs(rng: random.Random, parts: Sequence[Part]) -> tuple[Entry, ...]:
    """Return what a client adds after a response: an output for each call, or a question."""
    found = [Entry("out", said(rng), part.call_id) for part in parts if part.kind == "c"]
    if not found or rng.random() < 0.1:
        found.append(Entry("user", said(rng)))
    return tuple(found)


class Drawing:
    """A script that is drawn step by step."""

    def __init__(
        self, seed: int, api: API, *, is_refused: bool, has_deeds: bool, is_repeated: bool
    ) -> None:
        self._rng = random.Random(f"{seed} {api}")  # noqa: S311 (nothing secret)
        self._api = api
        self._refusals = 0.15 if is_refused and self._rng.random() < 0.5 else 0.0
        self._has_deeds = has_deeds
        self._is_shadow = False
        self._repeats = 0.08 if is_repeated else 0.0
        self._counted = self._rng.random() < 0.3
        self._other = self._rng.choice((0.0, 0.0, 0.3))  # the share of the second replica
        self._restless = self._rng.choice((0.05, 0.2))
        self._states = [self._begun()]
        self._emitted: list[tuple[tuple[Part, ...], str]] = []
        self._sent: list[tuple[State, Exchange]] = []

    def _begun(self) -> State:
        rng = self._rng
        top: Item = {"max_tokens": 1000} if self._api == "messages" else {}
        if self._api == "responses" and rng.random() < 0.7:
            top["store"] = False
        word = {"responses": "instructions", "messages": "system"}.get(self._api)
        long = rng.random() < 0.5
        if word:
            top[word] = text(rng, 3000 if long else 20)
        top["tools"] = tools(self._api, text(rng, 2500))
        entries = [Entry("user", said(rng) if long else text(rng, 3000))]
        if rng.random() < 0.3:
            top["prompt_cache_key" if self._api == "responses" else "user"] = hexes(rng)
        names = list(top)
        rng.shuffle(names)
        cut = rng.randrange(len(names) + 1)
        habit = Habit(
            keeps=rng.choice((0, 0, 0, 0, 0, 0, 0, 5, 10)),
            ids=rng.random() < 0.5,
            spaced=rng.random() < 0.3,
            ascii=rng.random() < 0.3,
            before={name: top[name] for name in names[:cut]},
            after={name: top[name] for name in names[cut:]},
            status=rng.random() < 0.3,
            stream=rng.random() < 0.5,
        )
        return State(tuple(entries), habit, MODELS[self._api][0])

    def _body(self, state: State, stream: bool) -> bytes:
        _, member, history, _ = WRITERS[self._api]
        habit = state.habit
        top: Item = {"model": state.model} | habit.before
        top[member] = history(state.entries, habit)
        top |= habit.after
        if stream:
            top["stream"] = True
        separators = (", ", ": ") if habit.spaced else (",", ":")
        return json.dumps(top, separators=separators, ensure_ascii=habit.ascii).encode()

    def _exchange(self, state: State, replica: int) -> tuple[Exchange, State]:
        """Return an exchange about a state, and the state after it."""
        rng = self._rng
        path, _, _, answer = WRITERS[self._api]
        stream = state.habit.stream != (rng.random() < 0.05)
        if self._emitted and rng.random() < self._repeats:
            parts, rid = rng.choice(self._emitted)
        else:
            parts, rid = emission(rng, self._counted), hexes(rng)
        self._emitted.append((parts, rid))
        known = [part for entry in state.entries for part in entry.parts]
        count = rng.choice((1, 1, 1, 2, 3)) if rng.random() < self._refusals else 0
        refusals = tuple((400, refusal(self._api, rng, known)) for _ in range(count))
        pieces = tuple(answer(parts, rid, state.model, stream))
        cut = rng.randrange(1, len(pieces)) if stream and rng.random() < 0.1 else None
        exchange = Exchange(path, self._body(state, stream), replica, refusals, pieces, cut)
        if cut is not None and rng.random() < 0.5:
            parts = parts[: rng.randrange(len(parts))]
        grown = (*state.entries, Entry("turn", parts=parts)) if parts else state.entries
        after = replace(state, entries=grown + outputs(rng, parts))
        return exchange, after

    def _changed(self, state: State) -> State:
        """Return a state after what clients do to their histories now and then."""
        rng = self._rng
        entries = list(state.entries)
        what = rng.choice(
            ("edit", "window", "merge", "model", "member", "edit part", "drop", "new")
        )
        at = rng.randrange(len(entries))
        if what == "edit" and entries[at].kind != "turn":
            entries[at] = replace(entries[at], text=said(rng))
        elif what == "edit part" and entries[at].parts:
            parts = list(entries[at].parts)
            n = rng.randrange(len(parts))
            parts[n] = replace(parts[n], text=said(rng))
            entries[at] = replace(entries[at], parts=tuple(parts))
        elif what == "window":
            entries = entries[at:]
        elif what == "merge":
            entries += rng.choice(self._states).entries
        elif what == "drop" and len(entries) > 1:
            del entries[at]
        elif what == "model":
            return replace(state, model=rng.choice(MODELS[self._api]))
        elif what == "member":
            after = state.habit.after | {"temperature": rng.choice((0, 1))}
            return replace(state, habit=replace(state.habit, after=after))
        elif what == "new":
            return self._begun()
        return replace(state, entries=tuple(entries))

    def step(self) -> Step:
        """Draw one step."""
        rng = self._rng
        chance = rng.random()
        if self._has_deeds and (chance < 0.06 or (self._is_shadow and chance < 0.5)) and self._sent:
            what = rng.choice(("forget", "forget", "forget", "forget_all", "shadow", "on", "on"))
            if self._is_shadow:
                what = "on"
            self._is_shadow = what == "shadow"
            return Deed(what, rng.randrange(3))
        if self._sent and chance < 0.12:
            _, sent = rng.choice(self._sent[-3:])
            replica = int(rng.random() < self._other)
            return [replace(sent, replica=replica, refusals=())]
        state = self._states[-1]
        if rng.random() < self._restless:
            state = rng.choice(self._states)
        if rng.random() < self._restless:
            state = self._changed(state)
        count = rng.choice((2, 3)) if rng.random() < 0.08 else 1
        found = []
        for n in range(count):
            if n and rng.random() < 0.5:
                state = replace(state, entries=(*state.entries, Entry("user", said(rng))))
            replica = int(rng.random() < self._other)
            exchange, after = self._exchange(state, replica)
            found.append(exchange)
            self._sent.append((state, exchange))
            self._states = [*self._states, after][-MOST_STATES:]
        return found


def script(
    seed: int,
    api: API,
    steps: int,
    *,
    is_refused: bool = True,
    has_deeds: bool = True,
    is_repeated: bool = True,
) -> list[Step]:
    """
    Draw a script.

    Args:
        seed: The same seed gives the same script.
        api: The API that the clients speak.
        steps: The number of steps.
        is_refused: Whether the upstream may refuse.
        has_deeds: Whether operators delete and reload.
        is_repeated: Whether the upstream may repeat a response, as a cache does.
    """
    drawing = Drawing(
        seed, api, is_refused=is_refused, has_deeds=has_deeds, is_repeated=is_repeated
    )
    return [drawing.step() for _ in range(steps)]
