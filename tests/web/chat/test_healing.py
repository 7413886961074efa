"""Refusals of Chat Completions, healed with the least edit, through real sockets."""

import json
from typing import Any

import pytest

from tests.web.chat.completions import (
    ASK,
    CALL,
    LOST,
    RESULT,
    SAID,
    THOUGHT,
    WHOLE,
    answer,
    chat,
    messages,
    refusal,
    said,
    streamed,
)
from tests.web.wire import as_json, chunk, stream_head, whole
from tests.web.world import World, world

Json = dict[str, Any]

DONE = whole(b'{"choices":[]}')
NEXT: Json = {"role": "user", "content": "And tomorrow?"}
LATER = [*LOST, {"role": "assistant", "content": "7 degrees."}, NEXT]

PASSED_BACK = {
    "error": {
        "message": "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_request_error",
    }
}
UNSUPPORTED = {
    "error": {
        "message": "'messages.1' : for 'role:assistant' the following must be satisfied"
        "[('messages.1' : property 'reasoning_content' is unsupported)]",
        "type": "invalid_request_error",
    }
}
FORBIDDEN = {
    "object": "error",
    "message": {
        "detail": [
            {
                "type": "extra_forbidden",
                "loc": ["body", "messages", 1, "assistant", "reasoning_content"],
                "msg": "Extra inputs are not permitted",
                "input": "I must look it up.",
            }
        ]
    },
}
STUDIO = {
    "error": {
        "code": 400,
        "message": "Function call is missing a thought_signature in functionCall parts. This is"
        " required for tools to work correctly. Additional data, function call"
        " `default_api:get_weather` , position 2.",
        "status": "INVALID_ARGUMENT",
    }
}
CORRUPTED = [
    {
        "error": {
            "code": 400,
            "message": "Corrupted thought signature.",
            "status": "INVALID_ARGUMENT",
        }
    }
]
WRAPPED = {
    "error": {
        "message": "Provider returned error",
        "code": 400,
        "metadata": {"raw": json.dumps(PASSED_BACK), "provider_name": "DeepSeek"},
    }
}
SIGNED = {"google": {"thought_signature": "Es4DCssDAb4+9vuf"}}
SKIPS = {"google": {"thought_signature": "skip_thought_signature_validator"}}


def healed(w: World, word: str) -> float:
    """Return how many requests were cured of this refusal."""
    return w.counted("heals_total", dialect="chat", diagnosis=word, result="cured")


REFUSED = [
    pytest.param(refusal(PASSED_BACK), id="deepseek"),
    pytest.param(refusal(WRAPPED), id="wrapped"),
    pytest.param(whole(b"\n\n   " + as_json(WRAPPED)), id="inside-a-success"),
    pytest.param(
        stream_head()
        + chunk(b": x\n\n")
        + chunk(b"data: " + as_json(WRAPPED) + b"\n\n")
        + chunk(b""),
        id="first-event",
    ),
]


@pytest.mark.parametrize("refused", REFUSED)
async def test_missing_reasoning_that_the_profile_left_out_is_injected(refused: bytes) -> None:
    """It is retried with all that is known; the next request has it from the start."""
    async with world(chat_rounds="current") as w:
        w.upstream.answers(answer(**THOUGHT), refused, DONE, DONE)
        await chat(w, ASK)
        got = await chat(w, *LATER)
        assert (got.status, got.body) == (200, b'{"choices":[]}')
        assert got.mark == "injected=1, skipped=1, missed=1, healed=lacks_reasoning"
        assert messages(w, 1) == LATER
        assert messages(w)[:3] == WHOLE
        assert healed(w, "lacks_reasoning") == 1
        got = await chat(w, *LATER)
        assert (got.mark or "").startswith("injected=1")
        assert "healed" not in (got.mark or "")
        assert len(w.upstream.received) == 4


COUNTED = CALL | {"id": "call_0"}
TWIN = [ASK, SAID | {"tool_calls": [COUNTED]}, RESULT | {"tool_call_id": "call_0"}]


async def test_reasoning_in_tags_is_completed_after_a_refusal_and_from_then_on() -> None:
    """A model must not read a text twice, unless upstream demands the member that it emitted."""
    told = [ASK, SAID | {"content": "<think>I must look it up.</think>"}, RESULT]
    async with world() as w:
        w.upstream.answers(answer(**THOUGHT), refusal(PASSED_BACK), DONE, DONE)
        await chat(w, ASK)
        got = await chat(w, *told)
        assert got.mark == "injected=1, present=1, healed=lacks_reasoning"
        assert (messages(w, 1), messages(w)) == (told, [ASK, told[1] | THOUGHT, RESULT])
        got = await chat(w, *told)
        assert got.mark == "injected=1, present=1"
        assert len(w.upstream.received) == 4


def twin(number: int, thought: str) -> bytes:
    """Return one of several responses that differ in nothing but their ids and reasoning."""
    message = SAID | {"tool_calls": [COUNTED], "reasoning_content": thought}
    return whole(as_json(said(message) | {"id": f"chatcmpl-{number}"}))


async def test_of_equal_turns_the_newest_is_injected_after_a_refusal_only() -> None:
    """A request was answered twice. Nothing tells the turns apart, but upstream demands one."""
    async with world() as w:
        w.upstream.answers(twin(1, "first"), twin(2, "second"), DONE, refusal(PASSED_BACK), DONE)
        await chat(w, ASK)
        await chat(w, ASK)
        got = await chat(w, *TWIN)
        assert (got.mark, messages(w)) == ("injected=0, ambiguous=1", TWIN)
        got = await chat(w, *TWIN)
        assert got.mark == "injected=1, ambiguous=1, healed=lacks_reasoning"
        assert (messages(w, 3), messages(w)[1]["reasoning_content"]) == (TWIN, "second")


async def test_of_turns_after_other_histories_none_is_injected_after_a_refusal() -> None:
    """The head of the history was cut, so either turn may be meant: the refusal is passed on."""
    async with world() as w:
        w.upstream.answers(twin(1, "first"), twin(2, "second"), refusal(PASSED_BACK))
        await chat(w, NEXT, ASK)
        await chat(w, {"role": "user", "content": "Hello?"}, ASK)
        got = await chat(w, *TWIN)
        assert (got.status, got.mark) == (400, "injected=0, ambiguous=1")
        assert len(w.upstream.received) == 3


@pytest.mark.parametrize("refused", REFUSED[:3])
async def test_a_refusal_without_a_cure_reaches_the_client(refused: bytes) -> None:
    """Nothing is known of this history, and nothing is invented."""
    async with world() as w:
        w.upstream.answers(refused)
        got = await chat(w, *LOST)
        assert refused.endswith(got.body)
        assert len(w.upstream.received) == 1


@pytest.mark.parametrize(
    "refused", [refusal(UNSUPPORTED), refusal(FORBIDDEN, "422 Unprocessable Entity")]
)
async def test_a_member_that_is_not_accepted_is_taken_back_and_remembered(refused: bytes) -> None:
    """The client's own bytes are accepted; from then on that member is not injected."""
    async with world() as w:
        w.upstream.answers(answer(**THOUGHT), refused, DONE, DONE)
        await chat(w, ASK)
        got = await chat(w, *LOST)
        assert got.mark == "injected=0, refused=1, healed=field"
        assert (messages(w, 1), messages(w)) == (WHOLE, LOST)
        got = await chat(w, *LOST)
        assert got.mark == "injected=0"
        assert (messages(w), len(w.upstream.received)) == (LOST, 4)
        assert healed(w, "field") == 1


async def test_a_member_is_remembered_for_its_model_only() -> None:
    """Another model of the same upstream may accept it."""
    async with world() as w:
        call = CALL | {"id": "call_Qw8nR4yU6cJm1TsX"}
        other = whole(as_json(said_with(call, **THOUGHT)))
        w.upstream.answers(answer(**THOUGHT), refusal(UNSUPPORTED), DONE, other, DONE)
        await chat(w, ASK)
        await chat(w, *LOST)
        ask: Json = {"role": "user", "content": "What is the weather in Rome?"}
        await chat(w, ask, model="other-model-2")
        result = RESULT | {"tool_call_id": call["id"]}
        got = await chat(w, ask, SAID | {"tool_calls": [call]}, result, model="other-model-2")
        assert got.mark == "injected=1"
        assert messages(w)[1] == SAID | {"tool_calls": [call]} | THOUGHT


async def test_a_signature_that_is_not_accepted_is_taken_out_for_good() -> None:
    """It is never injected again, not even by another process: the turn is marked."""
    async with world() as w:
        first = whole(as_json(said_with(CALL | {"extra_content": SIGNED})))
        w.upstream.answers(first, refusal(CORRUPTED), DONE, DONE)
        await chat(w, ASK)
        got = await chat(w, *LOST)
        assert got.mark == "injected=0, refused=1, healed=blob"
        assert messages(w, 1)[1]["tool_calls"] == [CALL | {"extra_content": SIGNED}]
        assert messages(w) == LOST
        got = await chat(w, *LOST)
        assert (got.mark, messages(w)) == ("injected=0, guarded_unfinished=1", LOST)


@pytest.mark.parametrize("own", [{}, {"google": {"thought_signature": "b4+9vuf"}}])
async def test_an_empty_or_torn_value_of_the_client_is_restored(own: Json) -> None:
    """The signature in its place is not accepted, so the client's own request is sent."""
    async with world() as w:
        first = whole(as_json(said_with(CALL | {"extra_content": SIGNED})))
        w.upstream.answers(first, refusal(CORRUPTED), DONE)
        await chat(w, ASK)
        told = [ASK, SAID | {"tool_calls": [CALL | {"extra_content": own}]}, RESULT]
        got = await chat(w, *told)
        assert got.mark == "injected=0, refused=1, healed=blob"
        assert messages(w, 1)[1]["tool_calls"] == [CALL | {"extra_content": SIGNED}]
        assert messages(w) == told


def said_with(call: Json, **more: object) -> Json:
    """Return a completion with this call, by the model that was asked."""
    message = SAID | {"tool_calls": [call]} | more
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {"id": "chatcmpl-2", "choices": [choice]}


async def test_an_opaque_error_brings_the_clients_own_request() -> None:
    """The gateway leaves out the vendor's text, so an injected member may be the cause."""
    opaque = {"code": 400, "message": "Provider returned error"}
    async with world() as w:
        w.upstream.answers(answer(**THOUGHT), whole(as_json(opaque)), DONE)
        await chat(w, ASK)
        got = await chat(w, *LOST)
        assert got.mark == "injected=0, refused=1, healed=input"
        assert messages(w) == LOST


@pytest.mark.parametrize(
    ("refused", "filled"),
    [
        (PASSED_BACK, SAID | {"reasoning_content": ""}),
        ([STUDIO], SAID | {"tool_calls": [CALL | {"extra_content": SKIPS}]}),
    ],
)
async def test_a_filler_is_opt_in_and_remembered(refused: object, filled: Json) -> None:
    """A history that began elsewhere passes without reasoning, and is counted as degraded."""
    async with world(chat_fill="on") as w:
        w.upstream.answers(refusal(refused), DONE, DONE)
        got = await chat(w, *LOST)
        assert got.mark == "injected=0, missed=1, degraded=1, healed=lacks_reasoning"
        assert messages(w) == [ASK, filled, RESULT]
        assert w.counted("items_total", dialect="chat", outcome="degraded") == 1
        got = await chat(w, *LOST)
        assert got.mark == "injected=0, missed=1, degraded=1"
        assert (messages(w), len(w.upstream.received)) == ([ASK, filled, RESULT], 3)


async def test_a_second_refusal_reaches_the_client() -> None:
    """The second attempt was its own request, so it sees the error of that."""
    async with world() as w:
        w.upstream.answers(answer(**THOUGHT), refusal(UNSUPPORTED), refusal({"error": "other"}))
        await chat(w, ASK)
        got = await chat(w, *LOST)
        assert (got.status, json.loads(got.body)) == (400, {"error": "other"})
        assert w.counted("heals_total", dialect="chat", diagnosis="field", result="refused") == 1


async def test_healing_off_passes_every_refusal_on() -> None:
    """A success that begins as an error is not held either."""
    async with world(heal="off") as w:
        w.upstream.answers(answer(**THOUGHT), refusal(UNSUPPORTED), whole(as_json(WRAPPED)))
        await chat(w, ASK)
        assert (await chat(w, *LOST)).status == 400
        assert json.loads((await chat(w, *LOST)).body) == WRAPPED


async def test_a_stream_that_is_no_error_is_not_changed() -> None:
    """A completion that says `error` is a completion."""
    body = streamed({"role": "assistant", "content": '{"error": 1}'}, finish="stop")
    async with world() as w:
        w.upstream.answers(body, whole(b'  {"choices": [], "error": null, "id": "chatcmpl-2"}'))
        assert b'{\\"error\\": 1}' in (await chat(w, ASK, stream=True)).body
        assert (await chat(w, ASK)).body == b'  {"choices": [], "error": null, "id": "chatcmpl-2"}'
