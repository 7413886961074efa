"""The two ways to a judging upstream: straight, or through a proxy in front of it."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Literal

from tests.e2e.proxies import proxied
from tests.standin.judging import JudgingServer

__all__ = ["Reach", "reached"]

Reach = Literal["straight", "proxied"]


@contextlib.asynccontextmanager
async def reached(standin: JudgingServer, reach: Reach, **more: Any) -> AsyncIterator[str]:
    """
    Serve a stand-in; yield its base URL, or that of a proxy in front of it.

    Args:
        standin: The upstream.
        reach: The way to it.
        more: Settings of the proxy.
    """
    async with standin:
        if reach == "straight":
            yield standin.base_url
            return
        profile = {"upstream_profile": standin.profile}
        async with proxied(standin, **(profile | more)) as base_url:
            yield base_url
