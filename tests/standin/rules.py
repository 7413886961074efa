"""
Rules of the API for the items of `input`: whether a request is accepted.

`judge` is the only entry point. It refuses in this order: `include`, the shape of each item,
server-side history, ids (here); blobs and pairing of reasoning (pairing.py); tool outputs (here);
and, only if asked, continuity beyond the demands of the API (continuity.py). Pure: its inputs are a
request, its caller, the turns emitted before, and the key of the blobs.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import UNSET, Struct

from tests.standin import continuity as strict
from tests.standin import pairing, refusals, thinking
from tests.standin.ledger import Ledger, Turn
from tests.standin.pairing import Seen
from tests.standin.quirks import PLAIN, Quirks
from tests.standin.refusals import Refusal
from tests.standin.sealing import Sealer
from tests.standin.shapes import Body, InputItem

__all__ = ["Continuity", "Verdict", "family", "judge", "reasons"]

Continuity = Literal["normal", "strict"]

PREFIXES: Mapping[str, str] = {
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
"""Prefixes of the ids of emitted items, as recorded."""

OUTPUT_OF: Mapping[str, str] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
"""Calls that the client answers, by `call_id`. `local_shell_call` pairs differently: not judged."""
OUTPUTS = frozenset(OUTPUT_OF.values())

TYPES = (
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
ROLES = ("assistant", "system", "developer", "user")
INCLUDES = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
ID_CHARS_MAX = 64

_ID = re.compile(r"[A-Za-z0-9_-]+")
_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_WITHOUT_REASONING = re.compile(r"gpt-4|gpt-3\.5|chatgpt-|.*-chat(-|$)|.*-plain$")
"""The last pattern stands for models that no list contains."""


class Verdict(Struct, frozen=True):
    """The result of judging: the refusal, if any, and the facts that a response needs."""

    refusal: Refusal | None
    seen: Sequence[Seen] = ()
    earlier: Sequence[Turn] = ()


def family(model: str) -> str:
    """Return the name that blobs of a model are bound to: the model without its date."""
    return _DATED.sub("", model)


def reasons(model: str) -> bool:
    """Return whether the model emits and accepts reasoning, as recorded."""
    return _WITHOUT_REASONING.match(model) is None


def judge(  # noqa: PLR0917 - a request, what it is judged against, and how strictly
    body: Body,
    caller: str,
    ledger: Ledger,
    sealer: Sealer,
    continuity: Continuity = "normal",
    quirks: Quirks = PLAIN,
    cached: Container[str] = (),
) -> Verdict:
    """
    Decide on one request.

    Args:
        body: The decoded body.
        caller: The owner of its credential; items of other callers are unknown to it.
        ledger: The turns emitted before.
        sealer: Opens the blobs that were emitted before.
        continuity: "strict" also refuses lost reasoning that the API would accept.
        quirks: Differences of this backend.
        cached: Responses that may be continued although they are not stored.

    Returns:
        A Verdict; its refusal is the first in the order of the module's docstring, or None.

    Cost: linear in the length of `input`; strict, times the emitted items that share a `call_id` or
    a text.
    """
    refusal = _model(body) or next(_shapes(body.items, quirks), None)
    refusal = refusal or _history(body, caller, ledger, cached)
    if refusal is not None:
        return Verdict(refusal)
    seen = [_see(index, item, caller, ledger) for index, item in enumerate(body.items)]
    if quirks.reads_blobs:
        seen = [pairing.by_blob(one, caller, ledger, sealer) for one in seen]
    earlier = ledger.earlier(caller, body.previous_response_id, body.conversation_id, cached)
    known = {item.id for turn in earlier for item in turn.items}
    bench = pairing.Bench(
        caller=caller,
        family=family(body.model),
        stores=body.stores and not quirks.keeps_nothing,
        known=known,
        ledger=ledger,
        sealer=sealer,
        quirks=quirks,
    )
    refusal = _ids(seen, bench) or next(_reasoning(seen, bench, takes=reasons(body.model)), None)
    refusal = refusal or next(_tool_outputs(seen, earlier, quirks), None)
    if refusal is None and continuity == "strict" and reasons(body.model):
        refusal = next(strict.losses(seen, bench), None)
    return Verdict(refusal, seen, earlier)


def _model(body: Body) -> Refusal | None:
    for index, value in enumerate(body.include or ()):
        if value not in INCLUDES:
            return refusals.unsupported_value(f"include[{index}]", value, INCLUDES)
    if reasons(body.model):
        return None
    return refusals.ciphertext_unsupported() if body.wants_ciphertext else None


def _shapes(items: Sequence[InputItem], quirks: Quirks) -> Iterator[Refusal]:
    for index, item in enumerate(items):
        at = f"input[{index}]"
        kind = kind_of(item)
        if kind not in TYPES:
            yield refusals.unsupported_value(at, kind, TYPES)
        if kind == "message" and item.role not in ROLES:
            yield refusals.unsupported_value(at, str(item.role), ROLES)
        if not (quirks.thinks_aloud and kind == "message"):  # thinking.py has its own refusal
            yield from _id_shape(f"{at}.id", item, kind)
        if kind == "item_reference" and not item.id:
            yield refusals.missing_parameter(f"{at}.id")
        if item.call_id is not None and len(item.call_id) > ID_CHARS_MAX:
            yield refusals.too_long(f"{at}.call_id", ID_CHARS_MAX, len(item.call_id))
        if kind in OUTPUT_OF and item.call_id is None:
            yield refusals.missing_parameter(f"{at}.call_id")
        if kind == "reasoning":
            yield from _reasoning_shape(at, item, quirks)


def _id_shape(param: str, item: InputItem, kind: str) -> Iterator[Refusal]:
    if item.id is UNSET:
        return
    if item.id is None:
        if kind == "function_call":
            # Only known from the SDK, which takes care to leave the member out.
            yield refusals.null_member(param)
        return
    if _ID.fullmatch(item.id) is None:
        yield refusals.bad_characters(param, item.id)
    if len(item.id) > ID_CHARS_MAX:
        yield refusals.too_long(param, ID_CHARS_MAX, len(item.id))
    if not item.id.startswith(PREFIXES.get(kind, "")):
        yield refusals.wrong_prefix(param, item.id, PREFIXES[kind])


def _reasoning_shape(at: str, item: InputItem, quirks: Quirks) -> Iterator[Refusal]:
    if item.status is not UNSET:
        yield refusals.unknown_parameter(f"{at}.status")
    if item.summary is UNSET or item.summary is None:
        yield refusals.missing_parameter(f"{at}.summary")
    if isinstance(item.content, list) and item.content and not quirks.thinks_aloud:
        yield refusals.not_empty(f"{at}.content", len(item.content))
    stands_alone = quirks.thinks_aloud or item.encrypted_content is not None
    if not item.id and (quirks.needs_reasoning_ids or not stands_alone):
        yield refusals.missing_parameter(f"{at}.id")


def kind_of(item: InputItem) -> str:
    """Return an item's type, even if left out: a message has a role, a reference only an id."""
    if item.type is not None:
        return item.type
    return "message" if item.role is not None or not item.id else "item_reference"


def _history(body: Body, caller: str, ledger: Ledger, cached: Container[str]) -> Refusal | None:
    previous = body.previous_response_id
    if previous is None:
        return None
    if body.conversation_id is not None:
        return refusals.two_histories()
    if ledger.maybe_stored_turn(previous, caller, cached) is None:
        return refusals.unknown_previous(previous)
    return None


def _see(index: int, item: InputItem, caller: str, ledger: Ledger) -> Seen:
    item_id = item.id or None
    emitted = ledger.maybe_item(item_id, caller) if item_id else None
    kind = kind_of(item)
    reference = kind == "item_reference"
    if reference and emitted is not None:
        kind = emitted.type
    return Seen(index=index, item=item, id=item_id, kind=kind, emitted=emitted, reference=reference)


def _ids(seen: Sequence[Seen], bench: pairing.Bench) -> Refusal | None:
    """Refuse ids that occur twice, then ids of items that are not stored."""
    taken = set(bench.known)
    for one in seen:
        if one.id is None:
            continue
        if one.id in taken:
            return refusals.duplicate(one.id)
        taken.add(one.id)
    quirks = bench.quirks
    for one in seen:
        if not one.id or not _is_looked_up(one, quirks):
            continue
        if not bench.ledger.is_stored(one.id, bench.caller):
            return refusals.not_found(one.id, quirks.not_found, never_kept=quirks.keeps_nothing)
    return None


def _is_looked_up(one: Seen, quirks: Quirks) -> bool:
    """Return whether the id of an item stands for a stored item, and does not merely name it."""
    if one.reference or one.kind != "reasoning":
        return one.reference
    if quirks.thinks_aloud or not quirks.takes_blobs:
        return False
    return quirks.looks_up_all or one.item.encrypted_content is None


def _reasoning(seen: Sequence[Seen], bench: pairing.Bench, *, takes: bool) -> Iterator[Refusal]:
    if takes and not bench.quirks.takes_blobs:
        if any(one.kind == "reasoning" and one.item.encrypted_content for one in seen):
            yield refusals.blobs_unsupported()
    elif takes and bench.quirks.thinks_aloud:
        yield from thinking.faults(seen, bench.caller, bench.ledger)
    elif takes:
        yield from pairing.faults(seen, bench)
    elif any(one.kind == "reasoning" for one in seen):
        yield refusals.reasoning_unsupported()


def _tool_outputs(
    seen: Sequence[Seen], earlier: Sequence[Turn], quirks: Quirks
) -> Iterator[Refusal]:
    """
    Match calls and outputs by `call_id`, in order.

    A reference to a call does not count as the call (recorded). Calls of the response being
    continued do, and need their outputs as well. An output without `call_id` answers the calls of
    its `name`.
    """
    made = {
        (OUTPUT_OF[item.type], item.call_id)
        for turn in earlier
        for item in turn.items
        if item.type in OUTPUT_OF
    }
    waiting = {
        (OUTPUT_OF[item.type], item.call_id): (item.type, item.name)
        for turn in earlier[-1:]
        for item in turn.items
        if item.type in OUTPUT_OF
    }
    for one in seen:
        call_id, kind = one.item.call_id, one.kind
        if kind in OUTPUT_OF and not one.reference:
            waiting[OUTPUT_OF[kind], call_id] = (kind, one.item.name)
            made.add((OUTPUT_OF[kind], call_id))
        elif kind == "message" and quirks.prompt_outputs and waiting:
            break
        elif kind in OUTPUTS and call_id is None:
            named = (kind.removesuffix("_output"), one.item.name)
            waiting = {key: call for key, call in waiting.items() if call != named}
        elif kind in OUTPUTS:
            if (kind, call_id) not in made:
                yield refusals.orphan_output(_noun(kind.removesuffix("_output")), str(call_id))
            waiting.pop((kind, call_id), None)
    for (_, call_id), (kind, _) in waiting.items():
        yield refusals.unanswered_call(_noun(kind), str(call_id))


def _noun(kind: str) -> str:
    return kind.replace("_", " ")
