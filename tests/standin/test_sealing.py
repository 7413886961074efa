"""Blobs: they look like real ones, name what they are bound to, and any damage is detected."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from tests.standin.sealing import Binding, Sealer

SEALER = Sealer(b"key")
BINDING = Binding("caller", "gpt-5.4", "rs_1")
BLOB = SEALER.seal(BINDING, "done", 1_763_600_000)


def test_a_blob_opens_to_its_binding() -> None:
    """A blob opens under the key that sealed it, and not under another."""
    assert SEALER.maybe_open(BLOB) == BINDING
    assert Sealer(b"key").maybe_open(BLOB) == BINDING
    assert Sealer(b"other").maybe_open(BLOB) is None


def test_a_blob_looks_like_the_real_one() -> None:
    """A blob is Fernet-like base64url, as long as recorded ones, and hides its content."""
    assert re.fullmatch(r"gAAAAA[A-Za-z0-9_-]+={0,2}", BLOB)
    assert 440 <= len(BLOB) <= 1_200
    assert "rs_1" not in BLOB


def test_two_events_carry_two_blobs_of_one_length() -> None:
    """`output_item.done` and `response.completed` differ in the bytes, not in the meaning."""
    other = SEALER.seal(BINDING, "completed", 1_763_600_000)

    assert other != BLOB
    assert len(other) == len(BLOB)
    assert SEALER.maybe_open(other) == BINDING


def test_a_snapshot_is_shorter_and_does_not_open() -> None:
    """The blob of `output_item.added` is well-formed and unusable."""
    snapshot = SEALER.snapshot("rs_1", 1_763_600_000)

    assert snapshot.startswith("gAAAAA")
    assert len(snapshot) < len(BLOB)
    assert SEALER.maybe_open(snapshot) is None


@example(BLOB.index("-"), "+")
@example(BLOB.index("_"), "/")
@example(len(BLOB.rstrip("=")) - 1, "R")
@given(st.integers(0, len(BLOB) - 1), st.characters(codec="utf-8"))
def test_any_changed_character_is_damage(at: int, character: str) -> None:
    """Only the issued blob opens, even if a decoder reads another text as the same bytes."""
    changed = BLOB[:at] + character + BLOB[at + 1 :]

    assert changed == BLOB or SEALER.maybe_open(changed) is None


@given(st.text())
def test_no_text_is_a_blob_by_chance(text: str) -> None:
    """Any text may be sent as a blob; only a blob opens."""
    assert SEALER.maybe_open(text) is None
