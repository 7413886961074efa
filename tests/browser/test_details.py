"""Details of an exchange in the inspector: opened by click or key, complete, copied, deleted."""

import json
import re
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page, expect
from reasoning_replay.core.dialects.error_texts import ErrorNames
from reasoning_replay.core.dialects.states import Route
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
        sizes = [await value(page, size).inner_text() for size in ("Request", "Sent upstream")]
        assert sizes == [
            f"{told[size] / 1000:.1f} KB" for size in ("received_bytes", "upstream_bytes")
        ]
        await expect(value(page, "Response")).to_have_text(re.compile(r"B$"))
        await expect(page.locator("#details")).to_contain_text("Content is never shown: ")
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
    """Enter on a row opens them, arrows show those of the next, Escape leads back to the row."""
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
    await page.keyboard.press("Enter")
    await rows(page).nth(1).locator(".when").focus()
    await page.keyboard.press("ArrowUp")
    await expect(rows(page).nth(0)).to_have_attribute("aria-current", "true")
    await expect(rows(page).nth(0).locator(".when")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.locator("#details")).to_be_hidden()
    await rows(page).first.click()
    await page.get_by_role("radio", name="All").focus()
    await page.keyboard.press("Escape")
    await expect(page.locator("#details")).to_be_hidden()
    await page.keyboard.press("/")
    await expect(page.locator("#q")).to_be_focused()
    await page.keyboard.press("/")
    await expect(page.locator("#q")).to_have_value("/")
    await page.get_by_role("button", name="Show all").click()
    await rows(page).first.click()
    await page.locator("#clear").click()
    await expect(page.locator("#details")).to_be_hidden()


async def test_escape_closes_the_details_over_a_tooltip(cleared: tuple[Stage, Seen]) -> None:
    """It hides the tooltip as well, which stays away until the pointer moves."""
    on, seen = cleared
    page, tip = seen.page, seen.page.locator("#tip")
    record(on, [LOST_CALL] * 3)
    await rows(page).first.locator(".when").click()
    await rows(page).locator(".c").first.hover()
    await expect(tip).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("#details")).to_be_hidden()
    for count in (2, 3):  # the page changes under the pointer
        record(on, [LOST_CALL] * 3)
        await expect(rows(page)).to_have_count(count)
        await expect(tip).to_be_hidden()
    await rows(page).locator(".c").nth(1).hover()
    await expect(tip).to_be_visible()


async def test_the_details_leave_with_their_row(cleared: tuple[Stage, Seen]) -> None:
    """A filter that hides the exchange closes the pane, here and in the address; others do not."""
    on, seen = cleared
    page, pane = seen.page, seen.page.locator("#details")
    for digit in "12":
        ours = {"scope": b"s" * 16, "conversation": bytes.fromhex(digit * 32)}
        record(on, [LOST_CALL], model=digit, **ours)
    await expect(rows(page)).to_have_count(2)
    one, other = (rows(page).filter(has_text=re.compile(f"responses{n}")) for n in "12")
    for hide in (
        other.locator(".chip").click,
        lambda: page.locator("#model").select_option("2"),
        lambda: page.get_by_role("radio", name="Errors").check(),
        lambda: page.get_by_role("button", name="Conversations").click(),
    ):
        await one.locator(".when").click()
        await page.get_by_role("radio", name="All").check()
        await expect(pane).to_be_visible()
        await hide()
        await expect(pane).to_be_hidden()
        assert "exchange=" not in page.url
        await page.evaluate("choose({ ...DEFAULTS }); readAddress()")
    await one.locator(".when").click()
    await pane.locator(".chip").click()
    await expect(pane).to_be_visible()
    await page.locator("#close").click()


async def test_a_link_leads_to_an_exchange(chromium: Browser) -> None:
    """The copied address opens its details; where it is no longer kept, the page says so."""
    async with (
        stage() as on,
        looking(chromium, on.app.admin_url, permissions=CLIPBOARD) as seen,
    ):
        page = seen.page
        record(on, [LOST_CALL])
        await page.get_by_role("radio", name="All").check()
        await rows(page).first.click()
        await page.get_by_role("button", name="Copy link").click()
        await expect(page.locator("#details-head")).to_contain_text("Copied")
        link = await page.evaluate("navigator.clipboard.readText()")
        assert re.fullmatch(rf"{on.app.admin_url}/#exchange=[0-9a-f]{{16}}", link)
        await page.goto("about:blank")
        await page.goto(link)
        await expect(value(page, "Request id")).to_contain_text(link[-16:])
        await page.goto("about:blank")
        await page.goto(f"{link}0")
        await expect(page.locator("#shown")).to_contain_text("is no longer here")
        assert seen.complaints == []


async def test_refusals_repairs_and_healing_are_named(cleared: tuple[Stage, Seen]) -> None:
    """The pane names the upstream's error and each repair."""
    on, seen = cleared
    page = seen.page
    record(
        on,
        [LOST_CALL],
        PlanNote(0, Outcome.INJECTED, 1, 99, "rs_2"),
        healed="lacks_follower",
        repairs={"duplicates": 2},
        refusal=ErrorNames("", "invalid_request_error"),
    )
    await rows(page).first.click()
    healing = page.locator("#details section", has_text="Healing")
    await expect(healing).to_contain_text("Upstream's typeinvalid_request_error")
    await expect(value(page, "Upstream's type")).to_have_count(1)
    await expect(value(page, "duplicates")).to_have_text("2: reasoning twice in a row is sent once")
    await expect(value(page, "First attempt")).to_have_text("refused: lacks follower")
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
    """An exchange in flight can be opened; its end appears in its row and in the pane."""
    on, seen = cleared
    page, recorder = seen.page, on.app.recorder
    exchange = Exchange(Route.RESPONSES, Times(recorder._clock()), method="POST")
    exchange.request.state = "planned"
    recorder.begin(exchange)
    await expect(rows(page)).to_have_text(re.compile("in flight"))
    await rows(page).first.click()
    await expect(value(page, "Status")).to_have_text("in flight")
    exchange.status, exchange.outcome = 502, "upstream_failed"
    exchange.times.total_ms = 1500.0
    recorder.end(exchange)
    await expect(rows(page)).to_have_text(re.compile(r"502 upstream_failed.*1\.50 s"))
    await expect(value(page, "Status")).to_have_text("502")
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
        await expect(page.locator(".deletion")).to_have_text(
            "This conversation is not stored. What a replica has yet to save is dropped."
        )
