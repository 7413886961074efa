"""The inspector as a person sees it in a real browser: live, plain, harmless, for everybody."""

import asyncio
import json
import re
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page, expect

from proxy.core.plans import Note, Outcome
from proxy.core.request import read_request
from proxy.core.strip import Strip, strip_of
from proxy.web.exchange import Exchange
from proxy.web.inspector import events
from proxy.web.routes import Route
from tests.browser.stage import ASK, Seen, Stage, looking, stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = "<img src=x onerror=document.title='broken'>"
LOST_CALL = {
    "type": "function_call",
    "id": "fc_never_seen",
    "call_id": "call_Zk3mQ9xT7bLw2RsV",
    "name": "get_weather",
    "arguments": "{}",
}


def rows(page: Page) -> Any:
    """Return the exchanges, newest first."""
    return page.locator("#rows > li:visible")


def strip(items: list[dict[str, Any]], *notes: Note) -> Strip:
    """Return what is shown of a request with these items."""
    body = json.dumps({"model": "m", "input": items}).encode()
    return strip_of(read_request(body, {}), notes)


def record(on: Stage, items: list[dict[str, Any]], *notes: Note, **fields: Any) -> None:
    """Let an exchange pass that nobody had to send."""
    exchange = Exchange(Route.RESPONSES, on.app.recorder._clock())
    exchange.status, exchange.outcome, exchange.asked = 200, "ok", "planned"
    exchange.strip = strip(items, *notes)
    for _, what, count, *_ in notes:
        exchange.outcomes[what] = exchange.outcomes.get(what, 0) + count
    for name, value in fields.items():
        setattr(exchange, name, value)
    on.app.recorder.end(exchange, 0.1)


async def test_what_passes_appears_and_shows_what_was_put_back(chromium: Browser) -> None:
    """Live, without a reload: each exchange, with its restored items where they went in."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        await expect(page.locator("#link")).to_have_text("live")
        await expect(page.locator("#command")).to_have_text(
            f"export OPENAI_BASE_URL={on.app.url}/v1"
        )
        assert await rows(page).count() == 0
        agent = await on.agent().ask()
        assert "injected=2" in agent.marks[3]
        await expect(rows(page)).to_have_count(4)
        await expect(page.locator("#empty")).to_be_hidden()
        newest = rows(page).first
        strip = newest.locator(".strip > button")
        kinds = [
            kind.split()[1] for kind in await strip.evaluate_all("all => all.map(b => b.className)")
        ]
        assert kinds == ["u", "plus", "c", "o", "c", "o", "plus", "c", "o"]
        await expect(newest).to_contain_text("2 reasoning items put back")
        await expect(page.locator("#injected")).to_contain_text("4")
        # What it was put ahead of: of the first one here, the first call.
        call = next(item for item in agent.history if item.get("type") == "function_call")
        await newest.locator(".plus").first.hover()
        tip = page.locator("#tip")
        await expect(tip).to_contain_text(f"ahead of function_call {call['id']}")
        await expect(tip).to_contain_text("1 reasoning item put backrs_")
        await newest.locator(".c").first.hover()
        await expect(tip).to_contain_text("item 2, call")
        # Nothing that was said is on the page, and it has asked nobody else.
        assert ASK not in await page.content()
        assert {url.removeprefix(on.app.admin_url) for url in seen.requests} == {
            "/",
            "/inspector/events",
        }
        assert seen.complaints == []


async def test_one_under_way_is_shown_and_then_what_became_of_it(chromium: Browser) -> None:
    """In the same row."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        await expect(seen.page.locator("#link")).to_have_text("live")
        exchange = Exchange(Route.RESPONSES, on.app.recorder._clock())
        exchange.asked = "planned"
        on.app.recorder.begin(exchange)
        await expect(rows(seen.page)).to_have_text(re.compile("under way"))
        exchange.status, exchange.outcome = 502, "upstream_failed"
        on.app.recorder.end(exchange, 1.5)
        await expect(rows(seen.page)).to_have_text(re.compile(r"502 upstream_failed.*1\.50 s"))


async def test_a_miss_says_why(chromium: Browser) -> None:
    """In words, where it was missed, and for a whole request that nothing was done for."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        output = {"type": "function_call_output", "call_id": LOST_CALL["call_id"], "output": "x"}
        history = [{"role": "user", "content": ASK}, LOST_CALL, output]
        await on.agent().post({"input": history, "store": False})
        await expect(rows(page)).to_contain_text("1 missed: nothing is known of it")
        hole = rows(page).locator(".hole")
        await hole.hover()
        await expect(page.locator("#tip")).to_contain_text("Ahead of function_call fc_never_seen")
        await on.agent(key="").post({"input": "hello"})
        await expect(rows(page).first).to_contain_text("no credential")
        await on.agent().post({"input": "hello", "previous_response_id": "resp_none"})
        await expect(rows(page).first).to_contain_text("Upstream holds this history itself")


async def test_what_comes_from_the_wire_is_text(chromium: Browser) -> None:
    """However it is spelled: no element of its making, nothing run, nothing fetched."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        evil = [
            {"type": EVIL, "id": EVIL},
            {"type": "function_call", "id": EVIL, "call_id": EVIL, "name": EVIL, "arguments": ""},
            {"type": "function_call_output", "call_id": EVIL, "output": EVIL},
        ]
        await on.agent(more={"model": EVIL}).post({"input": evil})
        await expect(rows(page)).to_contain_text(EVIL[:40])
        await rows(page).locator(".hole, .o").first.hover()
        await expect(page.locator("#tip")).to_contain_text("<img src=x")
        assert await page.locator("main img, #tip img").count() == 0
        assert await page.title() == "Reasoning Replay"
        assert seen.complaints == []
        assert all(url.startswith(on.app.admin_url) for url in seen.requests)


async def test_the_policy_holds_what_the_page_would_not(chromium: Browser) -> None:
    """Should something be brought in all the same, it neither runs nor asks anybody."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        await seen.page.evaluate(
            """() => { const s = document.createElement("script"); s.textContent = "window.ran = 1";
            document.body.append(s);
            document.body.insertAdjacentHTML("beforeend", "<p onclick='window.ran = 1' id=p>x</p>");
            document.getElementById("p").click(); }"""
        )
        assert await seen.page.evaluate("window.ran") is None
        assert any("Content Security Policy" in said for said in seen.complaints)


async def test_filters_pause_and_clear(chromium: Browser) -> None:
    """Each shows what it says; while it is paused nothing moves, and nothing is lost."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        call = [LOST_CALL]
        record(on, call, (0, Outcome.INJECTED, 1, 99, ""))
        record(on, call, (0, Outcome.MISSED, 1, 0, ""))
        record(on, call, status=503, outcome="upstream_error")
        await expect(rows(page)).to_have_count(3)
        for word, text in (("Put back", "put back"), ("Misses", "missed"), ("Errors", "503")):
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


async def test_the_keyboard_reaches_everything(chromium: Browser) -> None:
    """One stop for each row of items; arrows go along it, and what has the focus is told."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        record(on, [LOST_CALL] * 3, (1, Outcome.INJECTED, 2, 1234, ""))
        await expect(rows(page)).to_have_count(1)
        await page.locator("#clear").focus()
        await page.keyboard.press("Tab")
        await page.keyboard.press("ArrowRight")
        told = "2 reasoning items put back"
        await expect(page.locator("#tip")).to_contain_text(told)
        focused = page.locator(":focus")
        await expect(focused).to_have_attribute("aria-label", re.compile(told))
        await page.keyboard.press("End")
        await expect(page.locator("#tip")).to_contain_text("item 3")
        await page.keyboard.press("Escape")
        await expect(page.locator("#tip")).to_be_hidden()


async def test_a_history_of_thousands_folds(chromium: Browser) -> None:
    """What was put back and what is missing stays to be seen; the rest opens on demand."""
    notes = [(n, Outcome.INJECTED, 1, 9, "") for n in range(1000, 3000, 40)]
    long = strip([LOST_CALL] * 4000, *notes, (3500, Outcome.MISSED, 1, 0, ""))
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        for _ in range(49):
            record(on, [], strip=long, outcomes={Outcome.INJECTED: 50, Outcome.MISSED: 1})
        await asyncio.sleep(0.002)  # rows go by the millisecond
        record(on, [{"role": "user", "content": "x"}] * 200)
        await expect(rows(page)).to_have_count(50)
        large = rows(page).nth(1)
        assert await large.locator(".plus").count() == len(notes)
        assert await large.locator(".hole").count() == 1
        await expect(large).to_contain_text("items 4,000")
        folded = rows(page).first
        assert await folded.locator(".strip > *").count() < 40
        await folded.locator("button.fold").click()
        assert await folded.locator(".strip > *").count() == 200
        assert seen.complaints == []


async def test_without_the_token_it_says_what_to_do(chromium: Browser) -> None:
    """And takes it, for this tab alone; a wrong one is asked for again."""
    async with stage(admin_token="sesame") as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        await expect(page.locator("#locked")).to_contain_text("needs the admin token")
        await expect(page.locator("#live")).to_be_hidden()
        for wrong in ("wrong", "öffne dich\u200b"):
            await page.get_by_label("Admin token").fill(wrong)
            async with page.expect_response("**/events") as answer:
                await page.keyboard.press("Enter")
            assert (await answer.value).status == 401
            await expect(page.locator("#locked")).to_contain_text("That was not it")
        await page.get_by_label("Admin token").fill("sesame")
        await page.keyboard.press("Enter")
        await expect(page.locator("#link")).to_have_text("live")
        await expect(page.locator("#locked")).to_be_hidden()
        await page.reload()
        await expect(page.locator("#link")).to_have_text("live")
        assert await page.evaluate("localStorage.length") == 0


async def test_it_says_when_the_proxy_is_gone_and_when_it_is_back(
    chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on by itself."""
    monkeypatch.setattr(events, "STATE_S", 0.05)
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        await expect(seen.page.locator("#link")).to_have_text("live")
        on.app.forward.leave()
        await expect(seen.page.locator("#link")).to_have_text("live, draining")
        port = on.app.admin_url.rpartition(":")[2]
        await on.app.stop()
        await expect(seen.page.locator("#link")).to_contain_text("not reachable")
        async with stage(admin_listen=f"127.0.0.1:{port}"):
            await expect(seen.page.locator("#link")).to_have_text("live", timeout=20_000)


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_can_be_read(chromium: Browser, scheme: Literal["light", "dark"]) -> None:
    """By day and by night: 4.5 to 1 for every word on it."""
    async with (
        stage() as on,
        looking(chromium, on.app.admin_url, color_scheme=scheme) as seen,
    ):
        page = seen.page
        await expect(page.locator("#link")).to_have_text("live")
        assert await page.evaluate(CONTRAST, 4.5) == []
        items = [LOST_CALL] * 60
        record(on, items, (20, Outcome.INJECTED, 2, 99, ""), (30, Outcome.MISSED, 1, 0, ""))
        record(on, items, status=503, outcome="upstream_error")
        await expect(rows(page)).to_have_count(2)
        await page.locator(".strip .plus").hover()
        await page.locator("#pause").click()
        assert await page.evaluate(CONTRAST, 4.5) == []
        paper = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (min(map(int, re.findall(r"\d+", paper))) > 200) == (scheme == "light")


async def test_a_narrow_window_shows_all_of_it(chromium: Browser) -> None:
    """400 pixels: nothing sticks out."""
    async with stage() as on, looking(chromium, on.app.admin_url, width=400) as seen:
        await assert_fits(seen)
        record(on, [{**LOST_CALL, "id": "fc_" + "x" * 60}] * 90, (5, Outcome.INJECTED, 1, 9, ""))
        record(on, [LOST_CALL], asked="store_failed", outcome="upstream_unreachable", status=502)
        await expect(rows(seen.page)).to_have_count(2)
        await seen.page.locator(".strip .plus").hover()
        await assert_fits(seen)


async def assert_fits(seen: Seen) -> None:
    """Nothing has to be scrolled to sideways."""
    await expect(seen.page.locator("#link")).to_have_text("live")
    assert await seen.page.evaluate("document.documentElement.scrollWidth") <= 400
