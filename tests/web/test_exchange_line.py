"""Log line of an exchange."""

import pytest

from tests.web.line import line_to, request
from tests.web.scripted import Script, close, send
from tests.web.usages import DONE, PLAIN, RS_BYTES, SAID, TOKENS
from tests.web.wire import ASK, CALL, LOST, RS, as_json, error, response, whole
from tests.web.world import Hooked, Logged, eventually, logged, world


async def test_one_line_tells_all_of_an_exchange(capsys: Logged) -> None:
    """One line has the result, sizes, times and ids of an exchange."""
    async with world() as w:
        w.upstream.answers(
            whole(
                as_json(response(RS, CALL, usage=SAID)),
                "Content-Type: application/json",
                "X-Request-Id: req_5f0c",
            ),
            DONE,
        )
        await w.turn(ASK)
        await w.turn(*LOST)
    first, second = logged(capsys, "exchange")
    assert first["level"] == "info"
    assert {key: first[key] for key in ("route", "status", "outcome", "model")} == {
        "route": "responses",
        "status": 200,
        "outcome": "ok",
        "model": "gpt-5.4",
    }
    assert (first["captured"], first["captured_items"]) == ("saved", 1)
    assert first["captured_bytes"] == second["injected_bytes"] == RS_BYTES
    assert {kind: first[f"{kind}_tokens"] for kind in TOKENS} == TOKENS
    assert first["upstream_request_id"] == "req_5f0c"
    assert first["request_id"] != second["request_id"]
    assert first["sent_bytes"] > first["received_bytes"] > 0
    assert first["total_ms"] >= first["before_ms"] > 0
    assert {"between_ms", "after_ms", "first_byte_ms", "scope", "conversation"} <= first.keys()
    assert None not in first.values()
    assert (second["asked"], second["injected"]) == ("planned", 1)


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        (DONE, "info"),
        (whole(b"{}", status="429 Slow"), "info"),
        (whole(b"{}", status="500 Oops"), "error"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut", "error"),
        (b"what?", "error"),
    ],
)
async def test_how_bad_it_is_depends_on_whose_fault_it_is(
    answer: bytes, level: str, capsys: Logged
) -> None:
    """A client's mistake is logged as info; faults of upstream or the proxy are errors."""
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(Script([send(answer), close()]))
        await line.send(request("GET", "/v1/models", "Authorization: Bearer sk-a"))
        await eventually(lambda: w.counted("exchanges_total", route="models") == 1)
    (entry,) = logged(capsys, "exchange")
    assert entry["level"] == level


@pytest.mark.parametrize("operation", ["recall", "save"])
async def test_what_failed_and_went_on_is_a_warning(operation: str, capsys: Logged) -> None:
    """A failed store call is a warning, so `log_level: warning` shows what needs attention."""

    async def fails(this: str) -> None:
        if this == operation:
            raise ConnectionError

    async with world(has_store=True, log_level="warning") as w:
        w.upstream.answers(DONE, PLAIN, DONE)
        await w.turn(ASK)
        w.app.store.inner = Hooked(w.app.store.inner, fails)
        await w.turn(*LOST)
        await w.get("/v1/models")
    (entry,) = logged(capsys, "exchange")
    assert entry["level"] == "warning"
    assert "store_failed" in (entry["asked"], entry.get("captured"))


async def test_what_was_healed_is_a_warning(capsys: Logged) -> None:
    """A healed exchange is a warning, as it took two attempts."""
    async with world() as w:
        w.upstream.answers(PLAIN, error("The encrypted content could not be verified."), DONE)
        await w.turn(ASK)
        await w.turn(*LOST)
    assert [entry["level"] for entry in logged(capsys, "exchange")] == ["info", "warning"]


def _fails(*_: object, **__: object) -> None:
    raise ZeroDivisionError


async def test_a_fault_of_ours_names_its_exchange(
    capsys: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of a bug and the line of its exchange have the same id."""
    monkeypatch.setattr("reasoning_replay.core.dialects.engine.keys_of_request", _fails)
    async with world() as w:
        w.upstream.answers(DONE)
        await w.turn(ASK)
    lines = logged(capsys)
    named = {line["event"]: line["request_id"] for line in lines if "request_id" in line}
    assert named["replay_failed"] == named["exchange"]


async def test_a_fault_before_the_first_phase_is_recorded(
    capsys: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets an id that the log has, and the exchange is counted."""
    monkeypatch.setattr("reasoning_replay.web.handler.client_request", _fails)
    async with world() as w:
        got = await w.turn(ASK)
        assert got.status == 500
        assert w.counted("exchanges_total", outcome="proxy_failed") == 1
    lines = logged(capsys)
    named = {line["event"]: line["request_id"] for line in lines if "request_id" in line}
    assert named == {"bug": got.head.request_id, "exchange": got.head.request_id}


async def test_names_of_others_are_told_in_part(capsys: Logged) -> None:
    """Text from clients and upstream is shortened, and its control characters are replaced."""
    async with world() as w:
        w.upstream.answers(whole(b"{}", "X-Request-Id: \x9b31m\x85" + "x" * 500))
        await w.turn(ASK, model="gpt\n\x1b[31m\u202e" + "y" * 5000)
    (entry,) = logged(capsys, "exchange")
    assert entry["model"].startswith("gpt??[31m?yyy")
    assert len(entry["model"]) == len(entry["upstream_request_id"]) == 96
    assert entry["upstream_request_id"].isprintable()
