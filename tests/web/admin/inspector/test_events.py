"""Event stream of the inspector: authorised, bounded for slow readers, and ended by the stop."""

import asyncio
import json

import pytest
from aiohttp.test_utils import make_mocked_request
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.dialects.registry import HANDLED_ROUTES, REPLAYED_PATHS
from reasoning_replay.web.admin.inspector import events

from tests.patience import SOON_S
from tests.web.admin.inspector.watching import to_watch, watching
from tests.web.line import Broken, line_to
from tests.web.wire import ASK, CALL, RESULT, RS, as_json, response, whole
from tests.web.world import World, eventually, world


async def refused(w: World, *headers: str) -> tuple[int, str]:
    """Return the status and the error code of a refused stream."""
    async with line_to(w.app.admin_url) as line:
        got = await line.ask(to_watch(*headers))
    return got.status, json.loads(got.body)["error"]["code"]


async def test_the_state_and_recorded_exchanges_come_before_new_ones() -> None:
    """A new one comes twice, after the decision and at its end, without any of its content."""
    async with world() as w:
        w.upstream.answers(whole(as_json(response(RS, CALL))), whole(b"{}"))
        await w.turn(ASK)
        async with watching(w.app.admin_url) as watcher:
            (hello,) = await watcher.until("hello")
            assert (hello["listen"], hello["mode"]) == (w.app.url, "on")
            assert hello["handled"] == sorted(HANDLED_ROUTES)
            assert hello["replayed"] == [*REPLAYED_PATHS]
            assert hello["clients"][0] == "OPENAI_BASE_URL=/v1"
            assert hello["bases"]["messages"] == hello["bases"]["generate_content"] == ""
            (state,) = await watcher.until("state")
            assert (state["status"], state["store"]) == ("ready", "ok")
            (first,) = await watcher.until("exchange")
            assert (first["route"], first["status"], first["open"]) == ("responses", 200, False)
            await w.turn(ASK, CALL, RESULT)
            _, begun, ended = await watcher.until("exchange", 3)
            assert (begun["open"], ended["open"]) == (True, False)
            assert begun["strip"] == ended["strip"]
            assert ended["outcomes"] == {"injected": 1}
            assert ended["strip"]["items"][1][:3] == ["c", "function_call", CALL["id"]]
            text = json.dumps(watcher.lines)
            for secret in ("Oslo", "sk-a", RS["encrypted_content"], "7 degrees"):
                assert secret not in text


async def test_the_state_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is repeated with the current totals, and reports that the proxy is draining."""
    monkeypatch.setattr(events, "STATE_S", 0.02)
    async with world() as w, watching(w.app.admin_url) as watcher:
        w.upstream.answers(whole(b"{}"))
        await w.turn(ASK)
        w.app.handler.leave()
        while (state := (await watcher.until("state"))[-1])["status"] != "draining":
            watcher.lines.clear()
        assert state["totals"]["requests_total"] == {"planned": 1}


def test_series_differ_by_one_label_or_are_summed() -> None:
    """They differ by one label or are summed, over dialects as well; zeros are left out."""
    metrics = Metrics()
    metrics.items["responses", "injected", ""].inc(2)
    metrics.items["chat", "injected", ""].inc()
    metrics.items["chat", "lacking", "missed"].inc()
    metrics.heals["responses", "order", "cured"].inc(2)
    metrics.heals["chat", "duplicate", "cured"].inc(2)
    metrics.captured_items["chat"].inc(1e6)
    metrics.in_flight.set(4)
    totals = events.read_totals(metrics.registry.collect())
    assert totals["items_total"] == {"injected": 3, "lacking": 1}
    assert totals["heals_total"] == {"cured": 4}
    assert totals["captured_items_total"] == 1e6
    assert (totals["in_flight"], totals["requests_total"]) == (4, {})
    assert totals["breakers"] == {
        operation: {"closed": 1, "half_open": 0, "open": 0} for operation in ("recall", "save")
    }
    assert "store_seconds_bucket" not in totals


async def test_the_stream_has_the_access_rule_of_the_port() -> None:
    """With an admin token, it requires that; without one, it serves a loopback `Host` only."""
    async with world(admin_token="sesame") as w:
        assert await refused(w) == (401, "bad_admin_token")
        async with watching(w.app.admin_url, "Authorization: Bearer sesame") as watcher:
            await watcher.until("hello")
    async with world() as w, line_to(w.app.admin_url) as line:
        got = await line.ask(to_watch(host="evil.example"))
        assert (got.status, json.loads(got.body)["error"]["code"]) == (403, "bad_host")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_of_another_origin_takes_no_place(site: str) -> None:
    """It could not read the events, also from another port, but would use one of the few places."""
    async with world(admin_token="sesame") as w:
        may = "Authorization: Bearer sesame"
        assert await refused(w, may, f"Sec-Fetch-Site: {site}") == (403, "cross_origin")
        async with watching(w.app.admin_url, may, "Sec-Fetch-Site: same-origin") as watcher:
            await watcher.until("hello")


async def test_a_state_that_fails_stops_no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the state fails, from the start or later, exchanges are still sent."""
    monkeypatch.setattr(events, "STATE_S", 0.01)

    def fails(_: object) -> dict[str, object]:
        raise ValueError

    async with world() as w:
        w.upstream.otherwise = whole(b"{}")
        async with watching(w.app.admin_url) as watcher:
            await watcher.until("state", 2)
            monkeypatch.setattr(events, "read_totals", fails)
            await asyncio.sleep(0.05)
            await w.turn(ASK)
            await watcher.until("exchange", 2)
        async with watching(w.app.admin_url) as watcher:
            await watcher.until("exchange")


async def test_the_number_of_streams_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed one makes room at once, and after the last one, the recorder has no listener."""
    monkeypatch.setattr(events, "WATCHERS_MAX", 1)
    monkeypatch.setattr(events, "STATE_S", 3600.0)  # so that no write shows that one has left
    async with world() as w:
        for _ in range(5):  # a page may be reloaded many times a second
            async with watching(w.app.admin_url) as watcher:
                await watcher.until("state")
                assert await refused(w) == (503, "too_many_watchers")
            await asyncio.sleep(0.02)
    assert w.app.recorder._heard is None


async def test_a_slow_reader_gets_the_number_of_lost_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest lines are lost; nothing waits for it, and the buffer stays limited."""
    monkeypatch.setattr(events, "WAITING_BYTES", 2000)
    watcher = events._Watcher(make_mocked_request("GET", "/"))
    for number in range(100):
        watcher.put(b'{"exchange": {"n": %d}}' % number)
    lines = [json.loads(line) for line in watcher.taken().splitlines()]
    assert lines[0] == {"lost": 100 - len(lines[1:])}
    assert lines[-1] == {"exchange": {"n": 99}}
    assert not watcher.has_lines.is_set()
    watcher.put(b"{}" * 2000)  # a line over the limit is still sent alone
    assert len(watcher.taken().splitlines()) == 1


async def test_a_stalled_reader_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream with a stalled reader is closed after a while, to free its place."""
    monkeypatch.setattr(events, "STALLED_S", 0.1)
    monkeypatch.setattr(events, "STATE_S", 0.01)
    async with world() as w, line_to(w.app.admin_url) as line:
        await line.send(to_watch())
        await line.head()
        big = b'{"exchange":{"n":"%s"}}' % (b"x" * (3 << 20))
        recorder = w.app.recorder
        await eventually(lambda: recorder._heard is not None)

        def is_disconnected() -> bool:
            if recorder._heard is not None:
                recorder._heard(big)
            return recorder._heard is None

        await eventually(is_disconnected)


async def test_open_streams_do_not_delay_the_stop() -> None:
    """Open streams do not delay the stop; they end with the process."""
    async with world() as w, watching(w.app.admin_url) as watcher:
        await watcher.until("hello")
        async with asyncio.timeout(SOON_S):
            await w.app.stop()
        with pytest.raises(Broken):
            await watcher.until("never")
