"""The inspector is easy to use: by keyboard, in dark mode, on a small screen, in a burst."""

import asyncio
import re
from typing import Any, Literal

import pytest
from playwright.async_api import expect
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.plan import Outcome, PlanNote
from reasoning_replay.web.exchange import Exchange, Times

from tests.browser.passing import LOST_CALL, record, rows, strip
from tests.browser.stage import Seen, Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

OF_EACH_KIND: list[dict[str, Any]] = [
    {"role": "developer", "content": "x"},
    {"role": "user", "content": "x"},
    {"role": "assistant", "content": "x"},
    LOST_CALL,
    {"type": "function_call_output", "call_id": LOST_CALL["call_id"], "output": "x"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "item_reference", "id": "rs_2"},
]
# Returns the texts, or the shapes that a selector names, with too little contrast to their
# background. A shape without a filled background shows its border.
CONTRAST = """([wanted, shapes]) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255, v <= .04045 ? v / 12.92 :
    ((v + .055) / 1.055) ** 2.4)); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = (node) => { for (; node; node = node.parentElement) {
    const c = rgba(getComputedStyle(node).backgroundColor); if (c[3] > 250) return c; } };
  const poor = [];
  const note = (node, shown, under) => {
    const [a, b] = [light(rgba(shown).slice(0, 3)), light(behind(under).slice(0, 3))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < wanted) poor.push(`${node.className || node.tagName} ${ratio.toFixed(2)}`);
  };
  if (shapes) {
    for (const node of document.querySelectorAll(shapes)) {
      if (!node.checkVisibility()) continue;
      const style = getComputedStyle(node);
      const isFilled = rgba(style.backgroundColor)[3] > 250 && !node.matches(".hole");
      note(node, isFilled ? style.backgroundColor : style.borderTopColor, node.parentElement);
    }
    for (const chip of document.querySelectorAll(".chip, #talk-name")) {
      const dot = getComputedStyle(chip, "::before").backgroundColor;
      if (chip.checkVisibility()) note(chip, dot, chip);
    }
    return poor;
  }
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest("script, style, .sr")) continue;
    note(node, getComputedStyle(node).color, node);
  }
  return poor;
}"""


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
    record(on, [LOST_CALL] * 2, asked="planned")
    await expect(rows(page)).to_have_count(2)
    await page.keyboard.press("ArrowUp")
    await expect(rows(page).first.locator(".strip button").first).to_be_focused()
    await page.keyboard.press("Tab")  # one row at a time is in the tab order
    assert await page.locator("#rows :focus").count() == 0


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
    exchange.times.total_ms = 1000.0
    recorder.end(exchange)
    await expect(rows(page)).not_to_have_class(re.compile("open"))
    await expect(page.locator("button.plus")).to_be_focused()
    words = await page.locator(".words").bounding_box()
    await page.locator("button.plus").hover()
    told = await page.locator("#tip").bounding_box()
    assert words is not None
    assert told is not None
    assert told["x"] > words["x"] + words["width"]


SHAPES = ".b:not(.fold), .bar, .minute:not([aria-pressed=true]) i, .times i, .swatch"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_everything_can_be_read(
    cleared: tuple[Stage, Seen], scheme: Literal["light", "dark"]
) -> None:
    """In light and in dark mode, text has a contrast of at least 4.5 to 1, and shapes of 3 to 1."""
    on, seen = cleared
    page = seen.page

    async def assert_readable() -> None:
        assert await page.evaluate(CONTRAST, [4.5, ""]) == []
        assert await page.evaluate(CONTRAST, [3, SHAPES]) == []

    await page.emulate_media(color_scheme=scheme)
    await assert_readable()
    missed, injected = PlanNote(30, Outcome.MISSED, 1, 0, ""), PlanNote(20, Outcome.INJECTED, 2, 9)
    record(on, OF_EACH_KIND * 10, injected, missed)
    for hue in range(20):
        ours = {"scope": b"s" * 16, "conversation": bytes.fromhex(f"000000{hue:04x}" + "0" * 22)}
        record(on, OF_EACH_KIND, status=503, outcome="upstream_error", model="m", **ours)
    await expect(rows(page)).to_have_count(21)
    shown = rows(page).last
    await shown.scroll_into_view_if_needed()
    await shown.locator(".strip .plus").hover()
    letters = set(await shown.locator(".strip > .b:not(.fold)").all_inner_texts())
    assert letters == {"S", "U", "M", "C", "O", "R", "@", "+2", "?"}
    await page.locator("#pause").click()
    await assert_readable()
    await page.locator("#pause").click()
    await shown.locator(".when").click()
    await assert_readable()
    await page.locator("#close").click()
    await rows(page).first.locator(".chip").click()
    await expect(page.locator("#talk")).to_be_visible()
    await assert_readable()
    await page.locator("#leave").click()
    paper = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (min(map(int, re.findall(r"\d+", paper))) > 200) == (scheme == "light")


async def test_a_narrow_window_shows_all_of_it(cleared: tuple[Stage, Seen]) -> None:
    """Everything fits in a width of 400 pixels: rows, details, and a conversation."""
    on, seen = cleared
    page = seen.page
    await page.set_viewport_size({"width": 400, "height": 700})
    await assert_fits(seen)
    call = {**LOST_CALL, "id": "fc_" + "x" * 60}
    ours = {"scope": b"s" * 16, "conversation": b"c" * 16, "model": "m" * 64}
    record(on, [call] * 90, PlanNote(5, Outcome.INJECTED, 1, 9, "rs_" + "x" * 60), **ours)
    record(on, [LOST_CALL], asked="store_failed", outcome="upstream_unreachable", status=502)
    await expect(rows(page)).to_have_count(2)
    first = await rows(page).first.bounding_box()
    assert first is not None
    assert first["y"] + first["height"] < 700  # above the fold
    await page.get_by_role("button", name="Conversations").click()
    await expect(page.locator("#talks")).to_be_visible()
    await assert_fits(seen)
    await page.get_by_role("button", name="Conversations").click()
    await page.locator(".strip .plus").hover()
    await assert_fits(seen)
    await rows(page).filter(has_text="1 reasoning item").locator(".when").click()
    await assert_fits(seen)
    assert await page.locator("#details").evaluate("pane => pane.scrollWidth <= pane.clientWidth")
    await page.locator("#close").click()
    await page.locator("#rows .chip").click()
    await expect(page.locator("#turns > li")).to_have_count(1)
    await assert_fits(seen)
    await page.locator("#leave").click()


async def assert_fits(seen: Seen) -> None:
    """Assert that the page does not scroll sideways."""
    await expect(seen.page.locator("#link")).to_have_text("live")
    assert await seen.page.evaluate("document.documentElement.scrollWidth") <= 400


async def test_only_runs_of_four_items_fold(cleared: tuple[Stage, Seen]) -> None:
    """A fold is never wider than the items that it hides."""
    on, seen = cleared
    page = seen.page
    notes = [PlanNote(n, Outcome.MISSED, 1, 0, "") for n in range(6, 60, 4)]
    record(on, [LOST_CALL] * 80, *notes)
    await expect(rows(page).locator(".strip > *")).to_have_count(80 + len(notes))
    await page.locator("#clear").click()
    notes = [PlanNote(n, Outcome.MISSED, 1, 0, "") for n in range(6, 60, 5)]
    record(on, [LOST_CALL] * 80, *notes)
    await expect(rows(page).locator("button.fold").first).to_have_text("⋯ 4")
    assert set(await rows(page).locator("button.fold").all_inner_texts()) == {"⋯ 4", "⋯ 5"}


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
