"""The inspector in a real browser: live, readable and safe."""

import pytest
from playwright.async_api import Browser, expect
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.plan import Outcome, PlanNote
from reasoning_replay.web.admin.inspector import events
from reasoning_replay.web.exchange import Exchange, Times

from tests.browser.passing import LOST_CALL, record, rows
from tests.browser.stage import ASK, Seen, Stage, looking, stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = "<img src=x onerror=document.title='broken'>"


async def test_an_exchange_appears_with_its_injected_items(chromium: Browser) -> None:
    """Each exchange appears without a reload, with injected items at their positions."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        await expect(page.locator("#link")).to_have_text("live")
        await expect(page.locator("#command")).to_have_text(
            f"export OPENAI_BASE_URL={on.app.url}/v1\nexport ANTHROPIC_BASE_URL={on.app.url}\n"
            f"export GOOGLE_GEMINI_BASE_URL={on.app.url}"
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
        await expect(newest).to_contain_text("2 reasoning items injected")
        await expect(page.locator("#injected")).to_contain_text("4")
        # The tooltip names the item after the injected one: here the first call.
        call = next(item for item in agent.history if item.get("type") == "function_call")
        await newest.locator(".plus").first.hover()
        tip = page.locator("#tip")
        await expect(tip).to_contain_text(f"before function_call {call['id']}")
        await expect(tip).to_contain_text("1 reasoning item injectedrs_")
        await newest.locator(".c").first.hover()
        await expect(tip).to_contain_text("item 2, call")
        # The page has no text of the conversation, and sends requests only to the proxy.
        assert ASK not in await page.content()
        assert {url.removeprefix(on.app.admin_url) for url in seen.requests} == {
            "/",
            "/inspector/events",
        }
        assert seen.complaints == []


async def test_a_path_that_is_not_replayed_explains_itself(chromium: Browser) -> None:
    """The page says where reasoning is injected, and a row why nothing was injected there."""
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        await expect(page.locator("#replayed")).to_contain_text("on POST …/responses, POST")
        agent = on.agent()
        await agent.post({"input": "Hello"}, path="/embeddings")
        newest = rows(page).first
        await expect(newest).to_contain_text("embeddings")
        await expect(newest).to_contain_text(
            "Passed through: reasoning is injected on POST …/responses, "
        )
        agent.base_url = on.app.url
        assert (await agent.post({"input": ASK}))[0] == 404
        await expect(rows(page)).to_have_count(2)
        await expect(newest).to_contain_text(
            f"Wrong path: the base URL lacks /v1; the base URL for clients is {on.app.url}/v1."
        )
        await newest.locator(".words").click()
        await expect(page.locator("#details")).to_contain_text("Wrong path")
        agent.base_url = f"{on.app.url}/v1"
        await agent.ask()
        await expect(newest).not_to_contain_text("assed through")
        assert seen.complaints == []


async def test_what_upstream_refused_is_marked_so(cleared: tuple[Stage, Seen]) -> None:
    """Refused injections are marked, and the size is that of the request that was accepted."""
    on, seen = cleared
    notes = [PlanNote(n, Outcome.INJECTED, 1, 999, "") for n in (0, 1)]
    more = {"healed": "lacks_output", "outcomes": {Outcome.REFUSED: 2}}
    record(on, [LOST_CALL] * 3, *notes, **more)
    await expect(rows(seen.page).locator(".hole")).to_have_count(2)
    await expect(rows(seen.page)).to_contain_text("refused the first attempt (lacks output)")
    await expect(rows(seen.page)).to_contain_text("2 refused: upstream refused the request with it")
    some = {"healed": "blob", "outcomes": {Outcome.REFUSED: 1, Outcome.INJECTED: 1}}
    record(on, [LOST_CALL] * 3, *notes, injected_bytes=777, **some)
    newest = rows(seen.page).filter(has_text="(blob)")
    await expect(newest.locator(".plus")).to_have_count(2)
    await expect(newest).to_contain_text("1 reasoning item injected, 777 B.")


async def test_what_is_lost_leaves_nothing_under_way(cleared: tuple[Stage, Seen]) -> None:
    """After lost events no exchange stays in flight, and later ends are shown."""
    on, seen = cleared
    recorder = on.app.recorder
    exchange = Exchange(Route.RESPONSES, Times(recorder._clock()))
    recorder.begin(exchange)
    await expect(rows(seen.page)).to_have_count(1)
    assert recorder._heard is not None
    recorder._heard(b'{"lost": 3}')
    await expect(rows(seen.page)).to_have_count(0)
    await expect(seen.page.locator("#link")).to_have_text("live, 3 not shown")
    exchange.status, exchange.outcome = 200, "ok"
    exchange.times.total_ms = 1000.0
    recorder.end(exchange)
    await expect(rows(seen.page)).to_have_count(1)
    await seen.page.evaluate("lost = 0")


async def test_a_miss_says_why(cleared: tuple[Stage, Seen]) -> None:
    """The reason of a miss is shown at its position, or for the whole request."""
    on, seen = cleared
    page = seen.page
    output = {"type": "function_call_output", "call_id": LOST_CALL["call_id"], "output": "x"}
    history = [{"role": "user", "content": ASK}, LOST_CALL, output]
    await on.agent().post({"input": history, "store": False})
    await expect(rows(page)).to_contain_text("1 missed: not found in the store")
    hole = rows(page).locator(".hole")
    await hole.hover()
    await expect(page.locator("#tip")).to_contain_text("Before function_call fc_never_seen")
    await on.agent(key="").post({"input": "hello"})
    await expect(rows(page).first).to_contain_text("no credential")
    await on.agent().post({"input": "hello", "previous_response_id": "resp_none"})
    await expect(rows(page).first).to_contain_text("Upstream holds this history itself")


async def test_what_comes_from_the_wire_is_text(cleared: tuple[Stage, Seen]) -> None:
    """Text of requests is shown as text: it creates no element, runs no code, fetches nothing."""
    on, seen = cleared
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


async def test_in_shadow_it_says_what_would_have_been(chromium: Browser) -> None:
    """In shadow mode the page shows injections that would have happened."""
    async with stage(mode="shadow") as on, looking(chromium, on.app.admin_url) as seen:
        await expect(seen.page.locator("#link")).to_have_text("live")
        record(on, [LOST_CALL], PlanNote(0, Outcome.INJECTED, 1, 99, ""))
        await expect(rows(seen.page)).to_contain_text("1 reasoning item would be injected")
        await seen.page.locator("button.plus").hover()
        await expect(seen.page.locator("#tip")).to_contain_text(
            "1 reasoning item would be injected"
        )


async def test_without_the_token_it_says_what_to_do(chromium: Browser) -> None:
    """The page asks for the admin token, rejects a wrong one, and keeps it for this tab only."""
    async with stage(admin_token="sesame") as on, looking(chromium, on.app.admin_url) as seen:
        page = seen.page
        await expect(page.locator("#locked")).to_contain_text("needs the admin token")
        await expect(page.locator("#live")).to_be_hidden()
        for wrong in ("wrong", "öffne dich\u200b"):
            await page.get_by_label("Admin token").fill(wrong)
            async with page.expect_response("**/events") as answer:
                await page.keyboard.press("Enter")
            assert (await answer.value).status == 401
            await expect(page.locator("#locked")).to_contain_text("The token is wrong")
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
    """The page shows that the proxy drains or is unreachable, and reconnects on its own."""
    monkeypatch.setattr(events, "STATE_S", 0.05)
    async with stage() as on, looking(chromium, on.app.admin_url) as seen:
        await expect(seen.page.locator("#link")).to_have_text("live")
        on.app.handler.leave()
        await expect(seen.page.locator("#link")).to_have_text("live, draining")
        port = on.app.admin_url.rpartition(":")[2]
        await on.app.stop()
        await expect(seen.page.locator("#link")).to_contain_text("not reachable")
        async with stage(admin_listen=f"127.0.0.1:{port}"):
            await expect(seen.page.locator("#link")).to_have_text("live", timeout=20_000)
