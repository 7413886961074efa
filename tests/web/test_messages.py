"""Messages through the proxy: what no other dialect has."""

import pytest

from tests.web.messages.exchanges import (
    ASK,
    BOUND,
    CALL,
    COUNT,
    EXPECTED,
    INVALID,
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
from tests.web.wire import whole
from tests.web.world import Hooked, world

DONE = whole(b"{}")
BLOCKS = (THOUGHT, TEXT, CALL)
UNKNOWN = (
    "messages.1.content.0: Input tag 'thinking' found using 'type' does not match any of the "
    "expected tags: 'text', 'image'"
)


@pytest.mark.parametrize(
    ("model", "mark"), [(MODEL, "injected=2"), (BOUND, "injected=1, lacking=1, guarded_prefix=1")]
)
async def test_a_thread_that_ends_is_sent_as_a_whole(model: str, mark: str) -> None:
    """Upstream has the history, so nothing is due; the bound rest was made after an unseen one."""
    late = THOUGHT | {"thinking": "", "signature": "ErUBCkYIBx=="}
    call = CALL | {"id": "toolu_01Qw8nR4yU6cJm1TsX"}
    last = {"role": "assistant", "content": [call]}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "8 degrees"}
    async with world(upstream_profile="anthropic") as w:
        w.upstream.answers(answer(*BLOCKS), answer(late, call, number=2), DONE)
        await send(w, ASK, model=model, thread={"type": "create"})
        more = {"type": "continue", "previous_message_id": "msg_1"}
        assert (await send(w, RESULT, model=model, thread=more)).mark == "injected=0"
        assert messages(w) == [RESULT]
        history = [*LOST, last, {"role": "user", "content": [result]}]
        assert (await send(w, *history, model=model, thread={"type": "create"})).mark == mark
        assert messages(w)[:3] == WHOLE


@pytest.mark.parametrize(("path", "model"), [(PATH, MODEL), (VERTEX, None)])
async def test_missing_reasoning_that_is_known_is_injected(path: str, model: str | None) -> None:
    """The store failed before the first attempt; the model may be in the path alone."""
    failing = [True]

    async def before(operation: str) -> None:
        if operation == "recall" and failing:
            failing.pop()
            raise OSError("down")

    async with world(has_store=True, local_max_bytes=0, base="" if path == VERTEX else "/v1") as w:
        w.upstream.answers(answer(*BLOCKS), refusal(EXPECTED), DONE)
        await send(w, ASK, path=path, model=model)
        w.app.store.inner = Hooked(w.app.store.inner, before)
        got = await send(w, *LOST, path=path, model=model)
        assert got.status == 200
        assert messages(w, 1) == LOST
        assert messages(w) == WHOLE
        assert w.counted("heals_total", diagnosis="lacks_reasoning", result="cured") == 1


async def test_an_alias_of_the_model_gets_the_reasoning_after_a_refusal_and_from_then_on() -> None:
    """A dated name came first. An alias may lead to another model, so it must be demanded."""
    dated = f"{MODEL}-20250929"
    async with world(upstream_profile="anthropic") as w:
        w.upstream.answers(answer(*BLOCKS, model=dated), refusal(EXPECTED), *[DONE] * 3)
        await send(w, ASK, model=dated)
        got = await send(w, *LOST)
        assert (got.status, got.mark) == (
            200,
            "injected=1, healed=lacks_reasoning",
        )
        assert (messages(w, 1), messages(w)) == (LOST, WHOLE)
        assert (await send(w, *LOST)).mark == "injected=1"
        assert (messages(w), len(w.upstream.received)) == (WHOLE, 4)
        other = await send(w, *LOST, model="claude-opus-4-6")
        assert other.mark == "injected=0, lacking=1, guarded_model=1"


async def test_a_type_that_a_model_of_a_cloud_does_not_accept_is_remembered() -> None:
    """The path alone names the model; another model at this upstream is not affected."""
    async with world(base="") as w:
        other = VERTEX.replace(MODEL, "claude-opus-4-6")
        w.upstream.answers(answer(*BLOCKS), refusal(UNKNOWN), DONE, DONE, answer(*BLOCKS), DONE)
        await send(w, ASK, path=VERTEX, model=None)
        assert (await send(w, *LOST, path=VERTEX, model=None)).mark == (
            "injected=0, lacking=1, refused=1, healed=field"
        )
        assert (await send(w, *LOST, path=VERTEX, model=None)).mark == "injected=0"
        await send(w, ASK, path=other, model=None)
        await send(w, *LOST, path=other, model=None)
        assert messages(w) == WHOLE


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


async def test_a_count_of_tokens_is_healed() -> None:
    """It is refused for the same reasons as the request that it counts for."""
    async with world() as w:
        w.upstream.answers(answer(*BLOCKS), refusal(INVALID), whole(b'{"input_tokens":22}'))
        await send(w, ASK)
        got = await send(w, *LOST, path=COUNT)
        assert (got.body, messages(w)) == (b'{"input_tokens":22}', LOST)
