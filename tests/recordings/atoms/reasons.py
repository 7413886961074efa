"""Reasons why reasoning cannot be injected, found in the recordings themselves."""

from collections.abc import Iterable
from enum import StrEnum

from tests.recordings.atoms.adapter import Adapter, Role, Said
from tests.recordings.atoms.client import Take, Variant
from tests.recordings.atoms.tape import Recording

__all__ = ["Reason", "reason_of", "twins"]

Line = tuple[Role, tuple[str, ...]]


class Reason(StrEnum):
    """Why reasoning that a client once sent, or dropped, does not reach upstream."""

    VISIBLE = "the client sends it as visible text, `<think>` or thinking chunks: nothing to strip"
    EMPTY = "the client sends an empty member of its own in that message"
    SWITCHED_OFF = "the request switches thinking off, although upstream reasons all the same"
    TWIN = "another conversation of the tenant has the same history, the same answer and its ids"


def reason_of(adapter: Adapter, this: Take) -> Reason | None:
    """Return the reason why an exchange is not restored, however few others the tenant has."""
    text = this.body.decode()
    if this.is_held:
        spans = adapter.spans(text)
        kept = [adapter.said(text[spans[at].start : spans[at].end]) for at in this.kept]
        has_text = any(atom.value for message in kept for atom in message.held)
        return Reason.VISIBLE if has_text else Reason.EMPTY
    if this.lacks and adapter.is_switched_off(text):
        return Reason.SWITCHED_OFF
    return None


def twins(adapter: Adapter, this: Take, mix: Iterable[Recording]) -> set[str]:
    """
    Name the recordings with the same visible history up to a message that lacks reasoning.

    No proxy can distinguish them by the requests of their clients, except by the model. Another
    recording is a twin if, after the same messages, its upstream answered the same with the same
    ids, but with other reasoning. Messages of the application itself do not count: some clients
    change them in every request.
    """
    mine = _history(adapter, this.body.decode())
    found: set[str] = set()
    for recording in mix:
        if recording.name == this.recording.name:
            continue
        for exchange in recording.exchanges:
            other = exchange.said
            history = _history(adapter, exchange.request.decode())
            found |= {
                recording.name
                for at, lack in this.lacks.items()
                if other is not None
                and (other.visible, other.ids) == (lack.answer.visible, lack.answer.ids)
                and other.atoms != lack.answer.atoms
                and _is_end(
                    _said(mine[:at]), _said(history), is_cut=this.variant is Variant.HEAD_CUT
                )
            }
    return found


def _history(adapter: Adapter, request: str) -> list[Said]:
    return [adapter.said(request[span.start : span.end]) for span in adapter.spans(request)]


def _is_end(mine: list[Line], theirs: list[Line], *, is_cut: bool) -> bool:
    """Return whether two histories are equal, as far as the client sends its own."""
    return mine == (theirs[len(theirs) - len(mine) :] if is_cut else theirs)


def _said(history: Iterable[Said]) -> list[Line]:
    return [(one.role, one.visible) for one in history if one.role is not Role.FRAME]
