"""Encryption keys: accepted spellings, and errors that never show a key."""

import base64
import re

import pytest
from reasoning_replay.adapters.stores.encryption_keys import EncryptionKey, parse_keys

ONE, OTHER = b"\xff" * 32, bytes(range(32))


def written(secret: bytes) -> str:
    """Encode a key as `openssl rand -base64` does."""
    return base64.b64encode(secret).decode()


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", [], id="none"),
        pytest.param(f"a:{written(ONE)}", [("a", ONE)], id="one"),
        pytest.param(
            f"2026-02:{written(ONE)}, 2026-01:{written(OTHER)}",
            [("2026-02", ONE), ("2026-01", OTHER)],
            id="two",
        ),
        pytest.param(f"a:{written(ONE).rstrip('=')}", [("a", ONE)], id="without-padding"),
        pytest.param(
            f"a:{base64.urlsafe_b64encode(ONE).decode()}", [("a", ONE)], id="alphabet-of-urls"
        ),
    ],
)
def test_reads_keys(text: str, want: list[tuple[str, bytes]]) -> None:
    """Keys are separated by commas; the first one encrypts."""
    assert list(parse_keys(text)) == want


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(written(ONE), "key 1 has no id", id="no-id"),
        pytest.param(f":{written(ONE)}", "key 1 has no id", id="empty-id"),
        pytest.param(f"{'x' * 33}:{written(ONE)}", "key 1 has no id", id="long-id"),
        pytest.param(f"a:{written(ONE)},b:{written(ONE[1:])}", "key 2 has 31 bytes", id="short"),
        pytest.param("a:hunter2!", "key 1 is not base64", id="no-base64"),
        pytest.param("a:\u00e9", "key 1 is not base64", id="no-ascii"),
        pytest.param(f"a:{written(ONE)},", "key 2 has no id", id="comma-at-the-end"),
        pytest.param(f"a:{written(ONE)},a:{written(OTHER)}", "the same id", id="same-id"),
    ],
)
def test_refuses_what_is_no_key(text: str, reason: str) -> None:
    """An invalid key is refused by its position and with a way out, and is not shown."""
    with pytest.raises(ValueError, match=re.escape(reason)) as error:
        parse_keys(text)

    assert not {part for part in re.split(r"[:,]", text) if len(part) > 6 and part in str(error)}
    assert error.value.__cause__ is None


def test_a_key_is_not_shown() -> None:
    """A key is not in the representation of the keys, nor in a traceback."""
    assert repr(EncryptionKey("a", ONE)) == "EncryptionKey('a')"
