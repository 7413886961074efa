"""Models, embeddings and files: that what was sent arrived whole."""

import base64
import hashlib
import struct

from hypothesis import given
from hypothesis import strategies as st

from tests.standin.neighbours import EmbeddingRequest, embed, maybe_file, models


def test_models_are_listed() -> None:
    """Some that reason, one that does not."""
    assert {"gpt-5.4", "gpt-4o"} <= {model.id for model in models().data}


def test_both_encodings_give_the_same_vector() -> None:
    """Numbers, or the float32 bytes that SDKs ask for."""
    numbers = embed(EmbeddingRequest("m", ["a", "b"])).data
    packed = embed(EmbeddingRequest("m", ["a", "b"], "base64")).data

    for one, other in zip(numbers, packed, strict=True):
        assert isinstance(other.embedding, str)
        vector = struct.unpack("<8f", base64.b64decode(other.embedding))
        assert [round(value, 6) for value in vector] == [round(float(v), 6) for v in one.embedding]
    assert embed(EmbeddingRequest("m", "a")).data[0] == numbers[0]


@given(st.binary().filter(lambda content: b"--BOUND" not in content))
def test_a_file_is_found_untouched(content: bytes) -> None:
    """Any bytes, line ends included."""
    body = (
        b'--BOUND\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
        b'--BOUND\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n" + content + b"\r\n--BOUND--\r\n"
    )
    found = maybe_file(body, "BOUND", 0)

    assert found is not None
    assert (found.bytes, found.filename) == (len(content), "a.bin")
    assert found.sha256 == hashlib.sha256(content).hexdigest()


def test_a_form_without_a_file_has_none() -> None:
    """Other parts are not taken for it."""
    body = b'--B\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nx\r\n--B--\r\n'

    assert maybe_file(body, "B", 0) is None
