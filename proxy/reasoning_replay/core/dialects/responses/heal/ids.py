"""Id cures: for ids that are sent twice, not found, or in a form that the API refuses."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from reasoning_replay.core.dialects.responses.heal.input_editor import (
    InputPiece,
    by_value,
    dropped,
    is_answered,
    runs_of,
)
from reasoning_replay.core.dialects.responses.heal.refused_request import RefusedRequest
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Unspliceable

__all__ = ["completed", "deduplicated", "name_no_orphans", "outputs_without_call", "with_good_ids"]

# Prefixes of emitted ids (OpenAI's API; ids of other types are not checked).
_PREFIXES: Mapping[str, str] = {
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
    "mcp_call": "mcp",
    "program": "cm",
}
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Id prefixes of referenced items that no output belongs to.
_WITHOUT_OUTPUT = ("rs_", "msg_", "ws_", "fs_", "ci_", "ig_", "mcp_", "mcpl_")


def deduplicated(case: RefusedRequest) -> bytes | None:
    """Send every item once: remove copies with equal content; other items only lose the id."""
    subject = case.diagnosis.subject
    if [piece.item.id for piece in case.pieces].count(subject) < 2:  # noqa: PLR2004 (twice)
        return _less_than_upstream_holds(case) if subject and case.sent.is_stateful else None
    return case.body(_once(case.pieces))


def _once(pieces: list[InputPiece]) -> list[InputPiece]:
    """Remove the second copy of an item with an id; remove a call with its output's copy."""
    copies, others = _repeated(pieces)
    results, repeated = _results(pieces)
    gone: set[InputPiece] = set()
    for copy in copies:
        call_id = copy.item.call_id if copy.item.is_tool else ""
        again = next(repeated[call_id], None) if call_id in repeated else None
        if again is not None:
            gone |= {copy, again}
        elif len(results[call_id]) > 1:
            others.append(copy)  # called twice, with two results: not a copy
        else:
            gone.add(copy)
    for piece in others:
        item = piece.item
        if item.id_is_optional or item.role in (Role.CLIENT, Role.FRAME):
            piece.leave_out("id")
        elif not is_answered(item.type, item.call_id):
            gone.add(piece)
    return [piece for piece in pieces if piece not in gone]


def _repeated(pieces: list[InputPiece]) -> tuple[list[InputPiece], list[InputPiece]]:
    """Return the pieces that repeat an earlier id: copies with equal content, and all others."""
    first: dict[str, InputPiece] = {}
    copies: list[InputPiece] = []
    others: list[InputPiece] = []
    for piece in _best_first(pieces):
        item = piece.item
        before = first.setdefault(item.id, piece)
        if not item.id or before is piece:
            continue
        is_copy = _says_the_same(piece, before)
        is_said = item.type == "message" and item.role is not Role.MODEL
        if not item.type.startswith("compaction"):
            (copies if is_copy and not is_said else others).append(piece)
    return copies, others


def _results(
    pieces: list[InputPiece],
) -> tuple[Mapping[str, set[bytes]], Mapping[str, Iterator[InputPiece]]]:
    """Return the distinct results of each call, and the outputs that repeat a result."""
    results: dict[str, set[bytes]] = defaultdict(set)
    repeated: dict[str, list[InputPiece]] = defaultdict(list)
    for piece in pieces:
        call_id, said = piece.item.call_id, piece.item.said if piece.is_output else b""
        if not said or not call_id:
            continue
        if said in results[call_id]:
            repeated[call_id].append(piece)
        results[call_id].add(said)
    return results, {call_id: iter(outputs) for call_id, outputs in repeated.items()}


def completed(case: RefusedRequest) -> bytes | None:
    """
    Replace bare ids by whole items; remove those that cannot be completed.

    None if a call would be removed while its output stays: half of a unit is never removed.
    """
    lost: set[InputPiece] = set()
    unnamed = False
    stands = {piece.item.id for piece in case.pieces if not piece.item.is_id_alone}
    pieces = [p for p in case.pieces if not (p.item.is_id_alone and p.item.id in stands)]
    for piece in pieces:
        item = piece.item
        if item.is_id_alone:
            whole = case.captured(piece)
            if whole:
                piece.become(whole)
            else:  # items of the same age are probably gone as well, and only one retry is left
                lost.add(piece)
        elif item.id == case.diagnosis.subject:
            unnamed = True  # it is whole, but upstream looks up its id anyway
    if unnamed:
        _leave_ids_out(case)
    others = {piece for piece in lost if not piece.is_reasoning}
    if outputs_without_call(pieces) and any(
        not p.item.id.startswith(_WITHOUT_OUTPUT) for p in others
    ):
        return None
    for run in runs_of(pieces):
        if run.group and others.issuperset(run.group):
            lost.update(run.reasoning)  # all the items that it led to are gone
    left = dropped(pieces, lost - others)
    return case.body([piece for piece in left if piece not in others])


def with_good_ids(case: RefusedRequest) -> bytes | None:
    """
    Replace bad ids by the ids that upstream emitted where they are required; remove the others.

    Ids of a group stay together: if one of them cannot be added, the others are removed too.
    """
    run_of = {p: run for run in runs_of(case.pieces) for p in (*run.reasoning, *run.group)}
    subject = next((p for p in case.pieces if p.index == case.diagnosis.index), None)
    lacks_id = subject is not None and subject.is_reasoning and not subject.item.id
    lost = set()
    for piece in case.pieces:
        is_lacking = lacks_id and piece.item.role is Role.REASONING and not piece.item.id
        if piece is not subject and not is_lacking and not _has_bad_id(piece.item):
            continue
        known = _known_id(case, piece)
        run = run_of.get(piece)
        is_demanded = run is not None and all(one.item.id for one in run.reasoning)
        is_sealed = run is not None and all(one.item.blob for one in run.reasoning)
        if known != piece.item.id and known and (is_demanded or not piece.item.id_is_optional):
            piece.name(known)
        elif is_demanded and is_sealed and run is not None:
            by_value(run)
        elif piece.item.id_is_optional or piece.item.blob or piece.is_output:
            piece.leave_out("id")
        elif piece.item.role is Role.REASONING:
            lost.add(piece)
    return case.body(dropped(case.pieces, lost))


def _known_id(case: RefusedRequest, piece: InputPiece) -> str:
    """Return the id that upstream gave an item; "" if unknown."""
    emitted, thought = case.emitted(piece), case.thought(piece)
    return emitted.id if emitted is not None else thought.part.id if thought is not None else ""


def outputs_without_call(pieces: list[InputPiece]) -> list[InputPiece]:
    """Return the outputs without a whole call among the pieces."""
    calls = {piece.item.call_id for piece in pieces if piece.item.role is Role.MODEL}
    return [piece for piece in pieces if piece.is_output and piece.item.call_id not in calls]


def name_no_orphans(
    pieces: list[InputPiece], spares: Callable[[InputPiece], bool] = lambda _: False
) -> bool:
    """
    Remove the ids of items without reasoning before them, where the API accepts that.

    Args:
        pieces: The input of a request.
        spares: Predicate for pieces that keep their id.

    Returns:
        Whether there was any such item.
    """
    covered = {piece for run in runs_of(pieces) for piece in run.group}
    emitted = [piece for piece in pieces if piece.item.role is Role.MODEL and piece.item.id]
    orphans = [
        piece
        for piece in emitted
        if piece.item.id_is_optional and piece not in covered and not spares(piece)
    ]
    for piece in orphans:
        piece.leave_out("id")
    return bool(orphans)


def _best_first(pieces: list[InputPiece]) -> list[InputPiece]:
    """Sort the pieces to keep first: reasoning with a follower, and whole items before bare ids."""
    leading = {piece for run in runs_of(pieces) if run.group for piece in run.reasoning}

    def rank(piece: InputPiece) -> tuple[bool, bool]:
        is_bare = piece.item.role is Role.REFERENCE or piece.item.is_hollow
        return piece.is_reasoning and piece not in leading, is_bare

    return sorted(pieces, key=rank)


def _less_than_upstream_holds(case: RefusedRequest) -> bytes | None:
    """Remove the items that are in the history that upstream holds."""
    known = {case.diagnosis.subject}
    for turn in case.looked_up.turns:
        ids = {item.id for item in turn.items} | {part.id for i in turn.items for part in i.run}
        if case.diagnosis.subject in ids:
            known |= ids - {""}
    kept = [p for p in case.pieces if p.item.id not in known or p.item.type == "compaction"]
    return case.body(kept)


def _leave_ids_out(case: RefusedRequest) -> None:
    for piece in case.pieces:
        item = piece.item
        if (item.role is Role.REASONING and item.blob) or (
            item.role is Role.MODEL and item.id_is_optional
        ):
            piece.leave_out("id")


def _says_the_same(piece: InputPiece, before: InputPiece) -> bool:
    item, other = piece.item, before.item
    if piece.is_reasoning or item.role is Role.REFERENCE:
        return True
    if item.role is not Role.MODEL:
        return (item.type, item.call_id, item.said) == (other.type, other.call_id, other.said)
    return (item.type, item.call_id, item.content) == (other.type, other.call_id, other.content)


def _has_bad_id(item: ResponsesItem) -> bool:
    prefix = _PREFIXES.get(item.type)
    if prefix is None or item.role not in (Role.MODEL, Role.REASONING):
        return False
    if not item.id:
        try:
            return "id" in json_spans.members(item.raw)
        except Unspliceable:
            return False
    return not item.id.startswith(prefix) or _ID.fullmatch(item.id) is None
