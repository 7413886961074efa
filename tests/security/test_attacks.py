"""Attacks by a tenant, with chosen ids and chosen responses: no reasoning crosses tenants."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.redis_server import RedisServer
from tests.web.line import line_to, request
from tests.web.wire import (
    ASK,
    CALL,
    NEXT,
    PAIRING,
    RESULT,
    RS,
    RS_2,
    as_json,
    error,
    response,
    whole,
)
from tests.web.world import MODEL, World, world

VICTIM = ["Authorization: Bearer sk-victim"]
HARM = ["Authorization: Bearer sk-harm"]
BLOB = RS["encrypted_content"].encode()
EVIL = RS_2["encrypted_content"].encode()
HISTORY = [ASK, CALL, RESULT]
PATIENT: dict[str, Any] = {"store_budget_ms": 5000}

# Ids with a special meaning for a store, a shell, a log or a parser.
ODD_IDS = {
    "a-glob": "*",
    "braces": "}:{rr:2:*}",
    "a-colon": "rr:2:{0:0}",
    "a-newline": "call\r\nDEL *\r\n",
    "nul": "call\x00_Zk3mQ9xT7bLw2RsV",
    "empty": "",
    "half-a-surrogate": "call_\ud800Zk3mQ9xT7bLw2RsV",
    "a-path": "../../../etc/passwd",
    "sql": "'; DROP TABLE turns; --",
    "long": "call_" + "Zk3mQ9xT" * 20_000,
    "a-number": 7,
    "an-object": {"call": 1},
}


async def learned(w: World, tenant: list[str], *items: Any, rid: str, asked: Any = ASK) -> None:
    """Let upstream respond to a tenant with these items."""
    w.upstream.answers(whole(as_json(response(*items, rid=rid))))
    body = as_json({"model": MODEL, "input": [asked]})
    got = await w.ask(request("POST", "/v1/responses", *tenant, body=body))
    assert got.status == 200


async def sent_for(w: World, tenant: list[str], items: Sequence[Any], *more: str) -> bytes:
    """Send a history, refuse it once so that healing is tried; return all bytes sent upstream."""
    before = len(w.upstream.received)
    w.upstream.answers(error(PAIRING), whole(as_json(response(rid="resp_answer"))))
    body = as_json({"model": MODEL, "store": False, "input": items})
    got = await w.ask(request("POST", "/v1/responses", *tenant, *more, body=body))
    assert got.status in (200, 400)
    w.upstream.forget_scripts()
    return b"".join(received.body for received in w.upstream.received[before:])


@pytest.mark.parametrize("odd", ODD_IDS.values(), ids=ODD_IDS)
async def test_odd_ids_disturb_no_other_tenant(odd: Any, shared_redis: RedisServer) -> None:
    """Odd ids in a tenant's responses affect no other tenant, and never become part of a key."""
    shared_redis.do("FLUSHALL")
    async with world(store_url=shared_redis.url, local_max_bytes=0, **PATIENT) as w:
        await learned(w, VICTIM, RS, CALL, rid="resp_victim")
        mine = [RS_2 | {"id": odd}, CALL | {"call_id": odd}]
        for rid in ("resp_victim", str(odd)[:100]):
            await learned(w, HARM, *mine, rid=rid)
        await learned(w, HARM, RS_2, CALL | {"id": odd}, rid="resp_harm")
        output = RESULT | {"call_id": odd}
        assert BLOB not in await sent_for(w, HARM, [ASK, mine[1], output])
        assert BLOB not in await sent_for(w, HARM, [ASK, CALL | {"id": odd}, RESULT])
        got = await sent_for(w, VICTIM, HISTORY)
        assert BLOB in got
        assert EVIL not in got
    keys = [key.decode() for key in shared_redis.do("KEYS", "*")]
    assert keys
    for key in keys:
        assert key.startswith("rr:2:")
        assert set(key[5:]) <= set("0123456789abcdef{}:ikrst"), key
        assert len(key) < 200


NAMES = ["x-reasoning-replay-conversation", "session-id", "session_id", "x-session-affinity"]


async def test_names_that_were_seen_in_a_log_open_nothing() -> None:
    """A client that knows the hashes of another scope and conversation gets nothing for them."""
    async with world(**PATIENT) as w:
        await learned(w, VICTIM, RS, CALL, rid="resp_victim")
        (one,) = (await ask_operator(w, "/conversations"))["conversations"]
        seen = one["id"]
        for name in (seen, *seen.split(":"), f"rr:2:{{{seen}}}", "*"):
            said = [f"{header}: {name}" for header in NAMES]
            assert BLOB not in await sent_for(w, HARM, HISTORY, *said)
        assert BLOB in await sent_for(w, VICTIM, HISTORY)


async def ask_operator(w: World, target: str) -> dict[str, Any]:
    """Query the admin port."""
    async with line_to(w.app.admin_url) as line:
        got = await line.ask(request("GET", target).replace(b"proxy.test", b"localhost"))
    found: dict[str, Any] = json.loads(got.body)
    return found


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param([RS_2 | {"id": RS["id"]}, CALL], id="the-same-ids"),
        pytest.param([RS_2, CALL | {"id": "fc_ffffffffffffffffffffffff"}], id="the-same-call-id"),
        pytest.param([RS_2, CALL | {"call_id": "call_another9XyZ"}], id="the-same-item-id"),
        pytest.param([RS_2 | {"id": RS["id"]}, CALL | {"name": "other"}], id="name"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
async def test_another_conversation_of_the_same_tenant_brings_nothing_in(
    forged: list[Any], is_first: bool
) -> None:
    """If upstream reuses ids, a request gets the reasoning of its own turn, or none."""
    async with world(**PATIENT) as w:
        turns = [("resp_own", [RS, CALL], ASK), ("resp_forged", forged, NEXT)]
        for rid, items, asked in turns if is_first else turns[::-1]:
            await learned(w, VICTIM, *items, rid=rid, asked=asked)
        assert EVIL not in await sent_for(w, VICTIM, HISTORY)


async def test_an_answer_under_the_id_of_another_replaces_nothing() -> None:
    """A response with a known id, but of another tenant, replaces nothing."""
    async with world(**PATIENT) as w:
        await learned(w, VICTIM, RS, CALL, rid="resp_one")
        await learned(w, HARM, RS_2, CALL, rid="resp_one")
        got = await sent_for(w, VICTIM, HISTORY)
        assert BLOB in got
        assert EVIL not in got
        assert BLOB not in await sent_for(w, HARM, HISTORY)
