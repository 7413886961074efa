"""
Random worlds of the Chat Completions API: the items of Responses as messages.

All responses have the same id and time. Reasoning at the start of a response is
`reasoning_content` of the message; reasoning before a later call is `extra_content` of that call.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

from reasoning_replay.core.dialects.captures import Capture, Origin
from reasoning_replay.core.dialects.chat.capture import ChatCapture
from reasoning_replay.core.dialects.chat.placement import plan_injection
from reasoning_replay.core.dialects.chat.profiles import Policy
from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.request_history import RequestHistory
from typing_extensions import override

from tests.core.worlds.dialect import CAPTURE_MAX_BYTES, MODEL, WorldDialect, text_of
from tests.core.worlds.habits import Habits
from tests.core.worlds.said import Said

# Forms of call ids: those of the upstreams of a gateway, and that of a client.
FORMS, OWN = ("call_{}", "chatcmpl-tool-{}", "tool_{}"), "toolu_{}"
SHAPES = (
    "R C",
    "R C",
    "R M C",
    "R C C",
    "R M",
    "C",
    "R C R C",
    "R M C C",
    "C R C",
)
STYLES = (
    "plain",
    "plain",
    "respaced",
    "parts",
    "trimmed",
    "nulls",
    "split",
)


class ChatWorld(WorldDialect):
    """
    Messages without ids; some upstreams leave the ids of calls empty.

    In a third of the worlds, responses have ids of several forms, as those of a gateway. A third of
    the clients replace them by their own.
    """

    name = "chat"
    shapes: ClassVar[tuple[str, ...]] = SHAPES
    styles: ClassVar[tuple[str, ...]] = STYLES
    renames: ClassVar[tuple[str, ...]] = ("", "", "", "", "own", "upstream")
    wants_followers = False

    def __init__(self, number: int, draw: Callable[[], str]) -> None:
        super().__init__(number, draw)
        self._ids = Random(f"ids {number}")  # noqa: S311 - the same each time
        self._forms = FORMS[: self._ids.choice((1, 1, len(FORMS)))]
        self._own: dict[tuple[int, int], str] = {}  # response and index of a call -> the new id
        self._body = b""
        self._places: list[list[int]] = []  # for each message the items of the request in it

    @override
    def habits(self, habits: Habits) -> Habits:
        return replace(super().habits(habits), renames=self._ids.choice(self.renames))

    @override
    def call_name(self, name: str) -> str:
        return self._ids.choice(self._forms).format(name.removeprefix("call_"))

    @override
    def renamed(self, habits: Habits, items: list[Said]) -> list[Said]:
        if not habits.renames:
            return items
        names: dict[str, str] = {}
        made: list[Said] = []
        for said in items:
            call_id = said.item.get("call_id", "")
            if said.kind == "C":
                form = OWN if habits.renames == "own" else self._forms[0]
                new = form.format("".join(self._ids.choices("0123456789abcdef", k=24)))
                names[call_id] = self._own.setdefault((said.response, said.k), new)
            is_named = said.kind in "CO"
            named = {"call_id": names.get(call_id, "call_lost")} if is_named else {}
            made.append(replace(said, item=said.item | named))
        return made

    @override
    def request_of(self, sent: Sequence[Said], more: dict[str, Any]) -> RequestHistory[HistoryItem]:
        top = {**more}
        frame = top.pop("instructions", "")
        self._places = self.messages(sent)
        messages = [self._message([sent[n] for n in places]) for places in self._places]
        if frame:
            messages.insert(0, {"role": "system", "content": frame})
            self._places.insert(0, [])
        self._body = json.dumps({**top, "model": MODEL, "messages": messages}).encode()
        return read_request(self._body, {})

    @override
    def injected(
        self, request: RequestHistory[HistoryItem], matched: Matches
    ) -> Mapping[int, list[str]]:
        assert isinstance(request, ChatRequest)
        plan = plan_injection(request, matched, Policy())
        messages = json.loads(plan.apply(self._body))["messages"]
        injected: dict[int, list[str]] = defaultdict(list)
        for message, places in zip(messages, self._places, strict=True):
            calls = message.get("tool_calls", [])
            if blob := message.get("reasoning_content"):
                injected[places[0]].append(blob)
            for call, n in zip(calls, places[len(places) - len(calls) :], strict=True):
                if content := call.get("extra_content"):
                    injected[n].append(content["google"]["thought_signature"])
        return injected

    @override
    def response_of(self, said: Sequence[Said]) -> bytes:
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
                message["content"] = text_of(each)
            else:
                calls.append(_plain_call(each) | signature)
                signature = {}
        if calls:
            message["tool_calls"] = calls
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        top = {"id": "chatcmpl-0", "created": 0, "model": MODEL, "choices": choices}
        return json.dumps(top).encode()

    @override
    def capturing(self, origin: Origin) -> Capture:
        return ChatCapture(origin, CAPTURE_MAX_BYTES)

    def _message(self, items: Sequence[Said]) -> dict[str, Any]:
        """Return a message of these items, spelled as the clients of this world do."""
        first = items[0]
        if first.kind == "O":
            made = {"role": "tool", "tool_call_id": first.item["call_id"]}
            return made | {"content": first.item["output"]}
        if first.kind not in "MC":
            return {"role": first.item["role"], "content": first.item["content"]}
        message: dict[str, Any] = {"role": "assistant"}
        text = text_of(first) if first.kind == "M" else ""
        match self.style:
            case "parts" if text:
                message["content"] = [{"type": "text", "text": text}]
            case "trimmed":
                message["content"] = f"\n\n{text} "
            case "nulls":
                message |= {"content": text or None, "reasoning_content": None}
            case _:
                message["content"] = text
        if calls := [self._call(said) for said in items if said.kind == "C"]:
            message["tool_calls"] = calls
        return message

    def _call(self, said: Said) -> dict[str, Any]:
        call = _plain_call(said)
        if self.style == "respaced":
            arguments = json.loads(call["function"]["arguments"])
            call["function"]["arguments"] = json.dumps(arguments, indent=1)
        if self.style == "nulls":
            call["extra_content"] = None
        return call


def _plain_call(said: Said) -> dict[str, Any]:
    item = said.item
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}
