"""Conversations in the inspector: told apart in the rows, and each one shown as a timeline."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect
from reasoning_replay.core.dialects.captures import UNKNOWN_ORIGIN
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.usages import Usage
from reasoning_replay.core.history.plan import Outcome, PlanNote

from tests.browser.passing import LOST_CALL, record, rows
from tests.browser.stage import Agent, Seen, Stage, looking, stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

TURNS = "#turns > li"
# Of each strip: the items and marks as kind and place.
PLACES = """() => [...document.querySelectorAll("#turns .line")].map((line) => ({
  blocks: [...line.querySelectorAll(".b")].map((b) => [b.className.split(" ")[1], b.offsetLeft]),
}))"""


async def interleaved(on: Stage, *, turns: int = 3) -> tuple[Agent, Agent]:
    """Let two agents send their turns alternately."""
    agents = on.agent(key="sk-one"), on.agent(key="sk-two")
    for agent in agents:
        agent.history.append({"role": "user", "content": "Which of my trips will be rainy?"})
    for _ in range(turns):
        for agent in agents:
            assert await agent.step()
    return agents


async def places(page: Page) -> Any:
    """Return the blocks of the timeline."""
    return await page.evaluate(PLACES)


async def test_interleaved_conversations_are_told_apart(chromium: Browser) -> None:
    """Each row has the name of its conversation; a click on it shows only that one."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        await interleaved(on)
        await expect(rows(page)).to_have_count(6)
        names = await page.locator("#rows .chip").all_inner_texts()
        assert names == [names[0], names[1]] * 3
        assert names[0] != names[1]
        colours = await page.locator("#rows .chip").evaluate_all(
            "all => all.map((chip) => getComputedStyle(chip, '::before').backgroundColor)"
        )
        # A colour helps the eye; two ids of twenty may have the same one.
        assert colours == [colours[0], colours[1]] * 3
        await page.locator("#rows .chip").first.click()
        await expect(page.locator(TURNS)).to_have_count(3)
        await expect(page.locator("#rows")).to_be_hidden()
        await expect(page.locator("#talk-name")).to_have_text(names[0])
        await expect(page.locator("#talk-facts")).to_contain_text("3 requests · gpt-5.4")
        await page.go_back()
        await expect(rows(page)).to_have_count(6)
        assert seen.complaints == []


NONE = "\N{EN DASH}"


async def test_the_list_adds_up_each_conversation(cleared: tuple[Stage, Seen]) -> None:
    """A line opens its conversation, and Escape leaves that; models add up in the same way."""
    on, seen = cleared
    page = seen.page
    capture = ResponsesCapture(UNKNOWN_ORIGIN, 1000)
    capture.usage = Usage(input_tokens=600_000, cached_tokens=450_000, output_tokens=7)
    note, size = PlanNote(0, Outcome.INJECTED, 2, 9), "injected_bytes"
    for model, digit, notes in (
        ("a", "1", [note]),
        ("a", "2", [PlanNote(0, Outcome.MISSED, 3, 0)]),
        ("b", "1", [note]),
    ):
        ours = {"scope": b"s" * 16, "conversation": bytes.fromhex(digit * 32)}
        more = {size: 9 if notes == [note] else 0}
        record(on, [LOST_CALL], *notes, model=model, capture=capture, **ours, **more)
        await asyncio.sleep(0.002)  # sorted by the millisecond
    record(on, [LOST_CALL])  # of no conversation
    await expect(rows(page)).to_have_count(4)
    await page.get_by_role("button", name="Conversations").click()
    await expect(rows(page)).to_have_count(0)
    lines = page.locator("#talks tbody tr")
    await expect(lines).to_have_count(2)
    both = ["2", "4", "0", "1.2M", "75 %", "75 %", NONE, "14"]
    assert (await lines.nth(0).locator("td").all_inner_texts())[:-1] == both
    one = ["1", "0", "3", "600K", "75 %", NONE, "75 %", "7"]
    assert (await lines.nth(1).locator("td").all_inner_texts())[:-1] == one
    await page.get_by_role("button", name="Models").click()
    assert await lines.locator("th").all_inner_texts() == ["b", "a"]
    of_a = ["2", "2", "3", "1.2M", "75 %", "75 %", "75 %", "14"]
    assert (await lines.nth(1).locator("td").all_inner_texts())[:-1] == of_a
    await lines.nth(0).locator("td").first.click()
    await expect(rows(page)).to_have_count(1)
    await page.get_by_role("button", name="Conversations").click()
    await expect(lines).to_have_count(1)
    await page.get_by_role("button", name="Show all").click()
    await page.locator("#export").focus()
    await page.keyboard.press("Tab")
    await page.keyboard.press("ArrowDown")
    await expect(lines.nth(1).locator(".chip")).to_be_focused()
    await lines.nth(0).locator("td").first.click()
    await expect(page.locator(TURNS)).to_have_count(2)
    await expect(page.locator("#talk-facts")).to_contain_text("75 % of 1.2M input tokens cached")
    await page.keyboard.press("Escape")
    await expect(lines).to_have_count(2)
    await page.get_by_role("button", name="Conversations").click()
    await expect(rows(page)).to_have_count(4)


async def test_a_timeline_shows_how_the_history_grows(chromium: Browser) -> None:
    """An item has the same place in each turn."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        await interleaved(on)
        await page.locator("#rows .chip").first.click()
        await expect(page.locator(TURNS)).to_have_count(3)
        first, second, third = await places(page)
        assert [kind for kind, _ in third["blocks"]] == ["u", "plus", "c", "o", "c", "o"]
        assert third["blocks"][:4] == second["blocks"]
        assert second["blocks"][:1] == first["blocks"]
        await expect(page.locator(TURNS).last).to_contain_text("1 injected")


async def test_a_timeline_grows_while_it_is_shown(chromium: Browser) -> None:
    """A new turn is added, and the focus stays where it was."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        one, two = await interleaved(on, turns=2)
        await expect(rows(page)).to_have_count(4)
        await page.locator("#rows > li").last.locator(".chip").click()
        await expect(page.locator(TURNS)).to_have_count(2)
        await page.locator(f"{TURNS} .when").first.focus()
        await two.step()
        await one.step()
        await expect(page.locator(TURNS)).to_have_count(3)
        await expect(page.locator(f"{TURNS} .when").first).to_be_focused()
        await page.keyboard.press("ArrowDown")
        await expect(page.locator(f"{TURNS} .when").nth(1)).to_be_focused()


async def test_a_long_timeline_leaves_out_the_same_items(cleared: tuple[Stage, Seen]) -> None:
    """Items that no turn shows are one gap, and the page does not scroll sideways."""
    on, seen = cleared
    page = seen.page
    ours: dict[str, Any] = {"scope": b"s" * 16, "conversation": b"c" * 16}
    note = PlanNote(120, Outcome.INJECTED, 1, 9, "rs_1")
    for turn in range(3):
        record(on, [LOST_CALL] * (300 + 2 * turn), note, model="m", **ours)
        await asyncio.sleep(0.002)  # turns are sorted by the millisecond
    await expect(rows(page)).to_have_count(3)
    await page.locator("#rows .chip").first.click()
    await expect(page.locator(TURNS)).to_have_count(3)
    for turn in await places(page):
        # Three gaps or, in later turns, items of which another turn shows more.
        assert [kind for kind, _ in turn["blocks"][:20]] == ["c"] * 20
        assert turn["blocks"][20][0] == "plus"
    marks = [turn["blocks"][20][1] for turn in await places(page)]
    assert len(set(marks)) == 1
    assert await page.locator(f"{TURNS} .fold").first.inner_text() == "⋯100"
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await page.locator("#turns-box").evaluate("box => box.scrollLeft > 0")
    await page.locator("#leave").click()
