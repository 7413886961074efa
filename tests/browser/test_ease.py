"""The inspector is easy to use: by keyboard, in dark mode, on a small screen, in a burst."""

import asyncio
import re
from typing import Literal

import pytest
from playwright.async_api import expect
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.plan import Outcome, PlanNote
from reasoning_replay.web.exchange import Exchange, Times

from tests.browser.passing import LOST_CALL, record, rows, strip
from tests.browser.stage import Seen, Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONTRAST = """(wanted) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255, v <= .04045 ? v / 12.92 :
    ((v + .055) / 1.055) ** 2.4)); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = (node) => { for (; node; node = node.parentElement) {
    const c = rgba(getComputedStyle(node).backgroundColor); if (c[3] > 250) return c; } };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest("script, style, .sr")) continue;
    const [a, b] = [light(rgba(getComputedStyle(node).color).slice(0, 3)),
      light(behind(node).slice(0, 3))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < wanted) poor.push(`${node.className || node.tagName} ${ratio.toFixed(2)}`);
  }
  return poor;
}"""


async def test_filters_pause_and_clear(cleared: tuple[Stage, Seen]) -> None:
    """Each filter shows its exchanges; a pause hides new ones and loses none."""
    on, seen = cleared
    page = seen.page
    call = [LOST_CALL]
    record(on, call, PlanNote(0, Outcome.INJECTED, 1, 99, ""))
    record(on, call, PlanNote(0, Outcome.MISSED, 1, 0, ""))
    record(on, call, status=503, outcome="upstream_error")
    await expect(rows(page)).to_have_count(3)
    for word, text in (("Injected", "injected"), ("Missed", "missed"), ("Errors", "503")):
        await page.get_by_role("radio", name=word).check()
        await expect(rows(page)).to_have_count(1)
        await expect(rows(page)).to_contain_text(text)
    await page.get_by_role("radio", name="All").check()
    await page.get_by_role("button", name="Pause").click()
    record(on, call)
    await expect(page.locator("#pause")).to_have_text("Resume, 1 new")
    await expect(page.locator("#link")).to_have_text("paused")
    await expect(rows(page)).to_have_count(3)
    await page.locator("#pause").click()
    await expect(rows(page)).to_have_count(4)
    await page.get_by_role("button", name="Clear").click()
    await expect(rows(page)).to_have_count(0)
    await expect(page.locator("#empty")).to_be_visible()


async def test_the_keyboard_reaches_everything(cleared: tuple[Stage, Seen]) -> None:
    """Each row of items is one tab stop; arrow keys move in it and show the tooltip."""
    on, seen = cleared
    page = seen.page
    record(on, [LOST_CALL] * 3, PlanNote(1, Outcome.INJECTED, 2, 1234, ""))
    await expect(rows(page)).to_have_count(1)
    await page.locator("#export").focus()
    for _ in range(2):  # the row, then its items
        await page.keyboard.press("Tab")
    await page.keyboard.press("ArrowRight")
    told = "2 reasoning items injected"
    await expect(page.locator("#tip")).to_contain_text(told)
    focused = page.locator(":focus")
    await expect(focused).to_have_attribute("aria-label", re.compile(told))
    await page.keyboard.press("End")
    await expect(page.locator("#tip")).to_contain_text("item 3")
    await page.keyboard.press("Escape")
    await expect(page.locator("#tip")).to_be_hidden()


async def test_what_is_looked_at_stays_so(cleared: tuple[Stage, Seen]) -> None:
    """An item keeps the focus when its exchange ends, and its tooltip does not cover the text."""
    on, seen = cleared
    page, recorder = seen.page, on.app.recorder
    exchange = Exchange(Route.RESPONSES, Times(recorder._clock()))
    exchange.request.summary = strip([LOST_CALL] * 3, PlanNote(1, Outcome.INJECTED, 1, 99, "rs_1"))
    exchange.request.outcomes = {Outcome.INJECTED: 1}
    recorder.begin(exchange)
    await page.locator(".open .plus").focus()
    exchange.status, exchange.outcome = 200, "ok"
    recorder.end(exchange, 1.0)
    await expect(rows(page)).not_to_have_class(re.compile("open"))
    await expect(page.locator("button.plus")).to_be_focused()
    words = await page.locator(".words").bounding_box()
    await page.locator("button.plus").hover()
    told = await page.locator("#tip").bounding_box()
    assert words is not None
    assert told is not None
    assert told["x"] > words["x"] + words["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_can_be_read(
    cleared: tuple[Stage, Seen], scheme: Literal["light", "dark"]
) -> None:
    """In light and in dark mode, all text has a contrast of at least 4.5 to 1."""
    on, seen = cleared
    page = seen.page
    await page.emulate_media(color_scheme=scheme)
    assert await page.evaluate(CONTRAST, 4.5) == []
    items = [LOST_CALL] * 60
    record(
        on, items, PlanNote(20, Outcome.INJECTED, 2, 99, ""), PlanNote(30, Outcome.MISSED, 1, 0, "")
    )
    record(on, items, status=503, outcome="upstream_error")
    await expect(rows(page)).to_have_count(2)
    await page.locator(".strip .plus").hover()
    await page.locator("#pause").click()
    assert await page.evaluate(CONTRAST, 4.5) == []
    await page.locator("#pause").click()
    paper = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (min(map(int, re.findall(r"\d+", paper))) > 200) == (scheme == "light")


async def test_a_narrow_window_shows_all_of_it(cleared: tuple[Stage, Seen]) -> None:
    """Everything fits in a width of 400 pixels."""
    on, seen = cleared
    await seen.page.set_viewport_size({"width": 400, "height": 800})
    await assert_fits(seen)
    record(
        on, [{**LOST_CALL, "id": "fc_" + "x" * 60}] * 90, PlanNote(5, Outcome.INJECTED, 1, 9, "")
    )
    record(on, [LOST_CALL], asked="store_failed", outcome="upstream_unreachable", status=502)
    await expect(rows(seen.page)).to_have_count(2)
    await seen.page.locator(".strip .plus").hover()
    await assert_fits(seen)


async def assert_fits(seen: Seen) -> None:
    """Assert that the page does not scroll sideways."""
    await expect(seen.page.locator("#link")).to_have_text("live")
    assert await seen.page.evaluate("document.documentElement.scrollWidth") <= 400


async def test_a_history_of_thousands_folds(cleared: tuple[Stage, Seen]) -> None:
    """Long histories are folded, except injected and missed items; the rest opens on demand."""
    notes = [PlanNote(n, Outcome.INJECTED, 1, 9, "") for n in range(1000, 3000, 40)]
    long = strip([LOST_CALL] * 4000, *notes, PlanNote(3500, Outcome.MISSED, 1, 0, ""))
    on, seen = cleared
    page = seen.page
    for _ in range(49):
        record(on, [], summary=long, outcomes={Outcome.INJECTED: 50, Outcome.MISSED: 1})
    await asyncio.sleep(0.002)  # rows are sorted by the millisecond
    record(on, [{"role": "user", "content": "x"}] * 200)
    await expect(rows(page)).to_have_count(50)
    large = rows(page).nth(1)
    await expect(large.locator(".plus")).to_have_count(len(notes))  # a row is filled when in sight
    await expect(large.locator(".hole")).to_have_count(1)
    await expect(large).to_contain_text("items 4,000")
    folded = rows(page).first
    await expect(folded.locator("button.fold")).to_be_visible()
    assert await folded.locator(".strip > *").count() < 40
    await folded.locator("button.fold").click()
    await expect(folded.locator(".strip > *")).to_have_count(200)
    assert seen.complaints == []


async def test_of_a_burst_only_what_is_in_sight_is_filled(cleared: tuple[Stage, Seen]) -> None:
    """Only visible rows are rendered; others are when they are scrolled to."""
    on, seen = cleared
    for _ in range(150):
        record(on, [LOST_CALL] * 20)
    page = seen.page
    await expect(rows(page)).to_have_count(150)
    await expect(rows(page).first.locator(".strip > *")).to_have_count(20)
    assert await page.locator(".strip:empty").count() > 100
    await rows(page).last.scroll_into_view_if_needed()
    await expect(rows(page).last.locator(".strip > *")).to_have_count(20)
