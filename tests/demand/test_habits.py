"""Habits: what a client does in each turn, or an upstream always refuses, costs one refusal."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from reasoning_replay.strict_api import Item, Script, StrictApi
from reasoning_replay.strict_api import responses_words as words
from reasoning_replay.strict_api.dialect import Reading, Refused, Rule
from reasoning_replay.strict_api.ledger import Judgement, Part
from reasoning_replay.strict_api.responses import Responses
from reasoning_replay.strict_api.responses_rules import BLOB, INCLUDE, InputRules, Seen
from typing_extensions import override

from tests.e2e.proxies import proxied

TURNS = 7
TOOL: Item = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


# Clients


def kept(items: list[Item]) -> list[Item]:
    """Send all items as they came."""
    return items


def is_reasoning(item: Item) -> bool:
    """Return whether an item is reasoning."""
    return item.get("type") == "reasoning"


def without(kind: str, *members: str) -> Callable[[list[Item]], list[Item]]:
    """Return the client that drops items of a type, or some of their members."""

    def changed(items: list[Item]) -> list[Item]:
        if not members:
            return [item for item in items if item.get("type") != kind]
        return [
            {key: item[key] for key in item if key not in members}
            if item.get("type") == kind
            else item
            for item in items
        ]

    return changed


def nameless(items: list[Item]) -> list[Item]:
    """Send no ids and no reasoning."""
    items = [item for item in items if not is_reasoning(item)]
    return [{key: item[key] for key in item if key != "id"} for item in items]


def counting(items: list[Item]) -> list[Item]:
    """Give calls ids that are counted, and cut the blobs of reasoning."""
    changed = []
    for number, item in enumerate(items):
        if item.get("type") == "function_call":
            changed.append({**item, "id": f"item_{number}"})
        elif is_reasoning(item):
            changed.append({**item, BLOB: item[BLOB][:40]})
        else:
            changed.append(item)
    return changed


def renaming(items: list[Item]) -> list[Item]:
    """Give reasoning ids of its own."""
    return [
        {**item, "id": f"rs_{number}"} if is_reasoning(item) else item
        for number, item in enumerate(items)
    ]


# Upstreams

NO_ID = Rule("Invalid '{0}': item ids are not accepted.", "an attack on the healing", "")
NOT_TAKEN = Rule("This request is not acceptable to the backend.", "an attack on the healing", "")


class Unread(InputRules):
    """It reads a renamed blob as a damaged one."""

    @override
    def blob(self, one: Seen) -> Iterator[Refused]:
        issued = self.emitted.get(one.blob)
        if issued is None or one.id not in {"", issued.item["id"]}:
            yield self.damaged(one)


class Nameless(InputRules):
    """It takes no ids, except of reasoning."""

    @override
    def id_shape(self, one: Seen) -> Iterator[Refused]:
        if one.kind != "reasoning" and "id" in one.item:
            yield NO_ID(f"{one.at}.id")

    @override
    def pairs(self) -> Iterator[Refused]:
        yield from ()


class ByValue(InputRules):
    """It takes reasoning without an id."""

    @override
    def id_shape(self, one: Seen) -> Iterator[Refused]:
        if one.kind == "reasoning" and "id" in one.item:
            yield words.UNKNOWN_PARAMETER(f"{one.at}.id")


class ById(InputRules):
    """It takes reasoning by its id alone."""

    @override
    def shape(self, one: Seen) -> Iterator[Refused]:
        if one.kind == "reasoning" and BLOB in one.item:
            yield words.UNKNOWN_PARAMETER(f"{one.at}.{BLOB}")
        yield from super().shape(one)


class Named(InputRules):
    """It demands the id of reasoning."""

    @override
    def shape(self, one: Seen) -> Iterator[Refused]:
        if one.kind == "reasoning" and not one.id:
            yield words.MISSING_PARAMETER(f"{one.at}.id")
        yield from super().shape(one)


class WithoutBlobs(InputRules):
    """It takes no `include` of encrypted reasoning."""

    @override
    def refusals(self) -> Iterator[Refused]:
        if INCLUDE in (self.body.get("include") or ()):
            yield words.NO_BLOBS()
        yield from super().refusals()


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """
    A session of a client.

    Attributes:
        name: Its name in the list of tests.
        sends: What it makes of its history.
        rules: What its upstream refuses.
        refused: Number of refused requests in the whole session.
        lost: Number of items of reasoning that upstream lacks in the last turn.
        moves_at: Number of its requests after which the upstream has another account, so that it
            cannot read what it emitted before. It says all in words of its own. 0: never.
        more: Members of its requests.
        scenario: What the model does in the rounds of each question.
    """

    name: str
    sends: Callable[[list[Item]], list[Item]] = kept
    rules: type[InputRules] = InputRules
    refused: int = 1
    lost: int = 0
    moves_at: int = 0
    more: Mapping[str, Any] = field(default_factory=lambda: {"store": False, "include": [INCLUDE]})
    scenario: tuple[str, ...] = ("RC", "RA")


HABITS = (
    Habit(name="damages-and-counts", sends=counting, rules=Unread, refused=2),
    Habit(name="damages-two-runs", sends=counting, rules=Unread, refused=2, scenario=("RRC", "RA")),
    Habit(name="renames-reasoning", sends=renaming, rules=Unread),
    Habit(name="renames-a-bound-blob", sends=renaming),
    Habit(name="drops-calls", sends=without("function_call")),
    Habit(
        name="drops-calls-and-reasoning",
        sends=lambda items: without("function_call")(without("reasoning")(items)),
    ),
    Habit(name="takes-no-ids", rules=Nameless),
    Habit(name="takes-no-ids-and-drops", rules=Nameless, sends=without("reasoning")),
    Habit(name="takes-reasoning-without-id", rules=ByValue),
    Habit(name="takes-reasoning-without-id-and-drops", rules=ByValue, sends=without("reasoning")),
    Habit(name="takes-ids-alone", rules=ById, more={"include": [INCLUDE]}),
    Habit(
        name="takes-ids-alone-and-drops",
        rules=ById,
        more={"include": [INCLUDE]},
        sends=without("reasoning"),
    ),
    Habit(name="demands-ids", rules=Named, sends=nameless),
    Habit(name="takes-no-include", rules=WithoutBlobs, more={"include": [INCLUDE]}),
    Habit(name="another-account", sends=without("reasoning"), refused=2, lost=4, moves_at=4),
)


class Played(Responses):
    """The upstream of a habit."""

    def __init__(self, habit: Habit) -> None:
        super().__init__(Script(habit.scenario, is_marked=True))
        self.rules = habit.rules  # type: ignore[misc]
        self.habit, self.answered = habit, 0

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        for refused in super().refusals(body, reading, judgement):
            yield NOT_TAKEN() if self.habit.moves_at else refused

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        answer = super().answer(body, reading, judgement)
        self.answered += 1
        if self.answered == self.habit.moves_at:
            for name in [name for name in self.emitted if name.startswith("gAAAA")]:
                del self.emitted[name]
        return answer


async def turn(session: aiohttp.ClientSession, url: str, habit: Habit, items: list[Item]) -> int:
    """Send a history; append what the model says, and what the client says then."""
    body = {"model": "gpt-5", "tools": [TOOL], **habit.more, "input": habit.sends(items)}
    async with session.post(f"{url}/responses", json=body) as response:
        if response.status != 200:
            return response.status
        output = (await response.json())["output"]
    items += output
    calls = [item["call_id"] for item in output if item["type"] == "function_call"]
    items += [{"type": "function_call_output", "call_id": name, "output": "Sun"} for name in calls]
    if not calls:
        items.append({"role": "user", "content": f"And on day {len(items)}?"})
    return response.status


@pytest.mark.parametrize("habit", [pytest.param(one, id=one.name) for one in HABITS])
async def test_a_habit_costs_one_refusal(habit: Habit) -> None:
    """What cured it is done before the first attempt from then on, and keeps the reasoning."""
    items: list[Item] = [{"role": "user", "content": "Where does it rain?"}]
    headers = {"Authorization": "Bearer sk-habits"}
    async with (
        StrictApi(Played(habit)) as upstream,
        proxied(upstream) as url,
        aiohttp.ClientSession(headers=headers) as session,
    ):
        told, counts = [], []
        for _ in range(TURNS):
            before = len(upstream.received)
            thoughts = sum(map(is_reasoning, items))
            told.append(await turn(session, url, habit, items))
            counts.append(len(upstream.received) - before)

    assert told == [200] * TURNS, counts
    assert sum(counts) - TURNS <= habit.refused, counts
    assert sum(map(is_reasoning, upstream.received[-1])) == thoughts - habit.lost
