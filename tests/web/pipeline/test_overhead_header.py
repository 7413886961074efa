"""Overhead header: what the proxy added, told to clients where the operator wants it."""

import pytest

from tests.web.line import request
from tests.web.scripted import Script, send
from tests.web.wire import ASK, END, as_json, whole
from tests.web.world import MODEL, Logged, logged, post, world

NAME = "x-reasoning-replay-overhead-ms"
KEY = "Authorization: Bearer sk-a"
ANSWER = as_json({"id": "resp_1", "status": "completed", "output": []})
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (post({"model": MODEL, "input": [ASK]}, KEY), whole(ANSWER, f"{NAME}: 99")),
        (post({"model": MODEL, "input": [ASK], "stream": True}, KEY), STREAM + END),
        (request("GET", "/v1/models", KEY), whole(b"{}")),
        (request("GET", "/nothing", KEY), whole(b"{}", status="404 Not Found")),
    ],
    ids=["whole", "stream", "passed-through", "refused"],
)
async def test_a_response_says_what_the_proxy_added(
    data: bytes, answer: bytes, capsys: Logged
) -> None:
    """At least what the log has as `before_ms`, once, also if the upstream is such a proxy."""
    async with world(overhead_header="on") as w:
        w.upstream.plays(Script([send(answer)]))
        got = await w.ask(data)
        (value,) = got.head.values(NAME)
    (line,) = logged(capsys, "exchange")
    assert line["before_ms"] <= float(value) <= line["total_ms"]
    assert len(value.partition(".")[2]) == 2


async def test_it_is_off_by_default() -> None:
    """A header of the upstream passes as it is."""
    async with world() as w:
        w.upstream.otherwise = whole(ANSWER, f"{NAME}: 99")
        got = await w.ask(post({"model": MODEL, "input": [ASK]}, KEY))
        assert got.head.values(NAME) == ["99"]


async def test_a_page_may_read_it() -> None:
    """Only where the upstream lets the page read its response."""
    allowed = "Access-Control-Allow-Origin: *"
    async with world(overhead_header="on") as w:
        w.upstream.otherwise = whole(ANSWER, allowed)
        got = await w.ask(
            post({"model": MODEL, "input": [ASK]}, KEY, "Origin: https://app.example")
        )
        assert NAME in got.head.values("access-control-expose-headers")
