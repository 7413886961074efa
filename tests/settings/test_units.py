"""Sizes and durations have units in every place, and are shown with one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.settings.entries import SettingsError
from reasoning_replay.settings.loader import env_of, load
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.units import kind_of, read, shown

WITH_UNITS = [name for name in Settings.model_fields if kind_of(name)]
SIZES = "use B, kB, KiB, MB, MiB, GB, GiB, TB or TiB, such as 64MiB; a plain number is in bytes"
TIMES = "use ms, s, m, h or d, such as 10m; a plain number is in seconds"

# (setting, as written, as used)
WRITTEN = [
    ("body_max_bytes", "64MB", 64_000_000),
    ("body_max_bytes", "64MiB", 64 * 1024**2),
    ("body_max_bytes", "64 mib", 64 * 1024**2),
    ("body_max_bytes", "1.5GiB", 1_610_612_736),
    ("body_max_bytes", "0.1MiB", 104_857),
    ("body_max_bytes", "12kB", 12_000),
    ("body_max_bytes", "12KiB", 12_288),
    ("body_max_bytes", "2TB", 2 * 10**12),
    ("body_max_bytes", "2TiB", 2 * 1024**4),
    ("body_max_bytes", "7B", 7),
    ("body_max_bytes", "4096", 4096),
    ("ttl_s", "7d", 604_800),
    ("ttl_s", "12h", 43_200),
    ("ttl_s", "10m", 600),
    ("ttl_s", "60000ms", 60),
    ("ttl_s", "90", 90),
    ("read_timeout_s", "250ms", 0.25),
    ("read_timeout_s", "1.5m", 90.0),
    ("read_timeout_s", "0.5", 0.5),
    ("drain_s", "0s", 0.0),
    ("store_budget_ms", "1s", 1000),
    ("store_budget_ms", "250ms", 250),
    ("store_budget_ms", "80", 80),
]

# (setting, as written, the reason and the way out)
REFUSED = [
    ("ttl_s", "10 parsecs", f'"parsecs" is not a unit of a duration; {TIMES}'),
    ("ttl_s", "7M B", f"not a duration; {TIMES}"),
    ("ttl_s", "", f"not a duration; {TIMES}"),
    ("ttl_s", "500ms", "should be a whole number of seconds; the default is 7d"),
    ("ttl_s", "0d", "should be greater than or equal to 1; the default is 7d"),
    ("drain_s", "-5s", f"not a duration; {TIMES}"),
    ("body_max_bytes", "64M", f'"M" is not a unit of a size; {SIZES}'),
    ("body_max_bytes", "7d", f'"d" is not a unit of a size; {SIZES}'),
    ("body_max_bytes", "much", f"not a size; {SIZES}"),
    ("max_exchanges", "4kB", "should be a whole number; the default is 4096"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "written", "want"), WRITTEN)
def test_a_unit_is_read_in_every_place(
    name: str, written: str, want: float, tmp_path: Path
) -> None:
    """A flag, a variable and a line of the file mean the same."""
    file = tmp_path / "replay.yaml"
    file.write_text(f"{name}: {written}")

    assert getattr(load({name: written}, {}, None), name) == want
    assert getattr(load({}, {env_of(name): written}, None), name) == want
    assert getattr(load({}, {}, file), name) == want


@pytest.mark.parametrize(("name", "written", "reason"), REFUSED)
def test_another_unit_is_refused_with_a_way_out(name: str, written: str, reason: str) -> None:
    """The line has the units that there are, or the limit of the value."""
    with pytest.raises(SettingsError) as caught:
        load({}, {env_of(name): written}, None)

    assert caught.value.faults == [f'{env_of(name)}: "{written}": {reason}']


@pytest.mark.parametrize(
    ("name", "number", "want"),
    [
        ("ttl_s", 604_800, "7d"),
        ("ttl_s", 43_200, "12h"),
        ("ttl_s", 604_801, "604801s"),
        ("drain_s", 600.0, "10m"),
        ("read_timeout_s", 0.25, "250ms"),
        ("read_timeout_s", 0.0001, "0.0001"),
        ("drain_s", 0.0, "0"),
        ("store_budget_ms", 50, "50ms"),
        ("body_max_bytes", 64 * 1024**2, "64MiB"),
        ("body_max_bytes", 64_000_000, "64MB"),
        ("body_max_bytes", 1, "1B"),
        ("max_exchanges", 4096, "4096"),
    ],
)
def test_a_number_is_shown_in_its_largest_whole_unit(name: str, number: float, want: str) -> None:
    """A number that has no unit, and zero, stay as they are."""
    assert shown(name, number) == want


@given(st.sampled_from(WITH_UNITS), st.integers(0, 2**50))
def test_a_shown_number_is_read_as_the_same(name: str, number: int) -> None:
    """So a printed setting can be used as a file again."""
    assert float(str(read(name, shown(name, number)))) == number


def test_a_number_of_the_caller_stays() -> None:
    """Embedding programs and tests pass numbers, in the unit of the name."""
    assert Settings(ttl_s=5, body_max_bytes=7).body_max_bytes == 7
