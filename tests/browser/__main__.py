"""Pictures of the inspector for README and docs: `python -m tests.browser`."""

import asyncio
import base64
from pathlib import Path
from typing import Final, Literal

from playwright.async_api import Browser, Page, async_playwright

from tests.browser.scene import play
from tests.browser.stage import looking, stage
from tests.programs import CHROMIUM_FLAGS, find

HERE: Final = Path(__file__).parent
WIDTH: Final = 1240
NARROW: Final = 400
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")


async def _take() -> None:
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=find("chromium"), args=CHROMIUM_FLAGS
        )
        async with stage("two_reasoning", upstream_profile="openai") as on:
            in_flight = await play(on)
            for scheme in SCHEMES:
                await _pictures_of(browser, on.app.admin_url, scheme)
            in_flight.cancel()
        await browser.close()


async def _pictures_of(browser: Browser, url: str, scheme: Literal["light", "dark"]) -> None:
    async with looking(browser, url, width=WIDTH, height=820, color_scheme=scheme) as seen:
        page = seen.page
        await page.locator("#rows > li.open").wait_for()
        # The upstream that the strict API replaces.
        await page.locator("#facts b").first.evaluate("b => { b.textContent = 'api.openai.com' }")
        healed = page.locator("#rows > li", has_text="Healed").first
        await _take_picture(page, f"inspector-{scheme}", WIDTH, 820)
        if scheme == "light":
            await healed.locator(".when").click()
            await _take_picture(page, "inspector-details", WIDTH, 820)
            await page.locator("#close").click()
        await healed.locator(".chip").click()
        await page.locator("#turns > li").first.wait_for()
        top = await page.locator("#tools").evaluate("tools => tools.offsetTop - 12")
        height = await page.locator("main").evaluate("main => main.offsetTop + main.offsetHeight")
        await _take_picture(page, f"inspector-conversation-{scheme}", WIDTH, height - top + 14, top)
        if scheme == "dark":
            await page.locator("#leave").click()
            await page.set_viewport_size({"width": NARROW, "height": 1400})
            await _take_picture(page, "inspector-narrow", NARROW, 1400)


async def _take_picture(page: Page, name: str, width: int, height: int, top: int = 0) -> None:
    await page.wait_for_timeout(300)
    devtools = await page.context.new_cdp_session(page)
    # Sharp on any screen, at a fifth of the size of a PNG.
    clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 2}
    taken = await devtools.send(
        "Page.captureScreenshot",
        {"format": "webp", "quality": 45, "clip": clip, "captureBeyondViewport": True},
    )
    (HERE / f"{name}.webp").write_bytes(base64.b64decode(taken["data"]))


asyncio.run(_take())
