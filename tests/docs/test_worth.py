"""docs/worth.md: its example gives its figures, and its table has the members of the report."""

import json
import re
import sys
from pathlib import Path

import pytest
from reasoning_replay import cli
from reasoning_replay.report import Sums

from tests.docs.page_tables import ROOT, first_names

PAGE = (ROOT / "docs/worth.md").read_text()


@pytest.mark.parametrize("has_ids", [False, True], ids=["without-ids", "with-ids"])
def test_the_example_gives_the_figures_of_the_page(
    *, has_ids: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Straight to the API and through the proxy, for both forms of the client."""
    example = re.search(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert example is not None
    agent, report = tmp_path / "agent.py", tmp_path / "report.json"
    agent.write_text(example[1].replace(' if key != "id"', "") if has_ids else example[1])
    words = ["--through-proxy", "--json", str(report), "--", sys.executable, str(agent)]
    assert cli.main(["verify", *words]) == 0
    told = json.loads(report.read_text())
    rows = [
        row for row in PAGE.splitlines() if re.search(r"\| (?:straight|through the proxy) \|", row)
    ]
    seen = []
    for run in told["runs"]:
        refused = sum(one["refused"] is not None for one in run["requests"])
        seen.append((f"{refused} of {len(run['requests'])}", f"{run['cached_share']:.0%}"))
    wanted = rows[2:] if has_ids else rows[:2]
    assert len(seen) == len(wanted) == 2
    for row, (shown, share) in zip(wanted, seen, strict=True):
        assert shown in row
        assert share.replace("%", " %") in row
    capfd.readouterr()


def test_the_members_of_the_report_are_explained() -> None:
    """Each one, and no other."""
    told = {name for name in first_names("worth.md", "## Measure your own") if name.isidentifier()}
    assert told == Sums().as_json({}).keys()
