"""
Rules of the Responses API: what it refuses in an input, in the words of OpenAI.

In this order: the shape of each item, ids, blobs, pairs of reasoning and the item that it led to,
and outputs of tools. An item without its id is accepted without its reasoning.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from reasoning_replay.strict_api import responses_words as words
from reasoning_replay.strict_api.dialect import Item, Refused

BLOB: Final = "encrypted_content"
INCLUDE: Final = "reasoning.encrypted_content"
# Prefixes of the ids of emitted items, as recorded.
PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "message": "msg",
        "reasoning": "rs",
        "function_call": "fc",
        "custom_tool_call": "ctc",
        "computer_call": "cu",
        "local_shell_call": "lsh",
        "shell_call": "sh",
        "apply_patch_call": "apc",
        "tool_search_call": "tsc",
        "web_search_call": "ws",
        "file_search_call": "fs",
        "code_interpreter_call": "ci",
        "image_generation_call": "ig",
        "mcp_list_tools": "mcpl",
        "mcp_call": "mcp",
        "mcp_approval_request": "mcpr",
        "program": "cm",
        "compaction": "cmp",
    }
)
# Types that only a model emits, except messages; reasoning may lead to each.
EMITTED_TYPES: Final = PREFIXES.keys() - {"message", "reasoning", "mcp_list_tools", "compaction"}
# Calls that the client answers by `call_id`. `local_shell_call` pairs differently: not judged.
OUTPUT_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"{kind}_call": f"{kind}_call_output"
        for kind in ("function", "custom_tool", "computer", "shell", "apply_patch")
    }
)
OUTPUTS: Final = frozenset(OUTPUT_OF.values())
TYPES: Final = (
    *PREFIXES,
    *sorted(OUTPUTS),
    "local_shell_call_output",
    "tool_search_output",
    "mcp_approval_response",
    "program_output",
    "compaction_trigger",
    "additional_tools",
    "configuration_update",
    "item_reference",
)
ROLES: Final = ("assistant", "system", "developer", "user")
ID_CHARS_MAX: Final = 64
_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
_WITHOUT_REASONING: Final = re.compile(r"gpt-4|gpt-3\.5|chatgpt-|.*-chat(-|$)")


class Emitted(NamedTuple):
    """
    An emitted item, and what belongs to it.

    Attributes:
        item: The item, complete.
        required: The ids of the run of reasoning that led to it.
        follower: The id of the first item that it led to, if it is reasoning; "" without any.
    """

    item: Item
    required: tuple[str, ...]
    follower: str


class Seen(NamedTuple):
    """
    An item of an input.

    Attributes:
        at: Its path.
        item: The item.
        kind: Its type, or that of the item that it refers to.
        emitted: The item that its id names, if there is one.
        is_reference: Whether it stands for a stored item.
    """

    at: str
    item: Item
    kind: str
    emitted: Emitted | None
    is_reference: bool

    @property
    def id(self) -> str:
        """Its id; "" without one."""
        return str(self.item.get("id") or "")

    @property
    def blob(self) -> str:
        """Its encrypted content; "" without any."""
        return str(self.item.get(BLOB) or "")

    @property
    def by_model(self) -> bool:
        """Whether a model emitted it, judged by its type alone."""
        if self.kind == "message":
            return self.is_reference or self.item.get("role") == "assistant"
        return self.kind in EMITTED_TYPES


class InputRules:
    """
    The rules for one request.

    Args:
        body: The request.
        held: The items that the API adds before its input.
        emitted: The emitted items by id and by blob.
        stored: The ids of those that can be looked up.
    """

    def __init__(
        self,
        body: Item,
        held: Sequence[Item],
        emitted: Mapping[str, Emitted],
        stored: Mapping[str, Item],
    ) -> None:
        self.body, self.held = body, held
        self.emitted, self.stored = emitted, stored
        self.known = {item["id"] for item in held if item.get("id")}
        self.seen = [self._see(at, item) for at, item in enumerate(body["input"])]

    def _see(self, at: int, item: Item) -> Seen:
        kind = kind_of(item)
        emitted = self.emitted.get(item.get("id") or "")
        is_reference = kind == "item_reference"
        if is_reference and emitted is not None:
            kind = emitted.item["type"]
        return Seen(f"input[{at}]", item, kind, emitted, is_reference)

    def refusals(self) -> Iterator[Refused]:
        """Yield what is refused."""
        if not self.reasons and INCLUDE in (self.body.get("include") or ()):
            yield words.NO_BLOBS()
        for one in self.seen:
            yield from self.shape(one)
        yield from self.ids()
        if self.reasons:
            yield from self.reasoning()
        elif any(one.kind == "reasoning" for one in self.seen):
            yield words.NO_REASONING()
        yield from self.outputs()

    def shape(self, one: Seen) -> Iterator[Refused]:
        """Yield what is wrong with an item, whatever is around it."""
        at, item, kind = one.at, one.item, kind_of(one.item)
        if kind not in TYPES:
            yield words.UNSUPPORTED(at, kind, _listed(TYPES))
        if kind == "message" and item.get("role") not in ROLES:
            yield words.UNSUPPORTED(at, item.get("role"), _listed(ROLES))
        yield from self.id_shape(one)
        if kind == "item_reference" and not one.id:
            yield words.MISSING_PARAMETER(f"{at}.id")
        call_id = item.get("call_id")
        if call_id is not None and len(call_id) > ID_CHARS_MAX:
            yield words.TOO_LONG(f"{at}.call_id", ID_CHARS_MAX, len(call_id))
        if kind in OUTPUT_OF and call_id is None:
            yield words.MISSING_PARAMETER(f"{at}.call_id")
        if kind == "reasoning":
            if "status" in item:
                yield words.UNKNOWN_PARAMETER(f"{at}.status")
            if item.get("summary") is None:
                yield words.MISSING_PARAMETER(f"{at}.summary")
            yield from self.content_shape(one)

    def id_shape(self, one: Seen) -> Iterator[Refused]:
        """Yield what is wrong with an id."""
        param, kind = f"{one.at}.id", kind_of(one.item)
        if "id" not in one.item:
            return
        if one.item["id"] is None:
            if kind == "function_call":
                # Only known from the SDK, which takes care to leave the member out.
                yield words.NULL_MEMBER(param)
            return
        if _ID.fullmatch(one.item["id"]) is None:
            yield words.BAD_CHARACTERS(param, one.id)
        if len(one.id) > ID_CHARS_MAX:
            yield words.TOO_LONG(param, ID_CHARS_MAX, len(one.id))
        if not one.id.startswith(PREFIXES.get(kind, "")):
            yield words.WRONG_PREFIX(param, one.id, PREFIXES[kind])

    def content_shape(self, one: Seen) -> Iterator[Refused]:
        """Yield what is wrong with reasoning: it has an id or a blob, and no text."""
        if content := one.item.get("content"):
            yield words.NOT_EMPTY(f"{one.at}.content", len(content))
        if not one.id and one.item.get(BLOB) is None:
            yield words.MISSING_PARAMETER(f"{one.at}.id")

    def ids(self) -> Iterator[Refused]:
        """Yield ids that occur twice, then ids of items that are not stored."""
        taken = set(self.known)
        for one in self.seen:
            if one.id in taken:
                yield words.DUPLICATE(one.id)
            taken |= {one.id} - {""}
        for one in self.seen:
            if one.id and self.is_looked_up(one) and one.id not in self.stored:
                yield self.not_found(one)

    def is_looked_up(self, one: Seen) -> bool:
        """Return whether an id stands for a stored item, and does not merely name one."""
        return one.is_reference or (one.kind == "reasoning" and one.item.get(BLOB) is None)

    def not_found(self, one: Seen) -> Refused:
        """Return the refusal of an id that is not stored."""
        return words.NOT_FOUND(one.id)

    def reasoning(self) -> Iterator[Refused]:
        """Yield bad blobs first, then broken pairs."""
        for one in self.seen:
            if one.kind == "reasoning" and one.item.get(BLOB) is not None:
                yield from self.blob(one)
        yield from self.pairs()

    def blob(self, one: Seen) -> Iterator[Refused]:
        """A blob is one that was issued for the item."""
        issued = self.emitted.get(one.blob)
        if issued is None:
            yield self.damaged(one)
        elif one.id not in {"", issued.item["id"]}:
            yield words.RENAMED(one.id)

    def damaged(self, one: Seen) -> Refused:
        """Return the refusal of a blob that was not issued."""
        return words.DAMAGED(one.id or f"{one.blob[:4]}...{one.blob[-4:]}")

    def pairs(self) -> Iterator[Refused]:
        """An item has its reasoning before it, and reasoning the item that it led to after it."""
        ahead = set(self.known)
        directly: set[str] = set()
        for one, after in zip(self.seen, _next_others(self.seen), strict=True):
            if one.kind == "reasoning":
                if not self.is_blamed_elsewhere(one) and not self.is_followed(one, after):
                    yield words.UNFOLLOWED(
                        one.id or (one.emitted.item["id"] if one.emitted else "")
                    )
                directly.add(one.id)
            else:
                if one.emitted is not None:
                    there = directly if self.is_blamed(one.emitted) else ahead
                    for reasoning_id in one.emitted.required:
                        if reasoning_id not in there:
                            yield words.MISSING(one.id, one.emitted.item["type"], reasoning_id)
                directly = set()
            ahead |= {one.id} - {""}

    def is_blamed_elsewhere(self, _one: Seen) -> bool:
        """Return whether the error names the item that reasoning led to, not the reasoning."""
        return False

    def is_blamed(self, _emitted: Emitted) -> bool:
        """Return whether the error names this item if its reasoning is not directly before it."""
        return False

    def is_followed(self, one: Seen, after: Seen | None) -> bool:
        """Return whether reasoning precedes the item it led to, as far as that is known."""
        if after is None or not after.by_model:
            return False
        if one.emitted is None:
            # Without its id the item it led to is unknown; an item emitted long ago is dropped.
            return True
        wanted = one.emitted.follower
        return bool(wanted) and (after.id == wanted or self._is_mixed_form(one, after, wanted))

    def _is_mixed_form(self, one: Seen, after: Seen, wanted: str) -> bool:
        """
        Accept `rs_` id and blob before the same item without its id, if `store` is false.

        Recorded: calls (AI SDK, opencode) and messages (opencode, LangChain) in that form were
        accepted; with `store` left at true a message in that form was refused.
        """
        if self.stores or after.id or one.item.get(BLOB) is None:
            return False
        return self.is_like(after, wanted)

    @property
    def reasons(self) -> bool:
        """Whether the model reasons."""
        return reasons(str(self.body.get("model")))

    @property
    def stores(self) -> bool:
        """Whether the API stores the answer: by default, as recorded."""
        return self.body.get("store") is not False

    def is_like(self, one: Seen, item_id: str) -> bool:
        """Return whether an item is an emitted one, as far as it says without an id."""
        emitted = self.emitted.get(item_id)
        if emitted is None:
            return False
        call_id = emitted.item.get("call_id")
        own = call_id if one.is_reference else one.item.get("call_id")
        return (emitted.item["type"], call_id) == (one.kind, own)

    def outputs(self) -> Iterator[Refused]:
        """
        Match calls and outputs by `call_id`, in order.

        A reference to a call does not count as the call (recorded). Calls of the response that is
        continued do. An output without `call_id` answers the calls of its `name`.
        """
        made: set[tuple[str, str]] = set()
        waiting: dict[tuple[str, str], tuple[str, str]] = {}
        held = (Seen("", item, kind_of(item), None, is_reference=False) for item in self.held)
        for one in (*held, *self.seen):
            kind, call_id, name = one.kind, one.item.get("call_id"), one.item.get("name")
            if kind in OUTPUT_OF and not one.is_reference:
                key = OUTPUT_OF[kind], str(call_id)
                waiting[key] = kind, str(name)
                made.add(key)
            elif waiting and self.ends_outputs(one):
                break
            elif kind in OUTPUTS and call_id is None:
                named = kind.removesuffix("_output"), str(name)
                waiting = {key: call for key, call in waiting.items() if call != named}
            elif kind in OUTPUTS:
                if (kind, call_id) not in made:
                    yield words.ORPHAN(kind.removesuffix("_output").replace("_", " "), call_id)
                waiting.pop((kind, str(call_id)), None)
        for (_, call_id), (kind, _) in waiting.items():
            yield words.UNANSWERED(kind.replace("_", " "), call_id)

    def ends_outputs(self, _one: Seen) -> bool:
        """Return whether outputs may no longer follow."""
        return False


def kind_of(item: Item) -> str:
    """Return an item's type, even if left out: a message has a role, a reference only an id."""
    if item.get("type") is not None:
        return str(item["type"])
    return "message" if item.get("role") is not None or not item.get("id") else "item_reference"


def reasons(model: str) -> bool:
    """Return whether a model emits and accepts reasoning, as recorded."""
    return _WITHOUT_REASONING.match(model) is None


def _next_others(seen: Sequence[Seen]) -> list[Seen | None]:
    """Find for each item the first one, starting at itself, that is not reasoning."""
    found: list[Seen | None] = []
    after: Seen | None = None
    for one in reversed(seen):
        after = after if one.kind == "reasoning" else one
        found.append(after)
    return found[::-1]


def _listed(values: Sequence[str]) -> str:
    *before, last = (f"'{one}'" for one in values)
    return ", ".join([*before, f"and {last}"])
