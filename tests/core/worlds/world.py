"""Random world: conversations of one tenant, played through the core and judged by the truth."""

import json
from random import Random
from typing import Any

from reasoning_replay.core.dialects.captures import Capture, Origin
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_request
from reasoning_replay.core.history.matching.matches import match_items, parent_of
from reasoning_replay.core.history.request_history import RequestHistory
from typing_extensions import override

from tests.core.world import Item, World
from tests.core.worlds.crowd import NOTHING_NEW, Conversation, Crowd, New
from tests.core.worlds.dialect import WorldDialect
from tests.core.worlds.judge import FAULTS, NAMES, Answer, Judge
from tests.core.worlds.said import Said, hashed, kept, saying
from tests.core.worlds.words import LETTERS, STOCK, words

STEPS = 24
HEX = "0123456789abcdef"
CHAT_SHAPES = ("R M", "R M", "M")
COPIES = 4  # conversations that a process holds


class RandomWorld(World):
    """
    Several conversations of one scope, in turns.

    Attributes:
        judge: What is true of it, and what was found.
    """

    def __init__(
        self,
        number: int,
        kind: type[WorldDialect],
        new: New = NOTHING_NEW,
        faulty: frozenset[str] = FAULTS,
    ) -> None:
        super().__init__()
        self._random = Random(number)  # noqa: S311 - random, and the same each time
        self._dialect = kind(number, self._drawn)
        self._crowd = Crowd(number, new, self._dialect, self._random)
        self._people = self._crowd.people
        self.judge = Judge(self._dialect, faulty)
        self._clock = 0
        self._copies: list[bytes] = []  # conversations that the process holds
        self._openings: dict[int, list[Said]] = {}  # words of -> what an application begins with

    @property
    def size(self) -> int:
        """Number of its conversations."""
        return len(self._people)

    def play(self, steps: int = STEPS) -> None:
        """Play this number of steps, each in a random conversation; a batch begins at once."""
        if self._people[0].habits.batch:
            for one in self._random.sample(self._people, len(self._people)):
                self._step(one)
            steps = 3 * len(self._people)
        for _ in range(max(steps, 4 * len(self._people)) if len(self._people) > 4 else steps):
            self._step(self._whose_turn(self._random.choice(self._people)))

    def _whose_turn(self, one: Conversation) -> Conversation:
        """Return the conversation, or the one that it waits for: a late twin is never ahead."""
        if one.ahead is not None and one.asked >= one.ahead.asked - one.lag * (not one.asked):
            return one.ahead
        later = [each for each in self._people if each.ahead is one]
        waits = [each for each in later if each.lag <= one.asked and each.asked < one.asked]
        return self._random.choice(waits) if waits else one

    @override
    def recall(self, request: RequestHistory[HistoryItem]) -> LookupResult:
        found = super().recall(request)
        keys = (key for asked in keys_of_request(request) for key in asked.keys)
        led = {conversation for key in keys for conversation in self.index.get(key, ())}
        held = led.intersection(self._copies) - {turn.conversation for turn in found.turns}
        copies = [turn for turn in self.turns.values() if turn.conversation in held]
        return LookupResult([*found.turns, *copies], found.crowded)

    @override
    def stores(self, request: RequestHistory[HistoryItem]) -> bool:
        return self._dialect.stores(request)

    @override
    def capturing(self, origin: Origin) -> Capture:
        return self._dialect.capturing(origin)

    # The clients.

    def _step(self, one: Conversation) -> None:
        habits, history = one.habits, one.history
        one.asked += 1
        if not history:
            history += self._opening(one)
            history.append(self._first(one))
        users = [n for n, said in enumerate(history) if said.kind == "U"]
        if self._happens(habits.fork) and len(users) > 1:
            del history[self._random.choice(users[1:]) :]
            history.append(self._user(one))
            one.seen = None
        sent, more = self._sent(one)
        answers = [self._exchange(one, sent, more)]
        if habits.loses and self._happens(habits.loses):
            self._lose(one)
        if self._happens(habits.retry):
            answers.append(self._exchange(one, sent, more))
        said = self._random.choice(answers)
        one.seen = self.judge.answers[said[0].response].seen
        history += said
        calls = [each for each in said if each.kind == "C"]
        for each in calls:
            text = words(one.dice, "output", habits.user_words)
            output = {"type": "function_call_output", "call_id": each.item["call_id"]}
            history.append(Said({**output, "output": text}, "O"))
        if not calls and not (habits.resubmits and one.dice.random() < 0.5):
            history.append(self._user(one))

    def _user(self, one: Conversation) -> Said:
        text = words(one.dice, "user", one.habits.user_words)
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
                (answer.before[-1], answer.said[1])
                for answer in self.judge.answers.values()
                if [e.kind for e in answer.said] == ["R", "M"]
                and answer.before[-1].kind == "U"
                and answer.words_of != one.words_of
            ]
            default = (
                Said({"role": "user", "content": "Who are you?"}, "U"),
                Said(saying(STOCK[0]), "M"),
            )
            asked, said = self._crowd.newly.choice(heard) if heard else default
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
        return self._dialect.renamed(one.habits, kept(one.habits, one.history))

    # The upstream.

    def _emit(self, one: Conversation) -> list[Said]:
        habits = one.habits
        self.responses += 1
        this, calls = self.responses, 0
        said: list[Said] = []
        shape = one.dice.choice(self._dialect.shapes if habits.has_tools else CHAT_SHAPES)
        again = one.history[-1] if habits.resubmits and one.history[-1].kind == "M" else None
        if again:
            shape = one.dice.choice(("R M C", "R M C", "R M"))
        for k, kind in enumerate(shape.split()):
            if kind == "R":
                blob = {"encrypted_content": f"{this}.{k}", "summary": []}
                item: Item = {"id": f"rs_{self._drawn()}", "type": "reasoning", **blob}
            elif kind == "C":
                text = words(one.dice, "call", habits.words)
                arguments = text if text.startswith("{") else json.dumps({"q": text})
                name = self._call_id(one, calls, arguments)
                calls += 1
                call = {"type": "function_call", "name": "tool", "call_id": name}
                item = {"id": self._id(one, "fc", arguments), **call, "arguments": arguments}
            elif again and one.dice.random() < 0.7:
                text = again.item["content"][0]["text"]
                item = {"id": self._id(one, "msg", text), **saying(text)}
            else:
                text = words(one.dice, "message", habits.words, is_stock=habits.stock)
                item = {"id": self._id(one, "msg", text), **saying(text)}
            said.append(Said(item, kind, this, k, said[-1].kind if said else ""))
        before = list(one.history)
        self.judge.answers[this] = Answer(said, before, self._name(one), one.words_of)
        looks_random = habits.naming == "random" and habits.recurs in ("", "seeded", "hashed")
        for each in said if looks_random else ():
            for key in NAMES:
                if key in each.item:
                    self.judge.owners[each.item[key]].add(this)
        return said

    def _call_id(self, one: Conversation, n: int, arguments: str) -> str:
        """Return the id of the n-th call of a response."""
        how, k = one.habits.recurs, n or ""
        if not how:
            is_zero = one.habits.naming == "zero"
            return (
                self._dialect.zero_name(one.number, n) if is_zero else self._named(one, "call", 8)
            )
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
        asked = (*(said.visible for said in sent), self._dialect.around(more))
        if self._happens(one.habits.bypass):
            one.seen = None
            said = self._emit(one)
            self.judge.answers[self.responses].asked = asked
            return said
        has_failed = self._happens(one.habits.fails)
        request = self._dialect.request_of(sent, more)
        found = LookupResult() if has_failed else self.recall(request)
        matched = match_items(request, found)
        parent = parent_of(request, matched, found)
        if has_failed:
            one.seen = None
        else:
            self.judge.judge(one, sent, more, self._dialect.injected(request, matched))
        said = self._emit(one)
        answer = self.judge.answers[self.responses]
        answer.asked, answer.seen = asked, one.seen
        made = self._dialect.response_of(said)
        seen = None if has_failed else matched.seen
        turn = self.capture(request, parent, made, self._clock, seen)
        if turn is not None and one.habits.cached:
            self._copies = [*self._copies, turn.conversation][-COPIES:]
        answer.turn_id = turn.id if turn is not None else None
        return said

    def _lose(self, one: Conversation) -> None:
        """Let the store lose a turn of a conversation."""
        answers = self.judge.answers
        captured = [said.response for said in one.history if self.judge.has(said.response)]
        if captured:
            lost = answers[self._random.choice(captured)].turn_id
            self.turns.pop(lost or b"", None)
            for answer in answers.values():
                answer.seen = None  # a twin may have received it too
                answer.turn_id = None if answer.turn_id == lost else answer.turn_id
            for each in self._people:
                each.seen = None

    # Random choices.

    def _happens(self, share: float) -> bool:
        return self._random.random() < share

    def _drawn(self) -> str:
        return "".join(self._random.choices(HEX, k=24))

    def _named(self, one: Conversation, prefix: str, digits: int) -> str:
        if one.habits.naming != "counted":
            named = f"{prefix}_{self._drawn()}"
            is_call = prefix == "call" and one.habits.naming == "random"
            return self._dialect.call_name(named) if is_call else named
        one.counted += 1
        return f"{prefix}_{one.counted:0{digits}}"
