"""Behaviour: what a test may set about a stand-in for Anthropic Messages."""

from typing import Literal, TypedDict

from msgspec import Struct

from tests.standin.messages.model import IdForm, Loop

__all__ = ["Behaviour", "End", "Options"]

End = Literal["complete", "length", "error"]
"""How a response ends: as it should, at a token limit, or with an error."""


class Behaviour(Struct, kw_only=True):
    """
    Behaviour of the stand-in; may be changed between two requests.

    Attributes:
        loop: The scripted agent loop (model.LOOPS).
        repeats: Whether the model says the same in every turn, so that only places differ.
        ids: The ids of its calls; None for those of its mode.
        end: How a response ends.
        chunk_bytes: Size of one write of the stream, in bytes; None writes event by event.
        delay_s: Pause after every event, 5 s at most.
    """

    loop: Loop = "one_call"
    repeats: bool = False
    ids: IdForm | None = None
    end: End = "complete"
    chunk_bytes: int | None = None
    delay_s: float = 0.0


class Options(TypedDict, total=False):
    """The attributes of Behaviour, as keyword arguments."""

    loop: Loop
    repeats: bool
    ids: IdForm | None
    end: End
    chunk_bytes: int | None
    delay_s: float
