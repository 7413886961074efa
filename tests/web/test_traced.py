"""Each exchange is one span, each try upstream another, and an exchange knows nothing of either."""

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.web.collector import CLIENT, SERVER, Collector, Seen, collector
from tests.web.scripted import Script, cut, send
from tests.web.served import ROOT, served
from tests.web.sockets import tunnelled
from tests.web.test_websocket_replay import create, failed, told, turn
from tests.web.wire import (
    ASK,
    CALL,
    MESSAGE,
    PAIRING,
    RESULT,
    RS,
    chunk,
    error,
    events,
    response,
    stream,
    stream_head,
    whole,
)
from tests.web.wire import as_json as spelled
from tests.web.world import MODEL, Hooked, World, eventually, world

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
KEY = "Authorization: Bearer sk-a"
GIVEN = (KEY, "Content-Type: application/json")
LOST = [ASK, CALL, RESULT]
ANSWER = whole(spelled(response(RS, CALL)))
USED = {
    "input_tokens": 50,
    "input_tokens_details": {"cached_tokens": 40},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 20},
}
LAST = spelled(response(MESSAGE, rid="resp_2", usage=USED))
DONE = whole(LAST)


@pytest.fixture
def otel(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The SDK's variables; spans are sent at once, and a collector has a second."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    return monkeypatch


@pytest.fixture
async def spans(otel: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    """A collector that the SDK knows of."""
    async with collector() as taking:
        otel.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", taking.url)
        yield taking


@contextlib.asynccontextmanager
async def traced(**settings: Any) -> AsyncIterator[World]:
    """A proxy that traces, before a scripted upstream."""
    async with world(tracing="otlp", **settings) as w:
        yield w


def place(w: World) -> dict[str, Any]:
    """Where upstream is, as spans have it."""
    return {"server.address": "127.0.0.1", "server.port": int(w.upstream.url.rpartition(":")[2])}


def logged(out: str, event: str) -> list[dict[str, Any]]:
    """Return the lines of one kind."""
    lines = [json.loads(line) for line in out.splitlines()]
    return [line for line in lines if line["event"] == event]


# What is told...


async def test_an_exchange_is_a_span_and_its_try_another(
    spans: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client's span is its parent, it is the try's, and that is what upstream is told."""
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
        assert min(timed.values()) > 0
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
            "reasoning_replay.outcome": "ok",
            "reasoning_replay.asked": "planned",
            "reasoning_replay.captured": "saved",
            "reasoning_replay.injected": 1,
            "reasoning_replay.repaired": 0,
            "reasoning_replay.captured_items": 0,
            "reasoning_replay.captured_bytes": 0,
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
        assert (ours.events, ours.is_error, attempt.is_error) == ({}, False, False)
        assert ours.start_ns <= attempt.start_ns <= attempt.end_ns <= ours.end_ns
        line = logged(capsys.readouterr().out, "exchange")[1]
        assert hashed == {key: line[key] for key in hashed}
        assert line["trace_id"] == TRACE


async def test_a_stream_is_one(spans: Collector) -> None:
    """It ends with its last byte."""
    async with traced() as w:
        w.upstream.plays(Script([send(stream(events(RS, CALL)))]))
        await w.turn(ASK, stream=True)
        ours, attempt = await spans.came(2)
        assert ours.known["gen_ai.request.stream"] is True
        assert ours.known["gen_ai.response.id"] == "resp_0c1d2e3f4a5b6071"
        assert attempt.end_ns <= ours.end_ns


async def test_a_heal_is_an_event_between_two_tries(spans: Collector) -> None:
    """The first one failed, the exchange did not; each try names itself."""
    async with traced() as w:
        w.upstream.answers(error(PAIRING), DONE)
        await w.post({"model": MODEL, "input": LOST}, *GIVEN, f"traceparent: {PARENT}")
        ours, first, second = await spans.came(3)
        assert [first.parent, second.parent] == [ours.id, ours.id]
        assert [first.is_error, second.is_error, ours.is_error] == [True, False, False]
        assert first.known["error.type"] == "400"
        assert second.known["http.request.resend_count"] == 1
        assert first.end_ns <= second.start_ns
        diagnosis = ours.known["reasoning_replay.healed"]
        want = {"reasoning_replay.diagnosis": diagnosis}
        assert ours.events == {"reasoning_replay.heal": want}
        sent = [got.values("traceparent") for got in w.upstream.received]
        assert sent == [[f"00-{TRACE}-{span.id}-01"] for span in (first, second)]


@pytest.mark.parametrize(
    ("script", "ours", "attempt", "status"),
    [
        pytest.param([send(error("no", None))], None, "400", 400, id="refused"),
        pytest.param(
            [send(whole(b"{}", status="503 Busy"))], "503", "503", 503, id="upstream-failed"
        ),
        pytest.param([cut()], "upstream_failed", "read", 502, id="no-answer"),
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
            None,
            200,
            id="failed",
        ),
    ],
)
async def test_a_failure_is_one_by_the_conventions(
    spans: Collector, script: list[Any], ours: str | None, attempt: str | None, status: int
) -> None:
    """A refusal is the client's fault where we are the server, and a failure where we ask."""
    async with traced() as w:
        w.upstream.plays(Script(script))
        with contextlib.suppress(Exception):
            await w.turn(ASK)
        mine, theirs = await spans.came(2)
        assert (mine.known.get("error.type"), theirs.known.get("error.type")) == (ours, attempt)
        assert (mine.is_error, theirs.is_error) == (ours is not None, attempt is not None)
        assert mine.known["http.response.status_code"] == status


async def test_what_is_refused_here_has_no_try(spans: Collector) -> None:
    """An error of ours that the client can mend is no failure of ours."""
    async with traced(body_max_bytes=100) as w:
        await w.turn(ASK | {"content": "x" * 200})
        (ours,) = await spans.came(1)
        assert ours.known["http.response.status_code"] == 413
        assert not ours.is_error


async def test_a_store_that_fails_is_an_event(spans: Collector) -> None:
    """One for what could not be asked, one for what could not be kept."""

    async def fails(_: str) -> None:
        raise OSError

    async with traced() as w:
        w.app.store.inner = Hooked(w.app.store.inner, fails)
        w.upstream.answers(ANSWER)
        await w.turn(*LOST)
        ours, _ = await spans.came(2)
        assert "reasoning_replay.store_failure" in ours.events


async def test_other_routes_tell_no_path(spans: Collector) -> None:
    """What a client asks for may be anything; a response that is fetched is one of the API's."""
    async with traced() as w:
        w.upstream.answers(whole(b"{}"), DONE)
        await w.get("/v1/files/secret?key=hunter2")
        await w.get("/v1/responses/resp_1?key=hunter2")
        other, _, fetched, _ = await spans.came(4)
        assert (other.name, fetched.name) == ("GET other", "fetch_response")
        assert fetched.known["http.route"] == "/responses/{response_id}"
        assert "gen_ai.usage.input_tokens" not in fetched.known
        assert b"hunter2" not in b"".join(spans.raw)
        assert b"files" not in b"".join(spans.raw)


async def test_nothing_that_was_said_is_told(spans: Collector) -> None:
    """No body, no credential, no header; a name of a model that is none is left out."""
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


async def test_each_create_on_a_websocket_is_part_of_it(spans: Collector) -> None:
    """The connection is a span, its handshake one try, and each request one more, when it ends."""
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
        assert handshake.end_ns <= good.end_ns
        assert (good.name, good.kind) == (f"chat {MODEL}", CLIENT)
        assert good.known["gen_ai.response.id"] == "resp_0c1d2e3f4a5b6071"
        assert good.known["reasoning_replay.captured_items"] == 1
        assert (good.is_error, bad.is_error, bad.known["error.type"]) == (False, True, "400")
        sent = w.upstream.received[0].values("traceparent")
        assert sent == [f"00-{whole_.trace}-{handshake.id}-03"]  # by chance, and random


# What upstream is told...


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param([], [], id="none"),
        pytest.param(
            [f"traceparent: {PARENT}", "tracestate: a=1", "baggage: b=2"],
            ["tracestate: a=1", "baggage: b=2"],
            id="a-parent",
        ),
        pytest.param(["traceparent: nonsense", "baggage: b=2"], ["baggage: b=2"], id="nonsense"),
    ],
)
async def test_only_traceparent_is_changed(
    spans: Collector, given: list[str], kept: list[str]
) -> None:
    """Every other header, and the body, goes on as it came."""
    body = b'{ "model":"gpt-5.4", "input": "hi" }'
    async with traced() as w:
        w.upstream.answers(DONE)
        await w.post(body, *GIVEN, *given)
        ours, attempt = await spans.came(2)
        (got,) = w.upstream.received
        others = [f"{key}: {value}" for key, value in got.headers if key != "traceparent"]
        assert [other for other in others if not other.startswith(("Host", "Content-Len"))] == [
            *GIVEN,
            *kept,
        ]
        (parent,) = got.values("traceparent")
        assert parent[:-2] == f"00-{ours.trace}-{attempt.id}-"
        assert got.body == body


@pytest.mark.parametrize("state", ["a=hunter2", "A=hunter2,,=", "a=1,a=hunter2"])
async def test_a_state_goes_upstream_and_nowhere_else(
    spans: Collector, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    """It is a header's value, and a wrong one is no trouble of ours."""
    async with traced() as w:
        w.upstream.answers(DONE)
        await w.post({"input": "hi"}, *GIVEN, f"traceparent: {PARENT}", f"tracestate: {state}")
        await spans.came(2)
        assert w.upstream.received[0].values("tracestate") == [state]
    assert b"hunter2" not in b"".join(spans.raw)
    assert "tracing_trouble" not in capsys.readouterr().out


async def test_who_is_not_sampled_is_not_traced(spans: Collector) -> None:
    """Upstream learns that, too."""
    async with traced() as w:
        w.upstream.answers(DONE, DONE)
        await w.post({"input": "hi"}, *GIVEN, f"traceparent: 00-{TRACE}-{SPAN}-00")
        await w.post({"input": "hi"}, *GIVEN)
        await spans.came(2)
        (parent,) = w.upstream.received[0].values("traceparent")
        assert parent[:36] == f"00-{TRACE}-"
        assert parent[-3:] == "-00"


async def test_the_sdk_can_be_switched_off_by_itself(
    otel: pytest.MonkeyPatch, spans: Collector
) -> None:
    """Then a client's parent goes on as it came."""
    otel.setenv("OTEL_SDK_DISABLED", "true")
    async with traced() as w:
        w.upstream.answers(DONE, DONE)
        await w.post({"input": "hi"}, *GIVEN, f"traceparent: {PARENT}")
        await w.post({"input": "hi"}, *GIVEN)
        got = [received.values("traceparent") for received in w.upstream.received]
        assert got == [[PARENT], []]
    assert spans.asked == 0


async def test_without_tracing_all_of_it_passes() -> None:
    """A trace is the client's and upstream's, and none of it is read."""
    given = ["TraceParent: nonsense", "tracestate: a=1", "baggage: b=2", f"traceparent: {PARENT}"]
    async with world() as w:
        w.upstream.answers(DONE)
        await w.post({"input": "hi"}, *GIVEN, *given)
        got = [f"{key}: {value}" for key, value in w.upstream.received[0].headers]
        assert [field for field in got if "trace" in field.lower() or "baggage" in field] == given


# Whatever becomes of the spans...


async def answers(w: World) -> None:
    """Show that an exchange goes well."""
    w.upstream.answers(DONE)
    assert (await w.turn(ASK)).head.status == 200


def hang(taking: Collector) -> None:
    """Answer nothing."""
    taking.hangs = True


def refuse(taking: Collector) -> None:
    """Want a credential."""
    taking.status = 401


def fail(taking: Collector) -> None:
    """Be broken for good."""
    taking.status = 500


def gone(taking: Collector) -> None:
    """Not be there; see below."""


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        pytest.param(hang, None, id="hangs"),
        pytest.param(refuse, "401", id="refuses"),
        pytest.param(fail, "500", id="fails"),
        pytest.param(gone, "Connection|unreachable", id="is-not-there"),
    ],
)
async def test_a_collector_that_fails_is_told_once(
    otel: pytest.MonkeyPatch,
    spans: Collector,
    capfd: pytest.CaptureFixture[str],
    how: Any,
    reason: str | None,
) -> None:
    """No exchange waits for it; one line says why, and nothing goes to standard error."""
    how(spans)
    if how is gone:
        otel.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9/x?key=hunter2")
    out = ""
    async with traced() as w:
        for _ in range(3):
            await answers(w)
        async with asyncio.timeout(20):
            while not logged(out, "tracing_failed"):
                await asyncio.sleep(0.05)
                out += capfd.readouterr().out
        await answers(w)
        await w.app.stop(30.0)
    ended = capfd.readouterr()
    (line,) = logged(out + ended.out, "tracing_failed")
    assert line["level"] == "warning"
    assert reason is None or re.search(reason, line["reason"])
    assert ended.err == ""
    assert "hunter2" not in out + ended.out


async def test_a_collector_that_is_back_is_told(
    spans: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    """With how many spans were lost."""
    spans.status = 500
    async with traced() as w:
        await answers(w)
        out = ""
        async with asyncio.timeout(20):
            while not logged(out, "tracing_failed"):
                await asyncio.sleep(0.02)
                out += capsys.readouterr().out
            spans.status = 200
            await answers(w)
            while not logged(out, "tracing_recovered"):
                await asyncio.sleep(0.02)
                out += capsys.readouterr().out
    assert logged(out, "tracing_recovered")[0]["lost_spans"] >= 1


@pytest.mark.parametrize(
    "broken",
    [
        *("start_span", "set_attributes", "add_event", "end"),
        *("get_span_context", "is_recording", "set_status", "update_name"),
    ],
)
async def test_an_sdk_that_raises_costs_no_exchange(
    otel: pytest.MonkeyPatch,
    spans: Collector,
    capsys: pytest.CaptureFixture[str],
    broken: str,
) -> None:
    """Wherever it does; it is told once."""

    def raises(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    owner = "opentelemetry.sdk.trace." + ("Tracer" if broken == "start_span" else "Span")
    otel.setattr(f"{owner}.{broken}", raises)
    otel.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")  # what was sent well would be told of again
    async with traced() as w:
        w.upstream.answers(error(PAIRING), DONE, whole(b"{}", status="500 Broken"))
        assert (await w.turn(*LOST)).head.status == 200
        assert (await w.turn(ASK)).head.status == 500
        await answers(w)
        await asyncio.sleep(0)
        assert w.counted("exchanges_total") == 3
    out = capsys.readouterr().out
    lines = logged(out, "tracing_trouble")
    assert [line["reason"] for line in lines] == ["ZeroDivisionError"]
    assert len(logged(out, "exchange")) == 3


async def test_what_is_left_is_sent_at_the_end(otel: pytest.MonkeyPatch, spans: Collector) -> None:
    """A stop waits for the last spans, in what is left of the drain."""
    otel.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    async with traced() as w:
        await answers(w)
        assert spans.spans == []
        await w.app.stop(30.0)
        assert len(spans.spans) == 2


async def test_a_stop_has_no_time_for_a_collector_that_hangs(
    otel: pytest.MonkeyPatch, spans: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not beyond the drain: what is left is given up."""
    otel.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    otel.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")  # longer than a test may last
    spans.hangs = True
    async with traced() as w:
        await answers(w)
        await w.app.stop(0.2)
    assert logged(capsys.readouterr().out, "tracing_trouble")


# The process...


async def test_a_process_names_itself(spans: Collector) -> None:
    """By the service's name and version, and by a number where it is one of several."""
    async with traced() as w:
        await answers(w)
        (ours, _) = await spans.came(2)
        assert ours.resource["service.name"] == "reasoning-replay"
        assert ours.resource["service.version"]
        assert "worker" not in ours.resource["service.instance.id"]


async def test_workers_each_have_their_own(
    otel: pytest.MonkeyPatch, spans: Collector, tmp_path: Any
) -> None:
    """They begin after the spawn; what the environment says of a name counts."""
    otel.setenv("OTEL_SERVICE_NAME", "mine")
    async with world() as w:
        settings: dict[str, Any] = {
            "upstream_url": w.upstream.url + "/v1",
            "workers": 2,
            "store_url": f"sqlite:///{tmp_path}/a.db",
            "tracing": "otlp",
            "drain_s": 20,
        }
        async with served(**settings) as process:
            await process.started()
            w.app.url = process.url
            await answers(w)
            process.signal(signal.SIGTERM)
            assert await process.exit_code() == 0
    ours: list[Seen] = await spans.came(2)
    assert ours[0].resource["service.name"] == "mine"
    assert ours[0].resource["service.instance.id"][-9:-1] == "/worker-"


async def test_a_process_ends_whatever_its_collector_does(
    otel: pytest.MonkeyPatch, spans: Collector
) -> None:
    """A thread that waits for it is waited for by nobody."""
    otel.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")
    spans.hangs = True
    async with world() as w:
        settings: dict[str, Any] = {"upstream_url": w.upstream.url + "/v1", "drain_s": 0.5}
        async with served(tracing="otlp", **settings) as process:
            await process.started()
            w.app.url = process.url
            await answers(w)
            await eventually(lambda: spans.asked == 1)
            process.signal(signal.SIGTERM)
            assert await process.exit_code() == 0
            await process.rest()
            assert process.log[-1]["event"] == "stopped"


async def test_off_brings_nothing_in() -> None:
    """A process that does not trace has nothing of OpenTelemetry in it."""
    probe = (
        "import asyncio, sys\n"
        "from proxy.settings import Settings\n"
        "from proxy.web import serve\n"
        "from proxy.web.app import running\n"
        "async def main():\n"
        "    async with running(Settings(listen='127.0.0.1:0', admin_listen='127.0.0.1:0')):\n"
        "        print([name for name in sys.modules if 'opentelemetry' in name\n"
        "               or name in ('proxy.web.traced', 'requests')])\n"
        "asyncio.run(main())\n"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", probe],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "[]" in done.stdout.splitlines()


async def test_a_variable_that_makes_no_sense_is_told_at_the_start(
    otel: pytest.MonkeyPatch,
) -> None:
    """Not by the first span that is lost."""
    otel.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    with pytest.raises(OSError, match=r"tracing cannot begin.*max_queue_size.*OTEL_"):
        async with traced():
            pass


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_variable_that_is_read_on_import_is_told_too(
    otel: pytest.MonkeyPatch, tmp_path: Any, workers: int
) -> None:
    """In one line, as all that keeps a process from starting."""
    otel.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many")
    store = f"sqlite:///{tmp_path}/a.db"
    async with served(tracing="otlp", workers=workers, store_url=store) as process:
        line = await process.until("cannot_start")
        assert "look at the OTEL_ variables" in line["reason"]
        assert await process.exit_code() == 1
