"""docs/alerts.md is a runbook: each alert has its causes, their signs and an action."""

import json
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from openai.types.responses import ResponseOutputItem

from tests.docs.page_tables import DOCS, rows_of, section_of
from tests.e2e.agent import Agent, Item
from tests.monitoring.files import ALERTS, PANELS, RULES_PATH
from tests.programs import require
from tests.standin import StandIn
from tests.web.served import Served, served

PAGE = "alerts.md"
MISSED = "ReasoningReplayReasoningMissed"
QUESTIONS = ("Where does it rain today?", "And tomorrow?", "And on Sunday?")
EXAMPLE: list[Item] = [
    {"role": "user", "content": "Where does it rain in this example, please?"},
    {"role": "assistant", "content": "It rains in Bergen, as it does on most days of the year."},
]


def test_each_alert_has_a_section_and_there_is_no_other() -> None:
    """The sections are in the order of the rules."""
    headings = re.findall(r"^## (.+)$", section_of(PAGE), re.MULTILINE)
    assert headings == list(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_leads_to_its_section(alert: str) -> None:
    """The annotation of an alert contains the path of the page and the anchor of the section."""
    notes = ALERTS[alert]["annotations"]
    assert notes["runbook"] == f"{(DOCS / PAGE).relative_to(DOCS.parent)}#{alert.lower()}"
    assert "runbook_url" not in notes  # a path is no link


@pytest.mark.parametrize("alert", ALERTS)
def test_each_section_has_the_severity_the_causes_and_the_action(alert: str) -> None:
    """A section begins with severity and meaning; its table has no empty cell."""
    text = section_of(PAGE, f"## {alert}").strip()
    rows = rows_of(PAGE, f"## {alert}")

    severity, _, meaning = text.partition(". ")
    assert severity == ALERTS[alert]["labels"]["severity"]
    assert re.match(r"[A-Z].{30,}", meaning)
    assert [row for row in rows if not all(row)] == []
    assert rows or len(re.split(r"\.\s", meaning)) > 1  # without a table, the action is in the text


def test_every_panel_that_is_named_exists() -> None:
    """The page quotes panels of the dashboard by their titles."""
    named = set(re.findall(r"panels? \"([^\"]+)\"", section_of(PAGE)))
    assert named
    assert named <= {panel["title"] for panel in PANELS}


def test_prometheus_accepts_every_query(tmp_path: Path) -> None:
    """The queries of the page, including those in sentences, are valid PromQL."""
    text = section_of(PAGE)
    queries = re.findall(r"```promql\n(.+?)```", text, re.DOTALL)
    queries += [code for code in re.findall(r"`([^`\n]+)`", text) if "reasoning_replay_" in code]
    rules = [{"record": f"query{n}", "expr": query} for n, query in enumerate(queries)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "page", "rules": rules}]}))

    tool = require("prometheus", "promtool")
    ran = subprocess.run(  # noqa: S603 - promtool
        [tool, "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(queries) > 1


def test_the_rules_name_the_page() -> None:
    """The comment at the top of the rule file names the runbook."""
    assert f"docs/{PAGE}" in RULES_PATH.read_text().partition("groups:")[0]


# --- from ReasoningReplayReasoningMissed to its cause ---


class Line(NamedTuple):
    """Output line of the page's command: one exchange that misses reasoning."""

    time: str
    scope: str
    conversation: str
    injected: int
    missed: int


def lines_of(folder: Path, *proxies: Served) -> list[Line]:
    """Run the page's command on the logs of these proxies; return its lines."""
    command = re.findall(r"^\$ (jq .+)$", section_of(PAGE, f"## {MISSED}"), re.MULTILINE)[0]
    require("jq")
    logged = [json.dumps(line) for proxy in proxies for line in proxy.log]
    (folder / "proxy.log").write_text("\n".join(["not JSON", *logged]))
    ran = subprocess.run(  # noqa: S603 - the command of the page
        ["/bin/sh", "-c", command], cwd=folder, capture_output=True, text=True, check=True
    )
    cells = [line.split("\t") for line in ran.stdout.splitlines()]
    return [Line(one[0], one[1], one[2], int(one[3]), int(one[4])) for one in cells]


async def logged(*proxies: Served) -> None:
    """Stop proxies, and read their logs to the end."""
    for proxy in proxies:
        proxy.signal(signal.SIGTERM)
        await proxy.rest()


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    """Yield an upstream that accepts items without their reasoning."""
    async with StandIn("chain") as upstream:
        yield upstream


async def test_pattern_a_a_tenant_that_changes_shows_in_the_scopes(
    standin: StandIn, tmp_path: Path
) -> None:
    """A new token is a new scope, and the first request with it finds nothing."""
    async with served(upstream_url=standin.base_url) as proxy:
        await proxy.started()
        history: list[Item | ResponseOutputItem] = []
        for question in QUESTIONS:
            async with Agent(f"{proxy.url}/v1", keeps="no-ids", history=history) as agent:
                await agent.converse([question])
        await logged(proxy)
    lines = lines_of(tmp_path, proxy)

    firsts = {line.scope: line for line in reversed(lines)}  # the first request with each token
    assert len(firsts) == len(QUESTIONS) - 1
    assert {line.injected for line in firsts.values()} == {0}


async def test_pattern_b_turns_that_are_not_found_show_in_the_conversations(
    standin: StandIn, tmp_path: Path
) -> None:
    """If replicas do not share a store, one scope has lines of many conversations."""
    settings = {"upstream_url": standin.base_url, "scope_secret": "one for both"}
    async with served(**settings) as one, served(**settings) as other:
        await one.started()
        await other.started()
        async with Agent(f"{one.url}/v1", keeps="no-ids") as agent:
            for number, question in enumerate(QUESTIONS * 2):
                agent.say(question)
                while await agent.step(f"{(one, other)[number % 2].url}/v1"):
                    pass
        await logged(one, other)
    lines = lines_of(tmp_path, one, other)

    assert len({line.scope for line in lines}) == 1
    assert len({line.conversation for line in lines}) > 1
    assert len({line.missed for line in lines}) > 1


async def test_pattern_c_unknown_items_show_in_a_constant_number(
    standin: StandIn, tmp_path: Path
) -> None:
    """If a client writes an assistant message, each request misses one item, and only that one."""
    async with served(upstream_url=standin.base_url) as proxy:
        await proxy.started()
        async with Agent(f"{proxy.url}/v1", keeps="no-ids", history=[*EXAMPLE]) as agent:
            await agent.converse(QUESTIONS)
        await logged(proxy)
    lines = lines_of(tmp_path, proxy)

    assert {line.missed for line in lines} == {1}
    assert len({(line.scope, line.conversation) for line in lines}) == 1
    assert lines[0].injected == 0 < lines[-1].injected
