"""
Promise 1 where the proxy replays: it changes no byte that it did not add, in either direction.

Targets, headers, status lines and framings of all other exchanges are in `http/raw_cases.py`.
"""

import pytest

from tests.patience import LONG_S
from tests.web.line import line_to, request
from tests.web.scripted import Script, send, wait
from tests.web.wire import END, chunk, head, stream_head, whole
from tests.web.world import post, world

KEY = "Authorization: Bearer sk-a"
# In a spelling that no encoder produces, to detect any re-encoding.
ODD = (
    b'{ "model":"gpt-4o",\n\t"input" : "caf\\u00e9 \xc3\xa9", "n": 1.0e5,"z":1, "a":[ ] , "x":-0}\n'
)
# (response with its framing, body)
ANSWERS = [
    pytest.param(whole(b'{ "a": 1.0e5 }\n'), b'{ "a": 1.0e5 }\n', id="with-a-length"),
    pytest.param(whole(b""), b"", id="empty"),
    pytest.param(
        head("Content-Type: audio/mpeg", "Transfer-Encoding: chunked")
        + chunk(b"\x00\xff")
        + chunk(b"\r\n0\r\n\r\n")
        + END,
        b"\x00\xff\r\n0\r\n\r\n",
        id="in-chunks",
    ),
    pytest.param(
        whole(b"\x1f\x8b\x08rest", "Content-Encoding: gzip"), b"\x1f\x8b\x08rest", id="encoded"
    ),
]


@pytest.mark.parametrize("target", ["/v1/responses", "/v1/files/f/content", "/other"])
@pytest.mark.parametrize(("answer", "want"), ANSWERS)
async def test_the_client_reads_the_bytes_that_upstream_wrote(
    answer: bytes, want: bytes, target: str
) -> None:
    """No route decodes, encodes or reformats a response body."""
    async with world() as w:
        w.upstream.answers(answer)
        got = await w.ask(request("POST", target, KEY, body=ODD))
        assert (got.status, got.body) == (200, want)


@pytest.mark.parametrize("target", ["/v1/responses", "/v1/chat/completions"])
async def test_each_chunk_is_passed_on_as_it_comes(target: str) -> None:
    """The client gets the first chunk while upstream still holds the second."""
    script = Script(
        [send(stream_head() + chunk(b"data: 1\n\n")), wait(), send(chunk(b"data: 2") + END)]
    )
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(request("POST", target, KEY, body=ODD))
        assert (await line.head()).status == 200
        assert await line.some() == b"data: 1\n\n"

        script.go()
        assert await line.rest() == b"data: 2"


@pytest.mark.parametrize(
    ("start", "first_event_max_s"),
    [
        pytest.param(head("Transfer-Encoding: chunked"), LONG_S, id="not a stream of events"),
        pytest.param(stream_head(), 0.01, id="a stream whose first event is late"),
    ],
)
async def test_the_head_is_passed_on_before_any_of_the_body(
    start: bytes, first_event_max_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head is sent before the body, or after a short wait for a stream's first event."""
    monkeypatch.setattr("reasoning_replay.web.pipeline.healing_retry.LOOK_MAX_S", first_event_max_s)
    script = Script([send(start), wait(), send(END)])
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(post(ODD))
        assert (await line.head()).status == 200

        script.go()
        assert await line.rest() == b""


@pytest.mark.parametrize("target", ["/v1/responses", "/v1/chat/completions", "/other"])
async def test_upstream_reads_the_bytes_that_the_client_wrote(target: str) -> None:
    """A request body without edits is forwarded unchanged."""
    async with world() as w:
        w.upstream.answers(whole(b"{}"), whole(b"{}"))
        await w.ask(request("POST", target, KEY, body=ODD))
        framed = b"%x\r\n%s\r\n%s" % (9, ODD[:9], chunk(ODD[9:])) + END
        await w.ask(request("POST", target, KEY, "Transfer-Encoding: chunked") + framed)
        assert [received.body for received in w.upstream.received] == [ODD, ODD]


async def test_request_headers_keep_their_spelling_order_and_number() -> None:
    """Request headers keep their case, order and number; only Accept-Encoding changes."""
    given = [
        "X-Stainless-Retry-Count: 0",
        "authorization: Bearer sk-a",
        "x-TWICE: a, b",
        "Cookie: a=1; b=2",
        "x-TWICE: ;=\"'%7E",
        "OpenAI-Beta: responses=v1",
        "Accept-Encoding: gzip, br;q=0.1",
        "x-empty:",
    ]
    # The response is read: see test_encoded_answers.py.
    want = [line.replace("gzip, br;q=0.1", "identity") for line in given]
    async with world() as w:
        w.upstream.answers(whole(b"{}"))
        await w.post(ODD, *given)
        got = [f"{name}: {value}".strip() for name, value in w.upstream.received[0].headers]
        assert [line for line in got if not line.startswith(("Host:", "Content-Length:"))] == want


@pytest.mark.parametrize("method", ["GET", "POST"], ids=["passed-through", "replayed"])
async def test_an_answer_gets_no_header_of_ours_but_one(method: str) -> None:
    """A response gets no header except `x-reasoning-replay` on replayed routes."""
    async with world() as w:
        w.upstream.answers(head("Content-Length: 2") + b"{}")
        got = await w.ask(request(method, "/v1/responses", KEY, body=ODD))
        names = {name.lower() for name, _ in got.head.headers}
        ours = {"x-reasoning-replay"} if method == "POST" else set()
        assert names == {"content-length"} | ours
