"""Test world: items in wire format and a small store, to play conversations through the core."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from reasoning_replay.core.dialects.captures import Capture, Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import GENERIC, Profile
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import (
    Lookup,
    LookupResult,
    choose,
    keys_of_request,
    keys_of_turn,
)
from reasoning_replay.core.history.matching.matches import (
    Matches,
    context_of,
    match_items,
    parent_of,
)
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Turn, turn_id

Item = dict[str, Any]

MODEL = "gpt-5.6-sol"
NAMELESS = {"message", "function_call", "custom_tool_call"}


def drawn(name: object) -> str:
    """Return an id as upstream draws it at random; the same for the same name."""
    return sha256(str(name).encode()).hexdigest()[:16]


def user(text: str) -> Item:
    """Return a user's message."""
    return {"role": "user", "content": text}


def reasoning(name: str, **more: Any) -> Item:
    """Return a reasoning item as upstream emits it; its blob contains the name."""
    item = {"id": f"rs_{drawn(name)}", "type": "reasoning", "summary": []}
    return item | {"encrypted_content": f"gAAAA{name}", **more}


def call(name: str, *, tool: str = "get_weather", call_id: str = "", **more: Any) -> Item:
    """Return a function call as upstream emits it."""
    item: Item = {
        "id": f"fc_{drawn(name)}",
        "type": "function_call",
        "status": "completed",
        "arguments": '{"city":"Paris"}',
        "call_id": call_id or f"call_{drawn(name)}",
        "name": tool,
    }
    return item | more


def output(of: Item, text: str = "sunny") -> Item:
    """Return the output of a call."""
    kind = of["type"].replace("_call", "_call_output")
    return {"type": kind, "call_id": of["call_id"], "output": text}


def message(name: str, text: str, **more: Any) -> Item:
    """Return an assistant's message as upstream emits it."""
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    item: Item = {"id": f"msg_{drawn(name)}", "type": "message", "status": "completed"}
    return item | {"content": [part], "role": "assistant", **more}


def search(name: str) -> Item:
    """Return a hosted web search as upstream emits it."""
    action = {"type": "search", "query": name}
    return {"id": f"ws_{drawn(name)}", "type": "web_search_call", "status": "completed"} | {
        "action": action
    }


def emitted(shape: str, name: str, text: str = "") -> list[Item]:
    """
    Return the output of a response; ids are unique, as upstream draws them at random.

    Args:
        shape: Its items: R is reasoning, C a call, W a web search, M a message, and S a screenshot
            with reasoning before it.
        name: What begins the name of each item.
        text: Text of the messages; "": each has its own.
    """
    items: list[Item] = []
    for n, kind in enumerate(shape.split()):
        this = f"{name}x{n}"
        match kind:
            case "R":
                items.append(reasoning(this))
            case "C":
                items.append(call(this))
            case "W":
                items.append(search(this))
            case "S":
                action = {"type": "screenshot"}
                computer = call(this, id=f"cu_{drawn(this)}", type="computer_call", action=action)
                items += [reasoning(this), computer]
            case _:
                items.append(message(this, text or f"It is {this}."))
    return items


def without_ids(items: Iterable[Item]) -> list[Item]:
    """Return items without the ids that the API does not demand."""
    return [
        {key: value for key, value in item.items() if key != "id" or item["type"] not in NAMELESS}
        for item in items
    ]


def nameless(item: Item) -> Item:
    """Return an item without its id, even if the API demands it."""
    return {key: value for key, value in item.items() if key != "id"}


def injected(name: str) -> Item:
    """Return reasoning as upstream receives it before an item without an id."""
    return nameless(reasoning(name))


def said(text: str) -> Item:
    """Return a message of the model as a client without ids sends it."""
    return nameless(message("", text))


def dropped(items: Iterable[Item]) -> list[Item]:
    """Return the items that a client keeps if it drops reasoning."""
    return [item for item in items if item.get("type") != "reasoning"]


def body(items: Sequence[Item] | str, **more: Any) -> bytes:
    """Return a request with odd spacing and a number that a JSON round trip would rewrite."""
    top = {"model": MODEL, "input": items, **more}
    return json.dumps(top, separators=(" , ", " : "))[:-1].encode() + b' , "temperature" : 1.0e0}'


def answer(items: Sequence[Item], response_id: str, **more: Any) -> bytes:
    """Return a whole JSON response."""
    top = {"id": response_id, "object": "response", "status": "completed", "model": MODEL}
    return json.dumps(top | {"store": True, "output": items, **more}).encode()


def input_of(sent: bytes) -> list[Item]:
    """Return the input of a body that upstream received."""
    items: list[Item] = json.loads(sent)["input"]
    return items


def reasons(items: Iterable[Item]) -> list[str]:
    """Return the names of the reasoning among items."""
    blobs = (item.get("encrypted_content") or "" for item in items)
    return [blob.removeprefix("gAAAA") for blob in blobs if blob]


def restored(world: "World", items: list[Item], **more: Any) -> list[str]:
    """Return the name of each reasoning that upstream receives, and the index of what it leads."""
    seen = world.seen(body(items, store=False, **more))
    assert dropped(seen) == items
    led = [at for at, item in enumerate(seen) if item.get("type") == "reasoning"]
    return [f"{name}@{at - n}" for n, (name, at) in enumerate(zip(reasons(seen), led, strict=True))]


@dataclass
class World:
    """One scope: its store, and the work of a proxy between a client and upstream."""

    turns: dict[bytes, Turn] = field(default_factory=dict)
    index: dict[bytes, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    responses: int = 0
    profile: Profile = GENERIC

    def stores(self, request: RequestHistory[HistoryItem]) -> bool:
        """Return whether upstream stores the items of this exchange."""
        return isinstance(request, Request) and request.stores

    def recall(self, request: RequestHistory[HistoryItem]) -> LookupResult:
        """Return the lookup result of a request."""
        return self.found_by(keys_of_request(request))

    def found_by(self, lookups: Sequence[Lookup]) -> LookupResult:
        """Return the result of lookups."""
        choice = choose(lookups, lambda key: self.index.get(key, ()))
        chosen = set(choice.conversations)
        return LookupResult(
            [turn for turn in self.turns.values() if turn.conversation in chosen], choice.crowded
        )

    def ask(
        self, sent: bytes, headers: Mapping[str, str] | None = None
    ) -> tuple[Request, Matches, Plan]:
        """Return the parsed request, its matches, and the injection plan."""
        request = read_request(sent, headers or {})
        recognised = match_items(request, self.recall(request))
        return (
            request,
            recognised,
            plan_injection(request, recognised, self.profile),
        )

    def seen(self, sent: bytes) -> list[Item]:
        """Return the input that upstream receives."""
        return input_of(self.ask(sent)[2].apply(sent))

    def learn(
        self, sent: bytes, items: Sequence[Item], *, has_failed: bool = False, **more: Any
    ) -> list[Item]:
        """Answer a request with these items and store the turn; its lookup may have failed."""
        self.responses += 1
        response_id = f"resp_{drawn(self.responses)}"
        request = read_request(sent, {})
        found = LookupResult() if has_failed else self.recall(request)
        recognised = match_items(request, found)
        made = answer(items, response_id, **more)
        parent = parent_of(request, recognised, found)
        seen = None if has_failed else recognised.seen
        self.capture(request, parent, made, self.responses, seen)
        return list(items)

    def capturing(self, origin: Origin) -> Capture:
        """Return the capture of a response."""
        return ResponsesCapture(origin, 1 << 20)

    def capture(
        self,
        request: RequestHistory[HistoryItem],
        parent: Turn | None,
        made: bytes,
        created_ms: int,
        seen: Seen | None = None,
    ) -> Turn | None:
        """Store the turn of a response as the child of `parent`, and return it if there is one."""
        named = turn_id(request.continues) if request.continues else b""
        origin = Origin(
            context=context_of(request, self.recall(request)),
            model=request.model,
            conversation=parent.conversation if parent else b"",
            parent=parent.id if parent else named,
            stores=self.stores(request),
            seen=seen,
        )
        capture = self.capturing(origin)
        capture.read(made)
        turn = capture.snapshot(created_ms).turn
        if turn is not None:
            self.keep(turn)
        return turn

    def keep(self, turn: Turn) -> None:
        """Store a turn and its keys."""
        self.turns[turn.id] = turn
        for key in keys_of_turn(turn):
            if turn.conversation not in self.index[key]:
                self.index[key].append(turn.conversation)
