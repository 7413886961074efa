"""The bodies of a request: one that is edited is held once, and joined only for a cure."""

import pytest
from reasoning_replay.core.dialects.base import Bodies
from reasoning_replay.core.wire.json_spans import Edit
from reasoning_replay.core.wire.packed_edits import PackedEdits

GIVEN = b'{"input":[],"n":1}'
EDITS = (Edit(10, 10, b"1,2"), Edit(1, 1, b'"a":1,'))
SENT = b'{"a":1,"input":[1,2],"n":1}'


@pytest.mark.parametrize(
    ("bodies", "is_edited", "size"),
    [
        pytest.param(Bodies(GIVEN, GIVEN), False, len(GIVEN), id="as-received"),
        pytest.param(Bodies(GIVEN, SENT), True, len(GIVEN) + len(SENT), id="joined"),
        pytest.param(Bodies(GIVEN, None, "", PackedEdits(EDITS)), True, len(SENT), id="in-pieces"),
    ],
)
def test_a_body_is_sent_in_pieces_or_whole(bodies: Bodies, is_edited: bool, size: int) -> None:
    """Its pieces are the sent body, and its size is what it holds."""
    pieces = bodies.to_send
    assert bodies.is_edited is is_edited
    assert bodies.size_bytes == size
    assert (pieces if isinstance(pieces, bytes) else b"".join(pieces)) == bodies.sent
    assert bodies.sent == (SENT if is_edited else GIVEN)
    assert bodies.sent is bodies.sent
    assert bodies.to_send is bodies.sent
