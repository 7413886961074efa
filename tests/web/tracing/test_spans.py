"""Spans: one for each exchange, and one for its request to the upstream."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.turns import Context
from reasoning_replay.web.exchange import Exchange, Times
from reasoning_replay.web.tracing import attributes_of, known_method

from tests.web.gemini import exchanges as gemini
from tests.web.scripted import Script, cut, send
from tests.web.sockets import tunnelled
from tests.web.test_dialects import APIS, Api
from tests.web.tracing.collector import CLIENT, SERVER, Collector
from tests.web.tracing.world import ANSWER, DONE, GIVEN, LAST, PARENT, SPAN, TRACE, logged, traced
from tests.web.websocket.creates import create, failed, told, turn
from tests.web.wire import (
    ASK,
    CALL,
    LOST,
    PAIRING,
    RS,
    chunk,
    error,
    response,
    stream_head,
    whole,
)
from tests.web.wire import as_json as spelled
from tests.web.world import MODEL, World


def place(w: World) -> dict[str, Any]:
    """Return the span attributes of the upstream's address."""
    return {"server.address": "127.0.0.1", "server.port": int(w.upstream.url.rpartition(":")[2])}


async def test_an_exchange_and_its_request_are_spans(
    spans: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client's span is the parent of the exchange, which is the parent of its request."""
    async with traced() as w:
        w.upstream.answers(ANSWER)
        await w.turn(ASK)
        w.upstream.answers(DONE)
        await w.post({"model": MODEL, "input": LOST}, *GIVEN, f"traceparent: {PARENT}")
        first, _, ours, attempt = await spans.came(4)
        assert (first.parent, first.kind) == ("", SERVER)
        assert (ours.trace, ours.parent, ours.kind) == (TRACE, SPAN, SERVER)
        assert (attempt.trace, attempt.parent, attempt.kind) == (TRACE, ours.id, CLIENT)
        assert w.upstream.received[1].values("traceparent") == [f"00-{TRACE}-{attempt.id}-01"]
        assert ours.name == f"chat {MODEL}"
        assert attempt.name == "POST"
        got = ours.known
        times = ("before_ms", "between_ms", "after_ms", "first_byte_ms")
        timed = {key: got.pop(f"reasoning_replay.{key}") for key in times}
        assert timed["before_ms"] > 0
        assert len(got.pop("reasoning_replay.request_id")) == 16
        hashed = {key: got.pop(f"reasoning_replay.{key}") for key in ("scope", "conversation")}
        assert got == {
            "http.request.method": "POST",
            "http.route": "/responses",
            "http.response.status_code": 200,
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": MODEL,
            "gen_ai.response.model": "gpt-5.4",
            "gen_ai.response.id": "resp_2",
            "reasoning_replay.route": "responses",
            "reasoning_replay.dialect": "responses",
            "reasoning_replay.outcome": "ok",
            "reasoning_replay.asked": "planned",
            "reasoning_replay.way": "new",
            "reasoning_replay.captured": "saved",
            "reasoning_replay.injected": 1,
            "reasoning_replay.captured_items": 0,
            "reasoning_replay.injected_bytes": len(spelled(RS)),
            "reasoning_replay.received_bytes": len(spelled({"model": MODEL, "input": LOST})),
            "reasoning_replay.sent_bytes": len(LAST),
            "gen_ai.usage.input_tokens": 50,
            "gen_ai.usage.cache_read.input_tokens": 40,
            "gen_ai.usage.output_tokens": 30,
            "gen_ai.usage.reasoning.output_tokens": 20,
        }
        assert attempt.known == place(w) | {
            "http.request.method": "POST",
            "http.response.status_code": 200,
        }
        assert (ours.is_error, attempt.is_error) == (False, False)
        assert ours.start_ns <= attempt.start_ns <= attempt.end_ns <= ours.end_ns
        line = logged(capsys.readouterr().out, "exchange")[1]
        assert hashed == {key: line[key] for key in hashed}
        assert line["trace_id"] == TRACE


@pytest.mark.parametrize("api", APIS, ids=[api.name for api in APIS])
async def test_each_dialect_has_spans(api: Api, spans: Collector) -> None:
    """The operation has its path, its tokens, the result of replay, and says if it is a stream."""
    async with traced() as w:
        w.upstream.answers(api.plain, api.streamed)
        await api.send(w, api.lost[0])
        await api.send(w, *api.lost, stream=True)
        first, _, second, _ = await spans.came(4)
    known = {"gen_ai.operation.name": "chat"} | {
        "reasoning_replay." + name: value
        for name, value in {"route": api.route, "dialect": api.name, "captured": "saved"}.items()
    }
    assert first.known.items() >= known.items()
    assert api.path.endswith(first.known["http.route"].replace("{model}", gemini.MODEL))
    assert first.name == f"chat {first.known['gen_ai.request.model']}"
    assert first.known["gen_ai.usage.output_tokens"] == api.tokens["output"]
    assert second.known["reasoning_replay.injected"] == 1
    assert second.known["gen_ai.request.stream"] is True


async def test_a_healed_request_is_one_span(spans: Collector) -> None:
    """Both attempts name it as parent; the exchange says what was healed."""
    async with traced() as w:
        w.upstream.answers(error(PAIRING), DONE)
        await w.post({"model": MODEL, "input": LOST}, *GIVEN, f"traceparent: {PARENT}")
        ours, attempt = await spans.came(2)
        assert (attempt.parent, attempt.is_error, ours.is_error) == (ours.id, False, False)
        assert attempt.known["http.request.resend_count"] == 1
        assert attempt.known["http.response.status_code"] == 200
        assert ours.known["reasoning_replay.healed"] == "lacks_reasoning"
        sent = [got.values("traceparent") for got in w.upstream.received]
        assert sent == [[f"00-{TRACE}-{attempt.id}-01"]] * 2


@pytest.mark.parametrize(
    ("script", "ours", "attempt", "status"),
    [
        pytest.param([send(error("no", None))], None, "400", 400, id="refused"),
        pytest.param(
            [send(whole(b"{}", status="503 Busy"))], "503", "503", 503, id="upstream-failed"
        ),
        pytest.param([cut()], "upstream_failed", "upstream_failed", 502, id="no-response"),
        pytest.param(
            [send(stream_head() + chunk(b"data: 1\n\n")), cut()],
            "cut_off",
            "cut_off",
            200,
            id="cut",
        ),
        pytest.param(
            [send(whole(spelled(response(status="failed"))))],
            "response_failed",
            "response_failed",
            200,
            id="failed",
        ),
    ],
)
async def test_an_error_follows_the_conventions(
    spans: Collector, script: list[Any], ours: str | None, attempt: str | None, status: int
) -> None:
    """A 4xx response is an error of the request upstream only; others are of the exchange, too."""
    async with traced() as w:
        w.upstream.plays(Script(script))
        with contextlib.suppress(Exception):
            await w.turn(ASK)
        mine, theirs = await spans.came(2)
        assert (mine.known.get("error.type"), theirs.known.get("error.type")) == (ours, attempt)
        assert (mine.is_error, theirs.is_error) == (ours is not None, attempt is not None)
        assert mine.known["http.response.status_code"] == status
        answered = None if ours == "upstream_failed" else status
        assert theirs.known.get("http.response.status_code") == answered


async def test_a_rejected_request_has_one_span(spans: Collector) -> None:
    """
    A request that the proxy rejects is not sent.

    The client can correct it, so the exchange is no error.
    """
    async with traced(body_max_bytes=100) as w:
        await w.turn(ASK | {"content": "x" * 200})
        (ours,) = await spans.came(1)
        assert ours.known["http.response.status_code"] == 413
        assert not ours.is_error


async def test_other_routes_have_no_path(spans: Collector) -> None:
    """Spans of other routes have no path or query, since a client may write anything there."""
    async with traced() as w:
        w.upstream.answers(whole(b"{}"), DONE)
        await w.get("/v1/files/secret?key=hunter2")
        await w.get("/v1/responses/resp_1?key=hunter2")
        other, _, fetched, _ = await spans.came(4)
        assert (other.name, fetched.name) == ("GET files", "fetch_response")
        assert fetched.known["http.route"] == "/responses/{response_id}"
        assert "gen_ai.usage.input_tokens" not in fetched.known
        assert b"hunter2" not in b"".join(spans.raw)
        assert b"secret" not in b"".join(spans.raw)


async def test_spans_have_no_content(spans: Collector) -> None:
    """Spans have no content, credential or header, and no invalid model name."""
    async with traced() as w:
        w.upstream.answers(ANSWER, DONE)
        await w.turn(ASK)
        asked = {"model": "my secret\nplan", "input": LOST}
        await w.post(asked, "Authorization: Bearer sk-hunter2", "Cookie: a=hunter3")
        *_, ours, _ = await spans.came(4)
        assert ours.name == "chat"
        raw = b"".join(spans.raw)
        for word in (
            "hunter",
            "sk-a",
            "Bearer",
            "secret",
            "Oslo",
            "gAAAA",
            "get_weather",
            CALL["id"],
        ):
            assert word.encode() not in raw


def named(model: str, response_id: str) -> tuple[object, object, object]:
    """Return a span's requested model, answering model and response id."""
    exchange = Exchange(Route.RESPONSES, Times(0.0))
    exchange.request.model = model
    exchange.response.capture = capture = ResponsesCapture(Origin(Context(), model), 1 << 20)
    capture.model, capture.response_id = model, response_id
    found = attributes_of(exchange)
    names = ("gen_ai.request.model", "gen_ai.response.model", "gen_ai.response.id")
    requested, answered, response = (found.get(name, "") for name in names)
    return requested, answered, response


@given(st.text())
def test_names_are_limited(text: str) -> None:
    """Names from clients and upstreams are short and plain ASCII, or left out."""
    for got in named(text, text):
        assert got in {"", text}
        assert isinstance(got, str)
        assert len(got) <= 256
        assert got.isascii()
        assert not set(got) & set(" \n\"'{}<>")


@pytest.mark.parametrize(
    "model", ["gpt-5.4", "openai/gpt-5.4:free", "ft:gpt-4o:acme::a1B2", "us.anthropic@1+x"]
)
def test_usual_names_are_unchanged(model: str) -> None:
    """Usual model names and response ids are unchanged."""
    assert named(model, "resp_0c1d2e3f4a5b6071==") == (model, model, "resp_0c1d2e3f4a5b6071==")


def test_unknown_methods_share_one_value() -> None:
    """Unknown methods share one value, `_OTHER`."""
    assert [known_method(one) for one in ("GET", "get", "A" * 99)] == ["GET", "_OTHER", "_OTHER"]


async def test_a_websocket_has_a_span_for_each_request(spans: Collector) -> None:
    """A WebSocket is a span; its handshake and each of its requests are children of it."""
    async with traced() as w:
        async with tunnelled(w) as (client, upstream):
            await turn(client, upstream, create(ASK), told(RS, CALL))
            await client.send(create(ASK))
            await upstream.event()
            refusal = failed("no")
            await upstream.send(refusal)
            await client.gets(refusal)
        whole_, handshake, good, bad = await spans.came(4)
        assert [span.parent for span in (handshake, good, bad)] == [whole_.id] * 3
        assert [span.trace for span in (handshake, good, bad)] == [whole_.trace] * 3
        assert (whole_.name, whole_.known["http.response.status_code"]) == ("GET websocket", 101)
        assert (good.name, good.kind) == (f"chat {MODEL}", CLIENT)
        assert good.known["gen_ai.response.id"] == "resp_0c1d2e3f4a5b6071"
        assert good.known["reasoning_replay.captured_items"] == 1
        assert (good.is_error, bad.is_error, bad.known["error.type"]) == (False, True, "400")
        sent = w.upstream.received[0].values("traceparent")
        assert sent == [f"00-{whole_.trace}-{handshake.id}-03"]  # flags: sampled, random trace id
