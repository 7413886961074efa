"""Deletions by the admin port are final for what waits, is in flight, or is known to a replica."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reasoning_replay.web.app import App

from tests.patience import LONG_S, SOON_S
from tests.redis_server import RedisServer
from tests.web.line import line_to
from tests.web.pipeline.acts import act
from tests.web.pipeline.stage import Stage, stage
from tests.web.scripted import scripted

KINDS = ("memory", "sqlite", "redis")


@contextlib.asynccontextmanager
async def on(kind: str, request: pytest.FixtureRequest, **more: Any) -> AsyncIterator[Stage]:
    """Set up replicas on an empty store."""
    redis: RedisServer | None = None
    if kind == "redis":
        redis = request.getfixturevalue("shared_redis")
    async with (
        scripted() as upstream,
        stage(upstream, kind, redis.url if redis else "", **more) as made,
    ):
        yield made


async def asked(app: App, method: str, target: str) -> tuple[int, Any]:
    """Ask the admin port."""
    async with line_to(app.admin_url) as line:
        got = await line.ask(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return got.status, json.loads(got.body)


def scope_of(s: Stage) -> str:
    """Return the scope of the only tenant."""
    found = {name[0].hex() for app in s.apps for name in app.store._table._rows}
    [scope] = found
    return scope


async def late_saves(s: Stage) -> None:
    """Let every replica save what waits."""
    for app in s.apps:
        async with asyncio.timeout(SOON_S):
            await app.store.check()
            while app.store.needs_check or app.store.tasks:
                await asyncio.sleep(0.05)
                await app.store.check()


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
@pytest.mark.parametrize("where", [0, 1], ids=["here", "elsewhere"])
async def test_a_scope_is_deleted_while_turns_of_it_wait(
    kind: str, where: int, request: pytest.FixtureRequest
) -> None:
    """What is answered as complete is gone: the late save stores nothing, and nothing is used."""
    async with on(kind, request) as s:
        for _ in range(2):
            await act("fail", "save")(s)
            await act("ask", 0, where)(s)
        assert s.apps[where].store.needs_check
        assert await s.conversations() == []

        status, told = await asked(s.apps[0], "DELETE", f"/scopes/{scope_of(s)}")
        assert (status, told) == (200, {"forgotten": 1 - where, "complete": True})
        await late_saves(s)
        assert await s.conversations() == []
        for replica in (0, 1):
            await act("lose", 0, replica)(s)
            assert s.seen[-1].mark.get("injected", 0) == 0

        # What begins now is new.
        s.client(0).history = s.client(0).history[:1]
        for replica in (where, 1 - where, where):
            await act("ask", 0, replica)(s)
        assert s.seen[-1].mark["injected"] == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", ["scope", "conversation"])
async def test_a_deletion_drops_the_response_that_is_in_flight(
    kind: str, of: str, request: pytest.FixtureRequest
) -> None:
    """It began before, at each replica; the client gets it, and it is not stored."""
    async with on(kind, request) as s:
        known: set[str] = set()
        for replica, tenant in zip(range(len(s.apps)), "ab", strict=False):
            s.client(0).tenant, s.client(0).history = tenant, s.client(0).history[:1]
            await act("ask", 0, replica)(s)
            listed = (await asked(s.apps[0], "GET", "/conversations"))[1]["conversations"]
            [name] = {one["id"] for one in listed} - known
            scope = name.partition(":")[0]
            target = f"/scopes/{scope}" if of == "scope" else f"/conversations/{name}"
            before, save = s.apps[replica].store, s.apps[replica].store.save

            async def delete_first(*given: Any, save: Any = save, target: str = target) -> Any:
                status, _ = await asked(s.apps[0], "DELETE", target)
                assert status in {200, 404}
                return await save(*given)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(before), "save", lambda _, *given, do=delete_first: do(*given))
                await act("ask", 0, replica)(s)
            left = await asked(s.apps[0], "GET", f"/conversations?scope={scope}")
            assert left[1]["conversations"] == []
            await act("lose", 0, replica)(s)
            assert s.seen[-1].mark.get("injected", 0) == 0
            listed = (await asked(s.apps[0], "GET", "/conversations"))[1]["conversations"]
            known = {one["id"] for one in listed}


async def expire_soon(s: Stage, kind: str) -> None:
    """Let every stored conversation be near its end."""
    inner: Any = s.apps[0].store.inner
    if kind == "memory":
        table = s.apps[0].store._table
        for row in table._rows.values():
            row.expires_at = table._now() + LONG_S
    elif kind == "sqlite":
        await inner._writes(
            lambda db: db.execute(
                "UPDATE conversations SET expires_at = ?", (inner._clock() + LONG_S,)
            )
        )
    else:
        page = await inner.survey(None, "", 100)
        names = [inner._place((one.scope, one.conversation)) for one in page.conversations]
        await inner._all([("EXPIRE", name, int(LONG_S)) for name in names])


@pytest.mark.parametrize("kind", KINDS)
async def test_every_conversation_that_is_used_is_renewed(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """Also if it is known, and also one of which the newest turn is not."""
    async with on(kind, request) as s:
        for one in (act("fork", 0), *(act("ask", who) for who in (0, 1) * 3), act("take", 0, 1)):
            await one(s)
        for _ in range(3):
            await act("ask", 0)(s)
        await expire_soon(s, kind)
        s.note_ways(s.apps[0])
        before = s.ways["short"]
        for _ in range(2):
            await act("ask", 0)(s)
        s.ways.clear()
        s.note_ways(s.apps[0])
        store = s.apps[0].store
        page = await store.survey(None, "", 100)
        assert len(page.conversations) == 2
        for _ in range(1000):
            page = await store.survey(None, "", 100)
            if all(one.expires_in_s > 10 * LONG_S for one in page.conversations):
                break
        else:
            raise AssertionError([one.expires_in_s for one in page.conversations])
        assert s.ways["short"] == before + 2


async def test_redis_is_away_while_a_deletion_is_asked(own_redis: RedisServer) -> None:
    """Nothing is claimed; the deletion that is asked again is final."""
    async with (
        scripted() as upstream,
        stage(upstream, "redis", own_redis.url, store_budget_ms=1000) as s,
    ):
        await act("ask", 0, 0)(s)
        scope = scope_of(s)
        own_redis.kill()
        for replica in (0, 1):
            await act("ask", 0, replica)(s)
        assert (await asked(s.apps[0], "DELETE", f"/scopes/{scope}"))[0] == 503
        own_redis.start()
        status = 503
        while status == 503:
            status, told = await asked(s.apps[0], "DELETE", f"/scopes/{scope}")
        assert told["complete"]
        for app in s.apps:
            while not await app.store.check():
                pass
        await late_saves(s)
        assert await s.conversations() == []
        for replica in (0, 1):
            await act("lose", 0, replica)(s)
            assert s.seen[-1].mark.get("injected", 0) == 0


async def test_a_full_redis_takes_a_deletion(own_redis: RedisServer) -> None:
    """The mark is written once something is deleted, so that there is room for it."""
    async with scripted() as upstream, stage(upstream, "redis", own_redis.url) as s:
        await act("ask", 0, 0)(s)
        scope = scope_of(s)
        own_redis.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
        told_of = str(own_redis.do("INFO", "memory"))
        used = int(re.search(r"used_memory:(\d+)", told_of)[1])  # type: ignore[index]
        own_redis.do("CONFIG", "SET", "maxmemory", str(used - 1000))
        await act("ask", 0, 1)(s)
        status, told = await asked(s.apps[0], "DELETE", f"/scopes/{scope}")
        own_redis.do("CONFIG", "SET", "maxmemory", "0")
        assert status in {200, 503}
        if status == 200:
            assert told["complete"]
        status, told = await asked(s.apps[0], "DELETE", f"/scopes/{scope}")
        assert (status, told["complete"]) == (200, True)
        await late_saves(s)
        assert await s.conversations() == []
