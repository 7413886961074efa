"""
A token whose signature nobody has checked yet: what it finds, upstream alone decides on.

Claims name the tenant before upstream has looked at the token. So whoever forges one must learn
nothing from an answer that refuses it, and leave nothing behind.
"""

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
    """Spell a request that lacks its reasoning."""
    return request("POST", "/v1/responses", header, *more, body=as_json(HISTORY))


async def begin(w: World) -> None:
    """Let the one tenant that there is think."""
    w.upstream.answers(whole(as_json(response(RS, CALL))))
    body = as_json({"model": MODEL, "input": [ASK]})
    await w.ask(request("POST", "/v1/responses", bearer("a"), body=body))


async def test_a_renewed_token_finds_what_the_one_before_left() -> None:
    """An hour later the token is another, and whose it is, is the same."""
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
    """It is upstream's own, to the byte, without a header of ours, and the same for a stranger."""
    async with world(scope_from=SCOPE, store_budget_ms=5000, heal="off") as w:
        await begin(w)
        refusal = error("Incorrect API key provided.", None, status)
        w.upstream.answers(refusal, refusal)
        answers = [await w.ask(ask(header)) for header in (FORGED, bearer("nobody"))]
        assert answers[0] == answers[1]
        assert answers[0].mark is None
        assert refusal.endswith(answers[0].body)


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
@pytest.mark.parametrize("scope_from", ["credential", SCOPE])
async def test_a_refused_caller_is_not_helped(status: str, scope_from: str) -> None:
    """Whatever the refusal says, it is not healed, and nobody is told what was found."""
    async with world(scope_from=scope_from, store_budget_ms=5000) as w:
        await begin(w)
        w.upstream.answers(error(PAIRING, status=status))
        got = await w.ask(ask(FORGED if scope_from == SCOPE else bearer("a")))
        assert (got.status, got.mark) == (int(status[:3]), None)
        assert len(w.upstream.received) == 2


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "500 Oops"])
async def test_a_refused_caller_leaves_nothing_behind(status: str) -> None:
    """An answer that is no success is not captured, even if it looks like a response."""
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
async def test_a_forged_token_opens_nothing_beside_a_credential_that_is_good(
    headers: list[str],
) -> None:
    """Upstream may go by the good one: so that counts, and it is not the tenant's."""
    async with world(scope_from=SCOPE, store_budget_ms=5000) as w:
        await begin(w)
        w.upstream.answers(whole(as_json(response())))
        got = await w.ask(ask(*headers))
        assert (got.mark or "").startswith("injected=0")
        assert BLOB not in w.upstream.received[-1].body
