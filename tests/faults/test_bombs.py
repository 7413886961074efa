"""Bombs in numbers: the documented peak holds with the defaults, without the cyclic collector."""

import sys
from secrets import token_hex

import pytest

from tests.bombs import CODINGS, MIB, asked_at_once, bomb, uncollected
from tests.fast_lane import slow
from tests.web.wire import ASK, whole
from tests.web.world import MODEL, post

pytestmark = [
    slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc"),
]
# The default of `inspect_total_max_bytes`.
BUDGET_BYTES = 448 * MIB
CLIENT = "Authorization: Bearer sk-a"
OK = whole(b"{}")
TOO_LARGE = "injected=0, asked=too_large"
BUSY = "injected=0, asked=busy"


@pytest.mark.parametrize("coding", CODINGS)
async def test_two_hundred_requests(coding: str) -> None:
    """Each decodes to more than 8 MiB. Those that wait in vain for memory ask again."""
    async with uncollected(BUDGET_BYTES) as (proxy, upstream):
        upstream.otherwise = OK
        data = post(bomb(coding, 9 * MIB), CLIENT, f"Content-Encoding: {coding}")
        got = await asked_at_once(proxy.url, [data] * 200)
        while waited := got.pop(BUSY, 0):
            got += await asked_at_once(proxy.url, [data] * waited)
        assert got == {TOO_LARGE: 200}


@pytest.mark.parametrize("coding", CODINGS)
async def test_requests_that_are_allowed_to_grow(coding: str) -> None:
    """About 100 kB that decode to 30 MB: more than a hundred times."""
    text = b'{"model":"m","input":"%b"' % token_hex(100_000).encode()
    body = CODINGS[coding](text + b" " * 30_000_000 + b"}")
    async with uncollected(BUDGET_BYTES) as (proxy, upstream):
        upstream.otherwise = OK
        data = post(body, CLIENT, f"Content-Encoding: {coding}")
        got = await asked_at_once(proxy.url, [data] * 30)
        assert got.total() == 30
        assert got.keys() <= {TOO_LARGE, "injected=0", "injected=0, asked=unreadable"}


@pytest.mark.parametrize("form", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("coding", CODINGS)
async def test_responses_of_a_hostile_upstream(coding: str, form: str) -> None:
    """Each decodes to twice the default of `inspect_max_bytes`."""
    async with uncollected(BUDGET_BYTES) as (proxy, upstream):
        headers = f"Content-Type: {form}", f"Content-Encoding: {coding}"
        upstream.otherwise = whole(bomb(coding, 64 * MIB), *headers)
        data = post({"model": MODEL, "input": [ASK]}, CLIENT)
        assert (await asked_at_once(proxy.url, [data] * 40)).total() == 40
