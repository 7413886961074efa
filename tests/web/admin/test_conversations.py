"""Conversation endpoints: operators list, count and delete conversations by their ids."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reasoning_replay.adapters.stores.base import Bounds, ConversationInfo, Page, StoreError
from reasoning_replay.adapters.stores.contract.turns import bytes_of, save, turn
from reasoning_replay.core.dialects.registry import CHAT, scope_in
from reasoning_replay.web.admin import conversations

from tests.adapters.stores.dictionary import DictStore
from tests.web.line import Answer, line_to
from tests.web.wire import ASK, CALL, RESULT, RS, as_json, response, whole
from tests.web.world import world

ONE, OTHER = bytes_of("one tenant"), bytes_of("another")
Json = dict[str, Any]


class Desk:
    """A client of the admin port."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def ask(self, method: str, target: str, *headers: str, host: str = "127.0.0.1") -> Answer:
        """Send a request on a new connection."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *headers, "", ""]
        async with line_to(self.url) as line:
            return await line.ask("\r\n".join(lines).encode())

    async def get(self, target: str) -> Json:
        """Return the body of a GET that must succeed."""
        return self._json(await self.ask("GET", target))

    async def delete(self, target: str) -> Json:
        """Return the body of a DELETE that must succeed."""
        return self._json(await self.ask("DELETE", target))

    @staticmethod
    def _json(answer: Answer) -> Json:
        assert answer.status == 200
        body: Json = json.loads(answer.body)
        return body


class Noting(DictStore):
    """An empty store that records its deletions."""

    def __init__(self) -> None:
        bounds = Bounds(ttl_s=600, max_turns=10, max_bytes=10_000)
        super().__init__(bounds, time.monotonic)
        self.forgotten: list[tuple[bytes, bytes]] = []

    async def forget(self, scope: bytes, conversation: bytes, *, is_final: bool = False) -> bool:
        """Delete, and record the deletion."""
        is_forgotten = await super().forget(scope, conversation, is_final=is_final)
        self.forgotten.append((scope, conversation))
        return is_forgotten


@contextlib.asynccontextmanager
async def desk(store: DictStore, token: str = "", host: str = "127.0.0.1") -> AsyncIterator[Desk]:
    """Serve the conversations of a store on loopback, with `host` as the setting."""
    async with world(has_store=True, admin_token=token) as w:
        w.app.store.inner, w.app._access._host = store, host
        yield Desk(w.app.admin_url)


async def filled(*kept: tuple[bytes, int]) -> Noting:
    """Return a store with the given number of one-turn conversations in each scope."""
    store = Noting()
    for scope, count in kept:
        for number in range(count):
            await save(store, turn(f"t{number}", f"c{number}"), [], scope)
    return store


async def test_a_conversation_is_listed_with_ids_and_numbers() -> None:
    """A conversation is listed with its ids and numbers, and with nothing of its content."""
    store = Noting()
    await save(store, turn("t1", "c", size=1000), [], ONE)
    await save(store, turn("t2", "c", size=1000), [], ONE)
    async with desk(store) as operator:
        got = await operator.get("/conversations")
    (only,) = got["conversations"]
    assert only.pop("id") == f"{ONE.hex()}:{bytes_of('c').hex()}"
    assert 2000 < only.pop("bytes") < 4000
    assert 590 <= only.pop("expires_in_s") <= 600
    assert (only, got["next"]) == ({"turns": 2}, None)


async def test_the_pages_list_each_conversation_once() -> None:
    """The pages list each conversation once, of all scopes or of a given one."""
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


async def test_the_count_covers_all_pages() -> None:
    """The count covers all pages."""
    async with desk(await filled((ONE, 1500), (OTHER, 4))) as operator:
        counted = await operator.get("/conversations/count")
        assert counted == {"conversations": 1504, "scopes": 2, "complete": True}
        counted = await operator.get(f"/conversations/count?scope={OTHER.hex()}")
        assert counted == {"conversations": 4, "scopes": 1, "complete": True}


async def test_one_conversation_is_deleted() -> None:
    """A DELETE removes exactly one conversation; a second one is a 404."""
    store = await filled((ONE, 2), (OTHER, 2))
    name = f"{ONE.hex()}:{bytes_of('c1').hex()}"
    async with desk(store) as operator:
        assert await operator.delete(f"/conversations/{name}") == {"forgotten": True}
        again = await operator.ask("DELETE", f"/conversations/{name}")
        assert (again.status, json.loads(again.body)["error"]["code"]) == (404, "not_kept")
        assert (await operator.get("/conversations/count"))["conversations"] == 3
        # Also the second time: the store may have a copy that outlived the first deletion.
        assert [one for one in store.forgotten if one[0] == ONE] == [(ONE, bytes_of("c1"))] * 2


async def test_a_scope_is_deleted() -> None:
    """A DELETE of a scope removes all its conversations and no other."""
    store = await filled((ONE, 1200), (OTHER, 4))
    async with desk(store) as operator:
        got = await operator.delete(f"/scopes/{ONE.hex()}")
        assert got == {"forgotten": 1200, "complete": True}
        assert await operator.get("/conversations/count") == {
            "conversations": 4,
            "scopes": 1,
            "complete": True,
        }
        assert {scope for scope, _ in store.forgotten} == {ONE}
        got = await operator.delete(f"/scopes/{ONE.hex()}")
        assert got == {"forgotten": 0, "complete": True}


async def test_a_scope_stands_for_the_conversations_of_all_dialects() -> None:
    """By a tenant's scope, its conversations of every dialect are listed, counted and deleted."""
    chat = scope_in(CHAT, ONE)
    store = await filled((ONE, 5), (chat, 4), (OTHER, 2), (scope_in(CHAT, OTHER), 1))
    async with desk(store) as operator:
        ids: list[str] = []
        cursor = ""
        while True:
            page = await operator.get(f"/conversations?limit=2&scope={ONE.hex()}&cursor={cursor}")
            ids += [kept["id"] for kept in page["conversations"]]
            cursor = page["next"] or ""
            if not cursor:
                break
        assert len(ids) == len(set(ids)) == 9
        assert {name.partition(":")[0] for name in ids} == {ONE.hex(), chat.hex()}
        assert (
            await operator.ask("GET", f"/conversations?scope={ONE.hex()}&cursor=9~")
        ).status == 400

        counted = await operator.get(f"/conversations/count?scope={ONE.hex()}")
        assert counted == {"conversations": 9, "scopes": 2, "complete": True}

        # The log has the tenant's scope, the list that of the store; a deletion takes either.
        for scope, name in ((ONE, "c3"), (chat, "c2")):
            one = f"/conversations/{scope.hex()}:{bytes_of(name).hex()}"
            assert await operator.delete(one) == {"forgotten": True}
        deleted = await operator.delete(f"/scopes/{ONE.hex()}")
        assert deleted == {"forgotten": 7, "complete": True}
        left = await operator.get("/conversations/count")
        assert left == {"conversations": 3, "scopes": 2, "complete": True}


class Endless(Noting):
    """A store that always has another page."""

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """Return the same page again, a little later."""
        await asyncio.sleep(0.001)
        return Page((await super().survey(scope, "", limit)).conversations, "more")


async def test_a_walk_that_takes_too_long_is_incomplete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A walk that takes too long is reported as incomplete, with the number so far."""
    monkeypatch.setattr(conversations, "WALK_S", 0.1)
    store = Endless()
    for name in "abc":
        await save(store, turn("t", name), [], ONE)
    async with desk(store) as operator:
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
async def test_invalid_parameters_are_refused(method: str, target: str, code: str) -> None:
    """Invalid parameters are a 400 in the usual error shape; a misspelt id deletes nothing."""
    store = await filled((ONE, 1))
    async with desk(store) as operator:
        got = await operator.ask(method, target)
        error = json.loads(got.body)["error"]
        assert (got.status, error["type"], error["code"]) == (400, "proxy_error", code)
        assert store.forgotten == []


class Down(Noting):
    """A store that is down."""

    async def survey(self, *_: object) -> Page:
        """Fail."""
        raise StoreError("connection refused")

    async def forget(self, *_: object, **__: object) -> bool:
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
async def test_a_store_that_is_down_is_a_503(method: str, target: str) -> None:
    """It looks neither like an empty store nor like a completed deletion."""
    async with desk(Down()) as operator:
        got = await operator.ask(method, target)
        assert (got.status, got.mark) == (503, "error=store_failed")
        assert got.head.values("retry-after") == ["1"]


@pytest.mark.parametrize("error", [StoreError("WRONGTYPE", is_local=True), ValueError("fd -1")])
@pytest.mark.parametrize("target", ["/conversations", "/conversations/count"])
async def test_a_fault_of_the_store_is_never_one_of_the_request(
    target: str, error: Exception
) -> None:
    """Only a cursor is the caller's fault."""

    class Failing(Noting):
        async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
            raise error

    async with desk(Failing()) as operator:
        got = await operator.ask("GET", target)
        assert (got.status, got.mark) == (503, "error=store_failed")


async def test_a_damaged_conversation_is_listed_and_counted() -> None:
    """The list says so, and goes on."""

    class Damaged(Noting):
        async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
            return Page(
                [
                    ConversationInfo(ONE, ONE, 0, 0, 60, is_damaged=True),
                    ConversationInfo(ONE, OTHER, 1, 100, 60),
                ]
            )

    async with desk(Damaged()) as operator:
        first, second = (await operator.get("/conversations"))["conversations"]
        assert (first["damaged"], "damaged" in second) == (True, False)
        assert (await operator.get("/conversations/count"))["conversations"] == 2


# --- access ---

LIST = ("GET", "/conversations")
FORGET = ("DELETE", f"/scopes/{ONE.hex()}")


@pytest.mark.parametrize("asked", [LIST, FORGET])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104
async def test_the_admin_token_is_required(asked: tuple[str, str], host: str) -> None:
    """By every request, wherever the port listens; health and metrics stay open to probes."""
    store = await filled((ONE, 1))
    async with desk(store, "t0p-sécret", host) as operator:
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
        assert store.forgotten == []
        for path in ("/livez", "/readyz", "/metrics"):
            assert (await operator.ask("GET", path)).status == 200
        # With a token, any `Host` is served: in a cluster, the port has a name.
        got = await operator.ask(*asked, "Authorization: bearer t0p-sécret", host="replay.ns.svc")
        assert got.status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "replay.internal"])  # noqa: S104
@pytest.mark.parametrize("asked", [LIST, FORGET])
async def test_without_a_token_the_network_gets_nothing(asked: tuple[str, str], host: str) -> None:
    """The error names the setting, and nothing is deleted."""
    store = await filled((ONE, 1))
    async with desk(store, host=host) as operator:
        got = await operator.ask(*asked)
        assert (got.status, got.mark) == (403, "error=no_admin_token")
        assert "admin_token" in json.loads(got.body)["error"]["message"]
        assert store.forgotten == []


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
async def test_only_a_loopback_host_is_served_without_a_token(name: str, status: int) -> None:
    """A web page may use a name that resolves to loopback, but its browser sends that name."""
    store = await filled((ONE, 1))
    async with desk(store) as operator:
        assert (await operator.ask("GET", "/conversations", host=name)).status == status
        got = await operator.ask("DELETE", f"/scopes/{ONE.hex()}", host=name)
        assert (got.status, bool(store.forgotten)) == (status, status == 200)


async def test_a_page_of_another_origin_may_not_delete() -> None:
    """A web page of another origin gets no CORS permission, neither to delete nor to read."""
    async with desk(await filled((ONE, 1))) as operator:
        origin = "Origin: https://evil.example"
        asked = "Access-Control-Request-Method: DELETE"
        got = await operator.ask("OPTIONS", f"/scopes/{ONE.hex()}", origin, asked)
        assert got.status == 405
        for answer in (got, await operator.ask("GET", "/conversations", origin)):
            assert not [name for name, _ in answer.head.headers if "access-control" in name.lower()]


# --- in a running proxy ---


async def test_a_deleted_conversation_is_not_injected(capsys: pytest.CaptureFixture[str]) -> None:
    """A deleted conversation is not injected again; the log line has the ids that delete it."""
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
        assert (await w.turn(ASK, CALL, RESULT)).mark == "injected=0, lacking=1, missed=1"
        assert (await forget.get("/conversations"))["conversations"] == []


async def test_the_scopes_of_a_key_lead_to_what_is_stored_for_it() -> None:
    """What an operator knows of a customer is enough to find and delete the data."""

    def asked(body: str) -> bytes:
        head = f"POST /scopes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}"
        return f"{head}\r\n\r\n{body}".encode()

    async with world(scope_secret="s") as w:
        w.upstream.answers(whole(as_json(response(RS, CALL))))
        await w.turn(ASK)
        async with line_to(w.app.admin_url) as line:
            answer = await line.ask(asked("sk-a"))
        async with line_to(w.app.admin_url) as line:
            refused = await line.ask(asked("x-sk: sk-a"))
        operator = Desk(w.app.admin_url)
        counts = {
            one["header"]: (await operator.get(f"/conversations/count?scope={one['scope']}"))
            for one in json.loads(answer.body)["scopes"]
        }

    assert {name: count["conversations"] for name, count in counts.items()} == {
        "authorization": 1,
        "api-key": 0,
        "x-api-key": 0,
        "x-goog-api-key": 0,
    }
    assert json.loads(refused.body)["error"]["code"] == "bad_tenant"
