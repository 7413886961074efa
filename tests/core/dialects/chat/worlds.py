"""
Random worlds of the Chat Completions API: the conversations of `tests.core.worlds` as messages.

    python -m tests.core.dialects.chat.worlds FIRST LAST

plays the worlds with these numbers, and prints what that module prints. All responses have the same
id and time, and in a third of the conversations with recurring call ids these are empty.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from reasoning_replay.core.dialects.captures import Capture, Origin
from reasoning_replay.core.dialects.chat.capture import ChatCapture
from reasoning_replay.core.dialects.chat.placement import plan_injection
from reasoning_replay.core.dialects.chat.profiles import Policy
from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.request_history import RequestHistory

from tests.core.worlds import (
    HEX,
    MODEL,
    NOTHING_NEW,
    Conversation,
    Habits,
    New,
    RandomWorld,
    Said,
    main,
)

__all__ = ["ChatWorld"]

# Forms of call ids: those of the upstreams of a gateway, and that of a client.
FORMS, OWN = ("call_{}", "chatcmpl-tool-{}", "tool_{}"), "toolu_{}"
RENAMES = ("", "", "", "", "own", "upstream")
# How a client spells what it sends again.
STYLES = ("plain", "plain", "respaced", "parts", "trimmed", "nulls", "split")


class ChatWorld(RandomWorld):
    """
    Several conversations of one tenant.

    In a third of the worlds, responses have ids of several forms, as those of a gateway. A third of
    the clients replace them by their own.

    Reasoning at the start of a response is `reasoning_content` of the message; reasoning before a
    later call is `extra_content` of that call.
    """

    shapes = ("R C", "R C", "R M C", "R C C", "R M", "C", "R C R C", "R M C C", "C R C")
    cannot = frozenset({"contradicts"})
    wants_followers = False

    def __init__(self, number: int, new: New = NOTHING_NEW) -> None:
        self._style = Random(f"style {number}").choice(STYLES)  # noqa: S311 - the same each time
        self._ids = Random(f"ids {number}")  # noqa: S311 - as above
        self._forms = FORMS[: self._ids.choice((1, 1, len(FORMS)))]
        self._own: dict[tuple[int, int], str] = {}  # response and index of a call -> the new id
        self._body = b""
        self._holders: list[list[int]] = []  # for each message the items of the request in it
        super().__init__(number, new)

    def _habits(self) -> Habits:
        renames = self._ids.choice(RENAMES)
        return replace(super()._habits(), ids="dropped", renames=renames)  # messages have no ids

    def _named(self, one: Conversation, prefix: str, digits: int) -> str:
        named = super()._named(one, prefix, digits)
        if prefix != "call" or one.habits.naming != "random":
            return named
        return self._ids.choice(self._forms).format(named.removeprefix("call_"))

    def _kept(self, one: Conversation) -> list[Said]:
        items = super()._kept(one)
        if not one.habits.renames:
            return items
        names: dict[str, str] = {}
        for n, said in enumerate(items):
            call_id = said.item.get("call_id", "")
            if said.kind == "C":
                names[call_id] = self._renamed(one, said)
            if said.kind in "CO":
                new = {"call_id": names.get(call_id, "call_lost")}
                items[n] = replace(said, item=said.item | new)
        return items

    def _renamed(self, one: Conversation, said: Said) -> str:
        """Return the client's own id of a call."""
        form = OWN if one.habits.renames == "own" else self._forms[0]
        drawn = "".join(self._ids.choices(HEX, k=24))
        return self._own.setdefault((said.response, said.k), form.format(drawn))

    @staticmethod
    def zero_name(one: Conversation, n: int) -> str:
        """Return what Bedrock, Kimi and Gemini name their calls."""
        return (f"call_{n}", f"functions.tool:{n}", "")[one.number % 3]

    @staticmethod
    def around(more: dict[str, Any]) -> str:
        """Return the conversation's name: without ids of messages, a clock tells nothing apart."""
        return str(more.get("prompt_cache_key"))

    def stores(self, request: RequestHistory[HistoryItem]) -> bool:
        """Return whether upstream stores the items; it never does."""
        return False

    def capturing(self, origin: Origin) -> Capture:
        """Return the capture of a response."""
        return ChatCapture(origin, 1 << 20)

    def request_of(self, sent: Sequence[Said], more: dict[str, Any]) -> RequestHistory[HistoryItem]:
        """Return the parsed request that carries these items as messages."""
        top = {**more}
        frame = top.pop("instructions", "")
        messages: list[dict[str, Any]] = []
        self._holders = []
        before: Said | None = None
        for n, said in enumerate(sent):
            is_apart = self._style == "split" and before is not None and before.kind == "M"
            if said.kind in "MC" and before is not None and not is_apart:
                is_same = before.kind in "MC" and before.response == said.response
            else:
                is_same = False
            if not is_same:
                messages.append(self._message(said))
                self._holders.append([])
            self._holders[-1].append(n)
            if said.kind == "C":
                messages[-1].setdefault("tool_calls", []).append(self._call(said))
            before = said
        if frame:
            messages.insert(0, {"role": "system", "content": frame})
            self._holders.insert(0, [])
        top |= {"model": MODEL, "messages": messages}
        self._body = json.dumps(top).encode()
        return read_request(self._body, {})

    def injected(
        self, request: RequestHistory[HistoryItem], matched: Matches
    ) -> dict[int, list[str]]:
        """Return the reasoning that is injected into the message or call of each item."""
        assert isinstance(request, ChatRequest)
        plan = plan_injection(request, matched, Policy())
        messages = json.loads(plan.apply(self._body))["messages"]
        injected: dict[int, list[str]] = defaultdict(list)
        for message, places in zip(messages, self._holders, strict=True):
            calls = message.get("tool_calls", [])
            if blob := message.get("reasoning_content"):
                injected[places[0]].append(blob)
            for call, n in zip(calls, places[len(places) - len(calls) :], strict=True):
                if content := call.get("extra_content"):
                    injected[n].append(content["google"]["thought_signature"])
        return injected

    def response_of(self, said: Sequence[Said]) -> bytes:
        """Return the JSON response that emits these items as one message."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        calls: list[dict[str, Any]] = []
        signature: dict[str, Any] = {}
        for n, each in enumerate(said):
            if each.kind == "R":
                blob = each.item["encrypted_content"]
                if n:
                    signature = {"extra_content": {"google": {"thought_signature": blob}}}
                else:
                    message["reasoning_content"] = blob
            elif each.kind == "M":
                message["content"] = _text(each)
            else:
                calls.append(_plain_call(each) | signature)
                signature = {}
        if calls:
            message["tool_calls"] = calls
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        top = {"id": "chatcmpl-0", "created": 0, "model": MODEL, "choices": choices}
        return json.dumps(top).encode()

    def _message(self, said: Said) -> dict[str, Any]:
        """Return the message that an item begins."""
        if said.kind == "O":
            made = {"role": "tool", "tool_call_id": said.item["call_id"]}
            return made | {"content": said.item["output"]}
        if said.kind not in "MC":
            return {"role": said.item["role"], "content": said.item["content"]}
        message: dict[str, Any] = {"role": "assistant"}
        text = _text(said) if said.kind == "M" else ""
        match self._style:
            case "parts" if text:
                message["content"] = [{"type": "text", "text": text}]
            case "trimmed":
                message["content"] = f"\n\n{text} "
            case "nulls":
                message |= {"content": text or None, "reasoning_content": None}
            case _:
                message["content"] = text
        return message

    def _call(self, said: Said) -> dict[str, Any]:
        call = _plain_call(said)
        if self._style == "respaced":
            arguments = json.loads(call["function"]["arguments"])
            call["function"]["arguments"] = json.dumps(arguments, indent=1)
        if self._style == "nulls":
            call["extra_content"] = None
        return call


def _text(said: Said) -> str:
    (part,) = said.item["content"]
    text: str = part["text"]
    return text


def _plain_call(said: Said) -> dict[str, Any]:
    item = said.item
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


if __name__ == "__main__":
    sys.exit(main(ChatWorld))
