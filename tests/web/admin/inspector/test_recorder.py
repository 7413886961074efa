"""Exchange recorder of the inspector: bounded, sent to a listener, and never in the way."""

import json
import re
from typing import Any

import pytest
from msgspec import Raw
from reasoning_replay.core.dialects.error_texts import ErrorNames
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.item_summary import ItemSummary, ShownItems, summarise
from reasoning_replay.core.history.plan import Outcome, PlanNote
from reasoning_replay.web.admin.inspector import recorder as module
from reasoning_replay.web.admin.inspector.recorder import EXCHANGE_BYTES, PAGE, Recorder
from reasoning_replay.web.exchange import Exchange, Times
from reasoning_replay.web.exchange_facts import FACTS, Reader

from tests.web.reports import describe
from tests.web.sockets import tunnelled
from tests.web.websocket.creates import create, turn
from tests.web.websocket.creates import told as told_by
from tests.web.wire import ASK, CALL, MESSAGE, RESULT, RS, as_json, response, whole
from tests.web.world import eventually, world

NOW_MS = 1_700_000_000_000


class Told:
    """A recorder, and the lines that its listener got."""

    def __init__(self) -> None:
        self.now = 100.0
        self.recorder = Recorder(lambda: self.now, lambda: NOW_MS)
        self.lines: list[dict[str, Any]] = []

    def end(self, one: Exchange) -> None:
        """Record the end of an exchange."""
        one.times.total_ms = 2000.0
        self.recorder.end(one)

    def hear(self, line: bytes) -> None:
        """Record a line."""
        self.lines.append(json.loads(line)["exchange"])

    def recent(self) -> list[dict[str, Any]]:
        """Return the recorded exchanges."""
        return [json.loads(line)["exchange"] for line in self.recorder.recent()]


def exchange(shown: ItemSummary | None = None, **fields: Any) -> Exchange:
    """Return an exchange that began two seconds ago."""
    made = Exchange(Route.RESPONSES, Times(98.0))
    made.request.summary = shown
    describe(made, **fields)
    return made


def strip(size: int = 0) -> ItemSummary:
    """Return an item summary of this size in bytes."""
    items = ShownItems(1, (Raw(b'["u","message","",1]'),))
    return ItemSummary(1, items._replace(json_bytes=max(0, size - items.size_bytes)))


def test_an_exchange_is_kept_in_numbers_and_hashes() -> None:
    """Names of others are shortened, and no body, credential or zero is in it."""
    told = Told()
    request = read_request(as_json({"model": "gpt-5.4", "input": [ASK, RS, CALL]}), {})
    told.end(
        exchange(
            summarise(request, [PlanNote(2, Outcome.INJECTED, 1, 7, "")]),
            model="gpt-5.4" + "x" * 99,
            injected_bytes=7,
            tenant=b"\xab" * 16,
            conversation=b"\xcd" * 16,
            outcomes={Outcome.INJECTED: 1, Outcome.MISSED: 0},
            repairs={Repair.DUPLICATES: 2},
            before_ms=1.234,
            upstream_request_id="req_" + "x" * 99,
            refusal=ErrorNames("invalid_value", "invalid_request_error"),
            error_detail="api.example: " + "x" * 999,
            turn=b"\x12" * 16,
            parent=b"\x34" * 16,
        )
    )
    (kept,) = told.recent()
    assert kept["id"].endswith(".1")
    assert re.fullmatch("[0-9a-f]{16}", kept["request_id"])
    shown = kept["strip"]
    assert [entry[1] for entry in shown["items"]] == ["message", "reasoning", "function_call"]
    assert shown["notes"] == [[2, "injected", 1, 7, ""]]
    want = {
        "at_ms": NOW_MS - 2000,
        "open": False,
        "upstream_request_id": "req_" + "x" * 90 + "..",
        "request": "injected",
        "error_code": "invalid_value",
        "error_type": "invalid_request_error",
        "error_detail": "api.example: " + "x" * 225 + "..",
        "outcomes": {"injected": 1},
        "repairs": {"duplicates": 2},
        "before_ms": 1.23,
        "tokens": {},
        "scope": "ab" * 16,
        "conversation": "cd" * 16,
        "turn": "12" * 6,
        "parent": "34" * 6,
        "model": "gpt-5.4" + "x" * 87 + "..",
        "items": 3,
    }
    assert kept == kept | want
    facts = {fact.name for fact in FACTS if Reader.INSPECTOR in fact.readers}
    assert kept.keys() == facts | {"id", "at_ms", "strip", "open", "items"}


def test_a_listener_gets_an_exchange_at_its_decision_and_its_end() -> None:
    """Both times under one id; without a listener, nothing is sent."""
    told = Told()
    told.recorder.listen(told.hear)
    one = exchange(strip())
    told.recorder.begin(one)
    told.end(one)
    told.recorder.listen(None)
    told.end(exchange())
    begun, ended = told.lines
    assert (begun["open"], begun["total_ms"], begun["outcome"]) == (True, None, "")
    assert (ended["open"], ended["total_ms"]) == (False, 2000.0)
    assert begun["id"] == ended["id"]
    assert len({kept["id"] for kept in told.recent()}) == 2


def test_exchanges_in_flight_are_listed_too() -> None:
    """Exchanges in flight follow the completed ones in the recorded list."""
    told = Told()
    told.end(exchange())
    told.recorder.begin(exchange(strip()))
    assert [kept["open"] for kept in told.recent()] == [False, True]


def test_exchanges_and_their_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest completed ones are dropped; those in flight lose only their item summaries."""
    monkeypatch.setattr(module, "KEPT_BYTES", 5 * (1000 + EXCHANGE_BYTES))
    monkeypatch.setattr(module, "OPEN_BYTES", 1000)
    monkeypatch.setattr(module, "OPEN_MAX", 50)
    told = Told()
    for _ in range(9):
        told.end(exchange())
    assert len(told.recent()) == 7
    for _ in range(10):
        told.end(exchange(strip(1000)))
    assert len(told.recent()) == 5
    in_flight = [exchange(strip(300)) for _ in range(60)]
    for one in in_flight:
        told.recorder.begin(one)
    assert [summary.size_bytes for one in in_flight if (summary := one.request.summary)][:5] == [
        300,
        300,
        300,
        0,
        0,
    ]
    assert len(told.recorder._open) == 50
    for one in in_flight:
        told.end(one)
    assert (told.recorder._open, told.recorder._open_bytes) == ({}, 0)


def test_older_exchanges_are_paged() -> None:
    """A watcher gets the newest ones; a page are those before an exchange of this process."""
    told = Told()
    for _ in range(2 * PAGE + 5):
        told.end(exchange())
    pages = [[int(one["id"].rpartition(".")[2]) for one in told.recent()]]
    while pages[-1]:
        before = f"{told.recorder._name}.{pages[-1][0]}"
        lines = map(json.loads, told.recorder.older(before))
        pages.append([int(line["exchange"]["id"].rpartition(".")[2]) for line in lines])
    assert [number for page in pages[::-1] for number in page] == [*range(1, 2 * PAGE + 6)]
    assert [len(page) for page in pages] == [PAGE, PAGE, 5, 0]
    assert [*map(told.recorder.older, ("", "other.7", f"{told.recorder._name}.x"))] == [[], [], []]


def test_an_exchange_that_cannot_be_recorded_hides_no_other() -> None:
    """An exchange that cannot be recorded does not hide the others."""
    told = Told()
    told.end(exchange(ItemSummary(0), healed="\ud800"))
    told.end(exchange())
    assert len(told.recent()) == 1


def test_a_listener_that_raises_costs_no_exchange() -> None:
    """A listener that raises costs no exchange, and an unencodable model name is replaced."""

    def fails(_: bytes) -> None:
        raise RuntimeError

    told = Told()
    told.recorder.listen(fails)
    one = exchange(ItemSummary(0), model="\ud800")
    told.recorder.begin(one)
    told.end(one)
    assert [kept["model"] for kept in told.recent()] == ["?"]


async def test_a_recorder_that_fails_costs_no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that fails costs no exchange, before the request or after the response."""
    async with world() as w:

        def fails(*_: object) -> None:
            raise MemoryError

        monkeypatch.setattr(w.app.recorder, "begin", fails)
        monkeypatch.setattr(w.app.recorder, "end", fails)
        w.upstream.answers(whole(as_json(response(RS, CALL))), whole(b"{}"))
        await w.turn(ASK)
        assert (await w.turn(ASK, CALL)).mark == "injected=1"
        assert w.counted("exchanges_total", route="responses", outcome="ok") == 2


async def test_each_request_on_a_websocket_is_recorded() -> None:
    """Each request on a WebSocket is recorded, next to the connection, and none stays in flight."""
    async with world() as w:
        async with tunnelled(w) as (client, upstream):
            await turn(client, upstream, create(ASK), told_by(RS, CALL))
            await turn(client, upstream, create(ASK, CALL, RESULT), told_by(MESSAGE))
            assert len(w.app.recorder._open) == 1
        await eventually(lambda: not w.app.recorder._open)
        seen = [json.loads(line)["exchange"] for line in w.app.recorder.recent()]
        assert [told["route"] for told in seen] == ["create", "create", "websocket"]
        assert seen[1]["strip"]["notes"][0][:3] == [1, "injected", 1]
