"""Repairs before the first attempt: upstream gets one request for each turn."""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from typing_extensions import override

from tests.e2e.agent import MODEL, Agent, Item
from tests.e2e.proxies import proxied
from tests.strict import StrictResponses

Trim = Callable[[Sequence[Item]], list[Item]]

KEEPS: Item = {}
UNSTORED: Item = {"store": False}
BLOBS: Item = {"include": ["reasoning.encrypted_content"]}
KEY = {"Authorization": "Bearer sk-repaired"}


def kinds(*kinds: str) -> Callable[[Item], bool]:
    """Return a test for items of these types."""
    return lambda item: item["type"] in kinds


def without_id(items: Sequence[Item], those: Callable[[Item], bool]) -> list[Item]:
    """Return the items, without the ids of those that match."""
    return [
        {name: item[name] for name in item if name != "id"} if those(item) else item
        for item in items
    ]


def as_it_came(answer: Sequence[Item]) -> list[Item]:
    """Keep all that upstream emitted."""
    return list(answer)


def followers_without(answer: Sequence[Item]) -> list[Item]:
    """Keep the ids of reasoning only."""
    return without_id(answer, kinds("message", "function_call"))


def reasoning_without(answer: Sequence[Item]) -> list[Item]:
    """Keep the ids of all items except reasoning."""
    return without_id(answer, kinds("reasoning"))


def less_preamble(answer: Sequence[Item]) -> list[Item]:
    """Drop the message before a call, as a client does that has no place for it."""
    has_call = any(map(kinds("function_call"), answer))
    return [item for item in answer if not (has_call and item["type"] == "message")]


def call_alone(answer: Sequence[Item]) -> list[Item]:
    """Drop the message before a call, and reasoning."""
    return [item for item in less_preamble(answer) if item["type"] != "reasoning"]


def less_preamble_and_ids(answer: Sequence[Item]) -> list[Item]:
    """Expect items by value where the preamble is gone, and all of them where there is none."""
    kept = less_preamble(answer)
    is_broken = len(kept) < len(answer)
    return without_id(kept, kinds("reasoning", "function_call")) if is_broken else kept


def call_by_value(answer: Sequence[Item]) -> list[Item]:
    """Expect the same for an upstream that requires the id of reasoning."""
    kept = less_preamble_and_ids(answer)
    return [item for item in kept if item["type"] != "reasoning" or "id" in item]


@dataclass
class Talk(Agent):
    """
    A client that keeps a part of each response.

    Attributes:
        trim: The part that the client keeps.
        wanted: The part that upstream must receive.
    """

    trim: Trim = as_it_came
    wanted: Trim = as_it_came

    @override
    def said(self, answer: Any) -> list[Item]:
        return self.wanted(super().said(answer))

    @override
    def kept(self, answer: Any) -> list[Item]:
        return self.trim([item.to_dict() for item in answer.output])

    @property
    def want(self) -> list[list[Item]]:
        """The input that upstream must have received, for each step."""
        return [step.whole for step in self.steps]


def inputs_of(api: StrictResponses) -> list[list[Item]]:
    """Return the input of each request that upstream received."""
    return [json.loads(one.body)["input"] for one in api.received]


async def talked(
    api: StrictResponses, trim: Trim, wanted: Trim, more: Item, **settings: str
) -> Talk:
    """Converse through a proxy."""
    async with (
        api,
        proxied(api, **settings) as base_url,
        Talk(base_url, more=dict(more), trim=trim, wanted=wanted) as one,
    ):
        return await one.converse()


async def talk(api: StrictResponses, trim: Trim, wanted: Trim, more: Item, **settings: str) -> Talk:
    """Converse through a proxy; upstream must get one request a turn, with a growing prefix."""
    one = await talked(api, trim, wanted, more, **settings)
    received = inputs_of(api)
    assert [request.status for request in api.received] == [200] * len(one.want)
    assert received == one.want
    for before, after in itertools.pairwise(received):
        assert after[: len(before)] == before
    return one


REPAIRED = [
    pytest.param("one_call", followers_without, as_it_came, KEEPS, id="followers-without-ids"),
    pytest.param(
        "one_call", followers_without, as_it_came, BLOBS, id="followers-without-ids-and-blobs"
    ),
    pytest.param(
        "preamble",
        less_preamble,
        less_preamble_and_ids,
        UNSTORED | BLOBS,
        id="preamble-gone-reasoning-kept",
    ),
    pytest.param(
        "preamble", less_preamble, less_preamble_and_ids, BLOBS, id="preamble-gone-and-stored"
    ),
]


@pytest.mark.parametrize(("variant", "trim", "wanted", "more"), REPAIRED)
async def test_unpaired_items_are_repaired_before_the_first_attempt(
    variant: Any, trim: Trim, wanted: Trim, more: Item
) -> None:
    """Items that would be refused as unpaired are repaired, so that each turn takes one attempt."""
    one = await talk(StrictResponses(variant), trim, wanted, more)

    assert all("repaired=" in step.mark and "healed" not in step.mark for step in one.steps[1:])


async def test_reasoning_by_value_gets_ids_once_upstream_has_demanded_them() -> None:
    """An upstream may refuse an id that is added, so the first demand for one is waited for."""
    api = StrictResponses("parallel")
    one = await talked(api, reasoning_without, as_it_came, UNSTORED | BLOBS)

    assert [request.status for request in api.received].count(400) == 1
    assert [request.status for request in api.received][-1] == 200
    assert inputs_of(api)[-1] == one.want[-1]
    assert "repaired=" in one.steps[-1].mark


@pytest.mark.parametrize(
    ("profile", "wanted"),
    [
        pytest.param("openai", less_preamble_and_ids, id="by-value"),
        pytest.param("azure", call_by_value, id="left-out-where-its-id-is-demanded"),
    ],
)
async def test_a_call_whose_preamble_and_reasoning_are_gone_passes(
    profile: str, wanted: Trim
) -> None:
    """
    A call without its preamble and its reasoning is sent by value.

    Its id would require reasoning that leads to a message which is missing.
    """
    await talk(StrictResponses("preamble"), call_alone, wanted, UNSTORED, upstream_profile=profile)


async def test_the_repair_may_be_switched_off() -> None:
    """Without this repair, upstream refuses the request, and the healing retry succeeds."""
    api = StrictResponses()
    with pytest.raises(AssertionError):
        await talk(
            api,
            followers_without,
            as_it_came,
            KEEPS,
            repairs="duplicates,hollow,foreign,dangling",
        )

    assert [one.status for one in api.received[:3]] == [200, 400, 200]


@pytest.mark.parametrize("item_id", ["msg_1", "msg_0000000000000001"])
async def test_a_second_answer_under_a_counted_id_is_sent(item_id: str) -> None:
    """The same message under a counted id may be of another turn, so it is no duplicate."""
    done: Item = {
        "type": "message",
        "id": item_id,
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
    }
    said: list[Item] = [
        {"role": "user", "content": "Dry the dishes."},
        done,
        {"role": "user", "content": "Feed the cat."},
        done,
        {"role": "user", "content": "Thanks."},
    ]
    api = StrictResponses()
    async with (
        api,
        proxied(api) as base_url,
        aiohttp.ClientSession() as session,
        session.post(
            f"{base_url}/responses", json={"model": MODEL, "input": said}, headers=KEY
        ) as response,
    ):
        await response.read()

    assert inputs_of(api)[0] == said
