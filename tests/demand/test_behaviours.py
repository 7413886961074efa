"""
Behaviours against a strict upstream: the proxy never adds a refusal, and cures those it can.

A behaviour is what a client does to a history before it sends it; each request is sent twice,
straight and through the proxy.
"""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import aiohttp
import pytest

from tests.core import changes
from tests.demand.notation import Item
from tests.e2e.proxies import proxied
from tests.fast_lane import IS_EVERY, first
from tests.strict import Quirks, StrictResponses

Shape = Callable[[int, list[Item]], list[Item]]
"""Returns the history that is sent, from the number of the request and the honest history."""

MODEL = "gpt-5.4"
QUESTIONS = ("Where does it rain today?", "And tomorrow?", "And on Sunday?")
ROUNDS = 2
REQUESTS_MAX = 12
NOTE: Item = {"role": "developer", "content": "Be brief."}


def _is_call(item: Item) -> bool:
    return "call_id" in item and "output" not in item


def _is_message(item: Item) -> bool:
    return item.get("role") == "assistant"


def _is_search(item: Item) -> bool:
    return item.get("type") == "web_search_call"


def _preambles(items: list[Item]) -> list[Item]:
    """Return the messages before calls of the same response."""
    return [one for one, after in pairwise(items) if _is_message(one) and _is_call(after)]


def _empty(items: list[Item]) -> list[Item]:
    """Return the messages without text."""
    said = [one for one in items if _is_message(one)]
    return [one for one in said if not any(part["text"] for part in one["content"])]


def _less(which: Callable[[list[Item]], list[Item]]) -> Shape:
    return lambda _, items: [one for one in items if one not in which(items)]


def _all_of(is_such: Callable[[Item], bool]) -> Callable[[list[Item]], list[Item]]:
    return lambda items: [one for one in items if is_such(one)]


def _after(is_passed: Callable[[Item], bool]) -> Shape:
    """Move the messages before calls after the items that are passed."""

    def shape(_: int, items: list[Item]) -> list[Item]:
        moving = _preambles(items)
        moved: list[Item] = []
        waiting: list[Item] = []
        for one in items:
            if waiting and not is_passed(one):
                moved += waiting
                waiting = []
            (waiting if one in moving else moved).append(one)
        return moved + waiting

    return shape


def _older(items: list[Item]) -> int:
    return max(n for n, one in enumerate(items) if one.get("role") == "user")


def _old_calls_dropped(_: int, items: list[Item]) -> list[Item]:
    """Drop the calls and outputs of finished rounds; their messages stay."""
    old = _older(items)
    return [one for n, one in enumerate(items) if n >= old or "call_id" not in one]


def _old_calls_told(_: int, items: list[Item]) -> list[Item]:
    """Tell the calls and outputs of finished rounds as messages."""
    old = _older(items)
    return [
        {"role": "assistant" if _is_call(one) else "user", "content": json.dumps(one)}
        if n < old and "call_id" in one
        else one
        for n, one in enumerate(items)
    ]


def _first_calls_dropped(_: int, items: list[Item]) -> list[Item]:
    """Drop the first of parallel calls, with its output."""
    firsts = {a["call_id"] for a, b in pairwise(items) if _is_call(a) and _is_call(b)}
    return [one for one in items if one.get("call_id") not in firsts]


def _runs(
    items: list[Item], is_such: Callable[[Item], bool], change: Callable[[list[Item]], list[Item]]
) -> list[Item]:
    """Change each run of such items."""
    made: list[Item] = []
    run: list[Item] = []
    for one in [*items, {}]:
        if is_such(one):
            run.append(one)
            continue
        made += change(run)
        made.append(one)
        run = []
    return made[:-1]


def _reversed(is_such: Callable[[Item], bool]) -> Shape:
    return lambda _, items: _runs(items, is_such, lambda run: run[::-1])


def _messages_first(_: int, items: list[Item]) -> list[Item]:
    """Sort the items of each response: messages, then searches, then calls."""

    def rank(one: Item) -> int:
        return 0 if _is_message(one) else 1 if _is_search(one) else 2

    def is_models(one: Item) -> bool:
        return _is_message(one) or _is_search(one) or _is_call(one)

    return _runs(items, is_models, partial(sorted, key=rank))


def _notes(_: int, items: list[Item]) -> list[Item]:
    """Add a developer message after each message of the model."""
    return [each for one in items for each in ([one, NOTE] if _is_message(one) else [one])]


def _without(*names: str, of: Callable[[Item], bool]) -> Shape:
    return lambda _, items: [
        {k: v for k, v in one.items() if k not in names} if of(one) else one for one in items
    ]


def _reasked(_: int, items: list[Item]) -> list[Item]:
    """Give each call an id of the client's own, new in each request."""
    return [
        one | {"call_id": f"call_{len(items)}x{one['call_id'][-12:]}"} if "call_id" in one else one
        for one in items
    ]


SHAPES: Mapping[str, Shape] = {
    "whole": changes.nothing,
    "clock in a developer message": changes.clock_in_a_developer_item,
    "environment moved": changes.environment_moved,
    "first message rewritten": changes.first_user_message_rewritten,
    "old outputs cleared": changes.old_outputs_cleared,
    "outputs between calls": changes.outputs_interleaved,
    "outputs reversed": _reversed(lambda one: "output" in one),
    "calls reversed": _reversed(_is_call),
    "calls counted": changes.calls_renumbered,
    "calls named anew": _reasked,
    "first calls dropped": _first_calls_dropped,
    "old calls dropped": _old_calls_dropped,
    "old calls told": _old_calls_told,
    "preambles emptied": changes.preambles_emptied,
    "preambles rewritten": changes.preambles_rewritten,
    "preambles dropped": _less(_preambles),
    "preambles after calls": _after(_is_call),
    "preambles after outputs": _after(lambda one: "call_id" in one),
    "messages first": _messages_first,
    "messages dropped": _less(_all_of(_is_message)),
    "messages in the easy form": changes.easy_form,
    "messages without ids": _without("id", of=_is_message),
    "empty messages dropped": _less(_empty),
    "notes after messages": _notes,
    "calls without ids": _without("id", of=_is_call),
    "searches dropped": _less(_all_of(_is_search)),
    "window of two": changes.window_of_2,
    "head cut": changes.head_cut_amid_a_turn,
    "head summarised": changes.head_summarised,
}


class Habit(NamedTuple):
    """
    One kind of client.

    Attributes:
        shape: Name of what it does to the history.
        is_named: Whether it keeps the ids of items.
        stores: Value of `store`.
    """

    shape: str
    is_named: bool
    stores: bool

    def __str__(self) -> str:
        """Return its name, for people."""
        ids, store = "kept" if self.is_named else "dropped", "true" if self.stores else "false"
        return f"{self.shape}, ids {ids}, store {store}"

    def sent(self, number: int, items: list[Item]) -> list[Item]:
        """Return the history as this client sends it; it never keeps reasoning."""
        kept = [one for one in items if one.get("type") != "reasoning"]
        if not self.is_named:
            hosted = [one for one in kept if _is_search(one)]  # the API requires their ids
            kept = [one if one in hosted else _less_id(one) for one in kept]
        return SHAPES[self.shape](number, kept)


class Played(NamedTuple):
    """
    One request, sent straight and through the proxy.

    Attributes:
        straight, proxied: Status of the responses.
        body: Body of the request.
    """

    straight: int
    proxied: int
    body: bytes


async def play(
    session: aiohttp.ClientSession, straight: str, proxy: str, habit: Habit
) -> list[Played]:
    """Play a conversation of ROUNDS questions; it ends early if the proxy's response is no 200."""
    headers = {"Authorization": f"Bearer {habit}", "Content-Type": "application/json"}
    items: list[Item] = []
    asked, played = 0, list[Played]()
    for number in range(REQUESTS_MAX):
        if not items or _is_message(items[-1]):
            if asked > ROUNDS:
                break
            items.append({"role": "user", "content": QUESTIONS[asked]})
            asked += 1
        request: dict[str, Any] = {"model": MODEL, "store": habit.stores}
        body = json.dumps(request | {"input": habit.sent(number, items)}).encode()
        async with session.post(f"{straight}/responses", data=body, headers=headers) as response:
            status = response.status
        async with session.post(f"{proxy}/responses", data=body, headers=headers) as response:
            played.append(Played(status, response.status, body))
            if response.status != 200:
                break
            answer: dict[str, Any] = await response.json()
        emitted: list[Item] = answer["output"]
        items += emitted
        items += [
            {"type": "function_call_output", "call_id": one["call_id"], "output": "7 degrees"}
            for one in emitted
            if _is_call(one)
        ]
    return played


def _less_id(item: Item) -> Item:
    return {name: value for name, value in item.items() if name != "id"}


LOOPS: Sequence[str] = (
    "preamble",
    "announced",
    "parallel",
    "hosted",
    "searched",
    "empty_text",
    "no_parts",
)
HABITS = [Habit(*each) for each in itertools.product(SHAPES, (True, False), (True, False))]


@pytest.mark.parametrize("loop", first(1, LOOPS))
async def test_no_behaviour_ends_in_a_refusal(loop: str) -> None:
    """What passes straight passes, and what the client broke is cured: all of it was captured."""
    api = StrictResponses()
    api.behaviour.loop = loop
    api.behaviour.always_encrypted = True
    api.behaviour.quirks = Quirks(reads_blobs=True)
    worse, refused = list[str](), list[str]()
    async with api, proxied(api) as proxy, aiohttp.ClientSession() as session:
        # In the fast lane each shape, and each choice of the two others.
        for habit in HABITS if IS_EVERY else HABITS[::3]:
            played = await play(session, api.base_url, proxy, habit)
            worse += [str(habit) for one in played if one.straight == 200 != one.proxied]
            refused += [str(habit) for one in played if one.proxied != 200]

    assert worse == []
    assert refused == []
