"""Take the pictures of the inspector that the README shows."""

import asyncio
import base64
from pathlib import Path
from typing import Final, Literal

from playwright.async_api import async_playwright

from tests.browser.scene import play
from tests.browser.stage import looking, stage
from tests.programs import CHROMIUM_FLAGS, find

HERE: Final = Path(__file__).parent
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
                    browser, on.app.admin_url, color_scheme=scheme, device_scale_factor=2
                ) as seen:
                    await seen.page.locator("#rows > li.open").wait_for()
                    await seen.page.locator("#rows > li:first-child .plus").last.hover()
                    await seen.page.wait_for_timeout(300)
                    devtools = await seen.page.context.new_cdp_session(seen.page)
                    # Without loss, and a third of what a PNG would be.
                    taken = await devtools.send(
                        "Page.captureScreenshot", {"format": "webp", "quality": 100}
                    )
                    picture = HERE / f"inspector-{scheme}.webp"
                    picture.write_bytes(base64.b64decode(taken["data"]))
            under_way.cancel()
        await browser.close()


asyncio.run(_take())
