"""Behaviour: what a test may set about a stand-in for Chat Completions."""

from typing import TypedDict

from msgspec import Struct

from tests.standin.chat.answers import End
from tests.standin.chat.families import CallIndex, IdForm
from tests.standin.chat.model import Loop

__all__ = ["Behaviour", "Options"]


class Behaviour(Struct, kw_only=True):
    """
    Behaviour of the stand-in; may be changed between two requests.

    Attributes:
        loop: The scripted agent loop (model.LOOPS).
        repeats: Whether the model says the same in every turn, so that only places differ.
        ids: The ids of its calls; None for those of its family.
        call_index: See families.CallIndex; None for that of its family.
        end: How a response ends (answers.End).
        halves: Whether a delta may end inside a character (deltas.Cutting).
        chunk_bytes: Size of one write of the stream, in bytes; None writes event by event.
        delay_s: Pause after every event, 5 s at most.
    """

    loop: Loop = "one_call"
    repeats: bool = False
    ids: IdForm | None = None
    call_index: CallIndex | None = None
    end: End = "complete"
    halves: bool = False
    chunk_bytes: int | None = None
    delay_s: float = 0.0


class Options(TypedDict, total=False):
    """The attributes of Behaviour, as keyword arguments."""

    loop: Loop
    repeats: bool
    ids: IdForm | None
    call_index: CallIndex | None
    end: End
    halves: bool
    chunk_bytes: int | None
    delay_s: float
