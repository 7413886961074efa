"""A body in parts is written in pieces of one size, whatever the parts are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.adapters.upstream import request_writer


@given(st.lists(st.binary(max_size=30), max_size=12), st.integers(1, 20))
def test_parts_are_written_in_pieces_of_one_size(parts: list[bytes], size: int) -> None:
    """Only the last piece is shorter; no byte is lost, added or moved."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_writer, "PIECE_BYTES", size)
        views = [memoryview(part) if n % 2 else part for n, part in enumerate(parts)]
        pieces = [*request_writer._in_pieces(views)]
    assert b"".join(pieces) == b"".join(parts)
    assert all(len(piece) == size for piece in pieces[:-1])
    assert all(pieces)
