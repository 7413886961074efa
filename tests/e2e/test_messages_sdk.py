"""Anthropic Messages with the official SDK, and an upstream that checks the blocks it receives."""

import contextlib
import itertools
import secrets
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from anthropic import APIStatusError, BadRequestError
from reasoning_replay.strict_api.binding import is_reasoning

from tests.e2e.agent import Way
from tests.e2e.messages_agent import MessagesAgent, MessagesKeeps
from tests.e2e.proxies import Reach, proxied, reached, split
from tests.e2e.sdk_loop import Message
from tests.e2e.witness import assert_all_there, assert_none_wrong
from tests.fast_lane import each_value
from tests.redis_server import RedisServer
from tests.strict.messages import LOOPS, MODES, ModeName, StrictMessages
from tests.strict.upstream import WRONG, index_of

WAYS: tuple[Way, ...] = get_args(Way)
QUESTIONS = ("Where does it rain today?", "And tomorrow?")

# (mode, a text of its refusal): those that refuse a client that drops reasoning.
STRICT: dict[ModeName, str] = {
    "manual": "Expected `thinking` or `redacted_thinking`, but found `",
    "deepseek": "The `content[].thinking` in the thinking mode must be passed back to the API.",
}
# Those that accept it, and think worse.
TOLERANT: tuple[ModeName, ...] = ("adaptive", "bound")
SERVED = ("straight-everything", "proxied-everything", "proxied-visible", "proxied-respelled")


def agent_of(
    api: StrictMessages, base_url: str, way: Way, keeps: MessagesKeeps, **more: Any
) -> MessagesAgent:
    """Return an agent that thinks in the mode of a strict API."""
    marks = more.pop("marks", False)
    asked = {"thinking": dict(api.mode.thinking), **more}
    return MessagesAgent(base_url, way, keeps, asked, model=api.model, marks=marks)


async def converse(
    api: StrictMessages,
    reach: Reach,
    way: Way,
    keeps: MessagesKeeps,
    questions: Sequence[str] = QUESTIONS,
    **more: Any,
) -> MessagesAgent:
    """Have questions answered; return the client."""
    async with (
        reached(api, reach) as base_url,
        agent_of(api, base_url, way, keeps, **more) as agent,
    ):
        return await agent.converse(questions)


@each_value(mode=[*STRICT], loop=["one_call", "search"], keeps=["visible", "respelled"])
async def test_a_client_that_drops_reasoning_is_refused(
    mode: ModeName, loop: Any, keeps: MessagesKeeps
) -> None:
    """
    Straight to the upstream, the second turn is refused, in the words of the vendor.

    So the upstream of these tests does detect lost reasoning.
    """
    api = StrictMessages(mode, loop=loop)
    with pytest.raises(BadRequestError) as caught:
        await converse(api, "straight", "async", keeps)
    assert STRICT[mode] in str(caught.value.response.json()["error"]["message"])
    assert [one.status for one in api.received] == [200, 400]


@each_value(mode=TOLERANT, loop=[*LOOPS], way=WAYS, served=["straight", "proxied"])
async def test_a_tolerant_model_forgets(mode: ModeName, loop: Any, way: Way, served: Any) -> None:
    """Straight to it, all reasoning is lost, and the prompt is read anew; not through the proxy."""
    api = StrictMessages(mode, loop=loop)
    agent = await converse(api, served, way, "visible")
    assert_none_wrong(api, agent.steps)
    thought = loop != "plain"
    is_whole = served == "proxied"
    assert bool(api.found("missing")) == (thought and not is_whole)
    assert bool(api.found("whole")) == (thought and is_whole)
    # Whether the cache has the response, or ends with the request before it.
    reads = [one.judgement for one in api.judged if one.judgement is not None]
    known = [after.cached > before.tokens for before, after in itertools.pairwise(reads)]
    assert all(known) == (is_whole or not thought)


@each_value(mode=[*MODES], loop=[*LOOPS], way=WAYS, served=SERVED, marks=["marks", ""])
async def test_a_client_is_served_all_its_turns(
    mode: ModeName, loop: Any, way: Way, served: str, marks: str
) -> None:
    """All blocks are there, byte for byte, and all other members are as the client sent them."""
    reach, keeps = split(served)
    api = StrictMessages(mode, loop=loop)
    agent = await converse(api, reach, way, keeps, marks=bool(marks))
    if loop == "plain":
        assert_none_wrong(api, agent.steps)  # the model never thought, so nothing is due
    else:
        assert_all_there(api, agent.steps)
    if keeps == "everything":
        assert [one.body for one in api.received] == [step.body for step in agent.steps]


@each_value(mode=[*MODES], loop=["one_call", "parallel", "chain", "preamble", "redacted"], way=WAYS)
async def test_a_text_ahead_of_the_calls_may_be_another(
    mode: ModeName, loop: Any, way: Way
) -> None:
    """Some clients write one where there was none, or replace it; the calls tell the turn."""
    api = StrictMessages(mode, loop=loop)
    agent = await converse(api, "proxied", way, "placeholder")
    assert_all_there(api, agent.steps)


def apart(history: list[Message]) -> list[Message]:
    """Give each block of the model a message of its own."""
    return [
        {**message, "content": [block]} if is_block else message
        for message in history
        for is_block in [message["role"] == "assistant"]
        for block in (message["content"] if is_block else [None])
    ]


@each_value(
    mode=[*MODES],
    loop=["one_call", "preamble", "chain", "interleaved", "redacted"],
    way=WAYS,
    served=SERVED[:3],
    turns=["every", "older"],
)
async def test_adjacent_messages_are_one(
    mode: ModeName, loop: Any, way: Way, served: str, turns: str
) -> None:
    """The API joins them, so what passes straight is not refused, and nothing is there twice."""
    reach, keeps = split(served)
    api = StrictMessages(mode, loop=loop)
    async with (
        reached(api, reach) as base_url,
        agent_of(api, base_url, way, keeps) as agent,
    ):
        for question in QUESTIONS:
            agent.history.append({"role": "user", "content": question})
            calls = True
            while calls:
                calls = await agent.step()
                if turns == "every":
                    agent.history = apart(agent.history)
            agent.history = apart(agent.history)
        agent.history.append({"role": "user", "content": QUESTIONS[0]})
        await agent.count()
    assert [one.refusal for one in api.judged] == [None] * len(api.judged)
    assert {finding.state for _, finding in api.found("whole", "missing", *WRONG)} == {"whole"}
    if keeps == "everything":
        both = zip(api.received, agent.steps, strict=False)
        assert all(one.body == step.body for one, step in both)


@each_value(mode=TOLERANT, loop=["chain", "interleaved"], way=WAYS)
async def test_a_client_that_skips_empty_blocks_is_served(
    mode: ModeName, loop: Any, way: Way
) -> None:
    """A signature without a text is reasoning."""
    api = StrictMessages(mode, loop=loop)
    agent = await converse(api, "proxied", way, "worded")
    assert_all_there(api, agent.steps)
    assert all(step.mark for step in agent.steps)


DAMAGES: tuple[MessagesKeeps, ...] = ("unsigned", "emptied", "rewrapped", "unredacted", "first")


# Nothing tells that such a signature is no good, if the block has no text.
UNCERTAIN: MessagesKeeps = "rewrapped"


@each_value(
    mode=["manual", *TOLERANT],
    loop=["chain", "interleaved", "redacted", "search"],
    keeps=DAMAGES,
    way=WAYS,
)
async def test_damaged_reasoning_is_completed(
    mode: ModeName, loop: Any, keeps: MessagesKeeps, way: Way
) -> None:
    """All requests have the blocks as they were; without a refusal, if the damage is certain."""
    api = StrictMessages(mode, loop=loop)
    agent = await converse(api, "proxied", way, keeps)
    refused = [index for index, one in enumerate(api.judged) if one.refusal]
    assert len(refused) <= (keeps == UNCERTAIN)
    accepted = [one for one in api.judged if not one.refusal]
    assert {one.state for judged in accepted for one in judged.findings} <= {"whole"}
    assert sum("healed=" in step.mark for step in agent.steps) == len(refused)


@each_value(
    mode=["adaptive", "bound", "manual"],
    loop=["interleaved", "redacted", "chain"],
    keeps=["first", "unredacted", UNCERTAIN, "unsigned"],
    way=WAYS,
    order=["one first", "other first"],
)
async def test_replicas_complete_the_same(  # noqa: PLR0917 (a table of what may differ)
    mode: ModeName,
    loop: Any,
    keeps: MessagesKeeps,
    way: Way,
    order: str,
    shared_redis: RedisServer,
) -> None:
    """Whichever replica gets a request, a completed message stays as upstream has seen it."""
    api = StrictMessages(mode, loop=loop)
    url = f"{shared_redis.url}?prefix=rr-{secrets.token_hex(8)}"
    async with (
        api,
        proxied(api, url, upstream_profile=api.profile) as one,
        proxied(api, url, upstream_profile=api.profile) as other,
    ):
        urls = [one, other] if order == "one first" else [other, one]
        first, second = (agent_of(api, each, way, keeps) for each in urls)
        second.api_key, second.history = first.api_key, first.history
        async with first, second:
            turn = itertools.cycle([first, second])
            for question in [*QUESTIONS, *QUESTIONS]:
                first.history.append({"role": "user", "content": question})
                while await next(turn).step():
                    pass
    accepted = [one for one in api.judged if not one.refusal]
    assert len(api.judged) - len(accepted) <= (keeps == UNCERTAIN)
    assert {one.state for judged in accepted for one in judged.findings} == {"whole"}
    for before, after in itertools.pairwise(accepted):
        assert after.messages[: len(before.messages)] == before.messages


@pytest.mark.parametrize("keeps", DAMAGES)
async def test_damaged_reasoning_is_refused(keeps: MessagesKeeps) -> None:
    """Straight to the upstream, which thus does check what it receives."""
    loop: Any = "redacted" if keeps == "unredacted" else "interleaved"
    api = StrictMessages("manual", loop=loop)
    with pytest.raises(BadRequestError):
        await converse(api, "straight", "sync", keeps)


@each_value(mode=[*MODES], loop=["chain", "interleaved"], chunk=["23", "700"])
async def test_a_stream_may_come_in_any_pieces(mode: ModeName, loop: Any, chunk: str) -> None:
    """Writes of any size change nothing."""
    api = StrictMessages(mode, loop=loop, chunk_bytes=int(chunk))
    agent = await converse(api, "proxied", "async-stream", "visible")
    assert_all_there(api, agent.steps)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["async", "async-stream"])
async def test_turns_that_look_alike_keep_their_own_reasoning(mode: ModeName, way: Way) -> None:
    """With ids that repeat, and the same words in every turn, only the place of a turn is left."""
    api = StrictMessages(mode, loop="chain", repeats=True, counts_ids=True)
    agent = await converse(api, "proxied", way, "visible", questions=[*QUESTIONS, *QUESTIONS])
    assert_all_there(api, agent.steps)


@pytest.mark.parametrize("mode", MODES)
async def test_a_count_of_tokens_has_the_same_input(mode: ModeName) -> None:
    """It is given the reasoning that the request itself would have."""
    api = StrictMessages(mode, loop="interleaved")
    async with (
        reached(api, "proxied") as base_url,
        agent_of(api, base_url, "async", "visible") as agent,
    ):
        await agent.converse(QUESTIONS[:1])
        agent.history.append({"role": "user", "content": QUESTIONS[1]})
        counted = await agent.count()
        await agent.step()
    count, asked = api.judged[-2:]
    assert asked.judgement is not None
    assert count.received.path.endswith("/messages/count_tokens")
    assert count.messages == asked.messages
    assert count.refusal is asked.refusal is None
    assert counted == asked.judgement.tokens


# What a client may change of its history, after some turns.
EDITS = ["question", "answer", "result", "system", "tools"]


def edit(agent: MessagesAgent, what: str) -> int:
    """Change the history of an agent; return the index of the message from which it differs."""
    match what:
        case "question":
            agent.history[0] = {"role": "user", "content": "Where is it dry today?"}
            return 0
        case "answer":
            at = max(n for n, one in enumerate(agent.history) if one["role"] == "assistant")
            agent.history[at] = {"role": "assistant", "content": "Take an umbrella."}
            return at
        case "result":
            (result,) = agent.history[2]["content"]
            agent.history[2] = {"role": "user", "content": [{**result, "content": "Dry."}]}
            return 2
        case "model":
            agent.model = "claude-opus-4-8"
        case "system":
            agent.more["system"] = "Be brief."
        case _:
            agent.more["tools"] = agent.tools[:1]
    return 0


@each_value(what=EDITS, loop=["chain", "preamble", "interleaved", "redacted"], way=WAYS)
async def test_nothing_is_injected_after_an_edit_of_a_bound_history(
    what: str, loop: Any, way: Way
) -> None:
    """Nothing is refused either; what was made after the edit is injected from then on."""
    api = StrictMessages("bound", loop=loop)
    async with (
        reached(api, "proxied") as base_url,
        agent_of(api, base_url, way, "visible") as agent,
    ):
        await agent.converse(QUESTIONS)
        asked, known = len(agent.steps), len(agent.history)
        edited = edit(agent, what)
        await agent.converse(["And next week?", "Next month?"])
    assert_is_never_refused(api, agent)
    for one in api.judged[asked:]:
        states = {
            (index_of(each) >= known, index_of(each) > edited): each.state for each in one.findings
        }
        for each in one.findings:
            expected = "missing" if edited <= index_of(each) < known else "whole"
            assert each.state == expected, (states, each)
    assert any(index_of(each) >= known for each in api.judged[-1].findings)


def assert_is_never_refused(api: StrictMessages, agent: MessagesAgent) -> None:
    """Assert that each request of an agent was accepted at the first attempt."""
    assert [one.refusal for one in api.judged] == [None] * len(agent.steps)
    assert api.found(*WRONG) == []


@each_value(mode=[*MODES], loop=["chain"], way=WAYS)
async def test_a_final_text_that_moves_ahead_of_older_calls(
    mode: ModeName, loop: Any, way: Way
) -> None:
    """No block goes before the text of another turn, and nothing is refused."""
    api = StrictMessages(mode, loop=loop)
    async with (
        reached(api, "proxied") as base_url,
        agent_of(api, base_url, way, "visible") as agent,
    ):
        await agent.converse(QUESTIONS[:1])
        question, *rounds, final = agent.history
        agent.history = [question, final, *rounds]
        await agent.converse(QUESTIONS[1:])
    assert_is_never_refused(api, agent)
    older = [one.state for one in api.judged[-1].findings if index_of(one) == 1]
    assert ("whole" in older) == (mode != "bound")  # which checks the history before a block


@pytest.mark.parametrize("way", WAYS)
async def test_a_hole_that_a_client_makes_is_filled(way: Way) -> None:
    """Straight, a block that is missing between others is refused; the oldest may be missing."""
    for reach in get_args(Reach):
        api = StrictMessages("bound", loop="chain")
        async with (
            reached(api, reach) as base_url,
            agent_of(api, base_url, way, "everything") as agent,
        ):
            await agent.converse(QUESTIONS[:1])
            whole = list(agent.history)
            agent.history[1] = bare(whole[1])
            await agent.converse(QUESTIONS[1:])
            agent.history = [*whole[:3], bare(whole[3]), *whole[4:]]
            is_straight = reach == "straight"
            with (
                pytest.raises(BadRequestError, match="is bound to a different conversation")
                if is_straight
                else contextlib.nullcontext()
            ):
                await agent.converse(["And next week?"])
        if not is_straight:
            assert_is_never_refused(api, agent)
            assert {one.state for one in api.judged[-1].findings} == {"whole"}


def bare(message: Message) -> Message:
    """Return a message without its reasoning."""
    blocks = [block for block in message["content"] if not is_reasoning(block)]
    return {**message, "content": blocks}


# (mode, what changes, a text of the refusal): a client that keeps what no longer fits.
STALE: dict[str, tuple[ModeName, str]] = {
    "question": ("bound", "is bound to a different conversation"),
    "result": ("bound", "is bound to a different conversation"),
    "system": ("bound", "is bound to a different conversation"),
    "tools": ("bound", "is bound to a different conversation"),
    "model": ("adaptive", "Invalid `signature` in `thinking` block"),
}


@each_value(what=[*STALE], way=WAYS)
async def test_a_client_that_keeps_blocks_that_no_longer_fit_is_healed(what: str, way: Way) -> None:
    """Straight, it is refused for good; through the proxy, the retry lacks what does not fit."""
    mode, words = STALE[what]
    for reach in get_args(Reach):
        api = StrictMessages(mode, loop="chain")
        async with (
            reached(api, reach) as base_url,
            agent_of(api, base_url, way, "everything") as agent,
        ):
            await agent.converse(QUESTIONS[:1])
            edit(agent, what)
            is_straight = reach == "straight"
            with (
                pytest.raises(BadRequestError, match=words)
                if is_straight
                else contextlib.nullcontext()
            ):
                await agent.converse(["And next week?"])
        refused = [one.refusal is not None for one in api.judged]
        assert refused[:4] == [False, False, False, True]
        # One retry is enough, each time.
        assert is_straight or (refused[4], refused[-1]) == (False, False)
        assert (True, True) not in itertools.pairwise(refused)


@each_value(what=["question", "result", "system"], way=WAYS)
async def test_the_api_may_be_asked_to_drop_blocks(what: str, way: Way) -> None:
    """By setting, the retry asks for it, with the betas of the client; then nothing is refused."""
    api = StrictMessages("bound", loop="chain")
    betas = {"extra_headers": {"anthropic-beta": "context-management-2025-06-27"}}
    async with (
        reached(api, "proxied", messages_drop_block="on") as base_url,
        agent_of(api, base_url, way, "everything", **betas) as agent,
    ):
        await agent.converse(QUESTIONS[:1])
        known = len(api.judged)
        edit(agent, what)
        await agent.converse(["And next week?", "Next month?"])
    refused = [one.refusal is not None for one in api.judged]
    assert refused == [index == known for index in range(len(refused))]
    heads = [dict(one.received.headers)["anthropic-beta"] for one in api.judged]
    asked = f"{heads[0]},thinking-binding-controls-2026-08-01"
    assert [head for head in heads if head != heads[0]] == [asked]
    assert heads[known + 1] == asked


@pytest.mark.parametrize("way", WAYS)
async def test_a_switch_of_the_model_gets_no_reasoning_of_another(way: Way) -> None:
    """Blocks of the first model are not injected for the second one, nor is anything refused."""
    api = StrictMessages("adaptive", loop="chain")
    async with (
        reached(api, "proxied") as base_url,
        agent_of(api, base_url, way, "visible") as agent,
    ):
        await agent.converse(QUESTIONS[:1])
        known = len(agent.history)
        agent.model = "claude-opus-4-8"
        await agent.converse(QUESTIONS[1:])
    assert_is_never_refused(api, agent)
    assert {one.state for one in api.judged[-1].findings if index_of(one) < known} == {"missing"}
    assert {one.state for one in api.judged[-1].findings if index_of(one) >= known} == {"whole"}


@pytest.mark.parametrize("way", WAYS)
async def test_a_response_that_was_cut_short_is_not_injected(way: Way) -> None:
    """The API refuses or forgets it; the client goes on without an error."""
    api = StrictMessages("bound", loop="text", end="length")
    async with (
        reached(api, "proxied") as base_url,
        agent_of(api, base_url, way, "visible") as agent,
    ):
        await agent.converse(QUESTIONS[:1])
        api.behaviour.end = "complete"
        await agent.converse(QUESTIONS[1:])
    assert_is_never_refused(api, agent)
    assert [each.state for each in api.judged[-1].findings] == ["missing"]


@pytest.mark.parametrize("way", ["sync-stream", "async-stream"])
async def test_an_error_inside_a_stream_reaches_the_client(way: Way) -> None:
    """Nothing of that response is kept, and the client goes on."""
    api = StrictMessages("manual", loop="preamble", end="error")
    async with (
        reached(api, "proxied") as base_url,
        agent_of(api, base_url, way, "visible") as agent,
    ):
        with pytest.raises(APIStatusError, match="Overloaded"):
            await agent.converse(QUESTIONS[:1])
        api.behaviour.end = "complete"
        while await agent.step():
            pass
    assert [one.refusal for one in api.judged] == [None] * 3
    assert [each.state for each in api.judged[-1].findings] == ["whole"]
