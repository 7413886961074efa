"""Twins: conversations that cannot be distinguished by the requests of their clients."""

from collections.abc import Iterable

from tests.recordings.atoms.adapter import Adapter, Role, Said
from tests.recordings.atoms.client import Take
from tests.recordings.atoms.tape import Recording

__all__ = ["twins"]


def twins(adapter: Adapter, this: Take, mix: Iterable[Recording]) -> set[str]:
    """
    Name the recordings with the same visible history up to a message that lacks reasoning.

    Another recording is a twin if, after the same messages, its upstream answered the same with
    the same ids, but with other reasoning. Messages of the application itself do not count: some
    clients change them in every request.
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
                and _said(history) == _said(mine[:at])
            }
    return found


def _history(adapter: Adapter, request: str) -> list[Said]:
    return [adapter.said(request[span.start : span.end]) for span in adapter.spans(request)]


def _said(history: Iterable[Said]) -> list[tuple[Role, tuple[str, ...]]]:
    return [(one.role, one.visible) for one in history if one.role is not Role.FRAME]
