"""Promise 2: whatever fails in the proxy, the exchange goes on as if it were not there."""

import pytest
from reasoning_replay.adapters.telemetry.metrics import Series
from reasoning_replay.core.dialects import base, continuation, engine, request_body
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.responses import dialect
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.heal import diagnosis
from reasoning_replay.core.history import item_summary
from reasoning_replay.web import exchange_log
from reasoning_replay.web.pipeline import capture_tee, healing_retry, replay

from tests.web.line import Answer, request
from tests.web.wire import (
    ASK,
    CALL,
    MESSAGE,
    NEXT,
    RESULT,
    RS,
    as_json,
    error,
    events,
    response,
    stream,
    whole,
)
from tests.web.world import MODEL, Hooked, Logged, World, logged, world

BODY = as_json({"model": MODEL, "input": [ASK, CALL, RESULT], "store": False})
PLAIN = as_json(response(RS, CALL))
EVENTS = events(RS, CALL)


class Bug(Exception):
    """An unexpected error."""


def fails(*_: object, **__: object) -> None:
    """Raise a bug."""
    raise Bug


async def three_exchanges(w: World) -> list[Answer]:
    """Make exchanges with a plain, a streamed and a fetched response."""
    w.upstream.answers(whole(PLAIN), stream(EVENTS), whole(PLAIN))
    return [
        await w.post(BODY),
        await w.post(BODY),
        await w.get("/v1/responses/resp_0c1d2e3f4a5b6071"),
    ]


def assert_nothing_happened(w: World, answers: list[Answer]) -> None:
    """Check that each response is upstream's, and that upstream got each request once."""
    assert [(got.status, got.body) for got in answers] == [
        (200, PLAIN),
        (200, b"".join(EVENTS)),
        (200, PLAIN),
    ]
    assert len(w.upstream.received) == 3


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        ("account_of", True),
        ("read_values", True),
        ("keys_of_request", True),
        ("match_items", True),
        ("plan_injection", True),
        ("include_edit", True),
        ("capture", True),
        # Used only for a fetched response:
        ("turn_id", False),
        ("key_of_response", False),
    ],
)
async def test_a_bug_before_the_request_is_sent_is_not_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch, *, is_ours: bool
) -> None:
    """A bug in request processing leaves the request unchanged."""
    for where in (replay, dialect, continuation, engine, Engine, request_body, base):
        if hasattr(where, name):
            monkeypatch.setattr(where, name, fails)
    async with world() as w:
        assert_nothing_happened(w, await three_exchanges(w))
        assert w.counted("requests_total", result="failed") == (2 if is_ours else 0)
        assert not is_ours or w.upstream.received[0].body == BODY


async def test_a_bug_in_the_inspector_summary_costs_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bug in the inspector's summary does not stop injection."""
    monkeypatch.setattr(item_summary, "summarise", fails)
    async with world() as w:
        w.upstream.answers(whole(PLAIN), whole(b"{}"))
        await w.turn(ASK)
        assert (await w.turn(ASK, CALL, RESULT)).mark == "injected=1"


@pytest.mark.parametrize("name", ["feed", "read", "close", "snapshot", "_process", "_response"])
async def test_a_bug_in_the_capture_is_not_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug in the capture does not change the response."""
    monkeypatch.setattr(ResponsesCapture, name, fails)
    async with world() as w:
        assert_nothing_happened(w, await three_exchanges(w))
        assert w.counted("captures_total", result="failed") >= 1


@pytest.mark.parametrize(
    ("module", "name"),
    [(replay, "keys_of_turn"), (capture_tee, "decoder_for"), (capture_tee, "CaptureTee")],
)
async def test_a_bug_next_to_the_response_is_not_noticed(
    module: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug around the capture does not change the response."""
    monkeypatch.setattr(module, name, fails)
    async with world() as w:
        assert_nothing_happened(w, await three_exchanges(w))


@pytest.mark.parametrize(
    ("module", "name"), [(diagnosis, "read_error"), (healing_retry, "decoder_for")]
)
async def test_a_bug_while_healing_is_not_noticed(
    module: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a bug stops healing, the client gets upstream's refusal."""
    monkeypatch.setattr(module, name, fails)
    async with world() as w:
        w.upstream.answers(error("No.", "include"))
        got = await w.post(BODY)
        assert w.upstream.received[0].body != BODY  # edited, so that its refusal is examined
        assert (got.status, len(w.upstream.received)) == (400, 1)


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        pytest.param(Series, "__getitem__", "metrics_failed", id="counting"),
        pytest.param(exchange_log, "flat_facts_of", "log_failed", id="logging"),
    ],
)
async def test_a_bug_in_metrics_or_log_is_not_noticed(
    owner: object,
    name: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Logged,
) -> None:
    """A bug in metrics or the log changes no response, nor the proxy's own errors."""
    async with world() as w:
        with monkeypatch.context() as broken:
            broken.setattr(owner, name, fails)
            assert_nothing_happened(w, await three_exchanges(w))
            got = await w.ask(request("GET", "*"))
            assert (got.status, b"proxy_error" in got.body) == (400, True)
    lines = logged(capsys)
    # Series begin once, with the first exchange; that fails as well.
    bugs = 4 if said == "log_failed" else 5
    assert [line["reason"] for line in lines if line["event"] == said] == ["Bug"] * bugs
    told = [line["event"] for line in lines].count("exchange")
    assert told == (0 if said == "log_failed" else 4)


async def test_what_was_not_kept_is_not_taken_from_another_that_says_the_same() -> None:
    """A message whose turn was not saved does not match another turn with the same text."""

    async def fails(_: str) -> None:
        raise Bug

    ids = "68c96c54970481958484dea31f07926"
    said = [{**MESSAGE, "id": f"msg_{ids}{n}"} for n in "ab"]
    thoughts = [{**RS, "id": f"rs_{ids}{n}"} for n in "ab"]
    async with world(has_store=True, local_max_bytes=0) as w:
        kept, lost = (
            whole(as_json(response(*pair, rid=f"resp_{ids}{n}")))
            for n, pair in zip("ab", zip(thoughts, said, strict=True), strict=True)
        )
        w.upstream.answers(kept, lost, whole(b"{}"), whole(b"{}"))
        await w.turn(ASK)
        store = w.app.store.inner
        w.app.store.inner = Hooked(store, fails)
        await w.turn(ASK)
        w.app.store.inner = store
        known = await w.turn(ASK, said[0], NEXT, store=False)
        unknown = await w.turn(ASK, said[1], NEXT, store=False)
        assert (known.mark, unknown.mark) == ("injected=1", "injected=0, lacking=1, missed=1")
