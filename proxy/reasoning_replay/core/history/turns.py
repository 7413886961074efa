"""
Turns: what is kept of one response.

A turn is written as MessagePack arrays behind one byte of format version.
Whoever meets a version that it does not know treats the turn as not there.
"""

from collections.abc import Callable, Iterable

import msgspec
from msgspec import structs

from reasoning_replay.core.wire.digest import digest

__all__ = ["Context", "Emitted", "Reasoning", "Turn", "decode_turn", "encode_turn", "turn_id"]

FORMAT = b"\x02"
LINK_BYTES = 8
TAIL_LINKS = 8


class Reasoning(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    One reasoning item as it may go back.

    Attributes:
        id: Its `rs_…`; "" where the upstream gives none.
        raw: Its JSON as upstream wrote it, less what input refuses.
        blobs: Digests of every `encrypted_content` seen for it: in `output_item.added`,
            `output_item.done` and `response.completed` they are different strings.
        has_blob: Whether `raw` carries one.
    """

    id: str
    raw: bytes
    blobs: tuple[bytes, ...]
    has_blob: bool

    def known_by(self, blobs: Iterable[bytes]) -> "Reasoning":
        """Return the same item, known by these digests of blobs besides."""
        seen = {*self.blobs, *blobs} - {b""}
        return structs.replace(self, blobs=tuple(sorted(seen)))


class Emitted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    One item that is not reasoning, and the run of reasoning that stood directly ahead of it.

    Attributes:
        content: As `Item.content`.
        run: The reasoning ahead of it; () when there was none, or when `withheld`.
        withheld: There was reasoning, but it may not go back: the item never finished, or
            upstream has refused the reasoning since.
        raw: Its JSON as upstream wrote it, less what input refuses; b"" when over RAW_MAX_BYTES.
    """

    type: str
    id: str
    call_id: str
    name: str
    content: bytes
    run: tuple[Reasoning, ...] = ()
    withheld: bool = False
    raw: bytes = b""

    def after(self, run: tuple[Reasoning, ...], *, withheld: bool) -> "Emitted":
        """Return the same item behind a run of reasoning."""
        if run == self.run and withheld == self.withheld:
            return self
        return structs.replace(self, run=run, withheld=withheld)


class Context(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    What had been said before a turn, by users and tools alone.

    What the model said is left out: clients reshape it, and it is matched item by item anyway.

    Attributes:
        chain: Digest of all of it from the head on.
        tail: The last links of the chain, 8 bytes each, newest last, at most 8 of them.
        depth: How many links there were.
        frame: Digest of instructions, system and developer messages; b"" when there were none.
        hint: Digest of the conversation's name as the client gave it; b"" when it gave none.
        answered: Traces of what the model had said or done last before it, 8 bytes each.
        is_known: False when the history lies with upstream (`previous_response_id`, a GET).
    """

    chain: bytes = b""
    tail: bytes = b""
    depth: int = 0
    frame: bytes = b""
    hint: bytes = b""
    is_known: bool = False
    answered: bytes = b""


class Turn(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    What one response emitted, in output order.

    Attributes:
        id: 16 bytes, from the response's id.
        conversation: 16 bytes; turns of one conversation are kept and expire together.
        parent: The newest turn in the history that led to this one; b"" when none was matched.
        models: Families of the model that was asked for and the one that answered.
        is_stored: Whether upstream keeps the items, so that a bare id means something to it.
        created_ms: When it was captured, since the epoch; orders the turns of a conversation.
    """

    id: bytes
    conversation: bytes
    parent: bytes
    models: tuple[str, ...]
    is_stored: bool
    created_ms: int
    context: Context
    items: tuple[Emitted, ...]

    def without_reasoning(self, is_refused: Callable[[bytes], bool]) -> "Turn":
        """Return the same turn less every run of which upstream has refused a blob."""
        items = tuple(
            item.after((), withheld=True)
            if any(is_refused(blob) for part in item.run for blob in part.blobs)
            else item
            for item in self.items
        )
        return self if items == self.items else structs.replace(self, items=items)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Turn)


def turn_id(response_id: str) -> bytes:
    """Return the id under which a response's turn is kept."""
    return digest(b"turn", response_id.encode("utf-8", "surrogatepass"))


def encode_turn(turn: Turn) -> bytes:
    """Return the bytes that a store keeps."""
    return FORMAT + _ENCODER.encode(turn)


def decode_turn(kept: bytes) -> Turn | None:
    """Return the turn that a store kept; None when it is damaged or of another format."""
    if kept[:1] != FORMAT:
        return None
    try:
        return _DECODER.decode(memoryview(kept)[1:])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
