"""Details of an exchange in the inspector: opened by click or key, complete, copied, deleted."""

import json
import re
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page, expect
from reasoning_replay.core.dialects.captures import ErrorNames
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.item_changes import ItemChange
from reasoning_replay.core.history.plan import Outcome, PlanNote
from reasoning_replay.web.exchange import Exchange, Times

from tests.browser.passing import LOST_CALL, record, rows
from tests.browser.stage import ASK, Seen, Stage, looking, stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

CLIPBOARD = ["clipboard-read", "clipboard-write"]


def value(page: Page, label: str) -> Locator:
    """Return the value next to a label of the pane."""
    term = page.locator("dt", has_text=re.compile(f"^{label}$"))
    return page.locator("#details dl > div", has=term).locator("dd")


async def kept(on: Stage) -> int:
    """Return the number of stored conversations."""
    page = await on.app.store.survey(None, "", 100)
    return len(page.conversations)


async def test_a_click_shows_everything_but_content(chromium: Browser) -> None:
    """The pane has the ids of the log, tokens, times, and each item with its full id."""
    async with (
        stage() as on,
        looking(chromium, on.app.admin_url, permissions=CLIPBOARD) as seen,
    ):
        page = seen.page
        agent = await on.agent().ask()
        await expect(rows(page)).to_have_count(4)
        told = json.loads(on.app.recorder.recent()[-1])["exchange"]
        await rows(page).first.locator(".words").click()
        await expect(page.locator("#details")).to_be_visible()
        await expect(value(page, "Request id")).to_contain_text(told["request_id"])
        upstream = told["upstream_request_id"]
        await expect(value(page, "Upstream's request id")).to_contain_text(upstream)
        await expect(value(page, "Method and route")).to_have_text("POST responses")
        await expect(value(page, "Status")).to_have_text("200")
        await expect(value(page, "Input")).to_have_text(f"{told['tokens']['input_tokens']:,}")
        await expect(value(page, "Injected")).to_contain_text("2, ")
        await expect(value(page, "Proxy, before")).to_contain_text("ms")
        await expect(value(page, "Upstream, first byte")).to_contain_text("ms")
        both = f"{told['scope']}:{told['conversation']}"
        await expect(value(page, "Id")).to_contain_text(both)
        items = page.locator("#details .items > li")
        await expect(items).to_have_count(len(agent.history) - 1 + 2)  # sent, and injected
        texts = " ".join(await items.all_inner_texts())
        for item in agent.history[:-1]:
            if item.get("type") == "function_call":
                assert item["id"] in texts
        await items.nth(1).get_by_role("button").click()
        await expect(items.nth(1)).to_contain_text("Copied")
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert re.fullmatch(r"rs_\w{48,}", copied)
        assert ASK not in await page.content()
        assert seen.complaints == []


async def test_keys_open_and_close_the_details(cleared: tuple[Stage, Seen]) -> None:
    """Enter on a row opens them, Escape closes them, and the focus returns to the row."""
    on, seen = cleared
    page = seen.page
    record(on, [LOST_CALL])
    record(on, [LOST_CALL] * 2)
    await expect(rows(page)).to_have_count(2)
    await page.locator("#export").focus()
    await page.keyboard.press("Tab")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page.locator("#details")).to_be_visible()
    await expect(page.get_by_role("button", name="Close the details")).to_be_focused()
    await expect(rows(page).nth(1)).to_have_attribute("aria-current", "true")
    await page.keyboard.press("Escape")
    await expect(page.locator("#details")).to_be_hidden()
    await expect(rows(page).nth(1).locator(".when")).to_be_focused()
    await rows(page).first.click()
    await page.locator("#clear").click()
    await expect(page.locator("#details")).to_be_hidden()


async def test_refusals_repairs_and_healing_are_named(cleared: tuple[Stage, Seen]) -> None:
    """The pane names the upstream's error, each repair, and each change of a cure."""
    on, seen = cleared
    page = seen.page
    changes = (
        ItemChange("removed", "reasoning", "rs_1", 1234),
        ItemChange("reordered"),
        ItemChange("more", number=7),
    )
    record(
        on,
        [LOST_CALL],
        PlanNote(0, Outcome.INJECTED, 1, 99, "rs_2"),
        healed="lacks_follower",
        changes=changes,
        repairs={"duplicates": 2},
        refusal=ErrorNames("", "invalid_request_error"),
    )
    await rows(page).first.click()
    await expect(value(page, "Error type")).to_contain_text("invalid_request_error")
    await expect(value(page, "duplicates")).to_have_text(
        "2: the same reasoning twice in a row is sent once"
    )
    await expect(value(page, "Refusal")).to_have_text("lacks follower")
    lines = value(page, "Changed").locator("li")
    await expect(lines).to_have_text(
        ["removed reasoning rs_1 1.2 KB", "reordered", "7 more changes"]
    )
    record(
        on,
        [],
        status=502,
        outcome="upstream_unreachable",
        error="refused",
        error_detail="api.example:443: the connection was refused",
    )
    await expect(rows(page)).to_have_count(2)
    failed = rows(page).filter(has_text="502 upstream_unreachable")
    await failed.click()
    await expect(value(page, "Cause")).to_have_text(
        "refused: api.example:443: the connection was refused"
    )
    await page.locator("#close").click()


async def test_the_details_follow_an_exchange_to_its_end(cleared: tuple[Stage, Seen]) -> None:
    """An exchange in flight can be opened, and its end appears in the pane."""
    on, seen = cleared
    page, recorder = seen.page, on.app.recorder
    exchange = Exchange(Route.RESPONSES, Times(recorder._clock()), method="POST")
    exchange.request.state = "planned"
    recorder.begin(exchange)
    await rows(page).first.click()
    await expect(value(page, "Status")).to_have_text("in flight")
    exchange.status, exchange.outcome = 200, "ok"
    exchange.times.total_ms = 1500.0
    recorder.end(exchange)
    await expect(value(page, "Status")).to_have_text("200")
    await expect(value(page, "In all")).to_have_text("1.50 s")
    await expect(page.locator("#close")).to_be_focused()
    await page.locator("#close").click()


async def test_a_conversation_is_deleted_after_a_confirmation(chromium: Browser) -> None:
    """Cancelling deletes nothing; a confirmed deletion needs the same token as the page."""
    settings: dict[str, Any] = {"admin_token": "sesame"}
    async with stage(**settings) as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        await page.get_by_label("Admin token").fill("sesame")
        await page.keyboard.press("Enter")
        await on.agent().ask()
        await expect(rows(page)).to_have_count(4)
        await rows(page).first.click()
        ask = page.get_by_role("button", name="Delete this conversation")
        name = await value(page, "Name").inner_text()
        await ask.click()
        await expect(page.locator(".deletion")).to_contain_text("cannot be undone")
        await page.get_by_role("button", name="Cancel").click()
        await expect(ask).to_be_focused()
        assert await kept(on) == 1
        await ask.click()
        await page.get_by_role("button", name=f"Delete {name}").click()
        await expect(page.locator(".deletion")).to_have_text("Deleted.")
        assert await kept(on) == 0
        await page.locator("#close").click()
        await rows(page).first.click()
        await ask.click()
        await page.get_by_role("button", name=f"Delete {name}").click()
        await expect(page.locator(".deletion")).to_have_text("This conversation is not stored.")
