"""Upstream errors: the SDK raises the same error as without the proxy."""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace

import openai
import pytest
from aiohttp import web
from openai import APIStatusError, AsyncOpenAI
from reasoning_replay.web.errors import REQUEST_ID

from tests.e2e.agent import MARK, MODEL
from tests.e2e.proxies import proxied

OURS_OR_THE_CLOCKS = {"date", MARK, REQUEST_ID}
RATE_LIMITED = {
    "retry-after": "0.01",
    "retry-after-ms": "10",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "10ms",
}
QUOTA = "insufficient_quota"

ERRORS = [
    pytest.param(400, {}, "invalid_value", openai.BadRequestError, id="400"),
    pytest.param(401, {}, "invalid_api_key", openai.AuthenticationError, id="401"),
    pytest.param(403, {}, "not_allowed", openai.PermissionDeniedError, id="403"),
    pytest.param(404, {}, "model_not_found", openai.NotFoundError, id="404"),
    pytest.param(409, {}, "conflict", openai.ConflictError, id="409"),
    pytest.param(422, {}, "unprocessable", openai.UnprocessableEntityError, id="422"),
    pytest.param(429, RATE_LIMITED, "rate_limit_exceeded", openai.RateLimitError, id="429"),
    pytest.param(429, {"x-should-retry": "false"}, QUOTA, openai.RateLimitError, id="429-quota"),
    pytest.param(500, {}, "server_error", openai.InternalServerError, id="500"),
    pytest.param(503, {"retry-after": "7"}, "overloaded", openai.InternalServerError, id="503"),
]


@contextlib.asynccontextmanager
async def failing(status: int, headers: Mapping[str, str], code: str) -> AsyncIterator[str]:
    """Run an upstream that answers every request with this error; yield its base URL."""
    error = {"message": f"No: {code}.", "type": "some_error", "param": None, "code": code}
    body = json.dumps({"error": error}, indent=2).encode()

    async def refuse(_: web.BaseRequest) -> web.Response:
        given = {"x-request-id": "req_1", **headers}
        return web.Response(
            status=status, body=body, headers=given, content_type="application/json"
        )

    runner = web.ServerRunner(web.Server(refuse))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}/v1"
    finally:
        await runner.cleanup()


async def error_at(base_url: str, *, stream: bool) -> APIStatusError:
    """Send one request, and return the error that the SDK raises."""
    async with AsyncOpenAI(base_url=base_url, api_key="sk-a", max_retries=0) as sdk:
        with pytest.raises(APIStatusError) as caught:
            await sdk.responses.create(model=MODEL, input="Rain?", stream=stream)
    return caught.value


@pytest.mark.parametrize(("status", "headers", "code", "kind"), ERRORS)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_an_upstream_error_is_the_same_through_the_proxy(
    status: int, headers: Mapping[str, str], code: str, kind: type[Exception], *, stream: bool
) -> None:
    """The SDK gets the same error class, status, code, request id, headers and body bytes."""
    async with (
        failing(status, headers, code) as upstream,
        proxied(SimpleNamespace(base_url=upstream)) as base_url,
    ):
        straight = await error_at(upstream, stream=stream)
        got = await error_at(base_url, stream=stream)

    assert type(got) is type(straight) is kind
    assert (got.status_code, got.code, got.request_id) == (status, code, "req_1")
    assert str(got) == str(straight)
    assert got.response.content == straight.response.content
    told = None if status in (401, 403) else "injected=0"
    assert got.response.headers.get(MARK) == told
    heads = [dict(error.response.headers) for error in (got, straight)]
    seen = [{name: one[name] for name in one.keys() - OURS_OR_THE_CLOCKS} for one in heads]
    assert seen[0] == seen[1]
    assert headers.items() <= seen[0].items()
