"""
Forged tokens: claims whose signature is not verified yet give access only if upstream agrees.

Claims name the tenant before upstream has verified the token. So a forged token must learn nothing
from the response that refuses it, and must not change what is stored.
"""

from dataclasses import replace

import pytest

from tests.security.tenants import bearer, token
from tests.web.line import request
from tests.web.wire import ASK, CALL, PAIRING, RESULT, RS, RS_2, as_json, error, response, whole
from tests.web.world import MODEL, World, world

SCOPE = "claims:iss+tid+oid"
FORGED = bearer("a").rpartition(".")[0] + ".Zm9yZ2Vk"
HISTORY = {"model": MODEL, "input": [ASK, CALL, RESULT], "store": False}
BLOB = RS["encrypted_content"].encode()


def ask(header: str, *more: str) -> bytes:
    """Return a request without its reasoning."""
    return request("POST", "/v1/responses", header, *more, body=as_json(HISTORY))


async def begin(w: World) -> None:
    """Let the only tenant have one turn with reasoning."""
    w.upstream.answers(whole(as_json(response(RS, CALL))))
    body = as_json({"model": MODEL, "input": [ASK]})
    await w.ask(request("POST", "/v1/responses", bearer("a"), body=body))


async def test_a_renewed_token_finds_what_the_one_before_left() -> None:
    """A renewed token with the same claims has the same scope."""
    async with world(scope_from=SCOPE, store_budget_ms=5000) as w:
        await begin(w)
        w.upstream.answers(whole(as_json(response())))
        got = await w.ask(ask(bearer("a", exp=3600, iat=1, aio="x")))
        assert got.mark == "injected=1"
        assert BLOB in w.upstream.received[-1].body


@pytest.mark.parametrize(
    "status", ["401 Unauthorized", "403 Forbidden", "400 Bad", "404 No", "429 Slow", "503 Busy"]
)
async def test_an_answer_that_refuses_tells_nothing_of_what_was_found(status: str) -> None:
    """A refusal is passed on to the byte without our header, the same as for a stranger."""
    async with world(scope_from=SCOPE, store_budget_ms=5000, heal="off") as w:
        await begin(w)
        refusal = error("Incorrect API key provided.", None, status)
        w.upstream.answers(refusal, refusal)
        answers = [await w.ask(ask(header)) for header in (FORGED, bearer("nobody"))]
        # Only the id of the exchange differs: it is random, and tells nothing.
        heads = [replace(answer.head, request_id=None) for answer in answers]
        assert (heads[0], answers[0].body) == (heads[1], answers[1].body)
        assert answers[0].mark is None
        assert refusal.endswith(answers[0].body)


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
@pytest.mark.parametrize("scope_from", ["credential", SCOPE])
async def test_a_refused_caller_is_not_helped(status: str, scope_from: str) -> None:
    """A 401 or 403 is neither healed nor marked with our header."""
    async with world(scope_from=scope_from, store_budget_ms=5000) as w:
        await begin(w)
        w.upstream.answers(error(PAIRING, status=status))
        got = await w.ask(ask(FORGED if scope_from == SCOPE else bearer("a")))
        assert (got.status, got.mark) == (int(status[:3]), None)
        assert len(w.upstream.received) == 2


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "500 Oops"])
async def test_a_refused_callers_response_is_not_captured(status: str) -> None:
    """An error response is not captured, even if its body looks like a response."""
    async with world(scope_from=SCOPE, store_budget_ms=5000) as w:
        await begin(w)
        fake = as_json(response(RS_2 | {"id": RS["id"]}, CALL, rid="resp_forged"))
        w.upstream.answers(whole(fake, status=status), whole(as_json(response())))
        await w.ask(ask(FORGED))
        got = await w.ask(ask(bearer("a")))
        assert got.mark == "injected=1"
        assert BLOB in w.upstream.received[-1].body
        assert RS_2["encrypted_content"].encode() not in w.upstream.received[-1].body


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([FORGED, "api-key: own"], id="beside-a-key-of-his-own"),
        pytest.param([FORGED, "Authorization: Bearer own"], id="beside-a-token-of-his-own"),
        pytest.param(["Authorization: Bearer own", FORGED], id="behind-a-token-of-his-own"),
        pytest.param([f"{FORGED}, Bearer own"], id="in-a-list"),
        pytest.param([FORGED, "Connection: authorization", "api-key: own"], id="not-sent-on"),
        pytest.param([FORGED.replace("Bearer", "Basic")], id="in-another-scheme"),
        pytest.param(["x-api-key: " + token(iss="https://login.test/t1/v2.0", tid="t1", oid="a")]),
    ],
)
async def test_a_forged_token_with_a_valid_credential_opens_nothing(
    headers: list[str],
) -> None:
    """With a second credential, which upstream may accept, both count for the scope."""
    async with world(scope_from=SCOPE, store_budget_ms=5000) as w:
        await begin(w)
        w.upstream.answers(whole(as_json(response())))
        got = await w.ask(ask(*headers))
        assert (got.mark or "").startswith("injected=0")
        assert BLOB not in w.upstream.received[-1].body
