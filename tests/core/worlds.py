"""
Random worlds: conversations of one tenant, played through the core and checked against the truth.

    python -m tests.core.worlds FIRST LAST

plays the worlds with these numbers. For each kind of client it prints the share of due reasoning
that was injected, the number of wrong injections, and the number of times that a prefix moved. An
injection that cannot be distinguished from the right one counts as `twins`, not as wrong. The exit
status is 1 if an injection was wrong or a prefix moved.
"""

import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile, takewhile, zip_longest
from random import Random
from typing import Any

from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.joining import join
from reasoning_replay.core.history.matching.matches import Matches, match_items, parent_of
from reasoning_replay.core.history.request_history import RequestHistory

from tests.core.world import Item, World, answer

__all__ = [
    "COUNT",
    "HEX",
    "MODEL",
    "Conversation",
    "Habits",
    "RandomWorld",
    "Said",
    "main",
    "play",
    "told",
]

# Number of worlds that the tests play; `make test-all` plays more.
COUNT = 300 if os.environ.get("REPLAY_TEST_ALL") == "1" else 120
CONVERSATIONS, STEPS = 4, 24
FAULTS_TOLD = 20
# Share of the clients that have a habit.
RARE = {
    "loses": 0.1,
    "drops": 0.1,
    "renumbers": 0.1,
    "retrieval": 0.1,
    "shared": 0.1,
    "same": 0.1,
    "users_same": 0.1,
    "cut": 0.1,
    "is_twin": 0.05,
}
MODEL = "gpt-5.6"
HEX = "0123456789abcdef"
LETTERS = "abcdefghijklmnop "
SHAPES = ("R C", "R C", "R M C", "R C C", "R M", "C", "R C R C", "R M M")
CHAT_SHAPES = ("R M", "R M", "M")
HEAD = f"{'client':<32}{'due':>9}{'injected':>10}{'share':>8}{'wrong':>7}{'twins':>7}{'moved':>7}"
WORDS = {
    "message": ("Done.", "OK", "Sunny."),
    "call": ("{}", '{"q":"x"}'),
    "user": ("Hi", "continue", "yes"),
    "output": ("ok", ""),
}


@dataclass(frozen=True)
class Habits:
    """
    Habits of one client and its upstream.

    Attributes:
        ids: `kept` or `dropped`, where the API does not demand them.
        naming: Ids are drawn at `random`, `counted`, or `call_0` in every response (`zero`).
        words, user_words: Short and `common`, long and `rare`, `mixed`, or always the `same`.
        window: Number of the user's messages that are sent; 0: all.
        cut: Number of items that are sent, even if a turn is split; 0: all.
        frame: Instructions: `none`, the `same`, a `clock`, or a `dev_clock` in a developer item.
        environment: A message of the application: `none`, at the `head`, or before the `newest`
            message of the user; or passages (`retrieval`) inside that message.
        bypass, fails, loses: Share of exchanges that bypass the proxy, whose lookup fails, or
            after which the store loses a turn.
        retry, fork: Share of requests that are sent twice, or that continue from an earlier turn.
        name: Whether the conversation has a name (`prompt_cache_key`) of its `own`, one that is
            `shared` with others, or `none`.
        is_twin: Whether it repeats the words of the conversation before it.
        clears: Whether old outputs of tools are cleared.
        drops: Whether messages before calls are left out.
        renumbers: Whether calls are renumbered in each request.
        renames: How a client replaces ids of calls for good, by random ones: "" not at all, in the
            form of `upstream`, or in its `own`.
        rewrites: Whether messages of the model lose their full stop.
        interleaves: Whether each output follows its call.
    """

    ids: str
    naming: str
    words: str
    user_words: str
    has_tools: bool
    window: int
    frame: str
    environment: str
    bypass: float
    fails: float
    retry: float
    fork: float
    name: str
    clears: bool
    rewrites: bool
    interleaves: bool
    cut: int = 0
    loses: float = 0
    drops: bool = False
    renumbers: bool = False
    renames: str = ""
    is_twin: bool = False

    @property
    def only_appends(self) -> bool:
        """Whether each request begins with the previous one."""
        changes = self.window or self.cut or self.clears or self.frame == "dev_clock"
        return not changes and self.environment == "none"

    @property
    def ids_are_certain(self) -> bool:
        """Whether its ids identify each item."""
        return self.ids == "kept" and self.naming == "random"

    @property
    def kinds(self) -> list[str]:
        """The kinds of clients that it counts as."""
        return [
            f"{'tool loop' if self.has_tools else 'plain chat'}, ids {self.ids}",
            f"ids that are {self.naming}" if self.naming != "zero" else "call_0 in every response",
            "sliding window" if self.window else "head cut" if self.cut else "whole history",
            f"frame: {self.frame}",
            f"environment: {self.environment}",
            *(["old outputs cleared"] if self.clears else []),
            *(["messages rewritten"] if self.rewrites else []),
            *(["messages before calls dropped"] if self.drops else []),
            *(["calls renumbered"] if self.renumbers else []),
            *([f"calls renamed: {self.renames}"] if self.renames else []),
            *(["a twin of another"] if self.is_twin else []),
            *(["users say the same"] if self.user_words == "same" else []),
            *([f"name: {self.name}"] if self.name != "none" else []),
            *(["outputs interleaved"] if self.interleaves else []),
            *(["answered twice"] if self.retry else []),
            *(["some turns unknown"] if self.bypass else []),
            *(["some lookups fail"] if self.fails else []),
            *(["some turns lost"] if self.loses else []),
        ]


@dataclass
class Said:
    """
    One item of a history.

    Attributes:
        item: The item as upstream or the client wrote it.
        kind: R, M or C of the model; U, O, E or F of the client (user, output, environment, frame).
        response, k: Response and index in it; -1 for an item of the client.
    """

    item: Item
    kind: str
    response: int = -1
    k: int = -1

    @property
    def visible(self) -> tuple[object, ...]:
        """Its content without names."""
        keys = ("type", "role", "content", "arguments", "output", "name")
        return tuple(json.dumps(self.item.get(key)) for key in keys)


@dataclass
class Conversation:
    """
    One conversation as its client holds it.

    Attributes:
        dice: Random source of its content; twins start with equal ones.
        words_of: Number of the first conversation with the same words.
        has_twin: Whether it is a twin or has one.
        seen: The input that upstream received last.
    """

    number: int
    habits: Habits
    dice: Random
    words_of: int
    has_twin: bool = False
    history: list[Said] = field(default_factory=list)
    counted: int = 0
    seen: list[str] | None = None


class RandomWorld(World):
    """
    Several conversations of one scope, in turns.

    Attributes:
        counts: (outcome, kind of client) -> how often; the kind "all" is every client.
        faults: Descriptions of wrong injections and moved prefixes.
        shapes: Responses that a model with tools gives.
    """

    shapes: tuple[str, ...] = SHAPES

    def __init__(self, number: int) -> None:
        super().__init__()
        self.random = Random(number)  # noqa: S311 - random, and the same each time
        self.counts: Counter[tuple[str, str]] = Counter()
        self.faults: list[str] = []
        self._emitted: dict[int, list[Said]] = {}
        self._asked: dict[int, tuple[object, ...]] = {}  # what was visible to a response
        self._words_of: dict[int, int] = {}  # as in `Conversation`
        self._captured: set[int] = set()
        self._turn_ids: dict[int, bytes] = {}
        self._seen: dict[int, list[str] | None] = {}  # input for a response
        self._clock = 0
        self._rarely = Random(f"rarely {number}")  # noqa: S311 - as above
        self._people: list[Conversation] = []
        for n in range(CONVERSATIONS):
            one = Conversation(n, self._rare(self._habits()), self.random, n)
            if n and one.habits.is_twin:
                before = self._people[-1]
                one.words_of, one.habits = before.words_of, replace(before.habits, is_twin=True)
                for each in (before, one):
                    each.has_twin = True
                    each.dice = Random(f"{number} {one.words_of}")  # noqa: S311 - as above
            self._people.append(one)

    def play(self, steps: int = STEPS) -> None:
        """Play this number of steps, each in a random conversation."""
        for _ in range(steps):
            self._step(self.random.choice(self._people))

    # The clients.

    def _habits(self) -> Habits:
        pick, chance = self.random.choice, self.random.random
        return Habits(
            ids=pick(["kept", "dropped", "dropped"]),
            naming=pick(["random", "random", "counted", "zero"]),
            words=pick(["rare", "common", "mixed"]),
            user_words=pick(["rare", "common", "mixed"]),
            has_tools=pick([True, False]),
            window=pick([0, 0, 0, 0, 2, 3]),
            frame=pick(["none", "same", "clock", "dev_clock"]),
            environment=pick(["none", "none", "none", "head", "newest"]),
            bypass=pick([0, 0, 0, 0.2]),
            fails=pick([0, 0, 0, 0.2]),
            retry=pick([0, 0, 0.15]),
            fork=pick([0, 0, 0.1]),
            name="own" if chance() < 0.3 else "none",
            clears=chance() < 0.1,
            rewrites=chance() < 0.1,
            interleaves=chance() < 0.2,
        )

    def _rare(self, habits: Habits) -> Habits:
        """Return habits with rare ones added at random."""
        given = {name for name, share in RARE.items() if self._rarely.random() < share}
        return replace(
            habits,
            cut=8 if "cut" in given else 0,
            loses=0.2 if "loses" in given else 0,
            drops="drops" in given,
            renumbers="renumbers" in given,
            is_twin="is_twin" in given,
            environment="retrieval" if "retrieval" in given else habits.environment,
            name="shared" if "shared" in given else habits.name,
            words="same" if "same" in given else habits.words,
            user_words="same" if "users_same" in given else habits.user_words,
        )

    def _step(self, one: Conversation) -> None:
        habits, history = one.habits, one.history
        if not history:
            history.append(self._user(one))
        users = [n for n, said in enumerate(history) if said.kind == "U"]
        if self._happens(habits.fork) and len(users) > 1:
            del history[self.random.choice(users[1:]) :]
            history.append(self._user(one))
            one.seen = None
        sent, more = self._sent(one)
        answers = [self._exchange(one, sent, more)]
        if habits.loses and self._happens(habits.loses):
            self._lose(one)
        if self._happens(habits.retry):
            answers.append(self._exchange(one, sent, more))
        said = self.random.choice(answers)
        one.seen = self._seen.get(said[0].response)
        history += said
        calls = [each for each in said if each.kind == "C"]
        for each in calls:
            text = self._words(one, "output", habits.user_words)
            output = {"type": "function_call_output", "call_id": each.item["call_id"]}
            history.append(Said({**output, "output": text}, "O"))
        if not calls:
            history.append(self._user(one))

    def _user(self, one: Conversation) -> Said:
        text = self._words(one, "user", one.habits.user_words)
        return Said({"role": "user", "content": text}, "U")

    def _sent(self, one: Conversation) -> tuple[list[Said], dict[str, Any]]:
        """Return the items that a client sends, and the other fields of its request."""
        habits, items = one.habits, self._kept(one)
        users = [n for n, said in enumerate(items) if said.kind == "U"]
        now = f"{self.responses}.{len(one.history)}"
        environment = Said({"role": "user", "content": f"<now>{now}</now>"}, "E")
        newest = users[-1] if users else 0
        if habits.environment == "retrieval" and users:
            text = f"<found>{now}</found> {items[newest].item['content']}"
            items[newest] = Said({"role": "user", "content": text}, "U")
        elif habits.environment == "newest":
            items.insert(newest, environment)
        elif habits.environment == "head":
            items.insert(0, environment)
        if habits.frame == "dev_clock":
            developer = {"type": "message", "role": "developer", "content": f"now {now}"}
            items.insert(0, Said(developer, "F"))
        more: dict[str, Any] = {"store": False}
        if habits.frame in ("same", "clock"):
            more["instructions"] = "Be good." if habits.frame == "same" else f"It is {now}."
        if habits.name != "none":
            more["prompt_cache_key"] = f"{one.number}" if habits.name == "own" else "one for all"
        return items, more

    def _kept(self, one: Conversation) -> list[Said]:
        """Return the part of its history that a client kept."""
        habits = one.habits
        items = [said for said in one.history if said.kind != "R"]
        if habits.renumbers:
            items = _renumbered(items)
        if habits.interleaves:
            items = _interleaved(items)
        users = [n for n, said in enumerate(items) if said.kind == "U"]
        if habits.window:
            items = items[users[-habits.window :][0] :]
        if habits.cut:
            items = items[-habits.cut :]
        if habits.drops:
            items = [one for one, after in zip_longest(items, items[1:]) if not _leads(one, after)]
        outputs = [n for n, said in enumerate(items) if said.kind == "O"]
        return [
            Said(self._rewritten(said, habits, is_old=n in outputs[:-2]), *_origin(said))
            for n, said in enumerate(items)
        ]

    @staticmethod
    def _rewritten(said: Said, habits: Habits, *, is_old: bool) -> Item:
        item = said.item
        if habits.ids == "dropped" and said.response >= 0:
            item = {key: value for key, value in item.items() if key != "id"}
        if habits.clears and is_old:
            item = {**item, "output": "[cleared]"}
        if habits.rewrites and said.kind == "M":
            (part,) = item["content"]
            item = {**item, "content": [{**part, "text": part["text"].rstrip(".")}]}
        return item

    # The wire format.

    @staticmethod
    def zero_name(one: Conversation, n: int) -> str:
        """Return the id of the n-th call of a response, where it recurs in every response."""
        return f"call_{n}"

    @staticmethod
    def around(more: dict[str, Any]) -> str:
        """Return what is visible of a request apart from its items."""
        return json.dumps(more)

    def request_of(self, sent: Sequence[Said], more: dict[str, Any]) -> RequestHistory[HistoryItem]:
        """Return the parsed request that carries these items."""
        top = {"model": MODEL, "input": [said.item for said in sent], **more}
        return read_request(json.dumps(top).encode(), {})

    def injected(
        self, request: RequestHistory[HistoryItem], matched: Matches
    ) -> dict[int, list[str]]:
        """Return the blobs that are injected before each item of a request."""
        assert isinstance(request, Request)
        plan = plan_injection(request, matched, GENERIC)
        starts = {place.item.start: n for n, place in enumerate(request.places)}
        injected: dict[int, list[str]] = defaultdict(list)
        for edit in plan.edits:
            if b'"reasoning"' in edit.new:
                blob = json.loads(edit.new.rstrip(b","))["encrypted_content"]
                injected[starts[edit.start]].append(blob)
        return injected

    def response_of(self, said: Sequence[Said]) -> bytes:
        """Return the JSON response that emits these items."""
        items = [each.item for each in said]
        return answer(items, f"resp_{self._drawn()}", model=MODEL, store=False)

    # The upstream.

    def _emit(self, one: Conversation) -> list[Said]:
        habits = one.habits
        self.responses += 1
        this, calls = self.responses, 0
        self._words_of[this] = one.words_of
        said: list[Said] = []
        shape = one.dice.choice(self.shapes if habits.has_tools else CHAT_SHAPES)
        for k, kind in enumerate(shape.split()):
            if kind == "R":
                blob = {"encrypted_content": f"{this}.{k}", "summary": []}
                item: Item = {"id": f"rs_{self._drawn()}", "type": "reasoning", **blob}
            elif kind == "C":
                words = self._words(one, "call", habits.words)
                arguments = words if words.startswith("{") else json.dumps({"q": words})
                is_zero = habits.naming == "zero"
                name = self.zero_name(one, calls) if is_zero else self._named(one, "call", 8)
                calls += 1
                call = {"type": "function_call", "name": "tool", "call_id": name}
                item = {"id": self._named(one, "fc", 16), **call, "arguments": arguments}
            else:
                part = {"type": "output_text", "text": self._words(one, "message", habits.words)}
                message = {"type": "message", "role": "assistant", "content": [part]}
                item = {"id": self._named(one, "msg", 16), **message}
            said.append(Said(item, kind, this, k))
        self._emitted[this] = said
        return said

    def _exchange(self, one: Conversation, sent: list[Said], more: dict[str, Any]) -> list[Said]:
        self._clock += 10
        seen_by_it = (*(said.visible for said in sent), self.around(more))
        if self._happens(one.habits.bypass):
            one.seen = None
            said = self._emit(one)
            self._asked[self.responses] = seen_by_it
            return said
        has_failed = self._happens(one.habits.fails)
        request = self.request_of(sent, more)
        found = LookupResult() if has_failed else self.recall(request)
        matched = match_items(request, found)
        parent = parent_of(request, matched, found)
        if has_failed:
            one.seen = None
        else:
            self._judge(one, sent, more, self.injected(request, matched))
        joined = join(matched, found.turns)
        self.join(joined)
        said = self._emit(one)
        self._asked[self.responses], self._seen[self.responses] = seen_by_it, one.seen
        made = self.response_of(said)
        seen = None if has_failed or joined.left else matched.seen
        turn = self.capture(request, parent, made, self._clock, seen)
        if turn is not None:
            self._captured.add(self.responses)
            self._turn_ids[self.responses] = turn.id
        return said

    def _lose(self, one: Conversation) -> None:
        """Let the store lose a turn of a conversation."""
        captured = [said.response for said in one.history if said.response in self._captured]
        if captured:
            lost = self.random.choice(captured)
            self._captured.remove(lost)
            del self.turns[self._turn_ids[lost]]
            self._seen.clear()  # a twin may have received it too
            for each in self._people:
                each.seen = None

    # The judge.

    def _judge(
        self,
        one: Conversation,
        sent: list[Said],
        more: dict[str, Any],
        injected: Mapping[int, list[str]],
    ) -> None:
        seen: list[str] = []
        for n, said in enumerate(sent):
            for blob in injected.get(n, ()):
                seen.append(blob)
                self._judge_one(one, sent, more, n, blob)
            seen.append(json.dumps(said.item, sort_keys=True))
        due = {
            (said.response, run[-1].k)
            for said in sent
            if said.response in self._captured
            if (run := [e for e in self._emitted[said.response][: said.k] if e.kind == "R"])
        }
        self._count(one, "due", len(due))
        self._count(one, "injected", sum(map(len, injected.values())))
        # If twins cannot be distinguished, one of them receives what the other made ambiguous.
        is_certain = one.habits.name == "own" or one.habits.ids_are_certain
        is_stable = one.habits.only_appends and not one.habits.fails
        if is_stable and (is_certain or not one.has_twin):
            if one.seen is not None and seen[: len(one.seen)] != one.seen:
                self._count(one, "moved", 1)
                self.faults.append(f"moved: {one.habits}")
            one.seen = seen

    def _judge_one(
        self, one: Conversation, sent: list[Said], more: dict[str, Any], n: int, blob: str
    ) -> None:
        """Judge one reasoning item that is injected before item `n`."""
        response, k = map(int, blob.split("."))
        said, its = sent[n], self._emitted[response]
        held = {(each.response, each.k) for each in sent}
        led = [e for e in its[k + 1 :] if e.kind != "R" and (response, e.k) in held]
        if led and (said.response, said.k) == (response, led[0].k):
            return
        # Two responses cannot be distinguished if everything visible is the same, now or when both
        # were requested. The same holds if only the response of a twin with the same words is
        # known.
        began = n
        while began and sent[began - 1].kind in "MC":
            began -= 1
        visible = (*(each.visible for each in sent[:began]), self.around(more))
        asked = (visible, self._asked.get(said.response))
        is_same = self._asked[response] in asked or (
            one.has_twin and one.words_of == self._words_of[response]
        )
        if one.habits.window or one.habits.cut:
            is_head = all(each.kind in "FE" for each in sent[:began])  # cut directly before it
            is_same = is_same or is_head or self._asked[response][-len(visible) :] == visible
        group = takewhile(lambda e: e.kind != "R", dropwhile(lambda e: e.kind == "R", its[k:]))
        own = self._emitted[said.response][said.k] if said.response >= 0 else said
        if said.response >= 0 and is_same and own.visible in [e.visible for e in group]:
            self._count(one, "twins", 1)
            return
        self._count(one, "wrong", 1)
        self.faults.append(f"wrong: {blob} before item {n}: {one.habits}")

    def _count(self, one: Conversation, what: str, times: int) -> None:
        for kind in ("all", *one.habits.kinds):
            self.counts[what, kind] += times

    # Random choices.

    def _happens(self, share: float) -> bool:
        return self.random.random() < share

    def _drawn(self) -> str:
        return "".join(self.random.choices(HEX, k=24))

    def _named(self, one: Conversation, prefix: str, digits: int) -> str:
        if one.habits.naming != "counted":
            return f"{prefix}_{self._drawn()}"
        one.counted += 1
        return f"{prefix}_{one.counted:0{digits}}"

    @staticmethod
    def _words(one: Conversation, kind: str, how: str) -> str:
        if how == "mixed":
            how = one.dice.choice(["rare", "common"])
        if how == "same":
            return WORDS[kind][0]
        if how == "common":
            return one.dice.choice(WORDS[kind])
        return "".join(one.dice.choices(LETTERS, k=72))


def play(
    numbers: Iterable[int], kind: type[RandomWorld] = RandomWorld
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Play the worlds with these numbers; return the counts, and one fault of each world."""
    counts: Counter[tuple[str, str]] = Counter()
    faults: list[str] = []
    for number in numbers:
        world = kind(number)
        world.play()
        counts.update(world.counts)
        counts["conversations", "all"] += CONVERSATIONS
        repeat = f"python -m {kind.__module__} {number} {number + 1}"
        faults += [f"{repeat}: {fault}" for fault in world.faults[:1]]
    return counts, faults


def told(counts: Counter[tuple[str, str]], faults: Sequence[str]) -> str:
    """Return a table by kind of client, and the first faults."""
    kinds = sorted({kind for _, kind in counts} - {"all"})
    lines = [HEAD]
    for kind in ("all", *kinds):
        due, injected, wrong, twins, moved = (
            counts[what, kind] for what in ("due", "injected", "wrong", "twins", "moved")
        )
        share = injected / max(1, due)
        lines.append(f"{kind:<32}{due:>9}{injected:>10}{share:>8.1%}{wrong:>7}{twins:>7}{moved:>7}")
    played = f"{counts['conversations', 'all']:,} conversations"
    found = f"{len(faults)} worlds with faults"
    return "\n".join([*lines, *faults[:FAULTS_TOLD], f"{played}, {found}"])


def _origin(said: Said) -> tuple[str, int, int]:
    return said.kind, said.response, said.k


def _leads(said: Said, after: Said | None) -> bool:
    """Return whether an item is a message directly before a call."""
    return said.kind == "M" and after is not None and after.kind == "C"


def _renumbered(items: list[Said]) -> list[Said]:
    """Number the calls and rename their outputs; an output belongs to the newest equal call."""
    names: dict[str, str] = {}
    made: list[Said] = []
    for n, said in enumerate(items):
        if said.kind == "C":
            names[said.item["call_id"]] = f"call_{n}"
        if said.kind in "CO":
            named = {"call_id": names.get(said.item["call_id"], "call_lost")}
            made.append(replace(said, item=said.item | named))
        else:
            made.append(said)
    return made


def _interleaved(items: list[Said]) -> list[Said]:
    """Place each output after its call."""
    made: list[Said] = []
    for said in items:
        at = len(made)
        if said.kind == "O":
            call_id = said.item["call_id"]
            calls = [n for n, each in enumerate(made) if each.item.get("call_id") == call_id]
            at = calls[-1] + 1 if calls else at
        made.insert(at, said)
    return made


def main(kind: type[RandomWorld] = RandomWorld) -> int:
    """Print the table; return 1 if an injection was wrong or a prefix moved."""
    first, last = map(int, sys.argv[1:])
    counts, faults = play(range(first, last), kind)
    print(told(counts, faults))  # noqa: T201
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
