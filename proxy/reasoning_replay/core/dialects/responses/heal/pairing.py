"""Pairing cures: for items that lack their other half, reasoning or follower, call or output."""

from collections import defaultdict
from collections.abc import Collection

from reasoning_replay.core.dialects.responses.heal.ids import name_no_orphans, outputs_without_call
from reasoning_replay.core.dialects.responses.heal.input_editor import (
    InputPiece,
    Run,
    Spot,
    by_value,
    dropped,
    is_answered,
    put_in,
    runs_of,
)
from reasoning_replay.core.dialects.responses.heal.refused_request import RefusedRequest
from reasoning_replay.core.dialects.responses.heal.reorder import in_order
from reasoning_replay.core.dialects.responses.heal.unpaired import is_of_group, let_go_by_value
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.matching.matches import match_items
from reasoning_replay.core.history.turns import Emitted

__all__ = [
    "with_calls",
    "with_follower",
    "with_outputs_behind",
    "with_reasoning",
    "with_text",
]


def with_reasoning(case: RefusedRequest) -> bytes | None:
    """Move reasoning back ahead of what it led to; or fetch it; or leave out what names it."""
    wanted = case.diagnosis.wanted
    present = next((piece for piece in case.pieces if piece.item.id == wanted), None)
    if present is not None:
        is_known = case.spot(present) is not None
        body = _in_order(case, joins=False) if is_known else _beside(case)
        if body is not None:
            return body
    elif _named_again(case):
        return case.body(case.pieces)
    else:
        fetched = case.of(_injected(case, case.sent))
        if wanted in fetched.names or case.diagnosis.subject not in fetched.names:
            # What nothing is known of may lack its own: the next refusal would be the last.
            is_changed = name_no_orphans(fetched.pieces, spares=fetched.is_known)
            return fetched.body(fetched.pieces) if is_changed else fetched.sent.body
    return case.body(_without_orphans(case))


def with_follower(case: RefusedRequest) -> bytes | None:
    """Put what reasoning led to back behind it; or let reasoning go without id, or go."""
    ordered = in_order(_answering(case, case.pieces), case.spot, joins=False)
    called = {piece.item.call_id for piece in ordered if piece.item.is_tool}
    returned: dict[InputPiece, InputPiece] = {}
    alone: set[InputPiece] = set()
    lost: set[InputPiece] = set()
    for run in runs_of(ordered):
        *others, last = _parts(case, run.reasoning)
        for part in (*others, last):
            if not any(piece.item.id for piece in part):
                continue
            follower = _follower(case, part[-1])
            behind = run.group[0] if run.group and part is last else None
            if behind is not None and _is(case, behind, follower):
                lost.update(_joined(case, Run(part, run.group), follower))
            elif follower is not None and _may_return(case, follower, called):
                returned[part[-1]] = put_in(follower.raw, _spot_behind(case, part[-1]))
            elif behind is None or not _goes_by_value(case, Run(part, run.group, run.later)):
                (lost if part is last else alone).update(part)
    pieces: list[InputPiece] = []
    for piece in ordered:
        if piece not in alone:
            pieces += [piece, returned[piece]] if piece in returned else [piece]
    left = _less(pieces, lost)
    if lost:  # nobody knows what it led to, so what lacks it now goes by value
        name_no_orphans(left)
    return case.body(left)


def with_outputs_behind(case: RefusedRequest) -> bytes | None:
    """Put outputs behind their calls. One that is not there is never made up."""
    call_id = case.diagnosis.subject
    if not any(piece.is_output and piece.item.call_id == call_id for piece in case.pieces):
        return None
    return _in_order(case, joins=False) or _in_order(case, joins=True)


def with_calls(case: RefusedRequest) -> bytes | None:
    """Put a call ahead of its output: from where it stands, or as it was captured."""
    if any(p.item.is_tool and p.item.call_id == case.diagnosis.subject for p in case.pieces):
        return _in_order(case, joins=False) or _in_order(case, joins=True)
    return case.body(in_order(_answering(case, case.pieces), case.spot, joins=False))


def with_text(case: RefusedRequest) -> bytes | None:
    """Give reasoning back with its text in the open, and each call its output behind its group."""
    for piece in case.pieces:
        whole = case.captured(piece)
        if piece.item.role is Role.REASONING and b'"reasoning_text"' in whole:
            piece.raw = whole if b'"reasoning_text"' not in piece.raw else piece.raw
    body = case.body(case.pieces)
    body = _injected(case, read_request(body, {}))
    return body if body != case.sent.body else _in_order(case, joins=True)


def _in_order(case: RefusedRequest, *, joins: bool) -> bytes | None:
    """Return the request in order; None if it was."""
    pieces = in_order(case.pieces, case.spot, joins=joins)
    return case.body(pieces) if pieces != case.pieces else None


def _injected(case: RefusedRequest, request: Request) -> bytes:
    """Inject once more, now that upstream has named what to look for."""
    if request.is_stateful:
        return request.body
    matched = match_items(request, case.looked_up, anew=True)
    return plan_injection(request, matched, case.policy).apply(request.body)


def _named_again(case: RefusedRequest) -> bool:
    """Give reasoning that goes without its id the id back, where what it led to keeps its own."""
    found = False
    for run in runs_of(case.pieces):
        for piece in run.reasoning if run.group and run.group[0].item.id else ():
            thought = case.thought(piece) if not piece.item.id else None
            if thought is not None and thought.part.id:
                piece.name(thought.part.id)
                found = found or thought.part.id == case.diagnosis.wanted
    return found


def _beside(case: RefusedRequest) -> bytes | None:
    """Put the pair that upstream names side by side; None if it is."""
    pieces = list(case.pieces)
    emitted = (Role.REASONING, Role.MODEL, Role.REFERENCE)
    at = {piece.item.id: n for n, piece in enumerate(pieces) if piece.item.role in emitted}
    reasoning, item = at.get(case.diagnosis.wanted), at.get(case.diagnosis.subject)
    if reasoning is None or item is None or item in (reasoning, reasoning + 1):
        return None
    is_shared = reasoning > 0 and pieces[reasoning - 1].is_reasoning
    leads = any(pieces[reasoning] in run.reasoning and run.group for run in runs_of(pieces))
    if reasoning > item or is_shared or not leads:
        moved = pieces.pop(reasoning)
        pieces.insert(pieces.index(case.pieces[item]), moved)
    else:  # what follows it now would lack it: the item moves instead
        moved = pieces.pop(item)
        pieces.insert(reasoning + 1, moved)
    return case.body(pieces)


def _parts(case: RefusedRequest, reasoning: list[InputPiece]) -> list[list[InputPiece]]:
    """Split consecutive reasoning where it is known that something stood in between."""
    parts: list[list[InputPiece]] = [[]]
    before: object = None
    for piece in reasoning:
        thought = case.thought(piece)
        led_to = (thought.turn.id, thought.k) if thought is not None else None
        if parts[-1] and led_to != before:
            parts.append([])
        parts[-1].append(piece)
        before = led_to
        if piece.item.id == case.diagnosis.subject and thought is None:
            before = piece  # upstream says that what comes next is not what it led to
    return parts


def _spot_behind(case: RefusedRequest, piece: InputPiece) -> Spot | None:
    spot = case.spot(piece)
    return (spot[0], (spot[1][0], 0)) if spot is not None else None


def _follower(case: RefusedRequest, piece: InputPiece) -> Emitted | None:
    thought = case.thought(piece)
    return thought.follower if thought is not None else None


def _joined(case: RefusedRequest, run: Run, follower: Emitted | None) -> list[InputPiece]:
    """Join reasoning and what stands behind it, by both ids or by none; return what has to go."""
    behind = run.group[0]
    is_named = any(piece.item.id == case.diagnosis.subject for piece in run.reasoning)
    if behind.item.id and not (is_named and follower is None):
        return []  # a pair, as far as anyone can tell
    if follower is not None and follower.id and case.sent.stores and behind.item.takes_id:
        behind.name(follower.id)
        return []
    if all(piece.item.blob for piece in run.reasoning):
        by_value(run)
        return []
    return run.reasoning


def _goes_by_value(case: RefusedRequest, run: Run) -> bool:
    """Let reasoning stay whose own item is gone, ahead of one of its group; tell whether it can."""
    thought = case.thought(run.reasoning[-1])
    if thought is None or not is_of_group(run.group[0].item, thought):
        return False
    return let_go_by_value(run, thought, case.policy.profile)


def _without_orphans(case: RefusedRequest) -> list[InputPiece]:
    """Leave out the ids of items that have no reasoning ahead: by value, none is demanded."""
    subject = next((p for p in case.pieces if p.item.id == case.diagnosis.subject), None)
    covered: set[InputPiece] = set()
    lost: set[InputPiece] = set()
    for run in runs_of(case.pieces):
        if subject not in run.group:
            covered.update(run.group)
        elif all(one.item.blob for one in run.reasoning):
            by_value(run)
        else:
            lost.update(run.reasoning)
    kinds = {subject.item.type} if subject is not None else ()
    gone: set[InputPiece] = set()
    for piece in case.pieces:
        if piece.item.role is not Role.MODEL or piece in covered or case.had_none(piece):
            continue
        if piece.item.id_is_optional:
            piece.leave_out("id")
        elif piece.item.type in kinds and not is_answered(piece.item.type, piece.item.call_id):
            gone.add(piece)  # hosted, and whole in itself: no output of it stays behind
    return [piece for piece in _less(case.pieces, lost) if piece not in gone]


def _less(pieces: list[InputPiece], lost: set[InputPiece]) -> list[InputPiece]:
    return dropped(pieces, lost) if lost else pieces


def _answering(case: RefusedRequest, pieces: list[InputPiece]) -> list[InputPiece]:
    """Put captured calls, with their reasoning, ahead of the outputs that lack them."""
    present = {piece.item.id for piece in pieces if piece.item.role is not Role.REFERENCE} - {""}
    orphans = set(outputs_without_call(pieces)) if not case.sent.is_stateful else ()
    calls = _captured_calls(case) if orphans else {}
    answering: list[InputPiece] = []
    added: set[str] = set()
    for piece in pieces:
        call = calls.pop(piece.item.call_id, None) if piece in orphans else None
        if call is not None:
            answering += _unit(case, call, present)
            added |= {call.emitted.id, *(part.id for part in call.emitted.run)}
        answering.append(piece)
    # A reference cannot stand for a call whose output is there, nor beside what it stands for.
    return [
        piece
        for piece in answering
        if piece.item.role is not Role.REFERENCE or piece.item.id not in added
    ]


def _unit(case: RefusedRequest, call: Match, present: Collection[str]) -> list[InputPiece]:
    """Return a captured call behind its reasoning; by value where that cannot be injected."""
    run = call.emitted.run
    piece = put_in(call.emitted.raw, (call.turn.id, (call.k, 0)))
    if call.emitted.withheld or not all(case.can_go(call.turn, part) for part in run):
        if piece.item.id_is_optional:
            piece.leave_out("id")
        return [piece]
    ahead = [
        put_in(case.sendable(part), (call.turn.id, (call.k, n - len(run))))
        for n, part in enumerate(run)
        if part.id not in present
    ]
    return [*ahead, piece]


def _captured_calls(case: RefusedRequest) -> dict[str, Match]:
    """Return the captured calls whose name no other has, and none could have by chance."""
    found: dict[str, list[Match]] = defaultdict(list)
    for turn in case.looked_up.turns:
        for k, item in enumerate(turn.items):
            if item.raw and item.type != "message" and is_distinctive(item.call_id, item.name):
                found[item.call_id].append(Match(turn, k))
    return {call_id: calls[0] for call_id, calls in found.items() if len(calls) == 1}


def _is(case: RefusedRequest, piece: InputPiece, follower: Emitted | None) -> bool:
    """Tell whether a piece may be what reasoning led to."""
    if follower is None:
        return True
    emitted = case.emitted(piece)
    if emitted is not None:
        # An item without an id may have been taken for a twin's, which says the same.
        is_twin = not piece.item.id and bool(emitted.content)
        return emitted == follower or (is_twin and emitted.content == follower.content)
    return piece.item.id in ("", follower.id) and piece.item.type == follower.type


def _may_return(case: RefusedRequest, follower: Emitted, called: Collection[str]) -> bool:
    """
    Tell whether what a client left out may be put in again.

    What the model said may have been taken back on purpose; what it did has happened. A call
    returns only to its output, and to none that has a call (`called`: the names of all of them).
    """
    if not follower.raw or follower.type == "message" or case.sent.is_stateful:
        return False
    if not is_answered(follower.type, follower.call_id):
        return follower.id not in case.names
    return follower.call_id in case.answered and follower.call_id not in called
