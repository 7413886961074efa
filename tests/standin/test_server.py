"""Stand-in server: driven by the official SDK and by raw HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Self, get_args

import aiohttp
import openai
import pytest
from openai import AsyncOpenAI

from tests.standin import Refusal, StandIn
from tests.standin.variants import Variant
from tests.standin.world import ASK, MODEL, Item, answers, as_input

VARIANTS: tuple[Variant, ...] = get_args(Variant)
HEADERS = {"Authorization": "Bearer sk-a", "Content-Type": "application/json"}
INCLUDE = ["reasoning.encrypted_content"]


class Client:
    """An SDK client that keeps its history as plain items."""

    def __init__(self, standin: StandIn, key: str = "sk-a") -> None:
        self.sdk = AsyncOpenAI(base_url=standin.base_url, api_key=key, max_retries=0)
        self.items: list[Item] = [ASK]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sdk.close()

    async def turn(self, *, stream: bool, **more: Any) -> list[Item]:
        """Send the history, and return the output as plain items."""
        options: dict[str, Any] = {"model": MODEL, "input": self.items, "include": INCLUDE} | more
        if not stream:
            response = await self.sdk.responses.create(**options)
            return [item.to_dict() for item in response.output]
        events = await self.sdk.responses.create(**options, stream=True)
        return [e.item.to_dict() async for e in events if e.type == "response.output_item.done"]


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    """Start a stand-in with default behaviour."""
    async with StandIn() as server:
        yield server


def events_of(raw: bytes) -> list[dict[str, Any]]:
    """Decode a stream, and check its framing."""
    blocks = raw.decode().removesuffix("\n\n").split("\n\n")
    events = []
    for block in blocks:
        first, second = block.split("\n")
        event = json.loads(second.removeprefix("data: "))
        assert first == f"event: {event['type']}"
        events.append(event)
    return events


async def until_cut(response: aiohttp.ClientResponse) -> bytes:
    """Read until the connection drops; fail if it does not."""
    raw = b""
    try:
        async for piece in response.content.iter_any():
            raw += piece
    except aiohttp.ClientPayloadError:
        return raw
    pytest.fail("the stream was not cut")


async def post(standin: StandIn, **more: object) -> tuple[int, bytes]:
    """Send a request in raw HTTP, and return its status and body."""
    body = {"model": MODEL, "input": [ASK], "include": INCLUDE} | more
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{standin.base_url}/responses", json=body, headers=HEADERS) as response,
    ):
        return response.status, await response.read()


@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_client_that_drops_reasoning_gets_the_real_error(variant: Variant) -> None:
    """The error names the first replayed item and the id of its missing reasoning."""
    async with StandIn(variant) as standin, Client(standin) as client:
        output = await client.turn(stream=True)
        kept = [item for item in output if item["type"] != "reasoning"]
        client.items += [*kept, *answers(kept), {"role": "user", "content": "Well?"}]

        with pytest.raises(openai.BadRequestError) as refused:
            await client.turn(stream=True)

    required = [item["id"] for item in output if item["type"] == "reasoning"]
    assert refused.value.body == {
        "message": f"Item '{kept[0]['id']}' of type '{kept[0]['type']}' was provided without its"
        f" required 'reasoning' item: '{required[0]}'.",
        "type": "invalid_request_error",
        "param": "input",
        "code": None,
    }


async def test_the_sdk_accumulates_a_stream(standin: StandIn) -> None:
    """The SDK's own checks of ids, order and indexes pass, and the final response is whole."""
    async with (
        Client(standin) as client,
        client.sdk.responses.stream(
            model=MODEL, input="hi", include=["reasoning.encrypted_content"]
        ) as stream,
    ):
        types = [event.type async for event in stream]
        final = await stream.get_final_response()

    assert types[0] == "response.created"
    assert [item.type for item in final.output] == ["reasoning", "function_call"]
    assert final.usage is not None


async def test_a_stream_is_framed_as_recorded(standin: StandIn) -> None:
    """A stream has the recorded content type, LF framing, numbers from 0 and no `[DONE]`."""
    body = {"model": MODEL, "input": [ASK], "stream": True}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{standin.base_url}/responses", json=body, headers=HEADERS) as response,
    ):
        raw = await response.read()

    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert response.headers["x-request-id"].startswith("req_")
    assert response.headers["openai-processing-ms"] == "7"
    numbers = [event["sequence_number"] for event in events_of(raw)]
    assert numbers == list(range(len(numbers)))
    assert b"[DONE]" not in raw


async def test_ciphertext_comes_when_asked_for_or_always(standin: StandIn) -> None:
    """Blobs are sent if `include` asks for them, or always if configured; else they are null."""

    async def blob(**more: object) -> str | None:
        _, raw = await post(standin, **more)
        found: str | None = json.loads(raw)["output"][0]["encrypted_content"]
        return found

    assert await blob() is not None
    assert await blob(include=None) is None
    standin.behaviour.always_encrypted = True
    assert await blob(include=None) is not None


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1000, 10_000_000])
async def test_cutting_a_stream_changes_no_byte(chunk_bytes: int) -> None:
    """Writes of any size carry the same stream."""
    clock = float
    async with StandIn(seed=b"s", clock=clock) as one:
        _, whole = await post(one, stream=True)
    async with StandIn(seed=b"s", clock=clock, chunk_bytes=chunk_bytes) as other:
        _, pieces = await post(other, stream=True)

    assert pieces == whole


async def test_a_cut_stream_ends_without_its_end() -> None:
    """The connection drops after the given number of events, or before the last one."""
    async with StandIn(end="cut", cut_after=3) as standin, aiohttp.ClientSession() as session:
        for cut_after in (3, None):
            standin.behaviour.cut_after = cut_after
            body = {"model": MODEL, "input": "hi", "stream": True}
            async with session.post(
                f"{standin.base_url}/responses", json=body, headers=HEADERS
            ) as response:
                events = events_of(await until_cut(response))
            assert len(events) == 3 or cut_after is None
            assert events[-1]["type"] != "response.completed"
            assert not standin.received[-1].finished


async def test_a_cut_answer_is_half_an_object() -> None:
    """Without streaming, the response ends before its announced length."""
    async with StandIn(end="cut") as standin:
        with pytest.raises(aiohttp.ClientPayloadError):
            await post(standin)


async def test_an_answer_may_end_in_other_ways() -> None:
    """Failed and incomplete are statuses of a 200, streamed or not."""
    async with StandIn(end="failed") as standin:
        _, raw = await post(standin, stream=True)
        assert [event["type"] for event in events_of(raw)[-2:]] == ["error", "response.failed"]
        assert json.loads((await post(standin))[1])["status"] == "failed"
        standin.behaviour.end = "incomplete"
        assert events_of((await post(standin, stream=True))[1])[-1]["type"] == "response.incomplete"
        assert json.loads((await post(standin))[1])["status"] == "incomplete"


async def test_a_pause_follows_every_event() -> None:
    """`delay_s` delays every event; a client that leaves ends the stream."""
    async with StandIn(delay_s=0.05) as standin, aiohttp.ClientSession() as session:
        body = {"model": MODEL, "input": "hi", "stream": True}
        async with session.post(
            f"{standin.base_url}/responses", json=body, headers=HEADERS
        ) as response:
            first = await response.content.readuntil(b"\n\n")
            response.close()
        await asyncio.sleep(0.2)

        assert b"response.created" in first
        assert (standin.received[0].status, standin.received[0].finished) == (200, False)


async def test_a_background_response_is_queued_then_there(standin: StandIn) -> None:
    """A background response is retrieved without ciphertext, whole or from any event on."""
    async with Client(standin) as client:
        queued = await client.sdk.responses.create(model=MODEL, input="hi", background=True)
        done = await client.sdk.responses.retrieve(queued.id)
        events = [
            event.sequence_number
            async for event in await client.sdk.responses.retrieve(
                queued.id, stream=True, starting_after=4
            )
        ]

    assert (queued.status, queued.output) == ("queued", [])
    assert [item.type for item in done.output] == ["reasoning", "function_call"]
    assert done.output[0].to_dict()["encrypted_content"] is None
    assert events[0] == 5


async def test_ciphertext_cannot_be_retrieved(standin: StandIn) -> None:
    """Retrieval with the `include` for ciphertext is refused for any id."""
    async with Client(standin) as client:
        with pytest.raises(
            openai.BadRequestError,
            match=r"Encrypted content cannot be requested for persisted responses\.",
        ):
            await client.sdk.responses.retrieve("resp_1", include=["reasoning.encrypted_content"])


async def test_a_response_is_deleted_once(standin: StandIn) -> None:
    """A deleted response is not found, nor is one that was not stored."""
    async with Client(standin) as client:
        kept = await client.sdk.responses.create(model=MODEL, input="hi")
        unkept = await client.sdk.responses.create(model=MODEL, input="hi", store=False)
        await client.sdk.responses.delete(kept.id)
        for response_id in (kept.id, unkept.id):
            with pytest.raises(openai.NotFoundError, match="not found"):
                await client.sdk.responses.retrieve(response_id)
            with pytest.raises(openai.NotFoundError, match="not found"):
                await client.sdk.responses.delete(response_id)


async def test_tokens_are_counted_by_the_same_rules(standin: StandIn) -> None:
    """`input_tokens` refuses every request that `responses` refuses."""
    async with Client(standin) as client:
        output = await client.turn(stream=False)
        client.items += as_input(output)
        body: dict[str, Any] = {"model": MODEL, "input": client.items}
        counted = await client.sdk.responses.input_tokens.count(**body)
        del client.items[1]
        with pytest.raises(openai.BadRequestError, match="required 'reasoning' item"):
            await client.sdk.responses.input_tokens.count(**body)

    assert counted.input_tokens > 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/responses", 405),
        ("GET", "/elsewhere", 404),
        ("POST", "/files", 400),
        ("GET", "/responses/resp_1", 404),
    ],
)
async def test_every_error_has_the_envelope_of_the_api(
    standin: StandIn, method: str, path: str, status: int
) -> None:
    """An unknown URL and a wrong method also get the error envelope of the API."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, standin.base_url + path, headers=HEADERS) as response,
    ):
        body = await response.json()

    assert response.status == status
    assert set(body["error"]) == {"message", "type", "param", "code"}


async def test_an_invalid_number_in_a_query_is_refused(standin: StandIn) -> None:
    """An invalid `starting_after` is refused with 400."""
    _, raw = await post(standin)
    url = f"{standin.base_url}/responses/{json.loads(raw)['id']}?stream=true&starting_after=x"
    async with aiohttp.ClientSession() as session, session.get(url, headers=HEADERS) as response:
        assert response.status == 400


async def test_the_next_request_can_be_refused(standin: StandIn) -> None:
    """A refusal set by the test answers one request."""
    standin.refuse_next(Refusal(429, "Slow down.", "rate_limit_error", code="rate_limit_exceeded"))

    assert (await post(standin))[0] == 429
    assert (await post(standin))[0] == 200


async def test_records_are_bounded(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of received requests is bounded, so a demo can run for days."""
    monkeypatch.setattr("tests.standin.server.RECEIVED_KEPT", 2)
    for _ in range(3):
        await post(standin)

    assert len(standin.received) == 2


async def test_rotating_ids_are_kept_by_the_client_that_reads_done() -> None:
    """Only the id in `done` matches its blob; the one in `completed` is refused."""
    async with StandIn(rotate_ids=True) as standin:
        _, raw = await post(standin, stream=True)
        events = events_of(raw)
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        final = events[-1]["response"]["output"]

        assert (await post(standin, input=[ASK, *as_input(done)]))[0] == 200
        status, refused = await post(standin, input=[ASK, *as_input(final)])
    assert status == 400
    assert b"item_id did not match" in refused
