"""Chat Completions with the official SDK, and an upstream that checks the reasoning it receives."""

import contextlib
import json
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from openai import BadRequestError

from tests.e2e.agent import Way
from tests.e2e.chat_agent import ChatAgent, ChatKeeps
from tests.e2e.proxies import Reach, reached, split
from tests.e2e.witness import assert_all_there, assert_none_wrong
from tests.fast_lane import each_value
from tests.strict.chat import LOOPS, FamilyName, StrictChat
from tests.strict.upstream import WRONG

WAYS: tuple[Way, ...] = get_args(Way)
QUESTIONS = ("Where does it rain today?", "And tomorrow?")

# (vendor, a text of its refusal): those that refuse a client that drops reasoning.
STRICT: dict[FamilyName, str] = {
    "deepseek": "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "kimi": "reasoning_content is missing in assistant tool call message at index 1",
    "gemini": "Function call is missing a thought_signature in functionCall parts.",
    "openrouter": "Gemini models require OpenRouter reasoning details to be preserved",
}
# Those that accept it, and think worse.
TOLERANT: tuple[FamilyName, ...] = ("lenient", "litellm", "groq", "cerebras")

# Reasoning without words is "" there, and demanded as well.
EMPTY: tuple[FamilyName, ...] = ("kimi", "deepseek")

# (how the client reaches the upstream, what it keeps): each of them is served all its turns.
SERVED = ("straight-everything", "proxied-everything", "proxied-declared")
# A client with ids of its own; OpenRouter's encrypted reasoning names its call by upstream's id.
RENAMING = "proxied-respelled"
BY_ID: FamilyName = "openrouter"
# The clients that are refused: the same ones without the proxy.
REFUSED: tuple[ChatKeeps, ...] = ("declared", "respelled")


async def converse(
    api: StrictChat,
    reach: Reach,
    way: Way,
    keeps: ChatKeeps,
    questions: Sequence[str] = QUESTIONS,
    **more: Any,
) -> ChatAgent:
    """Have questions answered; return the client."""
    async with (
        reached(api, reach) as base_url,
        ChatAgent(base_url, way, keeps, model=api.model, **more) as agent,
    ):
        return await agent.converse(questions)


def assert_served(api: StrictChat, agent: ChatAgent, family: FamilyName, loop: Any) -> None:
    """Assert that all reasoning came back that the model of a family has in a loop."""
    if loop != "plain" or family not in {*TOLERANT, *EMPTY}:
        assert_all_there(api, agent.steps)
        return
    assert_none_wrong(api, agent.steps)
    if family in EMPTY:
        histories = [json.loads(one.body)["messages"] for one in api.received]
        answers = [one for told in histories for one in told if one["role"] == "assistant"]
        assert {one.get("reasoning_content") for one in answers} == {""}


@pytest.mark.parametrize("keeps", [*REFUSED, "renamed", "torn"])
@pytest.mark.parametrize("family", STRICT)
async def test_a_client_that_drops_reasoning_is_refused(
    family: FamilyName, keeps: ChatKeeps
) -> None:
    """
    Straight to the upstream, the second turn is refused, in the words of the vendor.

    So the upstream of these tests does detect reasoning that is lost or torn.
    """
    api = StrictChat(family)
    with pytest.raises(BadRequestError) as caught:
        await converse(api, "straight", "async", keeps)
    assert keeps == "torn" or STRICT[family] in json.dumps(caught.value.response.json())
    assert [one.status for one in api.received] == [200, 400]


@each_value(family=[*TOLERANT], loop=[*LOOPS], keeps=REFUSED)
async def test_a_tolerant_upstream_counts_its_loss(
    family: FamilyName, loop: Any, keeps: ChatKeeps
) -> None:
    """Straight to an upstream that accepts everything, all reasoning is missing, and none wrong."""
    api = StrictChat(family, loop=loop)
    agent = await converse(api, "straight", "async-stream", keeps)
    assert_none_wrong(api, agent.steps)
    assert api.found("whole") == []
    assert bool(api.found("missing")) == (loop != "plain")


@each_value(family=[*STRICT, *TOLERANT], loop=[*LOOPS], way=WAYS, served=SERVED)
async def test_a_client_is_served_all_its_turns(
    family: FamilyName, loop: Any, way: Way, served: str
) -> None:
    """All reasoning is there, byte for byte, and all other members are as the client sent them."""
    reach, keeps = split(served)
    api = StrictChat(family, loop=loop)
    agent = await converse(api, reach, way, keeps)
    assert_served(api, agent, family, loop)
    if keeps == "everything":
        assert [one.body for one in api.received] == [step.body for step in agent.steps]


@each_value(
    family=[name for name in (*STRICT, *TOLERANT) if name != BY_ID], loop=[*LOOPS], way=WAYS
)
async def test_a_client_may_replace_the_ids_of_calls(
    family: FamilyName, loop: Any, way: Way
) -> None:
    """If the ids are the client's own, content and position decide: all reasoning is there."""
    api = StrictChat(family, loop=loop)
    agent = await converse(api, "proxied", way, "respelled")
    assert_served(api, agent, family, loop)


@each_value(
    family=[*STRICT, "lenient", "litellm"],
    loop=["one_call", "parallel", "chain", "preamble"],
    way=WAYS,
    keeps=["renamed", "emptied", "torn"],
)
async def test_a_client_may_keep_another_member_an_empty_one_or_a_piece(
    family: FamilyName, loop: Any, way: Way, keeps: ChatKeeps
) -> None:
    """Upstream gets what it emitted, under its name, at the first attempt."""
    api = StrictChat(family, loop=loop)
    agent = await converse(api, "proxied", way, keeps)
    assert_all_there(api, agent.steps)


HELPED: tuple[FamilyName, ...] = ("deepseek", "kimi", "openrouter", "lenient")
STREAMED: tuple[Way, ...] = ("sync-stream", "async-stream")


@pytest.mark.parametrize("way", STREAMED)
async def test_a_client_with_the_stream_helper_is_refused(way: Way) -> None:
    """Straight to OpenRouter: the helper repeats the ids and formats of reasoning details."""
    api = StrictChat("openrouter")
    with pytest.raises(BadRequestError):
        await converse(api, "straight", way, "everything", helps=True)


@each_value(
    family=HELPED,
    loop=["one_call", "parallel", "chain", "preamble"],
    way=STREAMED,
    keeps=["everything", "declared", "renamed", "torn"],
)
async def test_a_client_with_the_stream_helper_is_served_all_its_turns(
    family: FamilyName, loop: Any, way: Way, keeps: ChatKeeps
) -> None:
    """Whatever the helper makes of members that it does not know, upstream gets what it emitted."""
    api = StrictChat(family, loop=loop)
    agent = await converse(api, "proxied", way, keeps, helps=True)
    assert_all_there(api, agent.steps)


@each_value(
    family=["deepseek", "lenient", "groq"], loop=["one_call", "parallel", "chain"], way=WAYS
)
async def test_calls_may_have_another_order_and_a_text_beside_them(
    family: FamilyName, loop: Any, way: Way
) -> None:
    """Random ids say which calls they are; upstream gets what led to them."""
    api = StrictChat(family, loop=loop)
    agent = await converse(api, "proxied", way, "turned")
    assert_all_there(api, agent.steps)


SIGNING: dict[str, tuple[FamilyName, str]] = {
    "gemini": ("gemini", ""),
    "openrouter": ("openrouter", "anthropic/claude-sonnet-4.5"),
}


@each_value(vendor=[*SIGNING], loop=["one_call", "parallel", "chain"], way=WAYS)
@pytest.mark.parametrize("reach", get_args(Reach))
async def test_damaged_signatures_are_completed(
    vendor: str, loop: Any, way: Way, reach: Reach
) -> None:
    """Straight, they are refused for good; through the proxy once, and then they are as before."""
    family, model = SIGNING[vendor]
    api = StrictChat(family, loop=loop)
    is_straight = reach == "straight"
    async with (
        reached(api, reach) as base_url,
        ChatAgent(base_url, way, "rewrapped", model=model or api.model) as agent,
    ):
        with pytest.raises(BadRequestError) if is_straight else contextlib.nullcontext():
            await agent.converse(QUESTIONS)
    refused = [index for index, one in enumerate(api.judged) if one.refusal]
    assert refused == [1]  # also if the SDK goes on at `[DONE]`, before the stream ends
    if not is_straight:
        states = {one.state for judged in api.judged[refused[-1] + 1 :] for one in judged.findings}
        assert states == {"whole"}


async def test_reasoning_that_names_its_call_gets_the_id_back() -> None:
    """Encrypted details name an id: after a refusal, the call and its result have it again."""
    api = StrictChat(BY_ID, loop="one_call")
    agent = await converse(api, "proxied", "async", "respelled")
    assert agent.steps
    assert api.found("whole")
    assert api.found(*WRONG) == []


@each_value(
    ids=["kimi", "counter", "empty", "random", "deepseek"],
    way=["async", "async-stream"],
    served=[*SERVED, RENAMING],
)
async def test_turns_that_look_alike_keep_their_own_reasoning(
    ids: Any, way: Way, served: str
) -> None:
    """With the same words in every turn and ids that repeat or are replaced, the place decides."""
    reach, keeps = split(served)
    api = StrictChat("kimi", loop="chain", repeats=True, ids=ids)
    agent = await converse(api, reach, way, keeps, questions=[*QUESTIONS, *QUESTIONS])
    assert_all_there(api, agent.steps)


# Differences of a stream that its reader does not notice.
ODD: dict[str, dict[str, Any]] = {
    "small-pieces": {"chunk_bytes": 23},
    "large-pieces": {"chunk_bytes": 5_000},
    "half-characters": {"halves": True},
    "index-always-zero": {"call_index": "zero"},
    "no-index": {"call_index": "none"},
}


@each_value(family=[*STRICT, "lenient"], odd=[*ODD], served=SERVED)
async def test_a_stream_may_look_odd(family: FamilyName, odd: str, served: str) -> None:
    """Pieces of any size, halves of a character, and calls without an index change nothing."""
    reach, keeps = split(served)
    api = StrictChat(family, loop="parallel", **ODD[odd])
    agent = await converse(api, reach, "async-stream", keeps)
    assert_all_there(api, agent.steps)
