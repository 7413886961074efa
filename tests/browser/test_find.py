"""Finding exchanges in the inspector: filters, free text, the address, and the export."""

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from reasoning_replay.core.history.plan import Outcome, PlanNote
from reasoning_replay.web.admin.inspector.recorder import PAGE

from tests.browser.passing import LOST_CALL, record, rows
from tests.browser.stage import ASK, Seen, Stage, looking, stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

MISS = PlanNote(0, Outcome.MISSED, 1, 0, "")


def record_three(on: Stage) -> None:
    """Record exchanges that differ in every filter."""
    one = {"scope": b"s" * 16, "conversation": bytes.fromhex("aa11" * 8)}
    two = {"scope": b"s" * 16, "conversation": bytes.fromhex("bb22" * 8)}
    record(on, [LOST_CALL], MISS, model="gpt-5.4", **one)
    record(on, [LOST_CALL], model="gpt-5.4-mini", status=429, outcome="refused", **one)
    record(on, [{**LOST_CALL, "id": "fc_other"}], healed="blob", model="gpt-5.4", **two)


async def test_filters_narrow_the_rows(cleared: tuple[Stage, Seen]) -> None:
    """By model, status and free text; together they show what fits all of them."""
    on, seen = cleared
    page = seen.page
    record_three(on)
    await expect(rows(page)).to_have_count(3)
    for select, choice, count in (
        ("#model", "gpt-5.4", 2),
        ("#status", "429", 1),
    ):
        await page.locator(select).select_option(choice)
        await expect(rows(page)).to_have_count(count)
        await expect(page.locator("#shown")).to_have_text(f"{count} of 3 exchanges")
        await page.get_by_role("button", name="Show all").click()
        await expect(rows(page)).to_have_count(3)
    for word in ("Lacking", "Healed", "Errors"):
        await page.get_by_role("radio", name=word).check()
        await expect(rows(page)).to_have_count(1)
    await page.get_by_role("button", name="Show all").click()
    await expect(page.get_by_role("radio", name="All")).to_be_checked()
    for text, count in (("FC_Other", 1), ("fc_never", 2), ("bb22bb22", 1), ("no such id", 0)):
        await page.locator("#q").fill(text)
        await expect(rows(page)).to_have_count(count)
    await expect(page.locator("#none")).to_be_visible()
    await page.locator("#model").select_option("gpt-5.4-mini")
    await page.locator("#q").fill("aa11")
    await expect(rows(page)).to_have_count(1)
    await page.get_by_role("button", name="Show all").click()
    assert seen.complaints == []


async def test_the_playground_can_leave_its_agents_out(chromium: Browser) -> None:
    """Only where there are agents, a filter shows the requests with another credential."""
    async with stage() as on:
        record_three(on)
        async with looking(chromium, on.app.admin_url) as seen:
            await expect(rows(seen.page)).to_have_count(3)
            await expect(seen.page.get_by_text("Mine")).to_be_hidden()
        record(on, [LOST_CALL], model="mine", scope=b"m" * 16, conversation=b"c" * 16)
        on.app.agents.append((b"s" * 16).hex())
        async with looking(chromium, on.app.admin_url) as seen:
            await expect(rows(seen.page)).to_have_count(4)
            await seen.page.get_by_role("radio", name="Mine").check()
            await expect(rows(seen.page)).to_have_text([re.compile("mine")])
            assert seen.complaints == []


async def test_the_view_is_in_the_address_and_survives_a_reload(chromium: Browser) -> None:
    """Filters, the conversation, the open details and a pause are kept; nothing is sent."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        record_three(on)
        await expect(rows(page)).to_have_count(3)
        await page.get_by_role("radio", name="Lacking").check()
        await page.locator("#model").select_option("gpt-5.4")
        await page.locator("#q").fill("fc_never")
        await rows(page).first.click()
        await page.locator("#close").click()
        await rows(page).first.locator(".when").click()
        await page.locator("#pause").click()
        record(on, [LOST_CALL], MISS, model="gpt-5.4")
        await expect(page.locator("#pause")).to_have_text("Resume, 1 new")
        await expect(page.locator("#link")).to_have_text("paused")
        await page.reload()
        await expect(rows(page)).to_have_count(1)
        await expect(page.locator("#pause")).to_have_text("Resume, 1 new")
        await expect(page.get_by_role("radio", name="Lacking")).to_be_checked()
        await expect(page.locator("#model")).to_have_value("gpt-5.4")
        await expect(page.locator("#q")).to_have_value("fc_never")
        await expect(page.locator("#details")).to_be_visible()
        await page.locator("#pause").click()
        await expect(rows(page)).to_have_count(2)
        await page.locator("#close").click()
        await page.locator("#rows > li:visible .chip").click()
        await expect(page.locator("#turns > li")).to_have_count(1)
        await page.reload()
        await expect(page.locator("#turns > li")).to_have_count(1)
        assert {url.removeprefix(on.app.admin_url).partition("#")[0] for url in seen.requests} == {
            "/",
            "/inspector/events",
        }
        assert seen.complaints == []


async def test_an_address_with_unknown_words_shows_what_fits(chromium: Browser) -> None:
    """A filter that fits nothing can be removed; an unknown one has no effect."""
    async with stage() as on:
        record_three(on)
        where = f"{on.app.admin_url}/#show=nonsense&model=none&exchange=gone&x=%3Cb%3E"
        async with looking(chromium, where.removesuffix("/")) as seen:
            page = seen.page
            await page.goto(where)
            await expect(page.locator("#none")).to_be_visible()
            await page.get_by_role("button", name="Show all").click()
            await expect(rows(page)).to_have_count(3)
            await expect(page.locator("#details")).to_be_hidden()
            assert seen.complaints == []


async def test_the_export_has_the_exchanges_that_are_shown(
    chromium: Browser, tmp_path: Path
) -> None:
    """One line of JSON each, oldest first, without content."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        await on.agent().ask()
        record(on, [LOST_CALL], status=503, outcome="upstream_error")
        await expect(rows(page)).to_have_count(5)
        await page.locator("#status").select_option("200")
        async with page.expect_download() as started:
            await page.get_by_role("button", name="Export").click()
        download = await started.value
        assert download.suggested_filename.endswith(".jsonl")
        await download.save_as(tmp_path / "export.jsonl")
        text = (tmp_path / "export.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        told = [json.loads(one)["exchange"] for one in on.app.recorder.recent()]
        # The time of day of an exchange is set anew for each reader.
        assert lines == [
            one | {"at_ms": line["at_ms"]} for line, one in zip(lines, told[:4], strict=True)
        ]
        assert ASK not in text
        assert seen.complaints == []


async def test_older_exchanges_are_loaded_page_by_page(chromium: Browser) -> None:
    """With a filter, until one matches; the page says that it has the newest ones."""
    async with stage() as on:
        record(on, [LOST_CALL], model="rare")
        for _ in range(2 * PAGE):
            record(on, [LOST_CALL], model="usual")
        async with looking(chromium, on.app.admin_url) as seen:
            page = seen.page
            await expect(page.locator("#shown")).to_have_text("the newest 200 exchanges")
            await page.locator("#q").fill("rare")
            await expect(rows(page)).to_have_count(0)
            await page.locator("#older").click()
            await expect(page.locator("#shown")).to_have_text("1 of the newest 401 exchanges")
            await expect(page.locator("#older")).to_be_hidden()
            assert seen.complaints == []


async def test_a_small_part_of_a_number_is_no_zero(cleared: tuple[Stage, Seen]) -> None:
    """A part has the unit of the whole, unless it is too small for that."""
    parts = [12, 0, 5_500, 11_000]
    told = await cleared[1].page.evaluate("parts => parts.map((n) => many(n, 11000))", parts)
    assert told == ["12", "0", "5.5K", "11.0K"]
