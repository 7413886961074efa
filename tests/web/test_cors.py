"""Apps in browsers can read the proxy's own errors and headers; other clients see no difference."""

from typing import Any

import pytest

from tests.ports import closed_port
from tests.web.line import Answer, request
from tests.web.wire import ASK, as_json, whole
from tests.web.world import MODEL, World, post, world

ORIGIN = "Origin: https://app.example"
KEY = "Authorization: Bearer sk-a"
PREFLIGHT = request("OPTIONS", "/v1/responses", ORIGIN, "Access-Control-Request-Method: POST")
BODY = {"model": MODEL, "input": [ASK]}
READABLE = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "x-reasoning-replay, x-reasoning-replay-request-id, "
    "Retry-After",
    "vary": "Origin",
}


def cors_of(answer: Answer) -> dict[str, str]:
    """Return the headers that concern CORS, by name in lower case."""
    fields = {name.lower(): value for name, value in answer.head.headers}
    return {k: v for k, v in fields.items() if k == "vary" or k.startswith("access-control-")}


@pytest.mark.parametrize(
    ("data", "settings", "status"),
    [
        pytest.param(post(BODY, KEY, ORIGIN), {"upstream_url": ""}, 502, id="no-upstream"),
        pytest.param(PREFLIGHT, {"upstream_url": ""}, 502, id="preflight"),
        pytest.param(post(BODY, KEY, ORIGIN), {"body_max_bytes": 9}, 413, id="too-large"),
        pytest.param(
            request("GET", "/v1/models", KEY, ORIGIN, *["X: " + "x" * 4000] * 20),
            {},
            431,
            id="long-head",
        ),
        pytest.param(request("GET", "http://x/v1/models", KEY, ORIGIN), {}, 400, id="target"),
    ],
)
async def test_an_error_of_the_proxy(data: bytes, settings: dict[str, Any], status: int) -> None:
    """A page can read it, wherever the request was refused; without an origin, nothing is added."""
    if "upstream_url" in settings:
        settings = {"upstream_url": f"http://127.0.0.1:{closed_port()}/v1"}
    async with world(**settings) as w:
        got = await w.ask(data)
        assert (got.status, cors_of(got)) == (status, READABLE)
        assert got.mark is not None
        assert got.mark.startswith("error=")
        other = await w.ask(data.replace(ORIGIN.encode() + b"\r\n", b""))
        assert (other.status, cors_of(other)) == (status, {})


async def relayed(w: World, *asked: str, given: tuple[str, ...] = ()) -> list[str]:
    """Return the fields of CORS in a response of the upstream, in their order."""
    w.upstream.answers(whole(as_json({}), "Content-Type: application/json", *given))
    got = await w.ask(post(BODY, KEY, "Content-Type: application/json", *asked))
    assert got.mark is not None
    return [f"{k}: {v}" for k, v in got.head.headers if k.lower().startswith("access-control-")]


async def test_a_response_of_the_upstream() -> None:
    """The proxy's headers are exposed in a field of their own, after the upstream's."""
    allowed = ("access-control-allow-origin: *", "access-control-expose-headers: X-Request-ID")
    added = "Access-Control-Expose-Headers: x-reasoning-replay, x-reasoning-replay-request-id"
    async with world() as w:
        assert await relayed(w, ORIGIN, given=allowed) == [*allowed, added]
        assert await relayed(w, given=allowed) == [*allowed]
        assert await relayed(w, ORIGIN) == []  # a page could not read it anyway


async def test_the_admin_port_stays_closed() -> None:
    """No page of another origin reads it, not even that it is the wrong port."""
    async with world() as w:
        w.app.url = w.app.admin_url
        for target in "/v1/models", "/readyz", "/conversations":
            got = await w.ask(request("GET", target, KEY, ORIGIN))
            assert not {k for k in cors_of(got) if k != "vary"}
