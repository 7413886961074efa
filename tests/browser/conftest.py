"""Fixtures: one browser for all tests and one page for most, since they start slowly."""

import os
from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.browser.stage import Seen, Stage, looking, stage
from tests.programs import CHROMIUM_FLAGS, require


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """Return a browser without windows; each test opens its own."""
    path = require("chromium")
    quiet = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=path, args=CHROMIUM_FLAGS, env={k: str(v) for k, v in quiet.items()}
        )
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shown(chromium: Browser) -> AsyncIterator[tuple[Stage, Seen]]:
    """Return a proxy and a page that shows it."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        yield on, seen


@pytest_asyncio.fixture(loop_scope="session")
async def cleared(shown: tuple[Stage, Seen]) -> tuple[Stage, Seen]:
    """Return the proxy and an empty page, without filters, pointer position and focus."""
    on, seen = shown
    await seen.page.set_viewport_size({"width": 1280, "height": 800})
    await seen.page.evaluate("scrollTo(0, 0)")
    await seen.page.evaluate("choose({ ...DEFAULTS }); readAddress()")
    await expect(seen.page.locator("#link")).to_have_text("live")
    await seen.page.locator("#clear").click()
    await expect(seen.page.locator("#rows > li")).to_have_count(0)
    await seen.page.mouse.move(1, 1)
    seen.complaints.clear()
    return on, seen
