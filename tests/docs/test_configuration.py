"""The configuration page, the example file and `--help` show every setting, from one source."""

import pytest
import yaml
from reasoning_replay.settings.loader import load
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.reference import help_of, metavar_of

from tests.docs.configuration import EXAMPLE, PAGE, example, page

TEXT = PAGE.read_text()
# (setting, value) for each setting with a fixed set of values; the page must explain each value.
CHOICES = [
    (name, choice)
    for name in Settings.model_fields
    for choice in metavar_of(name).split("|")
    if "|" in metavar_of(name) and name != "reuse_port"
]


def test_the_page_is_up_to_date() -> None:
    """The page is the output of `python -m tests.docs.configuration`, which writes it."""
    assert page() == TEXT


def test_the_example_file_is_up_to_date() -> None:
    """The file is the output of `python -m tests.docs.configuration`, which writes it."""
    assert example() == EXAMPLE.read_text()


def test_the_example_file_has_every_setting_with_its_default() -> None:
    """Loading the example file changes nothing."""
    named = yaml.safe_load(EXAMPLE.read_text())

    assert sorted(named) == sorted(Settings.model_fields)
    assert load({}, {}, EXAMPLE) == Settings()


@pytest.mark.parametrize(("name", "choice"), CHOICES)
def test_every_choice_is_explained(name: str, choice: str) -> None:
    """The text of a setting with fixed values names each of them."""
    assert f"`{choice}`" in (Settings.model_fields[name].description or "")


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("mode", "on|shadow|off"),
        ("upstream_profile", "TEXT"),
        ("upstream_url", "URL"),
        ("upstream_proxy", "URL"),
        ("tls_cert_file", "FILE"),
        ("listen", "HOST:PORT"),
        ("admin_listen", "HOST:PORT"),
        ("drain_s", "DURATION"),
        ("store_budget_ms", "DURATION"),
        ("body_max_bytes", "SIZE"),
        ("max_connections", "NUMBER"),
        ("reuse_port", "true|false"),
        ("repairs", "TEXT"),
    ],
)
def test_a_flag_shows_the_form_of_its_value(name: str, want: str) -> None:
    """`--help` shows the choices, the unit or the type of a value."""
    assert metavar_of(name) == want


def test_the_help_has_the_text_of_the_page() -> None:
    """`--help` shows the text without Markdown, with the default and the variable."""
    text = (Settings.model_fields["ttl_s"].description or "").replace("`", "")

    want = f"{text} Default: 7d. Environment: REPLAY_TTL_S."
    assert help_of("ttl_s") == want
