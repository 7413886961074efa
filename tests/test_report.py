"""Report: what running proxies were worth, as text and as JSON, with the user's own prices."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from reasoning_replay import cli
from reasoning_replay.report import PRICES, ReportError, Sums, money_of, read_prices
from reasoning_replay.settings.model import Settings
from reasoning_replay.strict_api import DIALECTS, SCENARIOS, Item, Script, StrictApi
from reasoning_replay.web.app import running
from reasoning_replay.wires import WIRES

from tests.strict_api.scripted import TOOL

_LINES = """\
requests_total{dialect="responses",result="planned"} 10
requests_total{dialect="chat",result="no_scope"} 2
items_total{dialect="responses",outcome="injected",reason=""} 30
items_total{dialect="responses",outcome="present",reason=""} 5
items_total{dialect="responses",outcome="lacking",reason="missed"} 4
items_total{dialect="chat",outcome="lacking",reason="skipped"} 1
exchanges_total{route="responses",status="400",outcome="refused"} 3
exchanges_total{route="responses",status="401",outcome="refused"} 7
exchanges_total{route="other",status="400",outcome="refused"} 9
heals_total{dialect="responses",diagnosis="blob",result="cured"} 2
heals_total{dialect="responses",diagnosis="blob",result="refused"} 1
tokens_total{dialect="responses",kind="input",request="injected",model="a"} 1000000
tokens_total{dialect="responses",kind="cached",request="injected",model="a"} 800000
tokens_total{dialect="responses",kind="cache_write",request="injected",model="a"} 100000
tokens_total{dialect="responses",kind="cache_write_long",request="injected",model="a"} 50000
tokens_total{dialect="responses",kind="uncached",request="injected",model="a"} 100000
tokens_total{dialect="responses",kind="output",request="injected",model="a"} 200000
tokens_total{dialect="responses",kind="reasoning",request="injected",model="a"} 150000
tokens_total{dialect="responses",kind="input",request="lacking",model="other"} 100000
tokens_total{dialect="responses",kind="cached",request="lacking",model="other"} 30000
tokens_total{dialect="responses",kind="uncached",request="lacking",model="other"} 70000
cache_diagnoses_total{dialect="responses",result="miss"} 3
cache_diagnoses_total{dialect="responses",result="none"} 1
cache_missed_tokens_total{reason="tools_changed",request="injected"} 900
cache_missed_tokens_total{reason="input_changed",request="injected"} 0
"""
METRICS = "".join(f"reasoning_replay_{line}\n" for line in _LINES.splitlines())
PRICED = {"input": 2.0, "cache_read": 0.2, "cache_write": 2.5, "output": 10.0}
WANTED = {
    "requests": 12,
    "injected": 30,
    "lost": 5,
    "refused": 3,
    "cured": 2,
    "tokens": {
        "input": 1_100_000,
        "cache_read": 830_000,
        "cache_write": 100_000,
        "output": 200_000,
        "reasoning": 150_000,
    },
    "missed": {"tools_changed": 900},
}


def sums(times: int = 1) -> Sums:
    """Return the sums of so many processes."""
    found = Sums()
    for _ in range(times):
        found.add(METRICS)
    return found


def test_the_sums_are_those_of_all_processes() -> None:
    """Refusals for another reason than the request, and on other paths, do not count."""
    assert sums().as_json(None) == WANTED
    twice = sums(2).as_json(None)
    assert (twice["requests"], twice["missed"]) == (24, {"tools_changed": 1800})


@pytest.mark.parametrize(
    ("table", "cost", "saved", "unpriced"),
    [
        # 0.1 M x 2 + 0.8 M x 0.2 + 0.1 M x 2.5 + 0.2 M x 10
        ({"a": PRICED}, 2.61, 1_000_000 * (0.8 - 0.3) * 1.8e-6, ["other"]),
        ({"a": PRICED | {"cache_write_long": 4.0}}, 2.685, 0.9, ["other"]),
        # Without prices of the cache, it costs as input, and saves nothing.
        ({"a": {"input": 2.0, "output": 10.0}}, 4.0, 0.0, ["other"]),
        ({"*": PRICED}, 2.61 + 0.146, 0.9, []),
    ],
)
def test_money_is_what_the_users_prices_say(
    table: dict[str, dict[str, float]], cost: float, saved: float, unpriced: list[str]
) -> None:
    """What was saved is an estimate, by the share that lacking requests read from the cache."""
    told = money_of(sums(), table)
    assert told is not None
    assert told.pop("unpriced") == unpriced
    assert told == pytest.approx({"cost": cost, "saved_estimate": saved})


def test_without_prices_or_lacking_requests_less_is_known() -> None:
    """No model has a price; or there is nothing to compare with."""
    assert money_of(sums(), {"b": PRICED}) is None
    alone = Sums()
    alone.add("\n".join(line for line in METRICS.splitlines() if "other" not in line) + "\n")
    told = money_of(alone, {"*": PRICED})
    assert told is not None
    assert told["saved_estimate"] is None


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "has no table"),
        ("- 1", "has no table"),
        ("a: 5", "a: use"),
        ("a: {input: 1}", "a: use"),
        ("a: {input: 1, output: 2, moon: 3}", "moon"),
        ("a: {input: -1, output: 2}", "from 0 on"),
        ("a: {input: x, output: 2}", "from 0 on"),
        ("a: {", "cannot be read"),
    ],
)
def test_wrong_prices_are_named(text: str, wrong: str, tmp_path: Path) -> None:
    """With the way out."""
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(ReportError, match=wrong):
        read_prices(path)
    path.write_text(f"a: {dict.fromkeys(PRICES, 1)}")
    assert read_prices(path) == {"a": dict.fromkeys(PRICES, 1)}


def test_a_proxy_that_does_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, with the way out."""
    assert cli.main(["report", "127.0.0.1:9"]) == 1
    assert "give the admin port of a running proxy" in capsys.readouterr().err


async def _answers(session: aiohttp.ClientSession, url: str) -> None:
    """Let a client that drops its reasoning ask two questions."""
    wire, history = WIRES["responses"], list[Item]()
    for _ in range(2):
        history.append(wire.says("Where does it rain?"))
        calls: Any = True
        while calls:
            body = wire.request("gpt-5.6", history, TOOL)
            async with session.post(f"{url}/v1/responses", json=body) as response:
                reply = wire.read(await response.json())
            calls = reply.calls
            history += [*reply.kept, *wire.results(calls, "7 degrees")]


async def test_the_report_of_a_running_proxy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The screen and the object have what the API and the proxy counted."""
    prices = tmp_path / "prices.yaml"
    prices.write_text(f"'*': {PRICED}")
    api = StrictApi(DIALECTS["responses"](Script(SCENARIOS["tour"], is_marked=True)))
    settings: dict[str, Any] = {
        "upstream_profile": "openai",
        "cache_diagnosis": "on",
        "store_url": "memory://",
        "log_level": "error",
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
    }
    headers = {"Authorization": "Bearer sk-a"}
    async with (
        api,
        running(Settings(upstream_url=api.base_url, **settings)) as app,
        aiohttp.ClientSession(headers=headers) as session,
    ):
        await _answers(session, app.url)
        await asyncio.sleep(0)
        words = ["report", "--prices", str(prices), app.admin_url]
        for more in ([], ["--json"]):
            assert await asyncio.to_thread(cli.main, [*words, *more]) == 0
    *screen, last = capsys.readouterr().out.splitlines()
    told = json.loads(last)
    due = sum(len(one.judgement.findings) for one in api.exchanges if one.judgement)
    assert told.keys() == WANTED.keys() | {"money"}
    assert (told["requests"], told["injected"], told["lost"]) == (6, due, 0)
    assert told["tokens"]["input"] > told["tokens"]["cache_read"] > 0
    assert told["money"]["cost"] > 0
    assert len(screen) < 24
    assert any("of which 5 were diagnosed" in line for line in screen)
