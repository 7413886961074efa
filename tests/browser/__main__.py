"""Screenshots of the inspector for the README: `python -m tests.browser`."""

import asyncio
import base64
from pathlib import Path
from typing import Final, Literal

from playwright.async_api import async_playwright

from tests.browser.scene import play
from tests.browser.stage import looking, stage
from tests.programs import CHROMIUM_FLAGS, find

HERE: Final = Path(__file__).parent
WIDTH: Final = 1240
HEIGHT: Final = 776
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")


async def _take() -> None:
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=find("chromium"), args=CHROMIUM_FLAGS
        )
        async with stage("two_reasoning", upstream_profile="openai") as on:
            under_way = await play(on)
            for scheme in SCHEMES:
                async with looking(
                    browser, on.app.admin_url, width=WIDTH, height=HEIGHT, color_scheme=scheme
                ) as seen:
                    await seen.page.locator("#rows > li.open").wait_for()
                    # The upstream that the stand-in replaces.
                    await seen.page.locator("#facts b").first.evaluate(
                        "b => { b.textContent = 'api.openai.com/v1' }"
                    )
                    await seen.page.locator("#rows > li:first-child .plus").last.hover()
                    await seen.page.wait_for_timeout(300)
                    devtools = await seen.page.context.new_cdp_session(seen.page)
                    # Sharp on any screen, at a fifth of the size of a PNG.
                    clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 2}
                    taken = await devtools.send(
                        "Page.captureScreenshot", {"format": "webp", "quality": 80, "clip": clip}
                    )
                    picture = HERE / f"inspector-{scheme}.webp"
                    picture.write_bytes(base64.b64decode(taken["data"]))
            under_way.cancel()
        await browser.close()


asyncio.run(_take())
