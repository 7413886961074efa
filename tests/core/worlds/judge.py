"""Judge of a random world: compares what is injected with what each response really was."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from typing import Any

from tests.core.worlds.crowd import Conversation
from tests.core.worlds.dialect import WorldDialect
from tests.core.worlds.said import Said, kept

# What is a fault, and what will be one.
FAULTS = frozenset({"wrong", "moved"})
STRICT_FAULTS = FAULTS | {"part", "guess", "refused"}
LONG = 64  # characters; the frame may change around such texts
NAMES = ("id", "call_id")


@dataclass
class Answer:
    """
    One response, as upstream gave it.

    Attributes:
        said: Its items.
        before: The history of its client.
        name: Name of its conversation.
        words_of: As in `Conversation`.
        asked: What was visible to it.
        seen: The input that it answers, if the proxy looked it up.
        turn_id: Of its turn, while the store has it; equal responses may be one turn.
    """

    said: list[Said]
    before: list[Said]
    name: str
    words_of: int
    asked: tuple[object, ...] = ()
    seen: list[str] | None = None
    turn_id: bytes | None = None


class Judge:
    """
    Truth about one world, and the counts of what is right and wrong.

    Attributes:
        answers: By number of the response.
        owners: Random id -> responses that gave it.
        counts: (outcome, kind of client) -> how often; the kind "all" is every client.
        faults: Descriptions of wrong injections and moved prefixes.
    """

    def __init__(self, dialect: WorldDialect, faulty: frozenset[str]) -> None:
        self._dialect, self._faulty = dialect, faulty
        self.answers: dict[int, Answer] = {}
        self.owners: dict[str, set[int]] = defaultdict(set)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.faults = dialect.faults

    def has(self, response: int) -> bool:
        """Return whether the store has the turn of a response."""
        return response in self.answers and self.answers[response].turn_id is not None

    def judge(
        self,
        one: Conversation,
        sent: list[Said],
        more: dict[str, Any],
        injected: Mapping[int, list[str]],
    ) -> None:
        """Count what is due and what was injected, and note each fault."""
        seen: list[str] = []
        for n, said in enumerate(sent):
            for blob in injected.get(n, ()):
                seen.append(blob)
                found = self._verdict(one, sent, more, n, blob)
                if found != "right":
                    self._count(one, found, 1)
                if found in self._faulty:
                    self.faults.append(f"{found}: {blob} before item {n}: {one.habits.held}")
            seen.append(json.dumps(said.item, sort_keys=True))
        due = {
            (said.response, run[-1].k)
            for said in sent
            if self.has(said.response)
            if (run := [e for e in self.answers[said.response].said[: said.k] if e.kind == "R"])
        }
        self._count(one, "due", len(due))
        self._count(one, "injected", sum(map(len, injected.values())))
        if self._is_refused(sent, injected):
            self._count(one, "refused", 1)
            if "refused" in self._faulty:
                self.faults.append(f"refused: {one.habits.held}")
        # If twins cannot be distinguished, one of them receives what the other made ambiguous; but
        # one that comes later changes nothing of the first.
        is_certain = one.habits.name == "own" or one.habits.ids_are_certain
        is_first = one.habits.is_late and one.ahead is None
        is_stable = one.habits.only_appends and not one.habits.fails
        if is_stable and (is_certain or is_first or not one.has_twin):
            if one.seen is not None and seen[: len(one.seen)] != one.seen:
                self._count(one, "moved", 1)
                self.faults.append(f"moved: {one.habits.held}")
            one.seen = seen

    def _verdict(
        self, one: Conversation, sent: list[Said], more: dict[str, Any], n: int, blob: str
    ) -> str:
        """Judge one reasoning item that is injected before item `n`."""
        response, k = map(int, blob.split("."))
        said, its = sent[n], self.answers[response].said
        held = {(each.response, each.k) for each in sent}
        led = [e for e in its[k + 1 :] if e.kind != "R" and (response, e.k) in held]
        if led and (said.response, said.k) == (response, led[0].k):
            return "right"
        # What the client wrote in place of a text is not what the reasoning led to.
        own_words = {(each.response, each.k) for each in sent if not self._is_rewritten(each)}
        kept = [e for e in led if (response, e.k) in own_words]
        if kept and (said.response, said.k) == (response, kept[0].k):
            return "right"
        group = takewhile(lambda e: e.kind != "R", dropwhile(lambda e: e.kind == "R", its[k:]))
        own = self.answers[said.response].said[said.k] if said.response >= 0 else said
        is_moved = led and response == said.response
        if is_moved or own.visible not in [e.visible for e in group]:
            return "wrong"
        if said.response < 0:
            return "cut" if self._is_example(one, said, response) else "wrong"
        names = [s.item.get(key) for s in sent if s.response == said.response for key in NAMES]
        owners = [self.owners[name] for name in names if name in self.owners]
        if not all(response in each for each in owners):
            return "wrong"
        found = self._told_apart(one, sent, more, n, response)
        known = {each for each in set[int]().union(*owners) if self.has(each)}
        return "named" if found == "wrong" and known == {response} else found

    def _is_rewritten(self, said: Said) -> bool:
        """Return whether a client that sends no ids changed the text of a message."""
        is_text = said.kind == "M" and said.response >= 0 and "id" not in said.item
        return is_text and said.visible != self.answers[said.response].said[said.k].visible

    def _told_apart(
        self, one: Conversation, sent: list[Said], more: dict[str, Any], n: int, response: int
    ) -> str:
        """Judge by what is visible, where the content and the names of two responses agree."""
        said = sent[n]
        block = [e.visible for e in sent if e.response == said.response]
        mine, theirs = (
            [e.visible for e in self.answers[r].said if e.kind != "R"]
            for r in (said.response, response)
        )
        is_known = self.has(said.response)
        if is_known and block == mine != theirs:
            return "part"
        # Two responses cannot be distinguished if everything visible is the same, now or when both
        # were requested. The same holds if only the response of a twin with the same words is
        # known.
        began = n
        while began and sent[began - 1].kind in "MC" and sent[began - 1].response == said.response:
            began -= 1
        visible = (*(each.visible for each in sent[:began]), self._dialect.around(more))
        is_like = self._is_like(one, said.response, response)
        is_twin = is_like and one.has_twin and one.words_of == self.answers[response].words_of
        if self.answers[response].asked == self.answers[said.response].asked or is_twin:
            return "twins"
        is_same, has_hint = self.answers[response].asked == visible, False
        if is_like and not is_same:
            said_here = [text for each in (*visible[:-1], *block) for text in map(str, each)]
            is_long = any(len(text) > LONG for text in said_here)
            has_hint = self.answers[said.response].name != self.answers[response].name
            is_same = is_long or self.answers[response].asked[-1] == self._dialect.around(more)
        if not is_same:
            return "wrong"
        if one.habits.cuts and not has_hint:
            return "guess" if is_known else "cut"
        return "hint" if has_hint else "twins"

    def _is_like(self, one: Conversation, own: int, other: int) -> bool:
        """Return whether the client would send the same if the other response were its own."""
        # What it leaves out differs by chance; an upstream's form of ids decides where outputs go.
        habits = replace(one.habits, lacks=False, interleaves=False)
        after = len(self.answers[own].before) + len(self.answers[own].said)
        if one.history[: len(self.answers[own].before)] != self.answers[own].before:
            return False  # a fork left it
        instead = [*self.answers[other].before, *self.answers[other].said, *one.history[after:]]
        mine, theirs = (kept(habits, history) for history in (one.history, instead))
        return [each.visible for each in mine] == [each.visible for each in theirs]

    def _is_example(self, one: Conversation, said: Said, response: int) -> bool:
        """Return whether an example of the application is what a cut conversation begins with."""
        at = next(n for n, each in enumerate(one.history) if each.item == said.item)
        example = [each.visible for each in one.history[: at + 1]]
        asked = [*self.answers[response].before, *self.answers[response].said]
        cut = [each.visible for each in asked if each.kind != "R"]
        return len(example) > 1 and cut[-len(example) :] == example

    def _is_refused(self, sent: list[Said], injected: Mapping[int, list[str]]) -> bool:
        """Return whether an upstream that wants each item's follower refuses what was added."""
        wants = [said for said in sent if said.response >= 0 and self._wants(said)]
        if wants or not self._dialect.wants_followers:
            return False  # it refuses what the client sent
        return any(
            not self._follows(sent[n], *map(int, blob.split(".")))
            for n, blobs in injected.items()
            for blob in blobs
        )

    def _wants(self, said: Said) -> bool:
        """Return whether an item comes with the id that it had after reasoning."""
        its = self.answers[said.response].said
        has_id = "id" in said.item and said.item["id"] == its[said.k].item["id"]
        return has_id and said.after == "R"

    def _follows(self, said: Said, response: int, k: int) -> bool:
        left = [each for each in self.answers[response].said[k:] if each.kind != "R"]
        own = self.answers[said.response].said[said.k] if said.response >= 0 else said
        return bool(left) and left[0].visible == own.visible

    def _count(self, one: Conversation, what: str, times: int) -> None:
        for kind in ("all", *one.habits.kinds):
            self.counts[what, kind] += times
