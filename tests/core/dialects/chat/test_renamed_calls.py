"""Renamed calls: ids that a client made are no obstacle; those of upstream name other calls."""

import json
from typing import Any

import pytest

from tests.core.dialects.chat.chats import Chats, assistant, tool, user
from tests.core.dialects.chat.streams import call

ASK = user("What is the weather in Paris, and in Tokyo?")
THEIRS, OWN = "call_00_a8K2mPqZ7Lx93Qw5Rt61Vb", "call_5e6f0a1b2c3d4e5f607182930a1b2c3d"


def asked(call_id: str, city: str = "Paris") -> dict[str, Any]:
    """Return a message that calls a tool."""
    return assistant(tool_calls=[call("weather", json.dumps({"city": city}), None, call_id)])


def learnt(*ids: str) -> Chats:
    """Return chats that know one conversation of messages with these ids and cities."""
    chats = Chats()
    history = [ASK]
    for call_id in ids:
        message = asked(call_id, f"Paris and {len(history)} others")
        chats.learn(history, {**message, "reasoning_content": f"Think of {call_id}"})
        history += [message, tool("sunny", call_id)]
    return chats


@pytest.mark.parametrize(
    ("call_id", "want"),
    [
        pytest.param(OWN, f"Think of {THEIRS}", id="of-the-client"),
        pytest.param("call_00_Yt72Lm4Nz81cK3pXw95Hs0", None, id="in-upstreams-form"),
    ],
)
def test_an_id_in_upstreams_form_is_of_another_response(call_id: str, want: str | None) -> None:
    """Equal content under such an id may be of a response that was not captured."""
    chats = learnt(THEIRS)
    message = asked(call_id, "Paris and 1 others")

    sent = chats.send([ASK, message, tool("sunny", call_id)])

    assert sent[1].get("reasoning_content") == want


def test_a_client_that_keeps_one_id_keeps_all() -> None:
    """The id of the second call is known, so that of the first one is upstream's as well."""
    second = "call_00_Yt72Lm4Nz81cK3pXw95Hs0"
    chats = learnt(THEIRS, second)
    first = asked(OWN, "Paris and 1 others")
    history = [ASK, first, tool("sunny", OWN), asked(second, "Paris and 3 others")]

    sent = chats.send([*history, tool("sunny", second)])

    assert [one.get("reasoning_content") for one in sent if one["role"] == "assistant"] == [
        None,
        f"Think of {second}",
    ]
