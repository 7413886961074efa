"""Pairing cures: for items without their other half (reasoning or follower, call or output)."""

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
from reasoning_replay.core.dialects.responses.heal.unpaired import (
    begins_with_follower,
    is_of_group,
    let_go_by_value,
)
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
    """Move reasoning before its follower; else inject it; else remove the ids that require it."""
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
            # Unknown items may lack reasoning as well, and there is no second retry.
            is_changed = name_no_orphans(fetched.pieces, spares=fetched.is_known)
            return fetched.body(fetched.pieces) if is_changed else fetched.sent.body
    return case.body(_without_orphans(case))


def with_follower(case: RefusedRequest) -> bytes | None:
    """Take out injected reasoning that lacks its follower; else repair the client's own pairs."""
    pieces = _answering(case, case.pieces)
    if apart := _injected_apart(case, pieces):
        return case.body(dropped(pieces, apart))
    return _followed(case, pieces)


def with_outputs_behind(case: RefusedRequest) -> bytes | None:
    """Move outputs after their calls. A missing output is never made up."""
    call_id = case.diagnosis.subject
    if not any(piece.is_output and piece.item.call_id == call_id for piece in case.pieces):
        return None
    return _in_order(case, joins=False) or _in_order(case, joins=True)


def with_calls(case: RefusedRequest) -> bytes | None:
    """Move a call before its output, or add the captured call there."""
    if any(p.item.is_tool and p.item.call_id == case.diagnosis.subject for p in case.pieces):
        return _in_order(case, joins=False) or _in_order(case, joins=True)
    return case.body(in_order(_answering(case, case.pieces), case.spot, joins=False))


def with_text(case: RefusedRequest) -> bytes | None:
    """Add captured plain text to reasoning, or inject it; else move outputs after their group."""
    for piece in case.pieces:
        whole = case.captured(piece)
        if piece.item.role is Role.REASONING and b'"reasoning_text"' in whole:
            piece.raw = whole if b'"reasoning_text"' not in piece.raw else piece.raw
    body = case.body(case.pieces)
    body = _injected(case, read_request(body, {}))
    return body if body != case.sent.body else _in_order(case, joins=True)


def _followed(case: RefusedRequest, whole: list[InputPiece]) -> bytes:
    """Place each follower after its reasoning; else remove the reasoning's id, or all of it."""
    ordered = in_order(whole, case.spot, joins=False)
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
    if lost:  # its follower is unknown, so an item that lacks it now is sent by value
        name_no_orphans(left)
    return case.body(left)


def _in_order(case: RefusedRequest, *, joins: bool) -> bytes | None:
    """Return the request in order; None if it is in order already."""
    pieces = in_order(case.pieces, case.spot, joins=joins)
    return case.body(pieces) if pieces != case.pieces else None


def _injected(case: RefusedRequest, request: Request) -> bytes:
    """Inject once more, now that upstream has named the missing item."""
    if request.is_stateful:
        return request.body
    matched = match_items(request, case.looked_up, anew=True)
    return plan_injection(request, matched, case.profile).apply(request.body)


def _named_again(case: RefusedRequest) -> bool:
    """Add lost ids to reasoning before items with ids; return whether the wanted one was added."""
    found = False
    for run in runs_of(case.pieces):
        for piece in run.reasoning if run.group and run.group[0].item.id else ():
            thought = case.thought(piece) if not piece.item.id else None
            if thought is not None and thought.part.id:
                piece.name(thought.part.id)
                found = found or thought.part.id == case.diagnosis.wanted
    return found


def _beside(case: RefusedRequest) -> bytes | None:
    """Make the two items that upstream names adjacent; None if that is not possible or needed."""
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
    else:  # the item after the reasoning would lack it, so the named item moves instead
        moved = pieces.pop(item)
        pieces.insert(reasoning + 1, moved)
    return case.body(pieces)


def _injected_apart(case: RefusedRequest, pieces: list[InputPiece]) -> set[InputPiece]:
    """Return the injected reasoning that has another item after it; none if upstream names none."""
    ours, apart = case.added(), set[InputPiece]()
    if not any(map(case.is_named, ours)):
        return apart
    for run in runs_of(pieces):
        thought = case.thought(run.reasoning[-1])
        is_behind = thought is not None and begins_with_follower(run.group, thought)
        if not is_behind or any(map(case.is_named, run.reasoning)):
            apart |= ours.intersection(run.reasoning)
    return apart


def _parts(case: RefusedRequest, reasoning: list[InputPiece]) -> list[list[InputPiece]]:
    """Split consecutive reasoning where captured turns show that an item stood in between."""
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
            before = piece  # upstream reports that the next item is not its follower
    return parts


def _spot_behind(case: RefusedRequest, piece: InputPiece) -> Spot | None:
    spot = case.spot(piece)
    return (spot[0], (spot[1][0], 0)) if spot is not None else None


def _follower(case: RefusedRequest, piece: InputPiece) -> Emitted | None:
    thought = case.thought(piece)
    return thought.follower if thought is not None else None


def _joined(case: RefusedRequest, run: Run, follower: Emitted | None) -> list[InputPiece]:
    """Pair reasoning with the item after it, by both ids or none; return the pieces to remove."""
    behind = run.group[0]
    is_named = any(piece.item.id == case.diagnosis.subject for piece in run.reasoning)
    if behind.item.id and not (is_named and follower is None):
        return []  # a pair, as far as is known
    if follower is not None and follower.id and case.sent.stores and behind.item.takes_id:
        behind.name(follower.id)
        return []
    if all(piece.item.blob for piece in run.reasoning):
        by_value(run)
        return []
    return run.reasoning


def _goes_by_value(case: RefusedRequest, run: Run) -> bool:
    """Send reasoning by value before a later item of its group; return whether that is possible."""
    thought = case.thought(run.reasoning[-1])
    if thought is None or not is_of_group(run.group[0].item, thought):
        return False
    return let_go_by_value(run, thought, case.profile)


def _without_orphans(case: RefusedRequest) -> list[InputPiece]:
    """Remove the ids of items without reasoning before them: by value, none is required."""
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
            gone.add(piece)  # a hosted item is complete, so no output of it is left over
    return [piece for piece in _less(case.pieces, lost) if piece not in gone]


def _less(pieces: list[InputPiece], lost: set[InputPiece]) -> list[InputPiece]:
    return dropped(pieces, lost) if lost else pieces


def _answering(case: RefusedRequest, pieces: list[InputPiece]) -> list[InputPiece]:
    """Insert captured calls, with their reasoning, before the outputs that lack them."""
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
    # A reference cannot stand for a call with an output, and must not repeat an added item.
    return [
        piece
        for piece in answering
        if piece.item.role is not Role.REFERENCE or piece.item.id not in added
    ]


def _unit(case: RefusedRequest, call: Match, present: Collection[str]) -> list[InputPiece]:
    """Return a captured call after its reasoning; by value if that cannot be injected."""
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
    """Return the captured calls with a random `call_id` that occurs only once."""
    found: dict[str, list[Match]] = defaultdict(list)
    for turn in case.looked_up.turns:
        for k, item in enumerate(turn.items):
            if item.raw and item.type != "message" and is_distinctive(item.call_id, item.name):
                found[item.call_id].append(Match(turn, k))
    return {call_id: calls[0] for call_id, calls in found.items() if len(calls) == 1}


def _is(case: RefusedRequest, piece: InputPiece, follower: Emitted | None) -> bool:
    """Return whether a piece may be the item that reasoning led to."""
    if follower is None:
        return True
    emitted = case.emitted(piece)
    if emitted is not None:
        # An item without an id may have been matched to a twin with the same content.
        is_twin = not piece.item.id and bool(emitted.content)
        return emitted == follower or (is_twin and emitted.content == follower.content)
    return piece.item.id in ("", follower.id) and piece.item.type == follower.type


def _may_return(case: RefusedRequest, follower: Emitted, called: Collection[str]) -> bool:
    """
    Return whether an item that the client left out may be added again.

    The client may have removed a message on purpose, but an action of the model has happened. A
    call is added only if its output is present and has no call (`called`: `call_id` of all calls).
    """
    if not follower.raw or follower.type == "message" or case.sent.is_stateful:
        return False
    if not is_answered(follower.type, follower.call_id):
        return follower.id not in case.names
    return follower.call_id in case.answered and follower.call_id not in called
