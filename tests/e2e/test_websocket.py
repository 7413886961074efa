"""WebSockets end to end: the official SDK drops reasoning, and a strict upstream checks."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, get_args

import pytest
from openai import AsyncOpenAI, OpenAIError
from openai._utils import async_maybe_transform
from openai.lib.responses_websocket import AsyncResponsesWebSocketSession, ResponsesWebSocketLimits
from openai.resources.responses.responses import AsyncResponsesConnection
from openai.types.responses.responses_client_event_param import ResponsesClientEventParam
from typing_extensions import override

from tests.e2e.agent import MODEL, Agent, Item, Keeps, items_of
from tests.e2e.proxies import ProxyProcess, proxied
from tests.e2e.witness import assert_restored
from tests.fast_lane import each_value
from tests.strict import Refusal, StrictResponses
from tests.strict.responses import Continuity
from tests.strict.scripts import LOOPS

LOST = "was provided without its required 'reasoning' item"
LIMITS = ResponsesWebSocketLimits(
    max_lanes=9,  # the default one is among them
    max_events_per_lane=512,
    max_events=4096,
    max_bytes_per_lane=1 << 24,
    max_bytes=1 << 26,
    max_response_bytes=None,
)


@dataclass
class Speaker(Agent):
    """An agent that sends over a WebSocket while it has one, and over HTTP otherwise."""

    connection: AsyncResponsesConnection | None = None

    @contextlib.asynccontextmanager
    async def connected(self, base_url: str = "") -> AsyncIterator[None]:
        """Keep a connection open for the duration of the block."""
        sdk = self._async.with_options(base_url=base_url or self.base_url)
        async with sdk.responses.connect() as connection:
            self.connection, self.is_marked = connection, False
            yield
        self.connection, self.is_marked = None, True

    @override
    async def ask_async(self, sdk: Any, request: Item, streams: bool) -> Any:
        if self.connection is None:
            return await super().ask_async(sdk, request, streams)
        event: Any = {"type": "response.create", **request}
        self.bodies.append(
            json.dumps(await async_maybe_transform(event, ResponsesClientEventParam)).encode()
        )
        await self.connection.send(event)
        events: list[Any] = []
        async for got in self.connection:
            events.append(got)
            if got.type == "error":
                raise OpenAIError(got.error.message)
            if got.type == "response.completed":
                break
        self._marks.append("")
        return items_of(events)


@each_value(
    variant=[*LOOPS],
    continuity=get_args(Continuity),
    keeps=["ids", "no-ids"],
    store=["store-absent", "store-false"],
)
async def test_dropped_reasoning_is_injected(
    variant: str, continuity: Continuity, keeps: Keeps, store: str
) -> None:
    """In every loop, upstream receives the history that the client should have sent."""
    more: Item = {"store": False} if store == "store-false" else {}
    async with (
        StrictResponses(variant, continuity) as api,
        proxied(api) as base_url,
        Speaker(base_url, "async", keeps, more) as agent,
        agent.connected(),
    ):
        await agent.converse()
        assert_restored(api, agent)


@pytest.mark.parametrize("variant", ["parallel", "call_zero"])
async def test_without_the_proxy_the_same_client_fails(variant: str) -> None:
    """Without the proxy, upstream refuses the same client, so it does detect lost reasoning."""
    async with (
        StrictResponses(variant, "strict") as api,
        Speaker(api.base_url) as agent,
        agent.connected(),
    ):
        with pytest.raises(OpenAIError, match=LOST):
            await agent.converse()


@pytest.mark.parametrize(
    ("variant", "keeps"),
    [
        ("parallel", "no-ids"),
        ("two_reasoning", "no-ids"),
        ("call_zero", "no-ids"),
        ("message", "no-ids"),
        ("one_call", "ids"),
    ],
)
async def test_http_and_websocket_continue_each_other(variant: str, keeps: Keeps) -> None:
    """A conversation continues over HTTP, a WebSocket, another WebSocket, and HTTP again."""
    async with (
        StrictResponses(variant, "strict") as api,
        proxied(api) as base_url,
        Speaker(base_url, "async-stream", keeps) as agent,
    ):
        await agent.converse(["Where does it rain?"])
        for question in ("And tomorrow?", "And on Sunday?"):
            async with agent.connected():
                await agent.converse([question])
        await agent.converse(["And on Monday?"])
        agent.steps = [_unmarked(step) for step in agent.steps]
        agent.is_marked = False
        assert_restored(api, agent)


def _unmarked(step: Any) -> Any:
    return type(step)(step.sent, step.whole, step.body, "")


async def test_a_client_that_replays_all_is_left_alone() -> None:
    """A complete request arrives with the very bytes that the SDK wrote."""
    more = {"include": ["reasoning.encrypted_content"]}
    async with (
        StrictResponses("chain", "strict") as api,
        proxied(api) as base_url,
        Speaker(base_url, "async", "everything", more) as agent,
        agent.connected(),
    ):
        await agent.converse()
        assert [one.body for one in api.received if one.body] == [step.body for step in agent.steps]


async def test_a_chain_of_responses_is_left_to_upstream() -> None:
    """
    `previous_response_id` with `store: false` works on one connection, and is left to upstream.

    After a reconnect, the client sends its history, and reasoning is injected.
    """
    question: Any = {"role": "user", "content": "Where does it rain?"}
    async with (
        StrictResponses("one_call") as api,
        proxied(api) as base_url,
        AsyncOpenAI(base_url=base_url, api_key="sk-chain") as sdk,
    ):
        async with (
            sdk.responses.connect() as connection,
            AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
        ):
            lane = session.lane("one")
            await lane.send(unstored(question))
            first = await lane.get_final_response()
            call = first.output[-1]
            assert call.type == "function_call"
            result = {"type": "function_call_output", "call_id": call.call_id, "output": "Oslo"}
            # The proxy does not add it to a request whose history is at upstream.
            blobs = ["reasoning.encrypted_content"]
            await lane.send(unstored(result, previous_response_id=first.id, include=blobs))
            await lane.recv()  # until the next response begins, the SDK returns the last one
            second = await lane.get_final_response()
            assert second.output[-1].type == "message"
        async with (
            sdk.responses.connect() as connection,
            AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
        ):
            lane = session.lane("one")
            again = {"role": "user", "content": "Why?"}
            kept = [one.to_dict() for one in (call, second.output[-1])]
            await lane.send(unstored(question, kept[0], result, kept[1], again))
            assert (await lane.get_final_response()).status == "completed"
        seen = json.loads(api.received[-1].body)["input"]
        kinds = ["reasoning", "function_call", "function_call_output", "reasoning", "message"]
        assert [item.get("type") for item in seen] == [None, *kinds, None]


def unstored(*items: Item, **more: object) -> Any:
    """Return a request with a response that exists on its connection only."""
    fixed = {"type": "response.create", "model": MODEL, "store": False}
    return {**fixed, "input": list(items), **more}


async def test_lanes_of_one_connection_never_meet() -> None:
    """Eight parallel conversations with the same `call_id`s and no ids stay separate."""
    async with (
        StrictResponses("call_zero", "strict") as api,
        proxied(api) as base_url,
        AsyncOpenAI(base_url=base_url, api_key="sk-lanes") as sdk,
        sdk.responses.connect() as connection,
        AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
    ):

        async def talk(number: int) -> None:
            lane = session.lane(f"lane-{number}")
            history: list[Any] = [{"role": "user", "content": f"Rain in place {number}?"}]
            for _ in range(4):
                request: Any = {"type": "response.create", "model": MODEL, "input": history}
                await lane.send(request)
                for item in (await lane.get_final_response()).output:
                    if item.type == "reasoning":
                        continue
                    history.append({k: v for k, v in item.to_dict().items() if k != "id"})
                    if item.type == "function_call":
                        output = {"call_id": item.call_id, "output": str(number)}
                        history.append({"type": "function_call_output", **output})
            assert history[-1]["type"] == "message"

        await asyncio.gather(*map(talk, range(8)))
        assert {one.status for one in api.received} == {101, 200}


async def test_a_refused_upgrade_reaches_the_sdk() -> None:
    """The SDK raises a refused upgrade with upstream's own status."""
    async with (
        StrictResponses() as api,
        proxied(api) as base_url,
        AsyncOpenAI(base_url=base_url, api_key="sk-a", max_retries=0) as sdk,
    ):
        api.refuse_next(Refusal(426, "Use HTTP."))
        with pytest.raises(Exception, match="426"):
            await sdk.responses.connect().enter()


async def test_a_served_process_does_the_same() -> None:
    """Reasoning is injected in the same way by a served process on uvloop."""
    async with (
        StrictResponses("parallel", "strict") as api,
        ProxyProcess(api.base_url, "memory://") as proxy,
        Speaker(proxy.base_url) as agent,
        agent.connected(),
    ):
        await agent.converse()
        assert_restored(api, agent)
    assert proxy.complaints == []
