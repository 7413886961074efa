"""Laws of cost: reasoning of any shape costs CPU in proportion to its bytes, not to a product."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from reasoning_replay.core.dialects.chat.members import Sent, reasoning_of, sent_of
from reasoning_replay.core.history.turns import Reasoning

from tests.core.costs import assert_linear
from tests.core.dialects.chat.chats import Chats, Message, assistant, body_of, user
from tests.core.world import drawn

Values = tuple[Any, Any]  # what the client sends in place of what was emitted


def _text(value: Any) -> list[Message]:
    return [{"text": value}]


# Each grows in both of its sizes: in the number of strings, and in their length.
SHAPES: dict[str, tuple[int, Callable[[int], Values]]] = {
    "leaves-and-text": (2_000, lambda n: (_text("x" * 100 * n + "y"), _text("x") * n)),
    "leaves-and-repeats": (2_000, lambda n: (_text("ab" * 50 * n + "c"), _text("ab") * n)),
    "unequal-leaves": (2_000, lambda n: (_text("a" * 100 * n + "b"), _counted(n))),
    "no-repeats": (10_000, lambda n: (_text(("a" * n + "b") * 7 + "c"), _text("a" * n + "b"))),
    "long-key": (3_000, lambda n: ([{"k" * 40 * n: [1] * n}], [{"k" * 40 * n: [2] * n}])),
    "pieces": (4_000, lambda n: (_text("y" * n), [{"text": f"{k}z"} for k in range(n)])),
}


def _counted(size: int) -> list[Message]:
    return [{"text": "a" * (k % 50)} for k in range(size)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_value_is_compared_in_linear_time(shape: str) -> None:
    """However many strings it has, and however long they are."""
    size, values_of = SHAPES[shape]

    def make(scale: int) -> tuple[bytes, Reasoning]:
        mine, whole = values_of(scale)
        part = reasoning_of("reasoning_details", json.dumps(whole).encode(), is_of_call=False)
        assert part is not None
        return json.dumps(mine).encode(), part

    assert_linear(make, lambda given: sent_of(*given), size)


@pytest.mark.parametrize(
    ("given", "emitted", "sent"),
    [
        ("abab", ["ab"], Sent.TORN),
        ("aaaa", ["aa"], Sent.TORN),
        ("aaaa", ["aaa"], Sent.OWN),
        ("abaaba", ["ab", "aba"], Sent.TORN),
        ("abcabc", ["abd", "bca"], Sent.OWN),
        ("abab", [], Sent.OWN),
        ("abab", ["", "b"], Sent.OWN),
    ],
)
def test_repeats_are_found_without_writing_them_out(
    given: str, emitted: list[str], sent: Sent
) -> None:
    """A text repeats another one if that has its period, its beginning and a length that fits."""
    whole = json.dumps([{"text": one} for one in emitted]).encode()
    part = reasoning_of("reasoning_details", whole, is_of_call=False)

    assert part is not None
    assert sent_of(json.dumps(_text(given)).encode(), part) is sent


def _call(number: int) -> Message:
    named = {"name": "f", "arguments": json.dumps({"n": number})}
    return {"id": drawn(number), "type": "function", "function": named}


def _split(calls: list[Message]) -> list[Message]:
    """Return each call in a message of its own, as some clients send them."""
    return [assistant(None, tool_calls=[one]) for one in calls]


def _noted(calls: list[Message]) -> list[Message]:
    """Return the same, with a text that the client adds to each."""
    return [assistant(f"Calling {n}", tool_calls=[one]) for n, one in enumerate(calls)]


def _dropped(calls: list[Message]) -> list[Message]:
    """Return one message that lacks half of the calls."""
    return [assistant(None, tool_calls=calls[::2])]


@pytest.mark.parametrize(
    ("sent_as", "is_encrypted", "size"),
    [
        pytest.param(_split, False, 400, id="split"),
        pytest.param(_noted, False, 400, id="noted"),
        pytest.param(_dropped, True, 800, id="dropped"),
    ],
)
def test_a_turn_of_many_calls_is_placed_in_linear_time(
    sent_as: Callable[[list[Message]], list[Message]],
    is_encrypted: bool,
    size: int,
) -> None:
    """It may be spread over many messages, and its reasoning may be as long as all of them."""

    def make(scale: int) -> tuple[Chats, bytes]:
        chats, calls = Chats(), [_call(n) for n in range(scale)]
        details = [{"type": "reasoning.encrypted", "data": f"g{n}"} for n in range(3 * scale)]
        more = {"reasoning_details": details} if is_encrypted else {"reasoning_content": "Hm"}
        chats.learn([user("go")], assistant(None, tool_calls=calls, **more), "tool_calls")
        return chats, body_of([user("go"), *sent_as(calls)])

    assert_linear(make, lambda given: given[0].decide(given[1]), size)
