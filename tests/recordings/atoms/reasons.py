"""Reasons why reasoning cannot be injected: known ones, and those found in the recordings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from tests.recordings import rawjson
from tests.recordings.atoms.adapter import Adapter, Role, Said
from tests.recordings.atoms.client import Take, Variant
from tests.recordings.atoms.tape import Recording
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
    injected: Mapping[str, int | None]

    @classmethod
    def of(cls, dialect: str) -> "Known":
        """Read the results of a dialect."""
        told = KNOWN[dialect]
        alone, one_tenant, head_cut = (
            {name: Reason[why] for why, names in told.get(part, {}).items() for name in names}
            for part in ("alone", "one_tenant", "head_cut")
        )
        return cls(alone, one_tenant, head_cut, told["injected"])


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
    is_cut = this.variant is Variant.HEAD_CUT
    return Reason.BOUND if is_cut and adapter.binds(this.body.decode()) else None


def alone_of(adapter: Adapter, this: Take) -> Reason | None:
    """
    Return the reason why nothing proves whose the first message of an exchange is; None if it may.

    It is a text without calls, the client forgot all before it, and the request has no name. What
    follows would prove it if an earlier request had the message elsewhere than at its head.
    """
    request = this.exchange.request.decode()
    is_cut = this.variant is Variant.HEAD_CUT and 0 in this.lacks
    if not is_cut or len(_history(adapter, this.body.decode())[0].visible) > 1:
        return None
    earlier = [one for one in this.recording.exchanges if one.n < this.exchange.n]
    is_elsewhere = any(
        origin == this.lacks[0].origin and at != min(one.origins)
        for one in earlier
        for at, origin in one.origins.items()
    )
    is_named = rawjson.member(request, "prompt_cache_key") is not None
    return None if is_named or is_elsewhere else Reason.ALONE


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
            other = exchange.said
            history = _said(_history(adapter, exchange.request.decode()))
            for at, lack in this.lacks.items():
                is_cut = this.variant is Variant.HEAD_CUT
                # Without the head, two turns are ambiguous even if their reasoning is the same.
                if other is None or (other.atoms == lack.answer.atoms and not is_cut):
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
