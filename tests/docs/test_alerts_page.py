"""docs/alerts.md is a runbook: each alert has its causes, their signs and an action."""

import asyncio
import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
import yaml
from openai.types.responses import ResponseOutputItem

from tests.docs.page_tables import DOCS, rows_of, section_of
from tests.e2e.agent import Agent, Item
from tests.monitoring.files import ALERTS, PANELS
from tests.programs import require
from tests.strict import StrictResponses
from tests.web.served import served

PAGE = "alerts.md"
MISSED = "ReasoningReplayReasoningMissed"
QUESTIONS = ("Where does it rain today?", "And tomorrow?", "And on Sunday?")


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


# --- from ReasoningReplayReasoningMissed to its cause ---


async def test_a_tenant_that_changes_shows_in_the_scopes(tmp_path: Path) -> None:
    """A new token is a new scope, and the first request with it finds nothing."""
    command = re.findall(r"^\$ (jq .+)$", section_of(PAGE, f"## {MISSED}"), re.MULTILINE)[0]
    require("jq")
    async with (
        StrictResponses("chain") as upstream,
        served(upstream_url=upstream.base_url) as proxy,
    ):
        await proxy.started()
        history: list[Item | ResponseOutputItem] = []
        for question in QUESTIONS:
            async with Agent(f"{proxy.url}/v1", keeps="no-ids", history=history) as agent:
                await agent.converse([question])
        proxy.signal(signal.SIGTERM)
        await proxy.rest()
    lines = ["not JSON", *map(json.dumps, proxy.log)]
    (tmp_path / "proxy.log").write_text("\n".join(lines))
    process = await asyncio.create_subprocess_shell(
        command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()

    firsts: dict[str, str] = {}  # scope -> injected items of the first request with each token
    for line in printed.decode().splitlines():
        _time, scope, _conversation, injected, *_ = line.split("\t")
        firsts.setdefault(scope, injected)
    assert len(firsts) == len(QUESTIONS) - 1
    assert {*firsts.values()} == {"0"}
