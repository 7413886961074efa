"""What is sealed opens with its key, at its place, and not otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.adapters.stores.codec import decoded, encoded
from reasoning_replay.adapters.stores.encryption import NONCE_BYTES, SEALED, EncryptedCodec
from reasoning_replay.core.history.turns import FORMAT
from reasoning_replay.settings.encryption_keys import EncryptionKey

from tests.adapters.stores.turns import SCOPE, bytes_of

OLD, NEW = EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)
VALUE = b"\x03" + b"reasoning" * 30
PLACE = (SCOPE, bytes_of("conversation"), b"a record's name")
KEPT = EncryptedCodec([OLD]).encode(*PLACE, VALUE)


def test_plain_is_as_it_is() -> None:
    """One form for all versions of this program that do not encrypt."""
    records = {PLACE[2]: VALUE}
    assert encoded(None, *PLACE[:2], records) == records
    assert decoded(None, *PLACE[:2], records) == records


def test_what_is_sealed_opens_and_shows_nothing() -> None:
    """The whole value comes back; it cannot be read meanwhile."""
    assert EncryptedCodec([OLD]).decode(*PLACE, KEPT) == VALUE
    assert b"reasoning" not in KEPT


def test_the_form_of_what_is_sealed() -> None:
    """Documented, since other versions must read it."""
    assert KEPT.startswith(SEALED + b"\x03old")
    assert len(KEPT) == 1 + 1 + 3 + NONCE_BYTES + len(VALUE) + 16


def test_no_two_are_alike() -> None:
    """The same value is never sealed with the same nonce."""
    sealed = EncryptedCodec([OLD])
    assert len({sealed.encode(*PLACE, VALUE)[5 : 5 + NONCE_BYTES] for _ in range(1000)}) == 1000


def test_keys_rotate() -> None:
    """The first seals, all open; what the old one sealed is lost with it, and with it alone."""
    both = EncryptedCodec([NEW, OLD])
    renewed = both.encode(*PLACE, VALUE)
    assert both.decode(*PLACE, KEPT) == VALUE
    assert EncryptedCodec([NEW]).decode(*PLACE, renewed) == VALUE
    assert EncryptedCodec([OLD]).decode(*PLACE, renewed) is None
    assert EncryptedCodec([NEW]).decode(*PLACE, KEPT) is None
    assert EncryptedCodec([EncryptionKey("old", b"?" * 32)]).decode(*PLACE, KEPT) is None


@pytest.mark.parametrize("moved", range(3), ids=["scope", "conversation", "field"])
def test_what_was_moved_does_not_open(moved: int) -> None:
    """Whoever can write to the store cannot give one tenant another's reasoning."""
    place = list(PLACE)
    place[moved] = bytes_of("elsewhere")
    assert EncryptedCodec([OLD]).decode(place[0], place[1], place[2], KEPT) is None


def test_encryption_is_switched_on_without_loss() -> None:
    """What was kept before is still read; and switched off again, what is sealed is skipped."""
    assert EncryptedCodec([NEW]).decode(*PLACE, VALUE) == VALUE
    assert SEALED != FORMAT  # what is read plain is of an unknown format, then


@given(st.binary(max_size=80), st.integers(0, len(KEPT)))
def test_what_is_damaged_is_nothing(junk: bytes, cut: int) -> None:
    """Whatever stands there, no error comes of it, and no value that was not kept."""
    codec = EncryptedCodec([OLD])
    assert codec.decode(*PLACE, SEALED + junk) is None
    assert cut == 0 or codec.decode(*PLACE, KEPT[:cut] + junk) in (None, VALUE)
    assert codec.decode(*PLACE, KEPT[:-1] + bytes([KEPT[-1] ^ 1])) is None
