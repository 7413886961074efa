"""Strict requests: ambiguous ones are refused with a reason, and their connection is closed."""

import pytest

from tests.web.line import line_to, request
from tests.web.test_errors import assert_ours
from tests.web.wire import END, chunk
from tests.web.world import world

KEY = "Authorization: Bearer sk-a"
BODY = chunk(b"{}") + END


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        pytest.param(
            request("POST", "/v1/responses", KEY, "Transfer-Encoding: gzip, chunked") + BODY,
            501,
            "unknown_transfer_coding",
            id="coding",
        ),
        pytest.param(
            request("GET", "/v1/models", KEY).replace(b"HTTP/1.1", b"HTTP/2.0"),
            505,
            "unknown_http_version",
            id="version",
        ),
        pytest.param(request("GET", "/v1/models#a", KEY), 400, "bad_target", id="fragment"),
        pytest.param(
            request("GET", "http://api.openai.com/v1/models", KEY), 400, "bad_target", id="absolute"
        ),
        pytest.param(request("OPTIONS", "*", KEY), 400, "bad_target", id="asterisk"),
        pytest.param(request("CONNECT", "a.test:443", KEY), 400, "bad_target", id="authority"),
    ],
)
async def test_it_is_an_error_of_ours_and_the_end(data: bytes, status: int, code: str) -> None:
    """An ambiguous request gets the proxy's error, is counted, and ends its connection."""
    async with world() as w:
        async with line_to(w.app.url) as line:
            # aiohttp itself refuses a request after one that ends the connection.
            behind = b"" if status == 505 else request("GET", "/v1/models", KEY)
            got = await line.ask(data + behind)
            message = assert_ours(got, status, code)
            assert ("OPENAI_BASE_URL" in message) == (code == "bad_target")
            assert await line.is_closed()
        assert w.upstream.received == []
        assert w.counted("exchanges_total", outcome=code) == 1
