"""Totals and charts in the inspector: numbers that add up, and the last hour by minute."""

import re

import pytest
from playwright.async_api import Browser, Page, expect
from reasoning_replay.core.dialects.captures import UNKNOWN_ORIGIN
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.usages import Usage
from reasoning_replay.core.history.plan import Outcome, PlanNote
from reasoning_replay.web.admin.inspector import events

from tests.browser.passing import LOST_CALL, record
from tests.browser.stage import Stage, looking, stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

NOW_MS = 1_773_325_811_000


def set_clock(on: Stage, now_ms: int) -> None:
    """Set the time of day of the recorder."""
    on.app.recorder._epoch_ms = lambda: now_ms


async def bars(page: Page, chart: str) -> list[float]:
    """Return the heights of the visible bars of a chart, in percent."""
    heights: list[float] = await page.locator(f"#chart-{chart} .minute:visible i").evaluate_all(
        "all => all.map((bar) => parseFloat(bar.style.height.replace('max(2px, ', '')))"
    )
    return heights


async def test_numbers_that_are_shown_together_add_up(
    chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item that is injected in several turns counts in each."""
    monkeypatch.setattr(events, "STATE_S", 0.05)
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        await on.agent().ask()
        await on.agent(key="").post({"input": "hello"})
        await expect(page.locator("#requests")).to_have_text("54 read, 1 not read")
        await expect(page.locator("#injected")).to_have_text("4reasoning items")
        await expect(page.locator("#captured")).to_contain_text(re.compile(r"^3items, "))
        back = page.locator("#chart-back")
        await expect(back).to_contain_text("Injected share100 %")
        await expect(back).to_contain_text("4 of 4 items that clients left out")


async def test_charts_show_the_last_hour_by_minute(
    chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each bar is a minute; an hour later it is gone, also without another request."""
    monkeypatch.setattr(events, "STATE_S", 0.05)
    async with stage() as on:
        for age, n in ((59, 1), (1, 2)):
            set_clock(on, NOW_MS - 60_000 * age)
            for _ in range(n):
                capture = ResponsesCapture(UNKNOWN_ORIGIN, 1000)
                capture.usage = Usage(input_tokens=1000, cached_tokens=600 if n == 2 else 0)
                note = PlanNote(0, Outcome.INJECTED if n == 2 else Outcome.MISSED, 1, 9, "")
                more = {"injected_bytes": 9 if n == 2 else 0}
                record(on, [LOST_CALL], note, capture=capture, before_ms=2.0 * n, **more)
        set_clock(on, NOW_MS)
        async with looking(chromium, on.app.admin_url) as seen:
            page = seen.page
            rate = page.locator("#chart-rate")
            await expect(rate).to_contain_text("3 in the last hour, at most 2")
            heights = await bars(page, "rate")
            assert [i for i, height in enumerate(heights) if height] == [0, 58]
            assert (len(heights), heights[58], heights[0]) == (60, 100, 50)
            await expect(page.locator("#chart-back")).to_contain_text("2 of 3 items")
            assert (await bars(page, "back"))[58] == 100
            await expect(page.locator("#chart-cache")).to_contain_text("Cache hits40 %")
            await expect(page.locator("#chart-cache")).to_contain_text(
                "60 % if injected, 0 % if lacking, 1,200 of 3,000 input"
            )
            assert (await bars(page, "cache"))[58] == 60
            await expect(page.locator("#chart-latency")).to_contain_text("3.3 ms")
            await expect(page.locator("#chart-latency")).to_contain_text("4.0 ms in the slowest")
            await page.locator("#chart-rate .minute").nth(58).hover()
            await expect(page.locator("#tip")).to_contain_text("Requests a minute: 2")
            chart = page.get_by_role("figure", name=re.compile("Added latency: 3.3 ms; mean"))
            await expect(chart).to_be_visible()
            set_clock(on, NOW_MS + 60_000)
            await expect(rate).to_contain_text("2 in the last 10 minutes")
            set_clock(on, NOW_MS + 3_600_000)
            await expect(rate).to_contain_text("no requests in the last hour")
            assert max(await bars(page, "rate")) == 0
            assert seen.complaints == []


async def test_charts_show_as_much_as_there_is(
    chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten minutes at least; a bar is read by keys and filters the rows by its minute."""
    monkeypatch.setattr(events, "STATE_S", 0.05)
    async with stage() as on:
        for age in (11, 4, 4):
            set_clock(on, NOW_MS - 60_000 * age)
            record(on, [LOST_CALL])
            on.app.recorder._over[-1].exchange.times.started_s -= 60 * age
        set_clock(on, NOW_MS)
        async with looking(chromium, on.app.admin_url) as seen:
            page, rate = seen.page, seen.page.locator("#chart-rate")
            await expect(rate).to_contain_text("3 in the last 20 minutes, at most 2")
            assert [i for i, height in enumerate(await bars(page, "rate")) if height] == [8, 15]
            last = rate.locator(".minute").last
            await last.focus()
            for _ in range(4):
                await page.keyboard.press("ArrowLeft")
            await expect(page.locator("#tip")).to_contain_text("Requests a minute: 2")
            bar = page.get_by_role("button", name=re.compile("Requests a minute: 2"))
            await expect(bar).to_be_focused()
            await page.keyboard.press("Enter")
            await expect(page.locator("#shown")).to_have_text(
                re.compile(r"2 of 3 exchanges, ended at \d\d:\d\d")
            )
            await expect(bar).to_have_attribute("aria-pressed", "true")
            await page.keyboard.press("ArrowDown")
            await expect(page.locator("#chart-back .minute:focus")).to_have_count(1)
            assert await page.locator("#charts [tabindex='0']").count() == 1
            await page.keyboard.press("ArrowUp")
            await page.keyboard.press("Enter")
            await expect(page.locator("#shown")).to_have_text("3 exchanges")
            assert seen.complaints == []
