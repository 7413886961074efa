"""Promise 1: the proxy changes no byte that it did not add, in either direction."""

import pytest

from tests.patience import LONG_S
from tests.web.line import line_to, request
from tests.web.scripted import Script, close, send, wait
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


async def test_a_body_that_ends_with_its_connection_is_whole() -> None:
    """A body without length or chunks ends with upstream's connection, and is complete."""
    async with world() as w:
        w.upstream.plays(Script([send(head("Content-Type: text/plain") + b"all of it"), close()]))
        assert (await w.get("/v1/files/f/content")).body == b"all of it"


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


async def test_a_header_repeated_in_another_case_is_repeated() -> None:
    """A header repeated in another case keeps all its values (RFC 9110, 5.1)."""
    async with world() as w:
        w.upstream.answers(whole(b"{}"))
        await w.post(ODD, KEY, "X-Twice: a", "x-twice: b", "X-TWICE: c")
        assert w.upstream.received[0].values("x-twice") == ["a", "b", "c"]


async def test_a_request_gets_no_header_of_ours() -> None:
    """A request gets no User-Agent, Accept, Accept-Encoding or Content-Type."""
    async with world() as w:
        w.upstream.answers(whole(b"{}"), whole(b"{}"))
        await w.ask(request("GET", "/v1/models"))
        await w.ask(request("POST", "/v1/responses", KEY, body=ODD))
        names = [{name.lower() for name, _ in got.headers} for got in w.upstream.received]
        assert names == [{"host"}, {"host", "authorization", "content-length"}]


async def test_upstream_is_addressed_by_its_own_name() -> None:
    """Upstream gets one `Host` header, with its own name."""
    async with world() as w:
        w.upstream.answers(whole(b"{}"))
        await w.get("/v1/models")
        assert w.upstream.received[0].values("host") == [w.upstream.url.removeprefix("http://")]


async def test_answer_headers_keep_their_spelling_order_and_number() -> None:
    """Response headers keep their case, order, number and odd values."""
    given = [
        "x-Request-ID: req_1",
        "Set-Cookie: a=1; Path=/",
        "set-cookie: b=2; Domain=.openai.com",
        "OpenAI-Processing-MS: 12",
        "x-ratelimit-reset-tokens: 6m0s",
        "Retry-After-Ms: 10",
        "Date: Thu, 20 Nov 2025 00:00:00 GMT",
        "Server: cloudflare",
        "content-TYPE: application/json; charset=utf-8",
    ]
    async with world() as w:
        w.upstream.answers(whole(b"{}", *given), whole(b"{}", *given))
        for target in ("/v1/models", "/v1/responses/resp_1"):
            got = await w.get(target)
            assert [f"{n}: {v}" for n, v in got.head.headers] == [*given, "Content-Length: 2"]


@pytest.mark.parametrize("method", ["GET", "POST"], ids=["passed-through", "replayed"])
async def test_an_answer_gets_no_header_of_ours_but_one(method: str) -> None:
    """A response gets no header except `x-reasoning-replay` on replayed routes."""
    async with world() as w:
        w.upstream.answers(head("Content-Length: 2") + b"{}")
        got = await w.ask(request(method, "/v1/responses", KEY, body=ODD))
        names = {name.lower() for name, _ in got.head.headers}
        ours = {"x-reasoning-replay"} if method == "POST" else set()
        assert names == {"content-length"} | ours


async def test_headers_of_one_hop_end_at_this_hop() -> None:
    """Hop-by-hop headers of a request are not forwarded (RFC 9110, 7.6.1)."""
    mine = ["Connection: keep-alive, X-Mine", "X-Mine: 1", "Keep-Alive: timeout=5", "TE: trailers"]
    mine += ["Proxy-Authorization: Basic eA==", "Proxy-Connection: keep-alive", "X-Yours: 2"]
    async with world() as w:
        w.upstream.answers(whole(b"{}"))
        await w.ask(request("GET", "/v1/models", *mine))
        names = {name.lower() for name, _ in w.upstream.received[0].headers}
        assert names == {"host", "x-yours"}


async def test_headers_of_upstreams_hop_end_at_this_hop() -> None:
    """Hop-by-hop headers of a response are not forwarded."""
    theirs = ["Connection: X-Theirs, keep-alive", "X-Theirs: 1", "Keep-Alive: timeout=5"]
    theirs += ["Proxy-Authenticate: Basic", "Upgrade: h2c", "X-Yours: 2"]
    async with world() as w:
        w.upstream.answers(whole(b"{}", *theirs))
        got = await w.get("/v1/models")
        assert {name.lower() for name, _ in got.head.headers} == {"x-yours", "content-length"}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"caf\xc3\xa9", id="utf-8"),
        pytest.param(b"caf\xe9", id="latin-1"),
        pytest.param(b"\x80\xff", id="neither"),
    ],
)
async def test_header_values_are_bytes(value: bytes) -> None:
    """Non-ASCII header values pass as bytes, in both directions."""
    async with world() as w:
        w.upstream.answers(head("Content-Length: 0", "X-Odd: " + value.decode("latin-1")))
        got = await w.get("/v1/models", "X-Odd: " + value.decode("latin-1"))
        received = w.upstream.received[0].values("x-odd")
        assert [v.encode("latin-1") for v in received + got.head.values("x-odd")] == [value] * 2


@pytest.mark.parametrize(
    "rest",
    [
        "/models?after=a%2Fb&after=b&limit=",
        "/models?q=%7E+%20[]|{}&&=&;",
        "/files/a%2Fb%20c/%7Euser/content",
        "/files/a~b/:x/@y/$&'()*+,;=",
        "/a/./b/../c//d/",
        "/models?",
        "/models?a?b=/c",
        "/mod%C3%A9ls?caf%e9",
    ],
)
async def test_the_target_is_not_normalised(rest: str) -> None:
    """Path and query keep their percent-encoding, dots and slashes."""
    async with world() as w:
        w.upstream.answers(whole(b"{}"), whole(b"{}"))
        await w.get("/v1" + rest)
        await w.get("/elsewhere" + rest)
        want = ["/v1" + rest, "/elsewhere" + rest]
        assert [received.target for received in w.upstream.received] == want


async def test_an_answer_to_head_has_headers_and_no_body() -> None:
    """A response to HEAD keeps upstream's length and has no body."""
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.answers(head("Content-Length: 1234", "ETag: x"), whole(b"{}"))
        got = await line.ask(request("HEAD", "/v1/files/f/content", KEY))
        assert (got.head.headers, got.body) == ([("Content-Length", "1234"), ("ETag", "x")], b"")

        again = await line.ask(request("GET", "/v1/models", KEY))
        assert again.body == b"{}"  # the connection is still usable


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_a_body_stays_one(status: str) -> None:
    """A response without a body gets no framing header, and the connection stays usable."""
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.answers(head("ETag: x", status=status), whole(b"{}"))
        got = await line.ask(request("DELETE", "/v1/files/f", KEY))
        assert (f"{got.status} {got.head.reason}", got.head.headers) == (status, [("ETag", "x")])

        again = await line.ask(request("GET", "/v1/models", KEY))
        assert again.body == b"{}"


@pytest.mark.parametrize("status", ["200 Fine by me", "299 ", "418 I'm a teapot", "529 Overloaded"])
async def test_the_status_line_is_upstreams(status: str) -> None:
    """Any status code and reason phrase is passed on."""
    async with world() as w:
        w.upstream.answers(whole(b"{}", status=status))
        got = await w.get("/v1/models")
        assert f"{got.status} {got.head.reason}" == status


@pytest.mark.parametrize("status", ["301 Moved", "303 See Other", "307 Temporary Redirect"])
async def test_a_redirect_is_the_clients_to_follow(status: str) -> None:
    """A redirect is passed on and not followed."""
    async with world() as w:
        w.upstream.answers(whole(b"go", "Location: /v1/elsewhere?a=%7E", status=status))
        got = await w.get("/v1/files/f/content")
        assert (got.status, got.head.values("location")) == (
            int(status[:3]),
            ["/v1/elsewhere?a=%7E"],
        )
        assert len(w.upstream.received) == 1


async def test_cookies_are_not_kept() -> None:
    """The proxy keeps no cookies: they may belong to another tenant."""
    async with world() as w:
        w.upstream.answers(whole(b"{}", "Set-Cookie: session=1; Path=/"), whole(b"{}"))
        await w.get("/v1/models")
        await w.get("/v1/models")
        assert [received.values("cookie") for received in w.upstream.received] == [[], []]
