"""The README names what there is."""

from pathlib import Path

import pytest

from proxy.core.inject import Outcome
from proxy.settings import Settings, env_of

README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_in_the_table(name: str) -> None:
    """With its variable and its default."""
    (row,) = [line for line in README.splitlines() if line.startswith(f"| `{name}` |")]
    default = Settings.model_fields[name].default
    shown = f"`{default:g}`" if isinstance(default, float) else f"`{default}`"

    assert f"`{env_of(name)}`" in row
    assert (shown if name != "scope_secret" else "empty") in row


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_is_named(outcome: Outcome) -> None:
    """Operators find each word of the metrics explained."""
    assert f"`{outcome.value}`" in README
