"""What is kept, for operators: found and deleted by its ids, and shown to nobody else."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reasoning_replay.adapters.stores.base import Bounds, Page, StoreError
from reasoning_replay.adapters.stores.memory import MemoryStore
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.web.admin import conversations
from reasoning_replay.web.admin.app import Readiness, Shown, admin_app
from reasoning_replay.web.admin.conversations import Access, Conversations, Surveyed
from reasoning_replay.web.admin.inspector.recorder import Recorder
from reasoning_replay.web.app import admin_runner
from reasoning_replay.web.http.listener import Listener

from tests.adapters.stores.turns import bytes_of, save, turn
from tests.web.line import Answer, line_to
from tests.web.wire import ASK, CALL, RESULT, RS, as_json, response, whole
from tests.web.world import world

ONE, OTHER = bytes_of("one tenant"), bytes_of("another")
Json = dict[str, Any]


class Desk:
    """An operators' port over a store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.forgotten: list[tuple[bytes, bytes]] = []

    async def ask(self, method: str, target: str, *headers: str, host: str = "127.0.0.1") -> Answer:
        """Ask on a connection of its own."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *headers, "", ""]
        async with line_to(self.url) as line:
            return await line.ask("\r\n".join(lines).encode())

    async def get(self, target: str) -> Json:
        """Get what must be there."""
        return self._json(await self.ask("GET", target))

    async def delete(self, target: str) -> Json:
        """Delete what must be there."""
        return self._json(await self.ask("DELETE", target))

    @staticmethod
    def _json(answer: Answer) -> Json:
        assert answer.status == 200
        body: Json = json.loads(answer.body)
        return body


class Noting:
    """A store that notes what it was told to forget."""

    def __init__(self, store: Surveyed) -> None:
        self._store = store
        self.forgotten: list[tuple[bytes, bytes]] = []

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """As the store does."""
        return await self._store.survey(scope, cursor, limit)

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """As the store does, and note it."""
        is_forgotten = await self._store.forget(scope, conversation)
        self.forgotten.append((scope, conversation))
        return is_forgotten


class Signs:
    """A store's health, which is not what is asked for here."""

    is_degraded = False

    async def check(self) -> bool:
        """It is well."""
        return True


@contextlib.asynccontextmanager
async def desk(
    store: Surveyed | None = None, token: str = "", host: str = "127.0.0.1"
) -> AsyncIterator[Desk]:
    """Serve one that says to listen on `host`, and listens on loopback."""
    noting = Noting(store or memory())
    about = Conversations(noting, Access(token, host))
    ready = Readiness(is_ready=True, status="ready")
    shown = Shown(Recorder(time.monotonic, lambda: 0), Access(token, host), dict)
    admin = admin_app(Metrics().exposition, Signs(), lambda: ready, about, shown)
    port = Listener(admin_runner(admin))
    await port.open("127.0.0.1:0")
    try:
        found = Desk(port.url)
        found.forgotten = noting.forgotten
        yield found
    finally:
        await port.close()


def memory() -> MemoryStore:
    """Return an empty store."""
    bounds = Bounds(ttl_s=600, max_turns=10, max_bytes=10_000)
    return MemoryStore(bounds, 10_000_000, time.monotonic)


async def filled(*kept: tuple[bytes, int]) -> MemoryStore:
    """Return a store with so many conversations of each scope, of one turn each."""
    store = memory()
    for scope, count in kept:
        for number in range(count):
            await save(store, turn(f"t{number}", f"c{number}"), [], scope)
    return store


async def test_each_conversation_is_told_by_its_ids_and_numbers() -> None:
    """And by nothing that was said in it."""
    store = memory()
    await save(store, turn("t1", "c", size=1000), [], ONE)
    await save(store, turn("t2", "c", size=1000), [], ONE)
    async with desk(store) as operator:
        got = await operator.get("/conversations")
    (only,) = got["conversations"]
    assert only.pop("id") == f"{ONE.hex()}:{bytes_of('c').hex()}"
    assert 2000 < only.pop("bytes") < 4000
    assert 590 <= only.pop("expires_in_s") <= 600
    assert (only, got["next"]) == ({"turns": 2}, None)


async def test_pages_lead_through_all_of_them() -> None:
    """Each once, and of one tenant where that is asked for."""
    async with desk(await filled((ONE, 7), (OTHER, 4))) as operator:

        async def walked(more: str = "") -> list[str]:
            ids: list[str] = []
            cursor = ""
            while True:
                page = await operator.get(f"/conversations?limit=3&cursor={cursor}{more}")
                assert len(page["conversations"]) <= 3
                ids += [kept["id"] for kept in page["conversations"]]
                cursor = page["next"] or ""
                if not cursor:
                    return ids

        everything = await walked()
        assert len(everything) == len(set(everything)) == 11
        of_one = await walked(f"&scope={ONE.hex()}")
        assert len(of_one) == 7
        assert {name.partition(":")[0] for name in of_one} == {ONE.hex()}


async def test_they_are_counted() -> None:
    """Over as many pages as it takes."""
    async with desk(await filled((ONE, 1500), (OTHER, 4))) as operator:
        counted = await operator.get("/conversations/count")
        assert counted == {"conversations": 1504, "scopes": 2, "complete": True}
        counted = await operator.get(f"/conversations/count?scope={OTHER.hex()}")
        assert counted == {"conversations": 4, "scopes": 1, "complete": True}


async def test_one_is_forgotten() -> None:
    """That one alone, once."""
    store = await filled((ONE, 2), (OTHER, 2))
    name = f"{ONE.hex()}:{bytes_of('c1').hex()}"
    async with desk(store) as operator:
        assert await operator.delete(f"/conversations/{name}") == {"forgotten": True}
        again = await operator.ask("DELETE", f"/conversations/{name}")
        assert (again.status, json.loads(again.body)["error"]["code"]) == (404, "not_kept")
        assert (await operator.get("/conversations/count"))["conversations"] == 3
        # Also when there was nothing: the store may have a copy that outlived it.
        assert operator.forgotten == [(ONE, bytes_of("c1"))] * 2


async def test_a_tenant_is_forgotten() -> None:
    """All of it, over as many pages as it takes, and nobody else."""
    async with desk(await filled((ONE, 1200), (OTHER, 4))) as operator:
        got = await operator.delete(f"/scopes/{ONE.hex()}")
        assert got == {"forgotten": 1200, "complete": True}
        assert await operator.get("/conversations/count") == {
            "conversations": 4,
            "scopes": 1,
            "complete": True,
        }
        assert {scope for scope, _ in operator.forgotten} == {ONE}
        got = await operator.delete(f"/scopes/{ONE.hex()}")
        assert got == {"forgotten": 0, "complete": True}


class Endless:
    """A store of which there is always another page."""

    def __init__(self, kept: Page) -> None:
        self._kept = kept

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """Return the same again, a little later."""
        await asyncio.sleep(0.001)
        return Page(self._kept.conversations, "more")

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """Pretend."""
        return True


async def test_what_takes_too_long_is_said_to_be_unfinished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A number that is not the whole one does not look like it."""
    monkeypatch.setattr(conversations, "WALK_S", 0.1)
    page = await (await filled((ONE, 3))).survey(None, "", 10)
    async with desk(Endless(page)) as operator:
        counted = await operator.get("/conversations/count")
        assert (counted["complete"], counted["scopes"]) == (False, 1)
        assert counted["conversations"] >= 3
        forgotten = await operator.delete(f"/scopes/{ONE.hex()}")
        assert forgotten["complete"] is False
        assert forgotten["forgotten"] >= 3


@pytest.mark.parametrize(
    ("method", "target", "code"),
    [
        ("GET", "/conversations?limit=0", "bad_limit"),
        ("GET", "/conversations?limit=1001", "bad_limit"),
        ("GET", "/conversations?limit=many", "bad_limit"),
        ("GET", "/conversations?scope=abc", "bad_scope"),
        ("GET", "/conversations?cursor=zz", "not_understood"),
        ("GET", "/conversations/count?scope=abc", "bad_scope"),
        ("DELETE", "/conversations/abc", "bad_id"),
        ("DELETE", "/conversations/count", "bad_id"),
        ("DELETE", f"/conversations/{ONE.hex()}", "bad_id"),
        ("DELETE", "/scopes/abc", "bad_scope"),
    ],
)
async def test_what_cannot_be_meant_is_refused(method: str, target: str, code: str) -> None:
    """In the shape of all our errors; nothing is deleted by a misspelt id."""
    async with desk(await filled((ONE, 1))) as operator:
        got = await operator.ask(method, target)
        error = json.loads(got.body)["error"]
        assert (got.status, error["type"], error["code"]) == (400, "proxy_error", code)
        assert operator.forgotten == []


class Down:
    """A store that does not answer."""

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """Fail."""
        raise StoreError("connection refused")

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """Fail."""
        raise StoreError("connection refused")


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/conversations"),
        ("GET", "/conversations/count"),
        ("DELETE", f"/conversations/{ONE.hex()}:{ONE.hex()}"),
        ("DELETE", f"/scopes/{ONE.hex()}"),
    ],
)
async def test_a_store_that_is_down_is_said_to_be(method: str, target: str) -> None:
    """It never looks as if there were nothing, or as if it had been deleted."""
    async with desk(Down()) as operator:
        got = await operator.ask(method, target)
        assert (got.status, got.mark) == (503, "error=store_failed")
        assert got.head.values("retry-after") == ["1"]
        assert operator.forgotten == []


# --- who may ask ---

LIST = ("GET", "/conversations")
FORGET = ("DELETE", f"/scopes/{ONE.hex()}")


@pytest.mark.parametrize("asked", [LIST, FORGET])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104
async def test_a_token_is_asked_for(asked: tuple[str, str], host: str) -> None:
    """Wherever the port listens; health and metrics stay open to probes."""
    async with desk(await filled((ONE, 1)), token="t0p-sécret", host=host) as operator:
        for headers in (
            [],
            ["Authorization: Bearer"],
            ["Authorization: Bearer t0p"],
            ["Authorization: Bearer t0p-sécret2"],
            ["Authorization: Basic t0p-sécret"],
            ["Authorization: t0p-sécret"],
            ["X-Api-Key: t0p-sécret"],
        ):
            got = await operator.ask(*asked, *headers)
            assert (got.status, got.mark) == (401, "error=bad_admin_token")
            assert got.head.values("www-authenticate") == ["Bearer"]
        assert operator.forgotten == []
        for path in ("/livez", "/readyz", "/metrics"):
            assert (await operator.ask("GET", path)).status == 200
        # Whatever the host is called: in a cluster, the port has a name.
        got = await operator.ask(*asked, "Authorization: bearer t0p-sécret", host="replay.ns.svc")
        assert got.status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "replay.internal"])  # noqa: S104
@pytest.mark.parametrize("asked", [LIST, FORGET])
async def test_without_a_token_others_are_shown_nothing(asked: tuple[str, str], host: str) -> None:
    """A port that the network reaches says what to set, and does nothing."""
    async with desk(await filled((ONE, 1)), host=host) as operator:
        got = await operator.ask(*asked)
        assert (got.status, got.mark) == (403, "error=no_admin_token")
        assert "admin_token" in json.loads(got.body)["error"]["message"]
        assert operator.forgotten == []


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("127.0.0.1:9090", 200),
        ("localhost:9090", 200),
        ("LOCALHOST", 200),
        ("[::1]:9090", 200),
        ("evil.example:9090", 403),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:9090", 403),
        ("", 403),
    ],
)
async def test_a_page_in_a_browser_cannot_pass_for_this_machine(name: str, status: int) -> None:
    """A name that leads to loopback brings the page here, and gives it away as Host."""
    async with desk(await filled((ONE, 1))) as operator:
        assert (await operator.ask("GET", "/conversations", host=name)).status == status
        got = await operator.ask("DELETE", f"/scopes/{ONE.hex()}", host=name)
        assert (got.status, bool(operator.forgotten)) == (status, status == 200)


async def test_a_page_of_another_origin_may_not_delete() -> None:
    """Its browser asks first, and is given no leave; nor may it read what it gets."""
    async with desk(await filled((ONE, 1))) as operator:
        origin = "Origin: https://evil.example"
        asked = "Access-Control-Request-Method: DELETE"
        got = await operator.ask("OPTIONS", f"/scopes/{ONE.hex()}", origin, asked)
        assert got.status == 405
        for answer in (got, await operator.ask("GET", "/conversations", origin)):
            assert not [name for name, _ in answer.head.headers if "access-control" in name.lower()]


# --- behind a whole proxy ---


async def test_what_was_deleted_is_not_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    """The ids of the log line lead there; other conversations go on."""
    async with world(store_budget_ms=5000) as w:
        forget = Desk(w.app.admin_url)
        w.upstream.answers(whole(as_json(response(RS, CALL))), *[whole(b"{}")] * 2)
        await w.turn(ASK)
        line = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (await w.turn(ASK, CALL, RESULT)).mark == "injected=1"
        name = f"{line['scope']}:{line['conversation']}"
        page = await forget.get("/conversations")
        assert [kept["id"] for kept in page["conversations"]] == [name]
        assert await forget.delete(f"/conversations/{name}") == {"forgotten": True}
        assert (await w.turn(ASK, CALL, RESULT)).mark == "injected=0, missed=1"
        assert (await forget.get("/conversations"))["conversations"] == []


async def test_the_settings_decide_who_may_ask() -> None:
    """The token is one of them."""
    async with world(admin_token="t0p") as w:
        asked = Desk(w.app.admin_url)
        assert (await asked.ask(*LIST)).status == 401
        assert (await asked.ask(*LIST, "Authorization: Bearer t0p")).status == 200
