"""
Chat capture: the reasoning that one completion emitted and the items it led to, as a turn.

A turn is complete at the first `finish_reason`, so it is stored once.
"""

import re

from typing_extensions import override

from reasoning_replay.core.dialects.captures import ITEM_BYTES, Origin
from reasoning_replay.core.dialects.chat.events import Chunk, MessageJoiner, calls_in, read_chunk
from reasoning_replay.core.dialects.chat.items import ChatItem, read_message
from reasoning_replay.core.dialects.chat.members import (
    CALL_MEMBERS,
    EMPTY_TEXT,
    FIELDS,
    MESSAGE_MEMBERS,
    is_emitted_empty,
    is_unknown_carrier,
    reasoning_of,
    says_nothing,
    value_of,
)
from reasoning_replay.core.dialects.lenient import members_of
from reasoning_replay.core.dialects.turn_capture import TurnCapture
from reasoning_replay.core.dialects.usages import UsageReader
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.model_names import families
from reasoning_replay.core.history.turns import Emitted, Reasoning
from reasoning_replay.core.wire import json_spans, surrogates
from reasoning_replay.core.wire.json_spans import NONE, Unspliceable

# The chunk that ends a choice. Some upstreams send an empty string, like null, in all others.
_END = re.compile(rb'"finish_reason"\s*:\s*"[^"]')
_DONE = b"[DONE]"  # data of the last event of a stream
# Reasons to finish that leave the last item incomplete.
_CUT_SHORT = frozenset(
    {
        *("length", "max_tokens", "content_filter"),
        "model_length",  # Mistral
        "insufficient_system_resource",  # DeepSeek
        *("sensitive", "network_error", "model_context_window_exceeded"),  # Z.ai
        *("safety", "recitation"),  # Gemini, through gateways
        "abort",  # vLLM, SGLang
    }
)
_FAILED = "error"
_USAGE = UsageReader("prompt_tokens", "completion_tokens")


class ChatCapture(TurnCapture[MessageJoiner]):
    """The capture of one completion."""

    end = _END

    @override
    def __init__(self, origin: Origin, max_bytes: int) -> None:
        super().__init__(origin, max_bytes, MessageJoiner)
        self._created = b""

    @override
    def _read(self, response: bytes) -> None:
        chunk = read_chunk(response)
        if chunk is None:
            return
        self._note(chunk, response)
        choice = chunk.first
        if choice is None or choice.message is NONE:
            return
        message = bytes(choice.message)
        if message not in response:
            message = surrogates.unmarked(message)
        members = members_of(choice.message).items()
        self.has_unknown_carrier = any(is_unknown_carrier(one, bytes(raw)) for one, raw in members)
        # A whole response needs no reason to finish: some upstreams send none.
        self._finish(choice.finish_reason or "stop", message)

    @override
    def hear(self, data: bytes) -> None:
        if self.gave_up or self.has_failed:
            return
        if data == _DONE:  # some upstreams give no reason to finish
            self._finish("stop", self._joiner.joined())
            return
        chunk = read_chunk(data)
        if chunk is None:
            return
        self._note(chunk, data)
        choice = chunk.first
        if choice is None or self._status:
            return
        if choice.delta:
            self._joiner.add(choice.delta)
            self.has_unknown_carrier = self._joiner.has_unknown_carrier
        if self._joiner.size_bytes > self._max_bytes:
            self._give_up("too_large")
        elif choice.finish_reason:
            self._finish(choice.finish_reason, self._joiner.joined())

    def _note(self, chunk: Chunk, data: bytes) -> None:
        """Record the fields that are not part of the message."""
        self.response_id = self.response_id or chunk.id or ""
        self.model = chunk.model or self.model
        if chunk.created is not NONE:
            self._created = self._created or bytes(chunk.created)
        if chunk.usage is not NONE:
            usage = _USAGE.read(chunk.usage)
            self.usage = usage or self.usage
        if chunk.has_failed:
            self._fail(data)

    def _finish(self, reason: str, message: bytes) -> None:
        """Make the turn of a complete message, once."""
        if self._status or self.has_failed:
            return
        self._status = reason
        if reason == _FAILED:
            self.has_failed = True
            self._joiner = self._join()
            return
        if not self._fits(len(message) + ITEM_BYTES * calls_in(message)):
            return
        items = _emitted(message, is_cut_short=reason.lower() in _CUT_SHORT)
        models = _models(self._origin.model, self.model)
        self._complete(reason, self._created + message, items, models)
        parts = (part for item in items for part in item.run)
        runs = [part.raw for part in parts if value_of(part) != EMPTY_TEXT]
        self.reasoning_items, self.reasoning_bytes = len(runs), sum(map(len, runs))


def _models(asked: str, answered: str) -> tuple[str, ...]:
    """Return the families of both models; "" if the request named none (Azure's deployments)."""
    return families(asked, answered) if asked else ("", *families("", answered))


def _emitted(message: bytes, *, is_cut_short: bool) -> list[Emitted]:
    """Return the items of a message, each with the reasoning that belongs to it."""
    readable = message
    try:
        json_spans.members(message)
    except Unspliceable:
        readable = surrogates.readable(message)
    items = read_message(readable)
    if not items or items[0].role is not Role.MODEL:
        return []
    # A value that had to be made readable is not what upstream wrote.
    written = message if readable is not message else b""
    runs = [_run_of(item, written, is_first=not n) for n, item in enumerate(items)]
    emitted = []
    for item, (is_whole, run) in zip(items, _without_repeats(runs), strict=True):
        is_unfinished = is_cut_short and item is items[-1]
        withheld = bool(run or not is_whole) and (not is_whole or is_unfinished)
        emitted.append(item.emitted(run, withheld=withheld))
    return emitted


def _without_repeats(
    runs: list[tuple[bool, list[Reasoning]]],
) -> list[tuple[bool, list[Reasoning]]]:
    """Return the runs without the message's FIELDS, if other members have all its signatures."""
    fields = next((part for part in runs[0][1] if part.id == FIELDS), None)
    if fields is None:
        return runs
    others = {blob for _, run in runs for part in run if part is not fields for blob in part.blobs}
    if not others.issuperset(fields.blobs):
        return runs
    (is_whole, first), *rest = runs
    return [(is_whole, [part for part in first if part is not fields]), *rest]


def _run_of(item: ChatItem, written: bytes, *, is_first: bool) -> tuple[bool, list[Reasoning]]:
    """
    Return whether all reasoning before an item can be injected, and the reasoning.

    Args:
        item: An item of the message.
        written: What upstream wrote, if the message had to be made readable; else b"".
        is_first: Whether it is the first item, which has the members of the message.
    """
    holder = item.message
    try:
        of_message = holder.members if is_first else {}
        of_call = holder.members_of_call(item.number) if item.number >= 0 else {}
    except Unspliceable:  # a key occurs twice
        return False, []
    found = [(name, of_message[name], False) for name in MESSAGE_MEMBERS if name in of_message]
    found += [(name, of_call[name], True) for name in CALL_MEMBERS if name in of_call]
    run: list[Reasoning] = []
    for name, member, is_of_call in found:
        value = holder.raw[member.start : member.end]
        if says_nothing(name, value) and not is_emitted_empty(name, value):
            continue
        part = reasoning_of(name, value, is_of_call=is_of_call)
        if part is None or (written and value not in written):
            return False, []
        run.append(part)
    return True, run
