"""One browser for all tests: to start one takes longer than any of them."""

import os
from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.programs import CHROMIUM_FLAGS, require


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """Return a browser without windows; whoever looks opens one of their own."""
    path = require("chromium")
    quiet = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=path, args=CHROMIUM_FLAGS, env={k: str(v) for k, v in quiet.items()}
        )
        yield browser
        await browser.close()
