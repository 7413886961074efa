"""Requests that the proxy cannot read: they are forwarded unchanged, and counted."""

import asyncio
import contextlib
import gzip

import pytest

from tests.patience import SOON_S
from tests.web.line import Answer, line_to, request
from tests.web.scripted import Script, wait
from tests.web.test_errors import assert_ours
from tests.web.wire import END, chunk, error, whole
from tests.web.world import World, eventually, world

KEY = "Authorization: Bearer sk-a"
DEEP = b"[" * 100_000
ITEM = b'{"model":"gpt-5.4","input":[%s]}'

# (body, counted result)
CASES = [
    # Further unreadable bodies: tests/core/wire/test_json_spans.py.
    pytest.param(b"input=x", "unreadable", id="a-form"),
    pytest.param('{"input":"x"}'.encode("utf-16"), "unreadable", id="utf-16"),
    pytest.param(b'{"input":"\xff"}', "unreadable", id="not-utf-8"),
    pytest.param(b'{"input":[],"\\u0069nput":[]}', "unreadable", id="a-key-twice-in-two-spellings"),
    pytest.param(b'{"input":[' + DEEP + b"]" * len(DEEP) + b"]}", "unreadable", id="a-deep-item"),
    pytest.param(b"{}", "planned", id="an-empty-object"),
    pytest.param(b'{"model":5,"input":"x"}', "planned", id="model-number"),
    pytest.param(b'{"model":{"a":[]},"input":7}', "planned", id="input-number"),
    pytest.param(b'{"input":null}', "planned", id="input-null"),
    pytest.param(b'{"input":{"a":1}}', "planned", id="input-object"),
    pytest.param(b'{"input":"","instructions":{"a":1},"store":"no"}', "planned", id="odd-types"),
    pytest.param(b'{"input":[],"prompt_cache_key":[1],"include":5}', "planned", id="odd-hints"),
    pytest.param(b'{"":1,"input":[[]]}', "planned", id="an-item-that-is-a-list"),
    pytest.param(ITEM % b'1, null, true, "x", 1e999, {}', "planned", id="invalid-items"),
    pytest.param(ITEM % b'{"type":5,"id":[],"call_id":{}}', "planned", id="invalid-item-fields"),
    pytest.param(ITEM % b'{"type":"hologram","id":"hg_1"}', "planned", id="an-unknown-type"),
    pytest.param(
        ITEM % b'{"type":"function_call","id":"a","id":"b"}', "planned", id="an-item-key-twice"
    ),
    pytest.param(
        ITEM % b'{"role":"assistant","content":[1,{"type":2,"text":3},null]}',
        "planned",
        id="odd-content",
    ),
    pytest.param(
        ITEM % b'{"type":"reasoning","id":"\\ud800","encrypted_content":"\\udfff"}',
        "planned",
        id="half-a-surrogate",
    ),
    pytest.param(
        ITEM % b'{"type":"function_call","call_id":"\\ud83d","name":"\\ud83d","arguments":"{"}',
        "planned",
        id="half-a-surrogate-in-a-call",
    ),
    pytest.param(
        ITEM % (b'{"type":"message","role":"assistant"},' * 3 + b"{}"),
        "planned",
        id="items-without-ids",
    ),
    pytest.param(b'{"input":[],"previous_response_id":5}', "stateful", id="odd-state"),
    pytest.param(b'{"input":[],"conversation":[]}', "stateful", id="odd-conversation"),
]


async def metric(w: World, sample: str) -> bool:
    """Return whether `/metrics` has this line."""
    answer = await w.ask_admin("/metrics")
    return f"reasoning_replay_{sample}".encode() in answer.body.splitlines()


@pytest.mark.parametrize(("body", "counted_as"), CASES)
async def test_it_goes_out_as_it_came_and_is_counted(body: bytes, counted_as: str) -> None:
    """An unreadable body is forwarded unchanged, and the client gets upstream's own refusal."""
    refusal = error("We could not parse the JSON body of your request.", None)
    # Without `include`, so that nothing is added to a readable body.
    async with world(include="never") as w:
        w.upstream.answers(refusal)
        got = await w.post(body)
        assert w.upstream.received[0].body == body
        assert (got.status, refusal.endswith(got.body)) == (400, True)
        suffix = "" if counted_as == "planned" else f", asked={counted_as}"
        assert (got.mark or "").replace(", lacking=1, missed=1", "") == "injected=0" + suffix
        assert await metric(w, f'requests_total{{dialect="responses",result="{counted_as}"}} 1.0')
        labels = 'outcome="refused",route="responses",status="400"'
        assert await metric(w, f"exchanges_total{{{labels}}} 1.0")


async def test_bad_credentials_are_upstreams_to_refuse() -> None:
    """Non-ASCII, repeated and empty credentials never cause an error of the proxy."""
    for odd in (
        ["Authorization: \xe9\xff"],
        ["Authorization: a", "authorization: b"],
        ["api-key:"],
    ):
        async with world() as w:
            w.upstream.answers(error("No.", None, "401 Unauthorized"))
            assert (await w.post(b'{"input":"x"}', *odd)).status == 401


@pytest.mark.parametrize("coding", ["", "gzip"])
async def test_a_request_of_very_many_values_is_not_looked_at(coding: str) -> None:
    """A body of very many JSON values is forwarded unread, as parsing would block the loop."""
    body = b'{"input":[' + b"0," * 300_000 + b"0]}"
    sent = gzip.compress(body) if coding else body
    headers = [KEY, *([f"Content-Encoding: {coding}"] if coding else [])]
    async with world() as w:
        w.upstream.answers(whole(b"{}"))
        got = await w.ask(request("POST", "/v1/responses", *headers, body=sent))
        assert got.mark == "injected=0, asked=too_large"
        assert w.upstream.received[-1].body == sent


# (bytes after a good chunk, status)
BROKEN = [
    pytest.param([b"ZZ\r\nx\r\n"], 400, id="no-size"),
    pytest.param([b"2\r\nabXX"], 400, id="no-line-end"),
    pytest.param([b"-1\r\n"], 400, id="negative"),
    pytest.param([b"f" * 40 + b"\r\n"], 400, id="huge"),
    pytest.param([b"0\r\n", b"no colon\r\n\r\n"], 400, id="trailer"),
    pytest.param([b"0\r\nA: ", *[b"v" * 30_000] * 3, b"\r\n\r\n"], 431, id="long-trailer"),
]


@pytest.mark.parametrize(("pieces", "status"), BROKEN)
@pytest.mark.parametrize("target", ["/v1/responses", "/v1/files"])
async def test_a_body_that_breaks_when_its_exchange_has_begun_ends_it(
    target: str, pieces: list[bytes], status: int
) -> None:
    """A malformed body is refused at once, and nothing of its exchange is held."""
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script := Script([wait()], reads_body=False))
        await line.send(request("POST", target, KEY, "Transfer-Encoding: chunked") + chunk(b"{}"))
        await eventually(lambda: w.app.handler.admission.count == 1)
        if target == "/v1/files":
            await asyncio.wait_for(script.arrived.wait(), SOON_S)
        for piece in pieces:
            with contextlib.suppress(ConnectionError):
                await line.send(piece)
            await asyncio.sleep(0.01)
        got = Answer(await line.head(), await line.rest())
        code = "bad_request" if status == 400 else "head_too_large"
        assert_ours(got, status, code)
        assert got.head.values("connection") == ["close"]
        await eventually(lambda: w.app.handler.admission.count == 0)
        if target == "/v1/files":
            await asyncio.wait_for(script.left.wait(), SOON_S)
        route = "responses" if target == "/v1/responses" else "files"
        assert w.counted("exchanges_total", route=route, outcome=code) == 1


async def test_a_request_behind_one_that_is_answered_may_break() -> None:
    """A malformed pipelined request does not affect the request before it."""
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.otherwise = whole(b"{}")
        sent = request("POST", "/v1/files", KEY, "Transfer-Encoding: chunked") + chunk(b"{}")
        await line.send(sent + END + sent)
        assert (await line.head()).status == 200
        assert await line.rest() == b"{}"
        await line.send(b"ZZ\r\n")
        assert_ours(Answer(await line.head(), await line.rest()), 400, "bad_request")
