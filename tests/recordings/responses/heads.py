"""Heads: what a request without its first messages begins with, and whether anything proves it."""

import json
from collections.abc import Iterator
from itertools import dropwhile, takewhile

from tests.recordings.responses.client import Piece, Take, Thought, Variant, take
from tests.recordings.responses.runs import Played
from tests.recordings.responses.tape import Key


def is_unproved(one: Played, variant: Variant) -> bool:
    """Return whether an exchange lacks the reasoning of such a head, and nothing else."""
    return one.is_lacking and set(one.verdict.missing) <= unproved(one.take, variant)


def unproved(this: Take, variant: Variant) -> frozenset[str]:
    """
    Return the labels of the reasoning of a request's first texts, if nothing proves whose they are.

    They are messages without ids, with no call among them and no message before them; and the
    request has no name. What follows would prove them if an earlier request of the recording had
    the same texts elsewhere than at its head.
    """
    want = this.want or ()
    head = list(takewhile(lambda one: isinstance(one, Thought) or _is_models(one), want))
    texts = [one for one in head if isinstance(one, Piece)]
    are_bare = all(
        one.item.get("type", "message") == "message" and "id" not in one.item for one in texts
    )
    is_named = "prompt_cache_key" in json.loads(this.body)
    if not (variant.cuts_head and texts and are_bare) or is_named:
        return frozenset()
    keys = {one.origin.key for one in texts if one.origin is not None}
    earlier = (one for one in this.recording.exchanges if one.n < this.exchange.n)
    if any(not keys.isdisjoint(_behind(take(this.recording, one, variant))) for one in earlier):
        return frozenset()
    return frozenset(one.label for one in head if isinstance(one, Thought))


def _is_models(piece: Piece) -> bool:
    """Return whether an item is one that the model emitted."""
    return piece.origin is not None


def _behind(this: Take) -> Iterator[Key]:
    """Yield the keys of the emitted items that a request sends after its first others."""
    rest = dropwhile(lambda one: isinstance(one, Thought) or _is_models(one), this.want or ())
    for one in rest:
        if isinstance(one, Piece) and one.origin is not None:
            yield one.origin.key
