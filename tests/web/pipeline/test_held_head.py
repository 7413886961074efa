"""Held head: a look at the beginning of a response delays no sign of life by more than 300 ms."""

import asyncio
import time

import pytest

from tests.demand.faults import FAULTS, OK, in_stream
from tests.patience import LONG_S, SOON_S
from tests.web.chat import completions
from tests.web.line import line_to, request
from tests.web.messages import exchanges
from tests.web.scripted import Script, Step, send, wait
from tests.web.wire import ASK, END, as_json, chunk, head, stream_head
from tests.web.world import MODEL, World, world

HELD = "reasoning_replay.web.pipeline.healing_retry.LOOK_MAX_S"
# Ten times the documented limit, and far less than what a client waits for a silent server.
FAULT = FAULTS[0]
REFUSAL = FAULT.refusal.partition(b"\r\n\r\n")[2]
KEY = "Authorization: Bearer sk-a"
JSON = "Content-Type: application/json"
RESPONSES = "/v1/responses"
BODIES = {
    RESPONSES: {"model": MODEL, "input": [ASK]},
    completions.CHAT: {"model": completions.MODEL, "messages": [completions.ASK]},
    exchanges.PATH: {"model": exchanges.MODEL, "max_tokens": 9, "messages": [exchanges.ASK]},
}
AT_WORK = b": OPENROUTER PROCESSING\n\n"
SPACE = b"\n\n \t\r\n"
STREAM, CHUNKED = stream_head(), head(JSON, "Transfer-Encoding: chunked")
LATE = chunk(b'{"id":"x"}') + END


def signs() -> list[object]:
    """Return a target, the head of a response, and a sign of life without a word of the model."""
    starts = [
        pytest.param(STREAM, AT_WORK, id="comment"),
        pytest.param(STREAM, AT_WORK * 3, id="comments"),
        pytest.param(STREAM, SPACE, id="blank-lines"),
        pytest.param(STREAM, b"event: x\n", id="half-an-event"),
        pytest.param(CHUNKED, SPACE, id="white-space"),
        pytest.param(CHUNKED, b'\n {"id"', id="half-a-word"),
    ]
    return [
        pytest.param(target, *start.values, id=f"{target.rpartition('/')[2]}-{start.id}")
        for target in BODIES
        for start in starts
    ]


@pytest.mark.parametrize(("target", "begun", "sign"), signs())
async def test_a_sign_of_life_reaches_the_client_while_the_model_works(
    target: str, begun: bytes, sign: bytes
) -> None:
    """The client has the head and each byte before upstream sends any more."""
    script = Script([send(begun + chunk(sign)), wait(), send(LATE)])
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(request("POST", target, KEY, JSON, body=as_json(BODIES[target])))
        async with asyncio.timeout(SOON_S):
            assert (await line.head()).status == 200
            assert await line.exactly(len(sign)) == sign
        assert not script.ended.is_set()
        script.go()
        assert chunk(await line.rest()) + END == LATE


async def test_white_space_is_held_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of it than any server sends as a sign of life is not collected."""
    monkeypatch.setattr(HELD, LONG_S)
    sign = b" " * (64 * 1024)
    script = Script([send(CHUNKED + chunk(sign)), wait(), send(LATE)])
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        body = as_json(BODIES[completions.CHAT])
        await line.send(request("POST", completions.CHAT, KEY, JSON, body=body))
        assert (await line.head()).status == 200
        assert await line.exactly(len(sign)) == sign
        script.go()
        await line.rest()


async def healed(w: World, script: Script, body: bytes = FAULT.body) -> bool:
    """Return whether the request is sent again after this response."""
    w.upstream.plays(script)
    w.upstream.answers(OK)
    asked = asyncio.ensure_future(w.post(body))
    await script.arrived.wait()
    script.go()
    await asked
    return len(w.upstream.received) == 2


def busy(data: bytes, lasts_s: float) -> Step:
    """Write these bytes, and keep the event loop, which the proxy shares, from reading them."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.01)  # the proxy waits for them
        writer.write(data)
        time.sleep(lasts_s)  # noqa: ASYNC251 (it stands for other work on the loop)

    return step


@pytest.mark.parametrize(
    ("begun", "rest"),
    [
        pytest.param(STREAM, in_stream(FAULT).partition(b"\r\n\r\n")[2], id="stream"),
        pytest.param(
            STREAM + chunk(AT_WORK), in_stream(FAULT).partition(b"\r\n\r\n")[2], id="comment"
        ),
        pytest.param(
            head(JSON, f"Content-Length: {len(REFUSAL)}", status="400 No"), REFUSAL, id="status"
        ),
    ],
)
async def test_a_refusal_that_came_in_time_is_healed_on_a_busy_event_loop(
    begun: bytes, rest: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the time is over when the loop gets to it, what has arrived is read nevertheless."""
    monkeypatch.setattr(HELD, 0.1)
    monkeypatch.setattr("reasoning_replay.web.pipeline.healing_retry.REFUSAL_MAX_S", 0.1)
    async with world() as w:
        assert await healed(w, Script([send(begun), busy(rest, 0.2)]))


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [head(JSON, f"Content-Length: {len(REFUSAL)}", status="400 No"), REFUSAL], id="status"
        ),
        pytest.param(
            [
                head(JSON, f"Content-Length: {len(REFUSAL)}", status="422 No") + REFUSAL[:9],
                REFUSAL[9:],
            ],
            id="half",
        ),
    ],
)
async def test_a_refusal_by_its_status_is_read_to_its_end(
    pieces: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no look at a beginning: the client could use no part of it, so it may take longer."""
    monkeypatch.setattr(HELD, 0.0)
    first, last = pieces
    async with world() as w:
        assert await healed(w, Script([send(first), wait(), send(last)]))


async def test_a_refusal_that_dribbles_is_forwarded_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client gets its head and the part that came, and no second request is sent."""
    monkeypatch.setattr("reasoning_replay.web.pipeline.healing_retry.REFUSAL_MAX_S", 0.05)
    begun = head(JSON, f"Content-Length: {len(REFUSAL)}", status="400 No") + REFUSAL[:9]
    script = Script([send(begun), wait(), send(REFUSAL[9:])])
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(request("POST", RESPONSES, KEY, JSON, body=FAULT.body))
        assert (await line.head()).status == 400
        assert await line.exactly(9) == REFUSAL[:9]
        script.go()
        assert await line.rest() == REFUSAL[9:]
        assert len(w.upstream.received) == 1
