"""Headers: a value cannot become a second header, and `Connection` cannot fake an identity."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict
from reasoning_replay.core.tenancy.scope import Scoping, read_parts
from reasoning_replay.core.wire.headers import for_upstream

from tests.fast_lane import examples
from tests.security.tenants import bearer
from tests.security.test_smuggling import get, proxied, tell
from tests.web.line import request
from tests.web.wire import ASK, CALL, RS, as_json, response, whole
from tests.web.world import MODEL, world

KEY = "Authorization: Bearer sk-a"
URL = "https://api.test/v1"

# Line ends in other encodings; the low byte of the last one is a line feed.
ODD_VALUES = ["a\x85X-Evil: b", "a\u2028X-Evil: b", "a\u0a0aX-Evil: b", "a\u010aX-Evil: b", "\xa0"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize("value", ODD_VALUES)
async def test_no_value_becomes_two_headers(value: str, encoding: str) -> None:
    """No character that some reader takes for a line end splits a header."""
    async with proxied() as (app, upstream):
        await tell(app, get(b"X-Odd: " + value.encode(encoding), b"X-Last: 1"))
        assert upstream.requests or encoding != "utf-8"
        for one in upstream.requests:
            assert {name for name, _ in one.fields} <= {b"host", b"x-odd", b"x-last"}
            assert not one.values(b"x-evil")


NAMED = [
    "authorization",
    "Authorization, content-length, host",
    "close, AUTHORIZATION",
    "x-reasoning-replay-conversation,authorization",
]


@pytest.mark.parametrize("named", NAMED)
async def test_a_credential_that_is_not_sent_on_does_not_count(named: str) -> None:
    """A credential that `Connection` names is not forwarded, so it gives no scope either."""
    async with world(store_budget_ms=5000) as w:
        w.upstream.answers(whole(as_json(response(RS, CALL))), whole(b"{}"))
        await w.turn(ASK)
        body = as_json({"model": MODEL, "input": [ASK, CALL], "store": False})
        got = await w.ask(request("POST", "/v1/responses", KEY, f"Connection: {named}", body=body))
        assert got.mark == "injected=0, asked=no_scope"
        received = w.upstream.received[-1]
        assert received.values("authorization") == []
        assert received.body == body
        assert received.values("content-length") == [str(len(body))]


async def test_what_matters_to_this_hop_cannot_be_taken_away() -> None:
    """Length, host, framing and our own headers are written anew."""
    named = "Connection: content-length, host, transfer-encoding, x-reasoning-replay"
    async with world(store_budget_ms=5000) as w:
        w.upstream.answers(whole(as_json(response())))
        got = await w.post({"model": MODEL, "input": "x"}, KEY, named, "x-reasoning-replay: a=b")
        received = w.upstream.received[-1]
        assert len(received.values("host")) == len(received.values("content-length")) == 1
        assert received.values("transfer-encoding") == received.values("x-reasoning-replay") == []
        assert got.mark == "injected=0"


async def test_an_upstream_cannot_speak_for_the_proxy() -> None:
    """The proxy's own header replaces the same header of upstream."""
    async with world(store_budget_ms=5000) as w:
        w.upstream.answers(whole(as_json(response()), "x-reasoning-replay: injected=99"))
        assert (await w.turn(ASK)).mark == "injected=0"


COUNTING = ["Authorization", "api-key", "X-Api-Key", "OpenAI-Organization", "openai-project"]
names = st.sampled_from([*COUNTING, "chatgpt-account-id", "X-Tenant-Id", "Connection", "Accept"])
values = st.sampled_from(
    [
        *("", "a", "b", "authorization", "close, API-KEY", "x-tenant-id ,authorization", "\udcff"),
        *(bearer(oid).partition(": ")[2] for oid in "ab"),
    ]
)
requests = st.lists(st.tuples(names, values), max_size=6)


@pytest.mark.parametrize(
    "scope_from",
    ["credential", "claims:tid+oid", "header:x-tenant-id", "credential,header:x-tenant-id"],
)
@given(headers=requests)
@examples(150)
def test_a_scope_is_made_of_what_upstream_will_see(
    scope_from: str, headers: list[tuple[str, str]]
) -> None:
    """The scope depends only on headers that are forwarded."""
    scoping = Scoping(URL, "s", read_parts(scope_from))
    raw = [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers]
    goes_on = [
        (name.decode(), value.decode("utf-8", "surrogateescape"))
        for name, value in for_upstream(raw)
    ]

    assert scoping.of(CIMultiDict(headers)) == scoping.of(CIMultiDict(goes_on))


@pytest.mark.parametrize(
    ("one", "other"), [*product(["a", "b"], ["", "a"])], ids=lambda value: value or "none"
)
def test_of_two_that_have_one_name_both_count(one: str, other: str) -> None:
    """Of two headers with one name both count, since readers differ on which one to use."""
    scoping = Scoping(URL, "s")
    both = scoping.of(CIMultiDict([("api-key", one), ("api-key", other)]))

    assert both != scoping.of({"api-key": one})
    assert both != scoping.of({"api-key": other})
    assert both != scoping.of({"api-key": f"{one}, {other}"})
