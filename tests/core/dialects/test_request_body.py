"""Request body: what the requests to all APIs have in common."""

import json
from typing import Any, NamedTuple

import pytest
from reasoning_replay.core.dialects import request_body
from reasoning_replay.core.dialects.anthropic.request import read_request as read_messages
from reasoning_replay.core.dialects.chat.request import read_request as read_chat
from reasoning_replay.core.dialects.gemini.request import read_request as read_gemini
from reasoning_replay.core.dialects.request_body import ITEMS_MAX, RequestReader
from reasoning_replay.core.dialects.responses.request import read_request as read_responses
from reasoning_replay.core.wire.json_spans import TooMany, Unspliceable

from tests.core.dialects.gemini import contents as gemini
from tests.core.world import call, message, output, reasoning, user

LONG = "1" * 20_000
CALLS = [{"id": "a", "function": {"name": "add"}}, {"id": "b", "function": {"name": "mul"}}]
TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}
CALL = call("1")


class Api(NamedTuple):
    """
    One API.

    Attributes:
        read: Reads a request.
        history: A history; in most APIs, it ends with an element that holds no item.
        more: What a client and the model add to it.
    """

    read: RequestReader[Any, Any]
    history: list[Any]
    more: list[Any]


TALK = [{"role": "user", "content": "And?"}, {"role": "assistant", "content": "Yes"}]
APIS = {
    "responses": Api(
        read_responses, [user(LONG), reasoning("1"), CALL, output(CALL), message("1", "5")], TALK
    ),
    "chat": Api(
        read_chat,
        [
            {"role": "system", "content": "Be good."},
            {"role": "assistant", "content": "Both.", "tool_calls": CALLS},
            {"role": "tool", "tool_call_id": "a", "content": LONG},
            {"role": "assistant", "content": ""},
        ],
        TALK,
    ),
    "messages": Api(
        read_messages,
        [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "thinking"}, TOOL_USE]},
            {"role": "user", "content": [{"type": "tool_result", "content": LONG}]},
            {"role": "assistant", "content": []},
        ],
        TALK,
    ),
    "gemini": Api(
        read_gemini,
        [gemini.user(LONG), gemini.model(gemini.call()), gemini.output(), {"role": "model"}],
        [gemini.user("And?"), gemini.model(gemini.said("Yes"))],
    ),
}
EVERY = pytest.mark.parametrize("api", APIS.values(), ids=APIS)


def read(api: Api, history: Any, **more: Any) -> Any:
    """Return a request with this history."""
    body = json.dumps({"model": "m", api.read.key: history}).encode()
    return api.read(body, {}, **more)


def facts(request: Any) -> tuple[object, ...]:
    """Return what lookup and matching use."""
    return (
        [(p.item.type, p.item.start, p.item.end, p.depth, p.heard) for p in request.places],
        request.anchors,
        request.said,
        request.has_reasoning,
        request.context(),
    )


@EVERY
def test_a_longer_history_is_read_from_where_it_grew(api: Api) -> None:
    """The result equals that of a whole parse, also after an element without any item."""
    prefix, history = None, [*api.history]
    for _ in range(4):
        grown = read(api, history, prefix=prefix)
        assert facts(grown) == facts(read(api, history))
        assert grown.spans(api.read.key) == read(api, history).spans(api.read.key)
        if prefix is not None:
            assert grown.places[0] is prefix.parsed.places[0]
        prefix = grown.prefix()
        history += api.more


@EVERY
def test_each_element_has_a_place(api: Api) -> None:
    """The spans are those of the elements, also of those that hold no item."""
    request = read(api, api.history)
    told = [json.loads(request.body[start:end]) for start, end in request.spans(api.read.key)]
    assert told == api.history
    assert (request.model, request.stores) == ("m", api.read is read_responses)


@EVERY
@pytest.mark.parametrize("history", [None, 5, {}, []])
def test_another_value_is_no_history(api: Api, history: Any) -> None:
    """Upstream reports what is wrong with it."""
    for request in (read(api, history), api.read(b"{}", {})):
        assert (request.places, request.spans(api.read.key)) == ([], [])


@EVERY
def test_the_name_of_a_conversation_is_a_hint(api: Api) -> None:
    """A header or a member names it; another value does not."""
    named = api.read(b'{"prompt_cache_key":"abc"}', {})
    assert named.hint == api.read(b"{}", {"session-id": "abc"}).hint != b""
    assert api.read(b"{}", {}).hint == api.read(b'{"prompt_cache_key":5}', {}).hint == b""
    assert named.context().hint == named.hint


@EVERY
def test_limits_and_damage(api: Api) -> None:
    """A request that cannot be parsed safely, or not in time, is not parsed."""
    with pytest.raises(TooMany):
        read(api, api.more * (ITEMS_MAX // 2 + 1))
    with pytest.raises(Unspliceable):
        api.read(b'{"model":1,"model":2}', {})
    assert len(read(api, api.more * 50).places) == 100


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        pytest.param("x" * 200, True, id="ascii"),
        pytest.param("é" * 100, False, id="utf-8"),
        pytest.param("\\u00e9" * 40, False, id="escapes"),
        pytest.param("é" * 20, True, id="short"),
    ],
)
@EVERY
def test_a_long_element_is_read_only_if_it_is_ascii(
    api: Api, monkeypatch: pytest.MonkeyPatch, text: str, *, is_read: bool
) -> None:
    """Other text takes several times its bytes once it is decoded."""
    monkeypatch.setattr(request_body, "ELEMENT_MAX_BYTES", 150)
    monkeypatch.setattr(request_body, "_SEGMENT_BYTES", 7)  # ends inside characters
    given = json.dumps({"model": "m", api.read.key: [api.more[0], "MARK"]})
    body = given.replace("MARK", text).encode()
    if is_read:
        assert api.read(body, {}).body == body
    else:
        with pytest.raises(TooMany):
            api.read(body, {})


@EVERY
def test_a_body_that_ends_inside_a_character_is_not_read(api: Api) -> None:
    """Its encoding is checked in parts, and the last one may be incomplete."""
    with pytest.raises(Unspliceable):
        api.read("é".encode()[:1], {})
