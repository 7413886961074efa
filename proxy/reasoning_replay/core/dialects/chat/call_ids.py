"""
Ids of calls: upstream's own, in place of those of a client that replaces them.

Encrypted reasoning may name its call by the id that upstream gave it.
"""

from itertools import takewhile

import msgspec

from reasoning_replay.core.dialects.chat.items import CALL, OUTPUT
from reasoning_replay.core.dialects.chat.message_groups import MessageGroup
from reasoning_replay.core.dialects.chat.request import ChatRequest
from reasoning_replay.core.wire.json_spans import Edit, Unspliceable


def upstreams_ids(request: ChatRequest, group: MessageGroup) -> list[Edit]:
    """
    Return the edits by which the calls of a message, and their results, have upstream's ids.

    The results follow the message; those of calls with one id are in the order of the calls.

    Raises:
        Unspliceable: A call is not known, or in the old form, or its result is missing.
    """
    places = request.places
    after = (places[at].item for at in range(group.places[-1] + 1, len(places)))
    results = list(takewhile(lambda item: item.type == OUTPUT, after))
    edits: list[Edit] = []
    for index in (n for n in group.places if places[n].item.type == CALL):
        item, match = places[index].item, group.matches.get(index)
        result = next((one for one in results if one.call_id == item.call_id), None)
        if match is None or result is None or item.number < 0 or not item.call_id:
            raise Unspliceable("a call is not known as one that was answered")
        results.remove(result)
        ids = (
            (item.message, item.message.members_of_call(item.number)["id"]),
            (result.message, result.message.members["tool_call_id"]),
        )
        own = msgspec.json.encode(match.emitted.call_id)
        edits += [
            Edit(message.start + at.start, message.start + at.end, own)
            for message, at in ids
            if message.raw[at.start : at.end] != own
        ]
    return edits
