"""Reasons why reasoning cannot be injected: known ones, and those found in the recordings."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import dropwhile, product, takewhile

from tests.recordings import rawjson
from tests.recordings.adapter import Adapter, Key, Role, Said
from tests.recordings.client import Take
from tests.recordings.tape import Exchange, Recording
from tests.recordings.wire import KNOWN

Line = tuple[Role, tuple[str, ...]]
# What has fewer letters and digits recurs by chance.
SHORT = 24


class Reason(StrEnum):
    """Why reasoning that a client once sent, or dropped, does not reach upstream."""

    VISIBLE = "the client sends it as visible text, `<think>` or thinking chunks: nothing to strip"
    EMPTY = "the client sends an empty member of its own in that message"
    LITTLE = (
        "the client lost a part of the answer, and the rest is short, with no message before it"
    )
    TWIN = "another conversation of the tenant has the same history, the same answer and its ids"
    UNSEALED = "the client did not ask for blobs, so upstream sent none"
    BOUND = (
        "its model binds it to all that precedes it, and the client has forgotten a part of that"
    )
    ALONE = (
        "a text begins the request, and no id, no name and nothing that follows proves whose it is"
    )
    LOOKALIKE = "the same, except for ids of calls, which are short, counted or were sent as well"


@dataclass(frozen=True, slots=True)
class Known:
    """
    The known results of one dialect; see known.yaml.

    Attributes:
        injected: Run -> number of exchanges in which all that lacked is injected; None while the
            proxy does not speak the dialect. Then a run must only not be wrong.
    """

    alone: Mapping[str, Reason]
    one_tenant: Mapping[str, Reason]
    head_cut: Mapping[str, Reason]
    ids_dropped: Mapping[str, Reason]
    injected: Mapping[str, int | None]

    @classmethod
    def of(cls, dialect: str) -> "Known":
        """Read the results of a dialect."""
        told = KNOWN[dialect]
        alone, one_tenant, head_cut, ids_dropped = (
            {name: Reason[why] for why, names in told.get(part, {}).items() for name in names}
            for part in ("alone", "one_tenant", "head_cut", "ids_dropped")
        )
        return cls(alone, one_tenant, head_cut, ids_dropped, told.get("injected", {}))


def reason_of(adapter: Adapter, this: Take) -> Reason | None:
    """
    Return the reason why an exchange is not restored, however few others the tenant has.

    Little is left if a message that begins the request is short and lacks a part of the answer.
    """
    if not this.is_held:
        return Reason.LITTLE if _is_little(adapter, this) else None
    history = _history(adapter, this.body.decode())
    has_text = any(atom.value for at in this.kept for atom in history[at].held)
    return Reason.VISIBLE if has_text else Reason.EMPTY


def bound_of(adapter: Adapter, this: Take) -> Reason | None:
    """Return the reason why the history before an exchange's reasoning is not the one it had."""
    return Reason.BOUND if this.variant.cuts_head and adapter.binds(this.body.decode()) else None


def unsealed_of(adapter: Adapter, this: Take) -> Reason | None:
    """Return the reason why what was emitted is useless to a client that dropped it by itself."""
    atoms = [atom for lack in this.lacks.values() for atom in lack.answer.atoms]
    is_unsealed = this.recording.kind == "dropped" and not all(map(adapter.is_usable, atoms))
    return Reason.UNSEALED if is_unsealed else None


def alone_of(adapter: Adapter, this: Take, lost: Collection[int]) -> Reason | None:
    """
    Return the reason why nothing proves whose the first messages are; None if something may.

    Only they lack reasoning. They are texts without calls and ids, the client forgot all before
    them, and the request has no name. What follows would prove them if an earlier request had one
    of them elsewhere than at its head.
    """
    body = this.body.decode()
    head = list(takewhile(_is_models, _history(adapter, body)))
    are_bare = all(len(one.visible) == 1 and not any(one.ids) for one in head)
    is_named = rawjson.member(body, "prompt_cache_key") is not None
    if not this.variant.cuts_head or not are_bare or is_named or max(lost) >= len(head):
        return None
    origins = {lack.origin for at, lack in this.lacks.items() if at < len(head)}
    earlier = [one for one in this.recording.exchanges if one.n < this.exchange.n]
    is_elsewhere = any(origins & _behind(adapter, one) for one in earlier)
    return None if is_elsewhere else Reason.ALONE


def _behind(adapter: Adapter, exchange: Exchange) -> set[Key]:
    """Return what a request replays elsewhere than in the first run of the model's messages."""
    every = list(enumerate(_history(adapter, exchange.request.decode())))
    begun = dropwhile(lambda one: not _is_models(one[1]), every)
    rest = dropwhile(lambda one: _is_models(one[1]), begun)
    return {exchange.origins[at] for at, _ in rest if at in exchange.origins}


def _is_models(said: Said) -> bool:
    return said.role is Role.MODEL


def twin_of(adapter: Adapter, this: Take, mix: Iterable[Recording]) -> Reason | None:
    """
    Return the reason why the messages of an exchange are ambiguous; None if they are not.

    They are if, after the same messages, the upstream of another recording said all that the
    client sends there, but with other reasoning. A twin has the same ids as well, so no proxy can
    distinguish the two, except by the model. Messages of the application itself do not count: some
    clients change them in every request.
    """
    mine = _history(adapter, this.body.decode())
    found: set[Reason] = set()
    for recording in mix:
        if recording.name == this.recording.name:
            continue
        for exchange in recording.exchanges:
            history = _said(_history(adapter, exchange.request.decode()))
            is_cut = this.variant.cuts_head
            for (at, lack), other in product(this.lacks.items(), exchange.said.values()):
                # Without the head, two turns are ambiguous even if their reasoning is the same.
                if other.atoms == lack.answer.atoms and not is_cut:
                    continue
                is_same = {*mine[at].visible, ""} <= {*other.visible, ""}
                if is_same and _is_end(_said(mine[:at]), history, is_cut=is_cut):
                    is_twin = (other.visible, other.ids) == (lack.answer.visible, lack.answer.ids)
                    found.add(Reason.TWIN if is_twin else Reason.LOOKALIKE)
    return next((reason for reason in (Reason.TWIN, Reason.LOOKALIKE) if reason in found), None)


def _is_little(adapter: Adapter, this: Take) -> bool:
    lack = this.lacks.get(0)
    if lack is None:
        return False
    mine = _history(adapter, this.body.decode())[0]
    is_part = {*mine.visible, ""} < {*lack.answer.visible, ""}
    return is_part and sum(map(_letters, mine.visible)) < SHORT


def _letters(visible: str) -> int:
    return sum(each.isalnum() for each in visible)


@cache
def _history(adapter: Adapter, request: str) -> tuple[Said, ...]:
    return tuple(adapter.said(request[span.start : span.end]) for span in adapter.spans(request))


def _is_end(mine: list[Line], theirs: list[Line], *, is_cut: bool) -> bool:
    """Return whether two histories are equal, as far as the client sends its own."""
    return mine == (theirs[len(theirs) - len(mine) :] if is_cut else theirs)


def _said(history: Iterable[Said]) -> list[Line]:
    return [(one.role, one.visible) for one in history if one.role is not Role.FRAME]
