"""
Sent messages: a short digest of each item of a request, in the form in which it is sent.

The items of one message share its bytes, so the digest of each covers the whole message, with what
was injected into it. So it does not matter who added a member: a plan, a cure or the client.
"""

from operator import itemgetter

from reasoning_replay.core.dialects.chat.request import ChatRequest
from reasoning_replay.core.history.plan import Outcome, Plan
from reasoning_replay.core.history.sent_items import SentItems, packed
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

_NO_PLAN = Plan()
_START = itemgetter(0)


def sent_messages(request: ChatRequest, plan: Plan = _NO_PLAN) -> SentItems:
    """
    Return the digests of a request.

    Args:
        request: The request before it is edited.
        plan: Its edits. What it injects at one place counts as one injected item.
    """
    pending = sorted(plan.edits, key=_START)[::-1]
    places = {note.place for note in plan.notes if note.outcome is Outcome.INJECTED}
    digests, injected = [], list[int]()
    message, raw, new = None, b"", b""
    for index, place in enumerate(request.places):
        item = place.item
        if item.message is not message:
            message = item.message
            raw, start, inside = message.raw, message.start, list[Edit]()
            while pending and pending[-1].start < start + len(raw):
                edit = pending.pop()
                inside.append(Edit(edit.start - start, edit.end - start, edit.new))
            raw = json_spans.apply(raw, inside)
            new = b"".join(edit.new for edit in inside)
        if index in places:
            injected.append(hash((new, item.number)))
        digests.append(hash((raw, item.number)))
    return SentItems(hash(request.head), packed(digests), packed(injected))
