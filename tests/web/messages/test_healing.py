"""Refusals of the Messages API, healed with the least edit, through real sockets."""

import json

import pytest

from tests.web.line import Answer
from tests.web.messages.exchanges import (
    ASK,
    CALL,
    COUNT,
    LOST,
    MODEL,
    PATH,
    RESULT,
    TEXT,
    THOUGHT,
    VERTEX,
    WHOLE,
    answer,
    messages,
    refusal,
    send,
)
from tests.web.wire import as_json, chunk, stream_head, whole
from tests.web.world import Hooked, World, world

DONE = whole(b"{}")
BLOCKS = (THOUGHT, TEXT, CALL)
LATER = [*LOST, {"role": "assistant", "content": "7 degrees."}, ASK]

EXPECTED = (
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. "
    "When `thinking` is enabled, a final `assistant` message must start with a thinking block."
)
INVALID = "messages.1.content.0: Invalid `signature` in `thinking` block"
ELSEWHERE = f"{INVALID}. The block is bound to a different conversation. Remove the block."
MODIFIED = (
    "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant "
    "message cannot be modified."
)
DISABLED = (
    "messages.1: When thinking is disabled, an `assistant` message in the final position cannot "
    "contain `thinking`."
)
UNKNOWN = (
    "messages.1.content.0: Input tag 'thinking' found using 'type' does not match any of the "
    "expected tags: 'text', 'image'"
)
OPAQUE = "messages.1.content.0.thinking: Input should be a valid string"


def healed(w: World, word: str, result: str = "cured") -> float:
    """Return how many requests were healed of this refusal."""
    return w.counted("heals_total", dialect="messages", diagnosis=word, result=result)


async def refused(w: World, *texts: str) -> Answer:
    """Send a history that lacks its block; each text refuses one attempt."""
    w.upstream.answers(answer(*BLOCKS), *map(refusal, texts), *[DONE] * 3)
    await send(w, ASK)
    return await send(w, *LOST)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (INVALID, "blob"),
        (ELSEWHERE, "binding"),
        (MODIFIED, "modified"),
        (UNKNOWN, "field"),
    ],
)
async def test_a_block_that_is_not_accepted_is_taken_back_and_never_sent_again(
    text: str, word: str
) -> None:
    """The client's own bytes are accepted; the next request is right at the first attempt."""
    async with world() as w:
        got = await refused(w, text)
        assert (got.status, got.mark) == (200, f"injected=0, refused=1, healed={word}")
        assert (messages(w, 1), messages(w)) == (WHOLE, LOST)
        assert healed(w, word) == 1
        await send(w, *LATER)
        assert messages(w) == LATER
        assert len(w.upstream.received) == 4


async def test_a_refusal_may_name_the_message_before_ours() -> None:
    """Adjacent messages are one, and upstream may call it by the first of them."""
    inner = THOUGHT | {"thinking": "", "signature": "ErUBCkYIBx=="}
    said, called = ({"role": "assistant", "content": [one]} for one in (TEXT, CALL))
    async with world() as w:
        w.upstream.answers(answer(TEXT, inner, CALL), refusal(MODIFIED), DONE, DONE)
        await send(w, ASK)
        got = await send(w, ASK, said, called, RESULT)
        assert (got.status, got.mark) == (200, "injected=0, refused=1, healed=modified")
        assert messages(w, 1)[2]["content"] == [inner, CALL]
        assert messages(w) == [ASK, said, called, RESULT]


async def test_reasoning_is_injected_before_another_text_after_a_refusal() -> None:
    """The store failed before the first attempt; the calls are still all there."""
    failing = [True]

    async def before(operation: str) -> None:
        if operation == "recall" and failing:
            failing.pop()
            raise OSError("down")

    said = {"role": "assistant", "content": [{"type": "text", "text": "Empty."}, CALL]}
    async with world() as w:
        w.upstream.answers(answer(*BLOCKS), refusal(EXPECTED), DONE)
        await send(w, ASK)
        w.app.store.inner = Hooked(w.app.store.inner, before)
        assert (await send(w, ASK, said, RESULT)).status == 200
        assert messages(w, 1)[1] == said
        assert messages(w)[1]["content"] == [THOUGHT, *said["content"]]


async def test_of_equal_turns_the_newest_is_injected_after_a_refusal_only() -> None:
    """A request was answered twice. Nothing tells the turns apart, but upstream demands one."""
    call = CALL | {"id": "toolu_0"}
    output = {"type": "tool_result", "tool_use_id": "toolu_0", "content": "7 degrees"}
    lost = [ASK, {"role": "assistant", "content": [call]}, {"role": "user", "content": [output]}]
    newer = THOUGHT | {"thinking": "Better twice.", "signature": "EpMDCkYJ=="}
    async with world() as w:
        twins = answer(THOUGHT, call), answer(newer, call, number=2)
        w.upstream.answers(*twins, DONE, refusal(EXPECTED), DONE)
        await send(w, ASK)
        await send(w, ASK)
        assert (await send(w, *lost)).mark == "injected=0, ambiguous=1"
        got = await send(w, *lost)
        assert (got.status, messages(w, 3)) == (200, lost)
        assert messages(w)[1]["content"] == [newer, call]


async def test_an_alias_of_the_model_gets_the_reasoning_after_a_refusal_and_from_then_on() -> None:
    """A dated name came first. An alias may lead to another model, so it must be demanded."""
    dated = f"{MODEL}-20250929"
    async with world(upstream_profile="anthropic") as w:
        w.upstream.answers(answer(*BLOCKS, model=dated), refusal(EXPECTED), *[DONE] * 3)
        await send(w, ASK, model=dated)
        got = await send(w, *LOST)
        assert (got.status, got.mark) == (
            200,
            "injected=1, guarded_model=1, healed=lacks_reasoning",
        )
        assert (messages(w, 1), messages(w)) == (LOST, WHOLE)
        assert (await send(w, *LOST)).mark == "injected=1"
        assert (messages(w), len(w.upstream.received)) == (WHOLE, 4)
        assert (await send(w, *LOST, model="claude-opus-4-6")).mark == "injected=0, guarded_model=1"


async def test_another_model_gets_no_reasoning_after_a_refusal() -> None:
    """Its signatures are of one model; the refusal goes to the client at the first attempt."""
    async with world(upstream_profile="anthropic") as w:
        w.upstream.answers(answer(*BLOCKS), refusal(EXPECTED))
        await send(w, ASK)
        got = await send(w, *LOST, model="claude-opus-4-6")
        assert (got.status, got.mark) == (400, "injected=0, guarded_model=1")
        assert len(w.upstream.received) == 2


async def test_a_type_that_a_model_of_a_cloud_does_not_accept_is_remembered() -> None:
    """The path alone names the model; another model at this upstream is not affected."""
    async with world(base="") as w:
        other = VERTEX.replace(MODEL, "claude-opus-4-6")
        w.upstream.answers(answer(*BLOCKS), refusal(UNKNOWN), DONE, DONE, answer(*BLOCKS), DONE)
        await send(w, ASK, path=VERTEX, model=None)
        assert (await send(w, *LOST, path=VERTEX, model=None)).mark == (
            "injected=0, refused=1, healed=field"
        )
        assert (await send(w, *LOST, path=VERTEX, model=None)).mark == "injected=0"
        await send(w, ASK, path=other, model=None)
        await send(w, *LOST, path=other, model=None)
        assert messages(w) == WHOLE


@pytest.mark.parametrize(("text", "word"), [(DISABLED, "switched_off"), (OPAQUE, "input")])
async def test_an_edit_that_is_refused_for_another_reason_is_taken_back_once(
    text: str, word: str
) -> None:
    """It is no judgement of the block, so the next request has it again."""
    async with world() as w:
        got = await refused(w, text)
        assert got.mark == f"injected=0, refused=1, healed={word}"
        assert messages(w) == LOST
        assert (await send(w, *LOST)).mark == "injected=1"
        assert messages(w) == WHOLE


@pytest.mark.parametrize(("path", "model"), [(PATH, MODEL), (VERTEX, None)])
async def test_missing_reasoning_that_is_known_is_injected(path: str, model: str | None) -> None:
    """The store failed before the first attempt; the model may be in the path alone."""
    failing = [True]

    async def before(operation: str) -> None:
        if operation == "recall" and failing:
            failing.pop()
            raise OSError("down")

    async with world(base="" if path == VERTEX else "/v1") as w:
        w.upstream.answers(answer(*BLOCKS), refusal(EXPECTED), DONE)
        await send(w, ASK, path=path, model=model)
        w.app.store.inner = Hooked(w.app.store.inner, before)
        got = await send(w, *LOST, path=path, model=model)
        assert got.status == 200
        assert messages(w, 1) == LOST
        assert messages(w) == WHOLE
        assert healed(w, "lacks_reasoning") == 1


async def test_missing_reasoning_that_is_not_known_is_not_invented() -> None:
    """The refusal reaches the client."""
    async with world() as w:
        w.upstream.answers(refusal(EXPECTED))
        got = await send(w, *LOST)
        assert (got.status, len(w.upstream.received)) == (400, 1)
        assert json.loads(got.body)["error"]["message"] == EXPECTED


async def test_the_clients_own_block_is_left_out_as_well() -> None:
    """A foreign block that the client sends is left out, and from then on before an attempt."""
    foreign = [ASK, {"role": "assistant", "content": [THOUGHT, TEXT, CALL]}, RESULT]
    async with world() as w:
        w.upstream.answers(refusal(INVALID), DONE, DONE)
        got = await send(w, *foreign)
        assert got.mark is not None
        assert "healed=blob" in got.mark
        assert messages(w) == LOST
        got = await send(w, *foreign)
        assert got.mark is not None
        assert "repaired=1" in got.mark
        assert (messages(w), len(w.upstream.received)) == (LOST, 3)
        assert w.counted("repairs_total", dialect="messages", repair="foreign") == 1


async def test_a_stream_that_begins_with_a_refusal_is_healed() -> None:
    """The first event of a stream may be the error of the request."""
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": INVALID}}
    pieces = (b"event: error\ndata: " + as_json(error) + b"\n\n", b"")
    async with world() as w:
        w.upstream.answers(answer(*BLOCKS), stream_head() + b"".join(map(chunk, pieces)), DONE)
        await send(w, ASK)
        got = await send(w, *LOST, stream=True)
        assert (got.body, got.mark) == (b"{}", "injected=0, refused=1, healed=blob")


async def test_a_count_of_tokens_is_healed() -> None:
    """It is refused for the same reasons as the request that it counts for."""
    async with world() as w:
        w.upstream.answers(answer(*BLOCKS), refusal(INVALID), whole(b'{"input_tokens":22}'))
        await send(w, ASK)
        got = await send(w, *LOST, path=COUNT)
        assert (got.body, messages(w)) == (b'{"input_tokens":22}', LOST)


async def test_other_refusals_and_second_refusals_reach_the_client() -> None:
    """The client sees the error of its own request."""
    async with world() as w:
        got = await refused(w, "prompt is too long: 210000 tokens > 200000 maximum")
        assert (got.status, len(w.upstream.received)) == (400, 2)
    async with world() as w:
        got = await refused(w, INVALID, "max_tokens: too large")
        assert json.loads(got.body)["error"]["message"] == "max_tokens: too large"
        assert healed(w, "blob", "refused") == 1


async def test_healing_off_passes_every_refusal_on() -> None:
    """There is one attempt."""
    async with world(heal="off") as w:
        got = await refused(w, INVALID)
        assert (got.status, len(w.upstream.received)) == (400, 2)
