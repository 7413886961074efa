"""Request: the contents of a body, and what precedes them."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.gemini.request import GeminiRequest, read_request
from reasoning_replay.core.wire.json_spans import Unspliceable

from tests.core.dialects.gemini.contents import (
    MODEL,
    SIG,
    Client,
    answer,
    body_of,
    call,
    model,
    user,
)

PATH = "/v1beta/models/gemini-3:countTokens"


def read(body: dict[str, Any] | bytes) -> GeminiRequest:
    """Return a parsed request."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_request(raw, {}, path=PATH)


def test_the_path_names_the_model_and_the_contents_are_the_history() -> None:
    """The instructions are no part of it."""
    system = {"parts": [{"text": "Be brief."}]}
    request = read({"contents": [user("Hi")], "systemInstruction": system, "tools": []})

    assert request.model == "gemini-3"
    assert [place.item.type for place in request.places] == ["message"]
    assert len(request.contents) == 1


def test_instructions_are_the_frame_in_any_form() -> None:
    """Either spelling, with or without a list."""
    forms: list[dict[str, Any]] = [
        {"systemInstruction": {"parts": [{"text": "Be "}, {"text": "brief."}]}},
        {"system_instruction": {"role": "user", "parts": {"text": "Be brief."}}},
    ]
    frames = {read({"contents": [], **form}).frame for form in forms}
    assert len(frames) == 1
    assert frames != {b""}
    assert read({"contents": [], "systemInstruction": {"parts": []}}).frame == b""
    assert read({"contents": []}).frame == b""


@pytest.mark.parametrize("wrapper", ["generateContentRequest", "generate_content_request"])
def test_a_count_of_tokens_may_hold_the_whole_request(wrapper: str) -> None:
    """It gets the same signatures as the request itself, at the same place."""
    client = Client()
    client.learn([user("Weather?")], answer(call(thoughtSignature=SIG)))
    contents = [user("Weather?"), model(call())]
    inner = body_of(contents, model=f"models/{MODEL}")
    body = b' {"x" : 1 , "%b" : %b }' % (wrapper.encode(), inner)
    decided = client.decide(body)

    assert decided.body == body.replace(inner, client.decide(inner).body)
    assert decided.injected_bytes
    request = read(body)
    assert (request.model, len(request.contents)) == (f"models/{MODEL}", 2)


def test_a_wrapper_that_is_no_object_is_forwarded_as_it_is() -> None:
    """The place of its history is unknown."""
    with pytest.raises(Unspliceable):
        read({"generateContentRequest": 5})
