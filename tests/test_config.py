"""The files in config/ load, and replay.yaml is the whole truth about the defaults."""

from pathlib import Path

import pytest
import yaml

from proxy.settings import Settings
from proxy.sources import load

CONFIG = Path(__file__).parent.parent / "config"


@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_loads(path: Path) -> None:
    """An example that does not start is worse than none."""
    assert isinstance(load({}, {}, path), Settings)


def test_the_annotated_file_changes_nothing() -> None:
    """Loading replay.yaml equals the defaults."""
    assert load({}, {}, CONFIG / "replay.yaml") == Settings()


def test_the_annotated_file_names_every_setting() -> None:
    """A setting without its lines there is not documented."""
    named = yaml.safe_load((CONFIG / "replay.yaml").read_text())

    assert sorted(named) == sorted(Settings.model_fields)


def test_the_annotated_file_explains_every_setting() -> None:
    """Directly above each setting, or above the group it stands in, is a comment."""
    for block in (CONFIG / "replay.yaml").read_text().split("\n\n"):
        assert block.startswith("#"), block


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("azure", {"upstream_url"}, id="azure"),
        pytest.param("openrouter", {"upstream_url"}, id="openrouter"),
        pytest.param("redis", {"store_url", "listen", "admin_listen"}, id="redis"),
    ],
)
def test_an_example_is_about_one_thing(name: str, want: set[str]) -> None:
    """It sets what differs from the defaults, and nothing else."""
    got = load({}, {}, CONFIG / f"{name}.yaml").model_dump().items()

    assert {key for key, value in got if value != Settings().model_dump()[key]} == want
