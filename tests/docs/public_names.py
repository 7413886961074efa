"""Generator of the names in PUBLIC_APIS.md, from the code: `python -m tests.docs.public_names`."""

import argparse
import inspect
from collections.abc import Mapping
from typing import Final

from reasoning_replay import cli
from reasoning_replay.core.dialects.anthropic.heal.diagnosis import RefusalKind as MessagesRefusal
from reasoning_replay.core.dialects.chat.heal.diagnosis import RefusalKind as ChatRefusal
from reasoning_replay.core.dialects.gemini.heal.diagnosis import RefusalKind as GeminiRefusal
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.states import ExchangeOutcome, RequestState
from reasoning_replay.core.history import records
from reasoning_replay.core.history.plan import ItemForm, Outcome
from reasoning_replay.core.wire.headers import CONVERSATION_HEADER
from reasoning_replay.settings.model import Settings
from reasoning_replay.verify import plugin
from reasoning_replay.web import errors

from tests.begun_metrics import every_metric
from tests.chart.values_table import values
from tests.docs.page_tables import ROOT
from tests.docs.source_words import error_codes, events

PAGE: Final = ROOT / "PUBLIC_APIS.md"
MARK: Final = "<!-- names -->\n"
# The diagnoses of all APIs: values of `healed`.
REFUSALS: Final = frozenset({*RefusalKind, *ChatRefusal, *MessagesRefusal, *GeminiRefusal})


def commands() -> list[str]:
    """Return each command with its flags, except those of settings."""
    settings = {f"--{name.replace('_', '-')}" for name in Settings.model_fields}
    found = []
    for name in _choices(()):
        command = _choices((name,))[name]  # only a command that is named has all its flags
        flags = {flag for action in command._actions for flag in action.option_strings}
        found.append(" ".join([name, *sorted(flags - settings)]))
    return found


def _choices(words: tuple[str, ...]) -> Mapping[str, argparse.ArgumentParser]:
    """Return the parser of each command, for a command line."""
    (commands,) = (
        action
        for action in cli._parser(words)._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    choices: Mapping[str, argparse.ArgumentParser] = commands.choices
    return choices


def metrics() -> list[str]:
    """Return each metric with its labels, except those that a setting adds."""
    return [
        " ".join([name, *sorted({label for one in samples for label in one})])
        for name, samples in every_metric()
    ]


def fixture() -> list[str]:
    """Return the fixture, the arguments of its marker, and its attributes."""
    marker = plugin.MARKER.partition(":")[0]
    served = plugin.ServedApi
    told = inspect.getdoc(served) or ""
    attributes = [
        line.strip().partition(":")[0] for line in told.partition("Attributes:")[2].split("\n")
    ]
    public = [name for name in vars(served) if not name.startswith("_")]
    return [marker, *(f"strict_api.{name}" for name in (*filter(None, attributes), *public))]


def names() -> dict[str, list[str]]:
    """Return the names of each interface."""
    words = {"error", "shadow", "repaired", "healed", "unhealed", "asked", "wrong_path", "lacking"}
    return {
        "Commands": commands(),
        "Settings": list(Settings.model_fields),
        "Headers": [errors.MARK, errors.REQUEST_ID, errors.OVERHEAD, CONVERSATION_HEADER],
        "Header words": sorted({*words, *Outcome, *ItemForm}),
        "Values of asked": sorted(RequestState),
        "Values of healed": sorted(REFUSALS - {RefusalKind.OTHER}),
        "Repairs": sorted(Repair),
        "Outcomes of exchanges": sorted(ExchangeOutcome),
        "Error codes": sorted({f"{one.code} {one.status or ''}".strip() for one in error_codes()}),
        "Metrics": sorted(metrics()),
        "Log events": sorted({one.name for one in events()}),
        "Stored format": [f"version {records.FORMAT[0]}"],
        "Chart values": [name for name, _, _ in values()],
        "pytest": fixture(),
    }


def text() -> str:
    """Return what the page has after the mark: a list for each interface, one name in a line."""
    blocks = [
        "\n".join([f"\n### {title}\n\n```text", *lines, "```"]) for title, lines in names().items()
    ]
    return "\n".join(blocks) + "\n"


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().partition(MARK)[0] + MARK + text())
