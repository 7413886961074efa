"""The README names what there is."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from proxy.core.heal.diagnosis import Fault
from proxy.core.heal.repair import Repair
from proxy.core.inject import Outcome
from proxy.core.profiles import PROFILES, Profile
from proxy.settings import Settings
from proxy.sources import env_of

README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_in_the_table(name: str) -> None:
    """With its variable and its default."""
    (row,) = [line for line in README.splitlines() if line.startswith(f"| `{name}` |")]
    default = Settings.model_fields[name].default
    shown = f"`{default:g}`" if isinstance(default, float) else f"`{default}`"

    assert f"`{env_of(name)}`" in row
    is_empty = default == "" or isinstance(default, SecretStr)
    assert ("| empty |" if is_empty else shown) in row


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_is_named(outcome: Outcome) -> None:
    """Operators find each word of the metrics explained."""
    assert f"`{outcome.value}`" in README


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_every_profile_is_in_the_table(profile: Profile) -> None:
    """With how its ids travel, and what it is known by."""
    (row,) = [line for line in README.splitlines() if line.startswith(f"| `{profile.name}` |")]
    _, _, hosts, ids, besides, source, _ = (cell.strip() for cell in row.split("|"))

    assert ids == profile.ids
    assert bool(hosts) == bool(profile.hosts or profile.name == "generic")
    assert ("keeps nothing" in besides) is not profile.keeps_items
    assert source


@pytest.mark.parametrize("word", [*Repair, *(fault for fault in Fault if fault is not Fault.OTHER)])
def test_every_cure_and_repair_is_named(word: Repair | Fault) -> None:
    """What the header says is explained."""
    assert f"`{word.value}`" in README or f"`healed={word.value}`" in README
