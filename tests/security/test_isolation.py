"""Isolation: no request of one tenant gets reasoning of another tenant."""

from collections.abc import Mapping
from typing import Any

import pytest
from reasoning_replay.core.tenancy.scope import Scoping

from tests.security.tenants import TENANTS, Tenants
from tests.web.line import request
from tests.web.sockets import HANDSHAKE, KEY, said, tunnelled
from tests.web.wire import (
    ASK,
    CALL,
    MESSAGE,
    NEXT,
    PAIRING,
    RESULT,
    RS,
    RS_2,
    as_json,
    error,
    events,
    response,
    stream,
    whole,
)
from tests.web.world import MODEL, World, world

RESPONSE_ID = response()["id"]
BLOB = RS["encrypted_content"].encode()
NAMED = {"session-id": "s-1", "x-session-affinity": "s-1", "x-reasoning-replay-conversation": "c-1"}
SESSION = [f"{name}: {value}" for name, value in NAMED.items()]
BARE_CALL = {name: value for name, value in CALL.items() if name != "id"}
HISTORY = [ASK, CALL, RESULT]

# How a client that knows every id and text asks for another tenant's reasoning: name -> body.
ATTEMPTS: dict[str, Mapping[str, Any]] = {
    "ids": {"input": HISTORY},
    "ids-unstored": {"input": HISTORY, "store": False},
    "call-ids": {"input": [ASK, BARE_CALL, RESULT], "store": False},
    "a-tail": {"input": [CALL, RESULT]},
    "text": {"input": [*HISTORY, {"role": "assistant", "content": MESSAGE["content"]}, NEXT]},
    "a-bare-id": {"input": [ASK, {"type": "reasoning", "id": RS["id"], "summary": []}, CALL]},
    "a-reference": {"input": [{"type": "item_reference", "id": RS["id"]}, CALL, RESULT]},
    "previous-response": {"input": [RESULT], "previous_response_id": RESPONSE_ID},
    "previous-response-and-history": {"input": HISTORY, "previous_response_id": RESPONSE_ID},
    "cache-key": {"input": HISTORY, "prompt_cache_key": "k-1", "store": False},
}


def ask(headers: list[str], body: Mapping[str, Any]) -> bytes:
    """Return a request for a response by a client that names its session."""
    return request("POST", "/v1/responses", *headers, *SESSION, body=as_json(body))


def spelled(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a complete body."""
    return {"model": MODEL, "prompt_cache_key": "k-1", **body}


async def begin(w: World, headers: list[str]) -> None:
    """Let a tenant's model reason, call a tool, and answer."""
    first = response(RS, CALL)
    w.upstream.answers(whole(as_json(first)), stream(events(MESSAGE, rid="resp_2")))
    await w.ask(ask(headers, spelled({"input": [ASK]})))
    await w.ask(ask(headers, spelled({"input": HISTORY, "store": False})))


async def attempt(w: World, headers: list[str], body: Mapping[str, Any]) -> bytes:
    """Send a request, refuse it once so that healing is tried; return all bytes sent upstream."""
    before = len(w.upstream.received)
    w.upstream.answers(error(PAIRING), whole(as_json(response(rid="resp_3"))))
    await w.ask(ask(headers, spelled(body)))
    w.upstream.forget_scripts()
    return b"".join(received.body for received in w.upstream.received[before:])


@pytest.mark.parametrize("tenants", TENANTS.values(), ids=TENANTS)
async def test_no_request_brings_back_what_is_anothers(tenants: Tenants) -> None:
    """No id, call, text or session name brings another tenant's reasoning, only its own."""
    async with world(scope_from=tenants.scope_from, store_budget_ms=5000) as w:
        await begin(w, tenants.one)
        for name, body in ATTEMPTS.items():
            assert BLOB not in await attempt(w, tenants.other, body), name
        assert BLOB in await attempt(w, tenants.again, ATTEMPTS["ids-unstored"])


@pytest.mark.parametrize("tenants", TENANTS.values(), ids=TENANTS)
async def test_no_tenant_disturbs_the_matches_of_another(tenants: Tenants) -> None:
    """Responses of another tenant with the same ids do not affect a tenant's matches."""
    async with world(scope_from=tenants.scope_from, store_budget_ms=5000) as w:
        await begin(w, tenants.one)
        w.upstream.answers(whole(as_json(response(RS_2 | {"id": RS["id"]}, CALL))))
        await w.ask(ask(tenants.other, spelled({"input": [ASK]})))
        w.upstream.answers(whole(as_json(response())))
        got = await w.ask(ask(tenants.again, spelled(ATTEMPTS["ids-unstored"])))
        assert (got.mark or "").startswith("injected=1")
        assert BLOB in w.upstream.received[-1].body


@pytest.mark.parametrize("tenants", TENANTS.values(), ids=TENANTS)
async def test_what_is_fetched_by_another_is_not_the_owners(tenants: Tenants) -> None:
    """`GET …/responses/{id}` of another tenant returns upstream's response and changes nothing."""
    async with world(scope_from=tenants.scope_from, store_budget_ms=5000) as w:
        await begin(w, tenants.one)
        forged = response(RS_2 | {"id": RS["id"]}, CALL)
        w.upstream.answers(whole(as_json(forged)))
        await w.ask(request("GET", f"/v1/responses/{RESPONSE_ID}", *tenants.other))
        assert BLOB not in await attempt(w, tenants.other, ATTEMPTS["ids-unstored"])
        assert BLOB in await attempt(w, tenants.again, ATTEMPTS["ids-unstored"])


@pytest.mark.parametrize("tenants", TENANTS.values(), ids=TENANTS)
async def test_no_lane_of_a_websocket_brings_it_back(tenants: Tenants) -> None:
    """The handshake sets the scope of a WebSocket, and no message changes it."""
    body = spelled(ATTEMPTS["ids-unstored"]) | {"type": "response.create"}
    async with world(scope_from=tenants.scope_from, store_budget_ms=5000) as w:
        await begin(w, tenants.one)
        for headers, is_owner in ((tenants.other, False), (tenants.again, True)):
            async with tunnelled(w, *headers, *HANDSHAKE) as (client, upstream):
                for lane in ("", "s1"):
                    await client.send(said(body | {"stream_id": lane, **as_text(headers)}, key=KEY))
                    _, sent = await upstream.message()
                    assert (BLOB in sent) is is_owner


def as_text(headers: list[str]) -> dict[str, str]:
    """Return the headers as message fields, where they have no meaning."""
    return {"authorization": "Bearer sk-a", "metadata": " ".join(headers)}


@pytest.mark.parametrize("name", ["ids", "ids-unstored", "call-ids", "a-tail", "text", "cache-key"])
async def test_these_attempts_succeed_where_all_are_one_tenant(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one scope for all, each attempt succeeds, so the tests above can fail."""
    monkeypatch.setattr(Scoping, "of", lambda *_: bytes(16))
    async with world(store_budget_ms=5000) as w:
        await begin(w, TENANTS["keys"].one)
        assert BLOB in await attempt(w, TENANTS["keys"].other, ATTEMPTS[name])
