"""
Pairing rules: reasoning and the item it led to belong together, both ways, by id.

Also checked here: each blob is intact, and was issued to this caller, for this item, by a model of
this family.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from tests.standin import refusals
from tests.standin.ledger import Emitted, Ledger
from tests.standin.quirks import PLAIN, Quirks
from tests.standin.refusals import Refusal
from tests.standin.sealing import Sealer
from tests.standin.shapes import InputItem

__all__ = ["Bench", "Seen", "by_blob", "faults"]

EMITTED_TYPES = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "tool_search_call",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_approval_request",
        "program",
    }
)
"""Types that only a model emits, except assistant messages; reasoning may lead to each."""


class Seen(Struct, frozen=True, kw_only=True):
    """One item of `input`, and the emitted item that its id names, if there is one."""

    index: int
    item: InputItem
    id: str | None
    kind: str
    emitted: Emitted | None
    reference: bool

    @property
    def by_model(self) -> bool:
        """Whether a model emitted it, judged by its type alone."""
        if self.kind == "message":
            return self.reference or self.item.role == "assistant"
        return self.kind in EMITTED_TYPES


class Bench(Struct, frozen=True, kw_only=True):
    """Facts a request is judged against. `known`: ids that the server itself adds before it."""

    caller: str
    family: str
    stores: bool
    known: AbstractSet[str]
    ledger: Ledger
    sealer: Sealer
    quirks: Quirks = PLAIN


def by_blob(one: Seen, caller: str, ledger: Ledger, sealer: Sealer) -> Seen:
    """Name reasoning that has no id by its blob (`reads_blobs`)."""
    if one.kind != "reasoning" or one.id is not None:
        return one
    binding = sealer.maybe_open(one.item.encrypted_content or "")
    item = ledger.maybe_item(binding.item_id, caller) if binding is not None else None
    return replace(one, emitted=item)


def faults(seen: Sequence[Seen], bench: Bench) -> Iterator[Refusal]:
    """Yield the faults of the reasoning in `input`, bad blobs first, then broken pairs."""
    for one in seen:
        if one.kind == "reasoning" and one.item.encrypted_content is not None:
            refusal = _maybe_bad_blob(one, one.item.encrypted_content, bench)
            if refusal is not None:
                yield refusal
    yield from _broken_pairs(seen, bench)
    if bench.quirks.grouped:
        yield from _parted_groups(seen)


def _broken_pairs(seen: Sequence[Seen], bench: Bench) -> Iterator[Refusal]:
    ahead = set(bench.known)
    directly_ahead: set[str] = set()
    there = {one.id for one in seen} if bench.quirks.blames_follower else set()
    for one, after in zip(seen, _next_others(seen), strict=True):
        if one.kind == "reasoning":
            is_blamed_elsewhere = one.emitted is not None and one.emitted.follower in there
            if not is_blamed_elsewhere and not _is_followed(one, after, bench):
                named = one.emitted.id if one.emitted is not None else ""
                yield refusals.missing_follower(one.id or named)
            directly_ahead.add(one.id or "")
        elif one.emitted is not None:
            is_follower = bench.quirks.blames_follower and _follows(one.emitted, bench)
            for reasoning_id in one.emitted.required:
                if reasoning_id not in (directly_ahead if is_follower else ahead):
                    yield refusals.missing_reasoning(one.emitted.id, one.emitted.type, reasoning_id)
        if one.kind != "reasoning":
            directly_ahead = set()
        if one.id is not None:
            ahead.add(one.id)


def _follows(item: Emitted, bench: Bench) -> bool:
    """Return whether an item is the first after its reasoning, and upstream does not hold that."""
    led_by = [bench.ledger.maybe_item(one, bench.caller) for one in item.required]
    is_held = all(one in bench.known for one in item.required)
    return not is_held and any(one is not None and one.follower == item.id for one in led_by)


def _parted_groups(seen: Sequence[Seen]) -> Iterator[Refusal]:
    """Yield a refusal for each item that an output separates from the reasoning it shares."""
    open_groups: set[tuple[str, ...]] = set()
    parted: set[tuple[str, ...]] = set()
    for one in seen:
        if one.kind.endswith("_output"):
            parted |= open_groups
        elif one.emitted is not None and one.emitted.required:
            group = one.emitted.required
            if group in parted:
                yield refusals.missing_reasoning(one.emitted.id, one.emitted.type, group[0])
            open_groups.add(group)


def _maybe_bad_blob(one: Seen, blob: str, bench: Bench) -> Refusal | None:
    binding = bench.sealer.maybe_open(blob)
    if binding is None:
        return refusals.bad_ciphertext(blob, readable=False)
    if binding.caller != bench.caller:
        return refusals.foreign_ciphertext(one.id or binding.item_id, blob, bench.quirks.foreign)
    if one.id is not None and binding.item_id != one.id:
        return refusals.moved_ciphertext(one.id)
    if binding.family != bench.family:
        return refusals.bad_ciphertext(blob, readable=True)
    return None


def _next_others(seen: Sequence[Seen]) -> list[Seen | None]:
    """Find for each item the first one, starting at itself, that is not reasoning."""
    found: list[Seen | None] = []
    after: Seen | None = None
    for one in reversed(seen):
        after = after if one.kind == "reasoning" else one
        found.append(after)
    return found[::-1]


def _is_followed(one: Seen, after: Seen | None, bench: Bench) -> bool:
    """Return whether a reasoning item precedes the item it led to, as far as that is known."""
    if after is None or not after.by_model:
        return False
    if one.emitted is None:
        # Without its id the item it led to is unknown; an item emitted long ago is evicted.
        return True
    wanted = one.emitted.follower
    if wanted is None:
        return False
    if not bench.quirks.reads_blobs:
        return after.id == wanted or _mixed_form(one, after, wanted, bench)
    led_to = bench.ledger.maybe_item(wanted, bench.caller)
    return after.id in {wanted, None} and _is_like(after, led_to)


def _mixed_form(one: Seen, after: Seen, wanted: str, bench: Bench) -> bool:
    """
    Accept `rs_` id and blob before the same item without its id, if `store` is false.

    Recorded: calls (AI SDK, opencode) and messages (opencode, LangChain) in that form were
    accepted; with `store` left at true a message in that form was refused.
    """
    if bench.stores or after.id is not None or one.item.encrypted_content is None:
        return False
    return _is_like(after, bench.ledger.maybe_item(wanted, bench.caller))


def _is_like(one: Seen, emitted: Emitted | None) -> bool:
    if emitted is None:
        return False
    call_id = emitted.call_id if one.reference else one.item.call_id
    return (emitted.type, emitted.call_id) == (one.kind, call_id)
