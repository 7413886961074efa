"""The stream of what passes: for those who may, bounded for those who stall, over at the end."""

import asyncio
import contextlib
import json

import pytest
from aiohttp.test_utils import make_mocked_request
from reasoning_replay.web.admin.inspector import events

from tests.redis_server import RedisServer
from tests.web.admin.inspector.watching import to_watch, watching
from tests.web.line import Broken, line_to
from tests.web.wire import ASK, CALL, RESULT, RS, as_json, response, whole
from tests.web.world import World, eventually, world


async def refused(w: World, *headers: str) -> tuple[int, str]:
    """Be refused: the status and the code."""
    async with line_to(w.app.admin_url) as line:
        got = await line.ask(to_watch(*headers))
    return got.status, json.loads(got.body)["error"]["code"]


async def test_first_comes_what_is_and_what_was_and_then_what_passes() -> None:
    """Each exchange when it is decided and when it is over, and nothing of what is in it."""
    async with world() as w:
        w.upstream.answers(whole(as_json(response(RS, CALL))), whole(b"{}"))
        await w.turn(ASK)
        async with watching(w.app.admin_url) as watcher:
            (hello,) = await watcher.until("hello")
            assert (hello["listen"], hello["mode"]) == (w.app.url, "on")
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


async def test_the_state_comes_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the totals of then; and it says when the proxy is about to go."""
    monkeypatch.setattr(events, "STATE_S", 0.02)
    async with world() as w, watching(w.app.admin_url) as watcher:
        w.upstream.answers(whole(b"{}"))
        await w.turn(ASK)
        w.app.handler.leave()
        while (state := (await watcher.until("state"))[-1])["status"] != "draining":
            watcher.lines.clear()
        assert state["totals"]["requests_total"] == {"planned": 1}


async def test_a_store_that_is_down_is_said_to_be(own_redis: RedisServer) -> None:
    """Once it was asked, whoever asked it."""
    async with world(store_url=own_redis.url, scope_secret="s") as w:
        own_redis.kill()
        await w.app.store.check()
        async with watching(w.app.admin_url) as watcher:
            (state,) = await watcher.until("state")
            assert (state["store"], state["totals"]["store_up"]) == ("degraded", 0)


async def test_with_a_token_only_who_shows_it_may_watch() -> None:
    """As with what is kept."""
    async with world(admin_token="sesame") as w:
        assert await refused(w) == (401, "bad_admin_token")
        assert await refused(w, "Authorization: Bearer x") == (401, "bad_admin_token")
        async with watching(w.app.admin_url, "Authorization: Bearer sesame") as watcher:
            await watcher.until("hello")


async def test_without_one_a_name_that_leads_here_may_not() -> None:
    """A page of somebody else's in a browser of this machine comes by such a name."""
    async with world() as w, line_to(w.app.admin_url) as line:
        got = await line.ask(to_watch(host="evil.example"))
        assert (got.status, json.loads(got.body)["error"]["code"]) == (403, "bad_host")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_page_in_the_same_browser_takes_no_place(site: str) -> None:
    """It could not read what comes, but it would keep out whoever may: also one on another port."""
    async with world(admin_token="sesame") as w:
        may = "Authorization: Bearer sesame"
        assert await refused(w, may, f"Sec-Fetch-Site: {site}") == (403, "cross_origin")
        async with watching(w.app.admin_url, may, "Sec-Fetch-Site: same-origin") as watcher:
            await watcher.until("hello")


async def test_who_has_left_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, not when next he is written to: a page may be loaded anew many times a second."""
    monkeypatch.setattr(events, "WATCHERS_MAX", 1)
    monkeypatch.setattr(events, "STATE_S", 3600.0)
    async with world() as w:
        for _ in range(5):
            async with watching(w.app.admin_url) as watcher:
                await watcher.until("state")
            await asyncio.sleep(0.02)


async def test_a_state_that_fails_from_the_start_costs_a_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What passes is shown all the same."""

    def fails(_: bytes) -> dict[str, object]:
        raise ValueError

    monkeypatch.setattr(events, "read_totals", fails)
    async with world() as w:
        w.upstream.answers(whole(b"{}"))
        await w.turn(ASK)
        async with watching(w.app.admin_url) as watcher:
            await watcher.until("exchange")


async def test_only_so_many_watch_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever leaves makes room, and with the last one nobody listens any more."""
    monkeypatch.setattr(events, "WATCHERS_MAX", 2)
    monkeypatch.setattr(events, "STATE_S", 0.02)
    async with world() as w:
        async with watching(w.app.admin_url) as one:
            await one.until("hello")
            async with watching(w.app.admin_url) as other:
                await other.until("hello")
                assert await refused(w) == (503, "too_many_watchers")
            for _ in range(100):
                with contextlib.suppress(AssertionError):
                    async with watching(w.app.admin_url) as third:
                        await third.until("hello")
                        break
                await asyncio.sleep(0.02)
            else:
                pytest.fail("there was no room again")
        await eventually(lambda: w.app.recorder._heard is None)


async def test_who_does_not_read_is_told_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest lines are; nothing waits for him, and nothing grows."""
    monkeypatch.setattr(events, "WAITING_BYTES", 2000)
    watcher = events._Watcher(make_mocked_request("GET", "/"))
    for number in range(100):
        watcher.put(b'{"exchange": {"n": %d}}' % number)
    lines = [json.loads(line) for line in watcher.taken().splitlines()]
    assert lines[0] == {"lost": 100 - len(lines[1:])}
    assert lines[-1] == {"exchange": {"n": 99}}
    assert not watcher.has_lines.is_set()
    watcher.put(b"{}" * 2000)  # one that is too large is a line all the same
    assert len(watcher.taken().splitlines()) == 1


async def test_who_never_reads_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while: he holds a place that others may want."""
    monkeypatch.setattr(events, "STALLED_S", 0.1)
    monkeypatch.setattr(events, "STATE_S", 0.01)
    async with world() as w, line_to(w.app.admin_url) as line:
        await line.send(to_watch())
        await line.head()
        big = b'{"exchange":{"n":"%s"}}' % (b"x" * (3 << 20))
        recorder = w.app.recorder
        await eventually(lambda: recorder._heard is not None)

        def is_left() -> bool:
            if recorder._heard is not None:
                recorder._heard(big)
            return recorder._heard is None

        await eventually(is_left)


async def test_those_who_watch_hold_up_no_end() -> None:
    """Their stream just ends, with the process."""
    async with world() as w, watching(w.app.admin_url) as watcher:
        await watcher.until("hello")
        async with asyncio.timeout(5):
            await w.app.stop()
        with pytest.raises(Broken):
            await watcher.until("never")


async def test_a_state_that_fails_costs_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchanges are told all the same."""
    monkeypatch.setattr(events, "STATE_S", 0.01)
    async with world() as w, watching(w.app.admin_url) as watcher:
        await watcher.until("state", 2)

        def fails(_: bytes) -> dict[str, object]:
            raise ValueError

        monkeypatch.setattr(events, "read_totals", fails)
        await asyncio.sleep(0.05)
        w.upstream.answers(whole(b"{}"))
        await w.turn(ASK)
        await watcher.until("exchange", 2)
