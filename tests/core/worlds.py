"""
Random worlds: conversations of one tenant, played through the core and checked against the truth.

    python -m tests.core.worlds FIRST LAST [--new [HABIT ...] | --clean | --each | --shapes]

plays the worlds with these numbers. Options add habits: `--new` each new one to some clients, or
those that are named to most; `--clean` those that the tests play; `--shapes` one to four habits to
each client. With `--each`, the worlds are played for each new habit alone, and a row is one habit.
For each kind of client it prints

- the reasoning that is due, and the share of it that was injected
- wrong: injections before an item that the reasoning did not lead to
- part: the same, but the own turn is known and explains the whole block, and the other one has more
- twins: the same, but nothing distinguishes them: the client would send the same request if the
  other response were its own
- cut: the same, but only because the client left a part of its history out, and its own turn is
  unknown; guess: its own turn is known
- hint: the same, but the names of the conversations differ, which clients may change
- named: an id that looks random and the content are those of the other response, and of no turn
  that is known, so that only another history tells, as clients have that rewrite messages
- moved: requests of a client that only appends, which do not begin as the one before them did
- refused: requests that pass without injection, but not with it where an upstream wants each
  reasoning item directly before what it led to
- faulty: worlds with faults

The exit status is 1 if an injection was wrong or a prefix moved; with `--strict` also if there was
a guess, a part, or a refusal.
"""

import argparse
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile, takewhile
from random import Random
from typing import Any

from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_request
from reasoning_replay.core.history.matching.joining import join
from reasoning_replay.core.history.matching.matches import Matches, match_items, parent_of
from reasoning_replay.core.history.request_history import RequestHistory

from tests.core.habits import (
    ALL_HABITS,
    CLEAN,
    NEW_HABITS,
    OF_WORLDS,
    Habits,
    Said,
    hashed,
    kept,
    saying,
)
from tests.core.world import Item, World, answer

__all__ = [
    "CLEAN_ONES",
    "COUNT",
    "FEW",
    "HEX",
    "MODEL",
    "NOTHING_NEW",
    "Conversation",
    "Habits",
    "New",
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
HEAD = f"{'client':<32}{'due':>9}{'injected':>10}{'share':>8}"
FOUND = ("wrong", "part", "guess", "twins", "cut", "hint", "named", "moved", "refused", "faulty")
# What is a fault, and what will be one.
FAULTS, LATER = frozenset({"wrong", "moved"}), frozenset({"part", "guess", "refused"})
LONG = 64  # characters; the frame may change around such texts
WORDS = {
    "message": ("Done.", "OK", "Sunny."),
    "call": ("{}", '{"q":"x"}'),
    "user": ("Hi", "continue", "yes"),
    "output": ("ok", ""),
}
STOCK = (
    "I'm sorry, but I can't help with that request. If you have another question, I'm happy to.",
    "Is there anything else that I can help you with today? Just let me know, and I'll see to it.",
    "I have looked into this, and everything that you asked for has been done. All tests pass now.",
)
POOL = {
    "message": STOCK[:2],
    "call": tuple(
        json.dumps({"q": f"the release notes of version {n}, in full, please"}) for n in "12"
    ),
    "user": tuple(f"Please deploy the {name} service, and tell me when it is up." for name in "ab"),
    "output": ("The deployment has finished, and all of the checks have passed by now.",),
}
NAMES = ("id", "call_id")
COPIES = 4  # conversations that a process holds
# Numbers of conversations: with recurring ids, and in batches.
CROWDS, BATCHES = (4, 8, 12), (8, 12, 20, 50)
USUAL, SOMETIMES, OFTEN = 0.05, 0.2, 0.7  # shares of the clients that have a new habit


@dataclass(frozen=True)
class New:
    """
    Choice of new habits.

    Attributes:
        shares: Share of the clients that have each, or of the worlds.
        has_shapes: Whether each client has one to four habits, of all.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    has_shapes: bool = False

    @property
    def option(self) -> str:
        """The option of the command that chooses the same."""
        if self.has_shapes:
            return " --shapes"
        if self.shares == FEW.shares:
            return " --new"
        is_clean = self.shares == CLEAN_ONES.shares
        return " --clean" if is_clean else " ".join([" --new", *self.shares] if self.shares else [])


NOTHING_NEW = New()
FEW = New(dict.fromkeys(NEW_HABITS, USUAL))
CLEAN_ONES = New(dict.fromkeys(CLEAN, SOMETIMES))


@dataclass
class Conversation:
    """
    One conversation as its client holds it.

    Attributes:
        dice: Random source of its content; twins start with equal ones.
        words_of: Number of the first conversation with the same words.
        has_twin: Whether it is a twin or has one.
        seen: The input that upstream received last.
        asked: Number of its exchanges.
        ahead: The conversation that this one repeats later, if it does.
        lag: Number of exchanges that the other one is ahead when this one begins.
    """

    number: int
    habits: Habits
    dice: Random
    words_of: int
    has_twin: bool = False
    history: list[Said] = field(default_factory=list)
    counted: int = 0
    seen: list[str] | None = None
    asked: int = 0
    ahead: "Conversation | None" = None
    lag: int = 0


class RandomWorld(World):
    """
    Several conversations of one scope, in turns.

    Attributes:
        counts: (outcome, kind of client) -> how often; the kind "all" is every client.
        faults: Descriptions of wrong injections and moved prefixes.
        shapes: Responses that a model with tools gives.
        faulty: Outcomes that are faults.
        cannot: New habits that make no sense in this dialect.
        wants_followers: Whether an upstream may want each reasoning item before what it led to.
    """

    shapes: tuple[str, ...] = SHAPES

    faulty = FAULTS
    cannot: frozenset[str] = frozenset()
    wants_followers = True

    def __init__(self, number: int, new: New = NOTHING_NEW) -> None:
        super().__init__()
        self.random = Random(number)  # noqa: S311 - random, and the same each time
        self.counts: Counter[tuple[str, str]] = Counter()
        self.faults: list[str] = []
        self._emitted: dict[int, list[Said]] = {}
        self._asked: dict[int, tuple[object, ...]] = {}  # what was visible to a response
        self._before: dict[int, list[Said]] = {}  # its client's history
        self._name_of: dict[int, str] = {}  # of its conversation
        self._words_of: dict[int, int] = {}  # as in `Conversation`
        self._owners: dict[str, set[int]] = defaultdict(set)  # random id -> responses that gave it
        self._captured: set[int] = set()
        self._turn_ids: dict[int, bytes] = {}
        self._seen: dict[int, list[str] | None] = {}  # input for a response
        self._clock = 0
        self._rarely = Random(f"rarely {number}")  # noqa: S311 - as above
        self._newly = Random(f"new {number}")  # noqa: S311 - as above
        self._copies: list[bytes] = []  # conversations that the process holds
        self._openings: dict[int, list[Said]] = {}  # words of -> what an application begins with
        self._people: list[Conversation] = []
        shared, size = self._of_world(new)
        for n in range(size):
            habits = self._with(self._with_new(self._rare(self._habits()), new), shared)
            if shared & {"batch"} and n:
                habits = self._people[0].habits  # one program
            one = Conversation(n, habits, self.random, n)
            if n and (one.habits.is_twin or one.habits.is_late) and "batch" not in shared:
                self._make_twins(self._people[-1], one, number)
            else:
                one.habits = replace(one.habits, is_late=False)
            self._people.append(one)

    def _make_twins(self, before: Conversation, one: Conversation, number: int) -> None:
        if one.habits.is_late and not before.has_twin:
            before.habits = NEW_HABITS["late"](before.habits, self._newly)
        if before.habits.is_late:
            one.ahead, one.lag = before.ahead or before, self._newly.choice((1, 2, 4))
        one.words_of, one.habits = before.words_of, replace(before.habits, is_twin=True)
        for each in (before, one):
            each.has_twin = True
            each.dice = Random(f"{number} {one.words_of}")  # noqa: S311 - as above

    @property
    def size(self) -> int:
        """Number of its conversations."""
        return len(self._people)

    def play(self, steps: int = STEPS) -> None:
        """Play this number of steps, each in a random conversation; a batch begins at once."""
        if self._people[0].habits.batch:
            for one in self.random.sample(self._people, len(self._people)):
                self._step(one)
            steps = 3 * len(self._people)
        for _ in range(max(steps, 4 * len(self._people)) if len(self._people) > 4 else steps):
            self._step(self._whose_turn(self.random.choice(self._people)))

    def _whose_turn(self, one: Conversation) -> Conversation:
        """Return the conversation, or the one that it waits for: a late twin is never ahead."""
        if one.ahead is not None and one.asked >= one.ahead.asked - one.lag * (not one.asked):
            return one.ahead
        later = [each for each in self._people if each.ahead is one]
        waits = [each for each in later if each.lag <= one.asked and each.asked < one.asked]
        return self.random.choice(waits) if waits else one

    def recall(self, request: RequestHistory[HistoryItem]) -> LookupResult:
        """Return the lookup result of a request, with the copies that the process holds."""
        found = super().recall(request)
        keys = (key for asked in keys_of_request(request) for key in asked.keys)
        led = {conversation for key in keys for conversation in self.index.get(key, ())}
        held = led.intersection(self._copies) - {turn.conversation for turn in found.turns}
        copies = [turn for turn in self.turns.values() if turn.conversation in held]
        return LookupResult([*found.turns, *copies], found.crowded)

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

    def _of_world(self, new: New) -> tuple[frozenset[str], int]:
        """Return the new habits of all clients, and their number."""
        shares = dict.fromkeys(OF_WORLDS, USUAL) if new.has_shapes else new.shares
        given = {name for name in OF_WORLDS if name in shares}
        shared = {name for name in sorted(given) if self._newly.random() < shares[name]}
        recurring = sorted(shared - {"batch"})
        if recurring:
            shared -= set(recurring) - {self._newly.choice(recurring)}
        if "batch" in shared:
            return frozenset(shared), self._newly.choice(BATCHES)
        return frozenset(shared), self._newly.choice(CROWDS) if shared else CONVERSATIONS

    def _with_new(self, habits: Habits, new: New) -> Habits:
        """Return the habits of one client with new ones."""
        if new.has_shapes:
            names = sorted(ALL_HABITS.keys() - OF_WORLDS - self.cannot)
            given = self._newly.sample(names, self._newly.randint(1, 4))
        else:
            names = sorted(new.shares.keys() - OF_WORLDS - self.cannot)
            given = [name for name in names if self._newly.random() < new.shares[name]]
        return self._with(habits, given)

    def _with(self, habits: Habits, names: Iterable[str]) -> Habits:
        for name in sorted(names):
            habits = ALL_HABITS[name](habits, self._newly)
        return habits

    def _step(self, one: Conversation) -> None:
        habits, history = one.habits, one.history
        one.asked += 1
        if not history:
            history += self._opening(one)
            history.append(self._first(one))
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
        if not calls and not (habits.resubmits and one.dice.random() < 0.5):
            history.append(self._user(one))

    def _user(self, one: Conversation) -> Said:
        text = self._words(one, "user", one.habits.user_words)
        return Said({"role": "user", "content": text}, "U")

    def _first(self, one: Conversation) -> Said:
        """Return the first message; in a batch all may have the same."""
        if one.habits.batch == "shared":
            return Said({"role": "user", "content": f"Judge this answer: {LETTERS * 5}"}, "U")
        return self._user(one)

    def _opening(self, one: Conversation) -> list[Said]:
        """Return what the application writes ahead, in words that the model said elsewhere."""
        if one.habits.opens and one.words_of not in self._openings:
            heard = [
                (self._before[each.response][-1], each)
                for its in self._emitted.values()
                for each in its
                if each.kind == "M"
                and [e.kind for e in its] == ["R", "M"]
                and self._before[each.response][-1].kind == "U"
                and self._words_of[each.response] != one.words_of
            ]
            default = (
                Said({"role": "user", "content": "Who are you?"}, "U"),
                Said(saying(STOCK[0]), "M"),
            )
            asked, said = self._newly.choice(heard) if heard else default
            example = Said(saying(said.item["content"][0]["text"]), "M")
            is_example = one.habits.opens == "example"
            self._openings[one.words_of] = [asked, example] if is_example else [example]
        return list(self._openings.get(one.words_of, ())) if one.habits.opens else []

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
        elif habits.environment == "end":
            items.append(environment)
        if habits.frame == "dev_clock":
            developer = {"type": "message", "role": "developer", "content": f"now {now}"}
            items.insert(0, Said(developer, "F"))
        more: dict[str, Any] = {"store": False}
        if habits.frame in ("same", "clock"):
            more["instructions"] = "Be good." if habits.frame == "same" else f"It is {now}."
        if habits.name != "none":
            more["prompt_cache_key"] = self._name(one)
        return items, more

    @staticmethod
    def _name(one: Conversation) -> str:
        names = {"own": f"{one.number}", "shared": "one for all", "none": ""}
        return names[one.habits.name]

    def _kept(self, one: Conversation) -> list[Said]:
        """Return the part of its history that a client kept."""
        return kept(one.habits, one.history)

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
        self._words_of[this], self._name_of[this] = one.words_of, self._name(one)
        self._before[this] = list(one.history)
        said: list[Said] = []
        shape = one.dice.choice(self.shapes if habits.has_tools else CHAT_SHAPES)
        again = one.history[-1] if habits.resubmits and one.history[-1].kind == "M" else None
        if again:
            shape = one.dice.choice(("R M C", "R M C", "R M"))
        for k, kind in enumerate(shape.split()):
            if kind == "R":
                blob = {"encrypted_content": f"{this}.{k}", "summary": []}
                item: Item = {"id": f"rs_{self._drawn()}", "type": "reasoning", **blob}
            elif kind == "C":
                words = self._words(one, "call", habits.words)
                arguments = words if words.startswith("{") else json.dumps({"q": words})
                name = self._call_id(one, calls, arguments)
                calls += 1
                call = {"type": "function_call", "name": "tool", "call_id": name}
                item = {"id": self._id(one, "fc", arguments), **call, "arguments": arguments}
            elif again and one.dice.random() < 0.7:
                text = again.item["content"][0]["text"]
                item = {"id": self._id(one, "msg", text), **saying(text)}
            else:
                text = self._words(one, "message", habits.words)
                item = {"id": self._id(one, "msg", text), **saying(text)}
            said.append(Said(item, kind, this, k))
        self._emitted[this] = said
        looks_random = habits.naming == "random" and habits.recurs in ("", "seeded", "hashed")
        for each in said if looks_random else ():
            for key in NAMES:
                if key in each.item:
                    self._owners[each.item[key]].add(this)
        return said

    def _call_id(self, one: Conversation, n: int, arguments: str) -> str:
        """Return the id of the n-th call of a response."""
        how, k = one.habits.recurs, n or ""
        if not how:
            is_zero = one.habits.naming == "zero"
            return self.zero_name(one, n) if is_zero else self._named(one, "call", 8)
        one.counted += 1
        second = self._clock // 40
        return {
            "seeded": f"call_{hashed(one.counted)}",
            "hashed": f"call_{hashed(arguments, n)}",
            "stamped": f"call_20261123T03{second // 60:02}{second % 60:02}Z{k}",
            "worded": f"call_websearch{one.counted}",
            "stepped": f"call_step{9 + one.counted}ab",
        }[how]

    def _id(self, one: Conversation, prefix: str, content: str) -> str:
        """Return the id of an item."""
        if one.habits.recurs == "hashed":
            return f"{prefix}_{hashed(content)}"
        return self._named(one, prefix, 16)

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
        if turn is not None and one.habits.cached:
            self._copies = [*self._copies, turn.conversation][-COPIES:]
        if turn is not None:
            self._captured.add(self.responses)
            self._turn_ids[self.responses] = turn.id
        return said

    def _lose(self, one: Conversation) -> None:
        """Let the store lose a turn of a conversation."""
        captured = [said.response for said in one.history if said.response in self._captured]
        if captured:
            lost = self.random.choice(captured)
            turn = self._turn_ids[lost]  # equal responses may be one turn
            self._captured -= {each for each, of in self._turn_ids.items() if of == turn}
            self.turns.pop(turn, None)
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
                found = self._verdict(one, sent, more, n, blob)
                if found != "right":
                    self._count(one, found, 1)
                if found in self.faulty:
                    self.faults.append(f"{found}: {blob} before item {n}: {one.habits.told}")
            seen.append(json.dumps(said.item, sort_keys=True))
        due = {
            (said.response, run[-1].k)
            for said in sent
            if said.response in self._captured
            if (run := [e for e in self._emitted[said.response][: said.k] if e.kind == "R"])
        }
        self._count(one, "due", len(due))
        self._count(one, "injected", sum(map(len, injected.values())))
        if self._is_refused(sent, injected):
            self._count(one, "refused", 1)
            if "refused" in self.faulty:
                self.faults.append(f"refused: {one.habits.told}")
        # If twins cannot be distinguished, one of them receives what the other made ambiguous; but
        # one that comes later changes nothing of the first.
        is_certain = one.habits.name == "own" or one.habits.ids_are_certain
        is_first = one.habits.is_late and one.ahead is None
        is_stable = one.habits.only_appends and not one.habits.fails
        if is_stable and (is_certain or is_first or not one.has_twin):
            if one.seen is not None and seen[: len(one.seen)] != one.seen:
                self._count(one, "moved", 1)
                self.faults.append(f"moved: {one.habits.told}")
            one.seen = seen

    def _verdict(
        self, one: Conversation, sent: list[Said], more: dict[str, Any], n: int, blob: str
    ) -> str:
        """Judge one reasoning item that is injected before item `n`."""
        response, k = map(int, blob.split("."))
        said, its = sent[n], self._emitted[response]
        held = {(each.response, each.k) for each in sent}
        led = [e for e in its[k + 1 :] if e.kind != "R" and (response, e.k) in held]
        if led and (said.response, said.k) == (response, led[0].k):
            return "right"
        group = takewhile(lambda e: e.kind != "R", dropwhile(lambda e: e.kind == "R", its[k:]))
        own = self._emitted[said.response][said.k] if said.response >= 0 else said
        is_moved = led and response == said.response
        if is_moved or own.visible not in [e.visible for e in group]:
            return "wrong"
        if said.response < 0:
            return "cut" if self._is_example(one, said, response) else "wrong"
        names = [s.item.get(key) for s in sent if s.response == said.response for key in NAMES]
        owners = [self._owners[name] for name in names if name in self._owners]
        if not all(response in each for each in owners):
            return "wrong"
        found = self._told_apart(one, sent, more, n, response)
        known = set[int]().union(*owners) & self._captured
        return "named" if found == "wrong" and known == {response} else found

    def _told_apart(
        self, one: Conversation, sent: list[Said], more: dict[str, Any], n: int, response: int
    ) -> str:
        """Judge by what is visible, where the content and the names of two responses agree."""
        said = sent[n]
        block = [e.visible for e in sent if e.response == said.response]
        mine, theirs = (
            [e.visible for e in self._emitted[r] if e.kind != "R"]
            for r in (said.response, response)
        )
        is_known = said.response in self._captured
        if is_known and block == mine != theirs:
            return "part"
        # Two responses cannot be distinguished if everything visible is the same, now or when both
        # were requested. The same holds if only the response of a twin with the same words is
        # known.
        began = n
        while began and sent[began - 1].kind in "MC" and sent[began - 1].response == said.response:
            began -= 1
        visible = (*(each.visible for each in sent[:began]), self.around(more))
        is_like = self._is_like(one, said.response, response)
        is_twin = is_like and one.has_twin and one.words_of == self._words_of[response]
        if self._asked[response] == self._asked[said.response] or is_twin:
            return "twins"
        is_same, has_hint = self._asked[response] == visible, False
        if is_like and not is_same:
            said_here = [text for each in (*visible[:-1], *block) for text in map(str, each)]
            is_long = any(len(text) > LONG for text in said_here)
            has_hint = self._name_of[said.response] != self._name_of[response]
            is_same = is_long or self._asked[response][-1] == self.around(more)
        if not is_same:
            return "wrong"
        if one.habits.cuts and not has_hint:
            return "guess" if is_known else "cut"
        return "hint" if has_hint else "twins"

    def _is_like(self, one: Conversation, own: int, other: int) -> bool:
        """Return whether the client would send the same if the other response were its own."""
        # What it leaves out differs by chance; an upstream's form of ids decides where outputs go.
        habits = replace(one.habits, lacks=False, interleaves=False)
        after = len(self._before[own]) + len(self._emitted[own])
        if one.history[: len(self._before[own])] != self._before[own]:
            return False  # a fork left it
        instead = [*self._before[other], *self._emitted[other], *one.history[after:]]
        mine, theirs = (kept(habits, history) for history in (one.history, instead))
        return [each.visible for each in mine] == [each.visible for each in theirs]

    def _is_example(self, one: Conversation, said: Said, response: int) -> bool:
        """Return whether an example of the application is what a cut conversation begins with."""
        at = next(n for n, each in enumerate(one.history) if each.item == said.item)
        example = [each.visible for each in one.history[: at + 1]]
        asked = [*self._before[response], *self._emitted[response]]
        cut = [each.visible for each in asked if each.kind != "R"]
        return len(example) > 1 and cut[-len(example) :] == example

    def _is_refused(self, sent: list[Said], injected: Mapping[int, list[str]]) -> bool:
        """Return whether an upstream that wants each item's follower refuses what was added."""
        wants = [said for said in sent if said.response >= 0 and self._wants(said)]
        if wants or not self.wants_followers:
            return False  # it refuses what the client sent
        return any(
            not self._follows(sent[n], *map(int, blob.split(".")))
            for n, blobs in injected.items()
            for blob in blobs
        )

    def _wants(self, said: Said) -> bool:
        """Return whether an item comes with the id that it had after reasoning."""
        its = self._emitted[said.response]
        has_id = "id" in said.item and said.item["id"] == its[said.k].item["id"]
        return has_id and said.k > 0 and its[said.k - 1].kind == "R"

    def _follows(self, said: Said, response: int, k: int) -> bool:
        left = [each for each in self._emitted[response][k:] if each.kind != "R"]
        own = self._emitted[said.response][said.k] if said.response >= 0 else said
        return bool(left) and left[0].visible == own.visible

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
        if one.habits.stock and kind == "message" and one.dice.random() < 0.4:
            return one.dice.choice(STOCK)
        if how == "pool":
            return one.dice.choice(POOL[kind])
        if how == "mixed":
            how = one.dice.choice(["rare", "common"])
        if how == "same":
            return WORDS[kind][0]
        if how == "common":
            return one.dice.choice(WORDS[kind])
        return "".join(one.dice.choices(LETTERS, k=72))


def play(
    numbers: Iterable[int], kind: type[RandomWorld] = RandomWorld, new: New = NOTHING_NEW
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Play the worlds with these numbers; return the counts, and one fault of each world."""
    counts: Counter[tuple[str, str]] = Counter()
    faults: list[str] = []
    for number in numbers:
        world = kind(number, new)
        world.play()
        counts.update(world.counts)
        counts["conversations", "all"] += world.size
        counts["faulty", "all"] += bool(world.faults)
        repeat = f"python -m {_module(kind)} {number} {number + 1}{new.option}"
        faults += [f"{repeat}: {fault}" for fault in world.faults[:1]]
    return counts, faults


def _module(kind: type[RandomWorld]) -> str:
    """Return the name of the module of a world, also where it is the program."""
    spec = sys.modules[kind.__module__].__spec__
    return spec.name if spec else kind.__module__


def told(counts: Counter[tuple[str, str]], faults: Sequence[str]) -> str:
    """Return a table by kind of client, and the first faults."""
    kinds = sorted({kind for _, kind in counts} - {"all"})
    lines = [HEAD + "".join(f"{what:>8}" for what in FOUND)]
    lines += [_row(kind, counts, kind) for kind in ("all", *kinds) if counts["due", kind]]
    played = f"{counts['conversations', 'all']:,} conversations"
    found = f"{counts['faulty', 'all']} worlds with faults"
    return "\n".join([*lines, *faults[:FAULTS_TOLD], f"{played}, {found}"])


def _row(name: str, counts: Counter[tuple[str, str]], kind: str) -> str:
    due, injected = counts["due", kind], counts["injected", kind]
    found = "".join(f"{counts[what, kind]:>8}" for what in FOUND)
    return f"{name:<32}{due:>9}{injected:>10}{injected / max(1, due):>8.1%}{found}"


def main(kind: type[RandomWorld] = RandomWorld) -> int:
    """Print the table; return 1 if an injection was wrong or a prefix moved."""
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--new", nargs="*", choices=list(NEW_HABITS))
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("--strict", action="store_true")
    given = parser.parse_args()
    numbers = range(given.first, given.last)
    kind.faulty = FAULTS | LATER if given.strict else FAULTS
    if given.each:
        counts = Counter[tuple[str, str]]()
        for name in sorted(NEW_HABITS.keys() - kind.cannot):
            found, _ = play(numbers, kind, New({name: OFTEN}))
            counts.update({(what, name): n for (what, of), n in found.items() if of == "all"})
            counts["conversations", "all"] += found["conversations", "all"]
            counts["faulty", "all"] += found["faulty", "all"]
        print(told(counts, ()))  # noqa: T201
        return 0
    new = NOTHING_NEW
    if given.new is not None:
        new = New(dict.fromkeys(given.new, OFTEN)) if given.new else FEW
    if given.clean:
        new = CLEAN_ONES
    if given.shapes:
        new = New(has_shapes=True)
    counts, faults = play(numbers, kind, new)
    print(told(counts, faults))  # noqa: T201
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
