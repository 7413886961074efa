"""An encrypted value can be decrypted only with its key and at its place in the store."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.adapters.stores.base import decoded, encoded
from reasoning_replay.adapters.stores.contract.turns import SCOPE, bytes_of
from reasoning_replay.adapters.stores.encryption import NONCE_BYTES, SEALED, EncryptedCodec
from reasoning_replay.adapters.stores.encryption_keys import EncryptionKey
from reasoning_replay.core.history.records import FORMAT

OLD, NEW = EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)
VALUE = b"\x03" + b"reasoning" * 30
PLACE = ((SCOPE, bytes_of("conversation")), b"a record's name")
KEPT = EncryptedCodec([OLD]).encode(*PLACE, VALUE)


def test_values_are_stored_unchanged_without_a_codec() -> None:
    """All versions of this program read the plain form."""
    records = {PLACE[1]: VALUE}
    assert encoded(None, PLACE[0], records) == records
    assert decoded(None, PLACE[0], records) == records


def test_an_encrypted_value_can_be_decrypted_but_not_read() -> None:
    """Decryption returns the whole value, and the encrypted form shows none of it."""
    assert EncryptedCodec([OLD]).decode(*PLACE, KEPT) == VALUE
    assert b"reasoning" not in KEPT


def test_the_form_of_an_encrypted_value() -> None:
    """The form is documented, because other versions must read it."""
    assert KEPT.startswith(SEALED + b"\x03old")
    assert len(KEPT) == 1 + 1 + 3 + NONCE_BYTES + len(VALUE) + 16


def test_no_nonce_is_used_twice() -> None:
    """Each encryption of the same value uses another nonce."""
    sealed = EncryptedCodec([OLD])
    assert len({sealed.encode(*PLACE, VALUE)[5 : 5 + NONCE_BYTES] for _ in range(1000)}) == 1000


def test_keys_rotate() -> None:
    """The first key encrypts, and each key decrypts its own values and no others."""
    both = EncryptedCodec([NEW, OLD])
    renewed = both.encode(*PLACE, VALUE)
    assert both.decode(*PLACE, KEPT) == VALUE
    assert EncryptedCodec([NEW]).decode(*PLACE, renewed) == VALUE
    assert EncryptedCodec([OLD]).decode(*PLACE, renewed) is None
    assert EncryptedCodec([NEW]).decode(*PLACE, KEPT) is None
    assert EncryptedCodec([EncryptionKey("old", b"?" * 32)]).decode(*PLACE, KEPT) is None


@pytest.mark.parametrize("moved", range(3), ids=["scope", "conversation", "field"])
def test_a_moved_value_cannot_be_decrypted(moved: int) -> None:
    """Write access to the store is not enough to move a tenant's reasoning to another tenant."""
    place = [*PLACE[0], PLACE[1]]
    place[moved] = bytes_of("elsewhere")
    assert EncryptedCodec([OLD]).decode((place[0], place[1]), place[2], KEPT) is None


def test_plain_values_are_read_with_encryption_on() -> None:
    """Older plain values are still read; without a key, encrypted values are skipped."""
    assert EncryptedCodec([NEW]).decode(*PLACE, VALUE) == VALUE
    assert SEALED != FORMAT  # a plain reader skips an unknown format


@given(st.binary(max_size=80), st.integers(0, len(KEPT)))
def test_a_damaged_value_is_skipped(junk: bytes, cut: int) -> None:
    """A damaged value causes no error and never decrypts to another value."""
    codec = EncryptedCodec([OLD])
    assert codec.decode(*PLACE, SEALED + junk) is None
    assert cut == 0 or codec.decode(*PLACE, KEPT[:cut] + junk) in (None, VALUE)
    assert codec.decode(*PLACE, KEPT[:-1] + bytes([KEPT[-1] ^ 1])) is None
