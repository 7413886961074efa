"""Path advice: a wrong base URL, and an API that is not replayed, explain themselves."""

import io
import json

import pytest
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.core.dialects.registry import REPLAYED_PATHS, route_of
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.web.exchange import Exchange, Times
from reasoning_replay.web.pipeline import path_advice
from reasoning_replay.web.pipeline.path_advice import WARNING_EVERY_S, PathAdvice

from tests.web.line import request
from tests.web.sockets import UPGRADE
from tests.web.wire import whole
from tests.web.world import Logged, logged, world

KEY = "Authorization: Bearer sk-a"
CHAT = b'{"model":"gpt-5.6","messages":[{"role":"user","content":"Hello"}]}'
NOT_FOUND = b'{"error":{"message":"Invalid URL (POST /responses)"}}'


@pytest.mark.parametrize(
    ("base", "target", "word"),
    [
        ("/v1", "/responses", "lacks_v1"),
        ("/v1", "/v1/v1/responses", "double_v1"),
        ("/v1", "/v1/chat/completions/responses", "endpoint"),
        ("", "/v1/responses", "upstream_lacks_v1"),
        ("/v1", "/openai/v1/responses", "prefix"),
        ("/v1", "/V1/responses", "letter_case"),
    ],
)
async def test_a_wrong_base_url_is_explained(
    base: str, target: str, word: str, capsys: Logged
) -> None:
    """The body stays the upstream's; header, log line and a warning name the mistake."""
    async with world(base) as w:
        w.upstream.otherwise = whole(NOT_FOUND, status="404 Not Found")
        got = await w.ask(request("POST", target, KEY, body=b'{"input":"x"}'))
        assert (got.status, got.body) == (404, NOT_FOUND)
        assert got.mark == f"injected=0, wrong_path={word}"
        mapped = base + target.removeprefix("/v1") if target.startswith("/v1/") else target
        assert w.upstream.received[0].line == f"POST {mapped} HTTP/1.1"
    warning, exchange = logged(capsys, "wrong_path", "exchange")
    assert (warning["level"], warning["reason"], warning["status"]) == ("warning", word, 404)
    assert "/v1" in warning["hint"]
    assert exchange["wrong_path"] == word
    assert warning["request_id"] == exchange["request_id"] == got.head.request_id


TOOLS = (
    b'{"error":{"message":"Function tools with reasoning_effort are not supported for gpt-5.6 in '
    b"/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to "
    b'\'none\'.","type":"invalid_request_error","param":"reasoning_effort","code":null}}'
)


async def test_a_model_that_needs_the_other_api_is_explained(capsys: Logged) -> None:
    """The refusal goes to the client once; header, log line and one warning name the way out."""
    async with world() as w:
        w.upstream.otherwise = whole(TOOLS, status="400 Bad Request")
        for _ in range(2):
            got = await w.ask(request("POST", "/v1/chat/completions", KEY, body=CHAT))
            assert (got.status, got.body) == (400, TOOLS)
            assert got.mark == "injected=0, wrong_path=needs_responses"
        assert len(w.upstream.received) == 2
    warning, *exchanges = logged(capsys, "wrong_path", "exchange")
    assert (warning["reason"], warning["status"]) == ("needs_responses", 400)
    assert "Responses API" in warning["hint"]
    assert [line["wrong_path"] for line in exchanges] == ["needs_responses"] * 2


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/responses", "200 OK"),
        ("/responses", "401 Unauthorized"),
        ("/v1/responses", "404 Not Found"),
        ("/openai/responses?api-version=1", "404 Not Found"),
    ],
)
async def test_any_other_response_is_not_explained(
    target: str, status: str, capsys: Logged
) -> None:
    """A path that the upstream knows, and a right path, need no advice."""
    async with world() as w:
        w.upstream.otherwise = whole(b"{}", status=status)
        got = await w.ask(request("POST", target, KEY, body=b'{"input":"x"}'))
        assert "wrong_path" not in (got.mark or "")
    assert logged(capsys, "wrong_path") == []


async def test_a_websocket_with_a_wrong_path_is_explained(capsys: Logged) -> None:
    """The refusal of a handshake has its warning, too."""
    async with world() as w:
        w.upstream.otherwise = whole(NOT_FOUND, status="404 Not Found")
        assert (await w.ask(request("GET", "/responses", *UPGRADE))).status == 404
    assert [line["route"] for line in logged(capsys, "wrong_path")] == ["websocket"]


async def test_nothing_of_the_path_is_logged(capsys: Logged) -> None:
    """The route and the word are from fixed lists; the path may hold anything."""
    async with world() as w:
        w.upstream.otherwise = whole(b"{}", status="404 Not Found")
        await w.ask(request("GET", "/v1/v1/files/hunter2?key=hunter3", KEY))
    (line,) = logged(capsys, "wrong_path")
    assert line["route"] == "files"
    assert "hunter" not in str(line)


async def test_another_api_is_named_once(capsys: Logged) -> None:
    """The first request of each API that is not replayed says what the proxy acts on."""
    async with world() as w:
        w.upstream.otherwise = whole(b"{}")
        for target in ("/v1/completions", "/v1/completions", "/v1/threads"):
            got = await w.ask(request("POST", target, KEY, body=b"{}"))
            assert (got.status, got.mark) == (200, None)
        await w.get("/v1/models")
    lines = logged(capsys, "not_replayed")
    assert [line["route"] for line in lines] == ["completions", "threads"]
    assert {line["level"] for line in lines} == {"info"}
    assert all(path in line["hint"] for line in lines for path in REPLAYED_PATHS)


async def test_a_proxy_that_injects_nothing_names_no_api(capsys: Logged) -> None:
    """In mode `off`, no API is replayed."""
    async with world(mode="off") as w:
        w.upstream.otherwise = whole(b"{}")
        await w.ask(request("POST", "/v1/completions", KEY, body=b"{}"))
    assert logged(capsys, "not_replayed") == []


def advice_on(upstream_url: str) -> tuple[PathAdvice, io.StringIO]:
    """Return the advice for an upstream, and its log."""
    stream = io.StringIO()
    return PathAdvice(upstream_url, Log("info", "json", stream), is_on=True), stream


@pytest.mark.parametrize(
    ("upstream_url", "path", "word", "hint"),
    [
        ("https://api.test/v1", "/v1/v1/responses", "double_v1", "which is http://<this proxy>/v1 unless"),  # noqa: E501
        ("https://api.test/v1", "/v1/v1/messages", "double_v1", "which is http://<this proxy> unless"),  # noqa: E501
        ("https://api.test/v1", "//v1/messages", "double_slash", "which is http://<this proxy>"),
        ("https://api.test/v1", "/v1/response", "misspelt", "http://<this proxy>/v1, and"),
        ("https://api.openai.com/v1", "/v1/messages", "lacks_api", "the url https://api.anthropic.com/v1"),
        ("https://api.deepseek.com", "/v1/messages", "lacks_api", "http://<this proxy>/anthropic"),
    ],
)  # fmt: skip
def test_a_hint_is_for_the_api_at_hand(upstream_url: str, path: str, word: str, hint: str) -> None:
    """The base URL in it is that of the clients of this API, which differs."""
    advice, stream = advice_on(upstream_url)
    exchange = Exchange(route_of("POST", path), Times(100.0))
    advice.note(exchange, path, 404)
    line = json.loads(stream.getvalue())
    assert (exchange.wrong_path, line["reason"]) == (word, word)
    assert hint in line["hint"]


async def test_a_path_without_a_route_has_its_mistake_in_the_header() -> None:
    """A misspelt path is on no route that has a header otherwise."""
    async with world() as w:
        w.upstream.otherwise = whole(NOT_FOUND, status="404 Not Found")
        got = await w.ask(request("POST", "/v1/response", KEY, body=b"{}"))
        assert (got.status, got.mark) == (404, "wrong_path=misspelt")


def test_there_is_at_most_one_warning_a_minute_of_each_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that tries again and again does not fill the log; the exchange lines name it."""
    advice, stream = advice_on("https://api.test/v1")
    for at_s in (100.0, 100.0 + WARNING_EVERY_S / 2, 100.0 + WARNING_EVERY_S):
        monkeypatch.setattr(path_advice, "monotonic", lambda at_s=at_s: at_s)
        for path, word in (("/responses", "lacks_v1"), ("/v1/v1/responses", "double_v1")):
            exchange = Exchange(Route.RESPONSES, Times(at_s))
            advice.note(exchange, path, 404)
            assert exchange.wrong_path == word
    reasons = [json.loads(line)["reason"] for line in stream.getvalue().splitlines()]
    assert reasons == ["lacks_v1", "double_v1"] * 2
