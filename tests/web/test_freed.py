"""What an exchange held is freed when it ends, however it ends, without the cyclic collector."""

import asyncio
import contextlib
import gc
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.bombs import CODINGS, MIB, bomb
from tests.patience import SOON_S
from tests.ports import closed_port
from tests.web.line import Line, line_to, request
from tests.web.scripted import Script, Step, close, cut, send, wait
from tests.web.sockets import tunnelled
from tests.web.websocket.creates import create, failed, told, turn
from tests.web.wire import (
    ASK,
    CALL,
    RESULT,
    RS,
    as_json,
    chunk,
    error,
    events,
    response,
    stream_head,
    whole,
)
from tests.web.world import MODEL, World, eventually, post, world

LONG = 1_000_000
# Far less than one body, and more than the objects of a connection.
LEFT_BYTES = 100_000
CLIENT = "Authorization: Bearer sk-a"
OK = whole(b'{"ok":true}')
LONG_ASK = ASK | {"content": "x" * LONG}
LONG_RS = RS | {"encrypted_content": "y" * LONG}
BODY = as_json({"model": MODEL, "input": [LONG_ASK]})
LOST = {"model": MODEL, "input": [LONG_ASK, CALL, RESULT]}
REFUSAL = error("The encrypted content gAAA...ob== could not be verified.")
BEGINNING = b"".join(events(LONG_RS)[:3])
BEGUN = send(stream_head() + chunk(BEGINNING))
HALF = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n"

Act = Callable[[World], Awaitable[None]]
ACTS: dict[str, Act] = {}


def act(scene: Act) -> Act:
    """Add a row to the table."""
    ACTS[scene.__name__] = scene
    return scene


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Switch the cyclic collector off, and count allocations."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.enable()


def freed_by_the_collector() -> int:
    """Collect; return the bytes that were freed by that."""
    held, _ = tracemalloc.get_traced_memory()
    gc.collect()
    return held - tracemalloc.get_traced_memory()[0]


@contextlib.asynccontextmanager
async def asking(w: World, *steps: Step, body: bytes = BODY) -> AsyncIterator[Line]:
    """Send a long request whose response is these steps, and leave at the end."""
    script = Script(steps)
    w.upstream.plays(script)
    async with line_to(w.app.url) as line:
        await line.send(post(body))
        await asyncio.wait_for(script.arrived.wait(), SOON_S)
        yield line


async def taught(w: World) -> None:
    """Let the proxy capture something for the request LOST."""
    w.upstream.answers(whole(as_json(response(RS, CALL))))
    await w.turn(LONG_ASK)


# --- requests ---


@act
async def injected(w: World) -> None:
    """The request is accepted, and reasoning is injected."""
    await taught(w)
    w.upstream.answers(OK)
    assert (await w.post(LOST)).mark == "injected=1"


@act
async def unreadable(w: World) -> None:
    """A key of the request occurs twice."""
    w.upstream.answers(OK)
    assert "unreadable" in str((await w.post(BODY[:-1] + b',"input":[]}')).mark)


@act
async def bombs(w: World) -> None:
    """The request decodes to too much."""
    for coding in CODINGS:
        w.upstream.answers(OK)
        data = post(bomb(coding, 9 * MIB), CLIENT, f"Content-Encoding: {coding}")
        assert "too_large" in str((await w.ask(data)).mark)


@act
async def damaged(w: World) -> None:
    """The request cannot be decoded."""
    for coding, encode in CODINGS.items():
        w.upstream.answers(OK)
        body = encode(BODY * 2)[:-3]
        data = post(body, CLIENT, f"Content-Encoding: {coding}")
        assert "encoded" in str((await w.ask(data)).mark)


@act
async def body_too_large(w: World) -> None:
    """The upload is refused before its end."""
    async with line_to(w.app.url) as line:
        head = request("POST", "/v1/responses", CLIENT, "Transfer-Encoding: chunked")
        await line.send(head + chunk(b"x" * LONG) * 5)
        assert (await line.head()).status == 413


@act
async def malformed(w: World) -> None:
    """A chunk of the upload is malformed."""
    async with line_to(w.app.url) as line:
        head = request("POST", "/v1/responses", CLIENT, "Transfer-Encoding: chunked")
        await line.send(head + chunk(b"x" * LONG) + b"no size\r\n")
        assert (await line.head()).status == 400


@act
async def upload_stops(w: World) -> None:
    """The client pauses for too long."""
    async with line_to(w.app.url) as line:
        head = request("POST", "/v1/responses", CLIENT, "Content-Length: 3000000")
        await line.send(head + b"x" * LONG)
        assert (await line.head()).status == 408


@act
async def leaves_in_its_upload(w: World) -> None:
    """The client leaves before the end of its request."""
    for path in ("/v1/responses", "/v1/files"):
        w.upstream.plays(Script([wait()]))
        async with line_to(w.app.url) as line:
            await line.send(request("POST", path, CLIENT, "Content-Length: 3000000") + b"x" * LONG)
            await eventually(lambda: w.app.handler.admission.count == 1)
        await eventually(lambda: w.app.handler.admission.count == 0)
        w.upstream.forget_scripts()


@act
async def answered_in_its_upload(w: World) -> None:
    """The upstream answers before the end of the request."""
    w.upstream.plays(*(Script([send(OK), close()], reads_body=False) for _ in range(3)))
    for _ in range(3):
        async with line_to(w.app.url) as line:
            head = request("POST", "/v1/files", CLIENT, "Content-Length: 3000000")
            await line.send(head + b"x" * LONG)
            await line.head()


@act
async def leaves_while_it_waits(w: World) -> None:
    """The client leaves before the response."""
    async with asking(w, wait()):
        pass


# --- upstream ---


@act
async def no_response(w: World) -> None:
    """The upstream does not respond in time."""
    w.upstream.plays(Script([wait()]))
    assert (await w.post(BODY)).status == 504


@act
async def reset_before_the_response(w: World) -> None:
    """The upstream resets the connection."""
    w.upstream.plays(Script([cut()]))
    assert (await w.post(BODY)).status == 502


@act
async def no_http(w: World) -> None:
    """The response is not HTTP."""
    w.upstream.answers(b"HTTP/1.1 2x0\r\n\r\n")
    assert (await w.post(BODY)).status == 502


@act
async def reset_in_a_stream(w: World) -> None:
    """The upstream breaks a captured stream off."""
    async with asking(w, BEGUN, cut()) as line:
        await line.head()
        await eventually(lambda: w.app.handler.admission.count == 0)


@act
async def reset_in_json(w: World) -> None:
    """The upstream breaks a captured JSON response off."""
    async with asking(w, send(HALF + b'{"a":"' + b"x" * LONG), cut()) as line:
        await line.head()
        await line.exactly(LONG)
        await eventually(lambda: w.app.handler.admission.count == 0)


@act
async def leaves_in_a_stream(w: World) -> None:
    """The client leaves a captured stream."""
    async with asking(w, BEGUN, wait()) as line:
        await line.head()
        await line.exactly(len(BEGINNING))


@act
async def encoded_responses(w: World) -> None:
    """The response decodes to too much."""
    for coding in CODINGS:
        for form in ("application/json", "text/event-stream"):
            headers = f"Content-Type: {form}", f"Content-Encoding: {coding}"
            w.upstream.answers(whole(bomb(coding, 5 * MIB), *headers))
            await w.post(BODY)


# --- retries ---


@act
async def healed(w: World) -> None:
    """A refused request is cured."""
    await taught(w)
    w.upstream.answers(REFUSAL, OK)
    assert "healed" in str((await w.post(LOST)).mark)


@act
async def refused_again(w: World) -> None:
    """Each attempt is refused."""
    await taught(w)
    w.upstream.answers(REFUSAL, REFUSAL, REFUSAL)
    assert (await w.post(LOST)).status == 400


@act
async def retry_without_a_response(w: World) -> None:
    """The upstream resets the connection of a retry."""
    await taught(w)
    w.upstream.plays(Script([send(REFUSAL)]), *(Script([cut()]) for _ in range(2)))
    await w.post(LOST)


@act
async def leaves_in_a_retry(w: World) -> None:
    """The client leaves while a retry waits."""
    await taught(w)
    w.upstream.answers(REFUSAL)
    script = Script([wait()])
    w.upstream.plays(script)
    async with line_to(w.app.url) as line:
        await line.send(post(LOST))
        await asyncio.wait_for(script.arrived.wait(), SOON_S)


# --- WebSockets ---


@act
async def messages(w: World) -> None:
    """A turn over a WebSocket, then one that is refused with its retries."""
    async with tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(LONG_ASK), told(LONG_RS, CALL))
        await client.send(create(LONG_ASK, CALL, RESULT))
        await upstream.event()
        refusal = failed("The encrypted content gAAA...ob== could not be verified.")
        for _ in range(3):
            await upstream.send(refusal)
        await client.gets(refusal)


@act
async def client_leaves_its_websocket(w: World) -> None:
    """The client resets its connection, and messages wait for it."""
    async with tunnelled(w) as (client, upstream):
        await client.send(create(LONG_ASK))
        await upstream.event()
        for one in told(LONG_RS, CALL):
            await upstream.send(one)
        client.reset()


@act
async def upstream_leaves_a_websocket(w: World) -> None:
    """The upstream resets the connection while it should respond."""
    async with tunnelled(w) as (client, upstream):
        await client.send(create(LONG_ASK))
        await upstream.event()
        upstream.reset()
        await client.ended()


@pytest.mark.usefixtures("leaves_at_once")
@pytest.mark.parametrize("name", ACTS)
async def test_only_small_objects_are_left_to_the_collector(name: str) -> None:
    """However an exchange ends, the collector finds no body, no message and no record."""
    settings: dict[str, Any] = {"body_max_bytes": 4 * MIB, "inspect_max_bytes": 4 * MIB}
    async with world(**settings, client_timeout_s=1, first_byte_timeout_s=1) as w:
        w.upstream.otherwise = OK
        await w.turn(ASK)  # what is made once is made
        with uncollected():
            await ACTS[name](w)
            await eventually(lambda: w.app.handler.admission.count == 0)
            await asyncio.sleep(0.05)  # the last callbacks run
            assert freed_by_the_collector() < LEFT_BYTES
        assert w.counted("memory_budget_used_bytes") == 0


async def test_a_store_that_is_away_keeps_nothing_alive() -> None:
    """The same while no save and no look-up succeeds."""
    async with world(store_url=f"redis://127.0.0.1:{closed_port()}/0") as w:
        w.upstream.otherwise = OK
        await w.turn(ASK)
        with uncollected():
            w.upstream.answers(whole(as_json(response(LONG_RS, CALL))))
            await w.turn(LONG_ASK)
            await w.post(LOST)
            await eventually(lambda: w.app.handler.admission.count == 0)
            assert freed_by_the_collector() < LEFT_BYTES
