"""Checks of any request of a client, and of the request that the proxy sends instead."""

import json
import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.emitted import phase_of
from reasoning_replay.core.dialects.responses.heal.cure import cure, lookups_for
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind, diagnose
from reasoning_replay.core.dialects.responses.heal.repair import Repair, Repairs, repair
from reasoning_replay.core.dialects.responses.id_policy import in_form, without_id
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import PROFILES, Profile
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.lookup_keys import LookupResult, choose
from reasoning_replay.core.history.matching.matches import match_items, parent_of
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.plan import Outcome, Plan
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.wire.json_spans import Edit, Unspliceable

from tests.core.world import World
from tests.fuzz.inputs import read
from tests.fuzz.naive import json_of, less, meaning, spliced
from tests.fuzz.streams import BOUND
from tests.fuzz.trees import Object, is_deep

__all__ = ["BOUND", "Played", "conversation", "cures", "drawn", "plain_read"]

PROFILE_NAMES = sorted(PROFILES)
# Members that a repaired item may lack.
LEFT_OUT = ("id", "encrypted_content", "content", "status", "created_by", "summary", "phase")


@dataclass
class Played:
    """A conversation while it is played; `world` holds the turns of its scope."""

    profile: Profile
    world: World = field(default_factory=World)
    said: list[bytes] = field(default_factory=list)

    def learn(self, request: Request | None, answer: bytes) -> None:
        """Capture a response of upstream."""
        self.said.append(answer)
        origin = Origin(_NO_CONTEXT, "gpt-5.4")
        if request is not None:
            recalled = self.world.recall(request)
            parent = parent_of(request, match_items(request, recalled), recalled)
            origin = Origin(
                context=request.context(),
                model=request.model,
                conversation=parent.conversation if parent else b"",
                parent=parent.id if parent else b"",
                stores=request.stores,
            )
        capture = ResponsesCapture(origin, BOUND)
        if b"data:" in answer:
            capture.feed(answer)
            capture.close()
        else:
            capture.read(answer)
        turn = capture.snapshot(len(self.said)).turn
        if turn is not None:
            self.world.keep(turn)

    def plan(self, request: Request) -> Plan:
        """Plan the injection as the proxy does."""
        return plan_injection(
            request, match_items(request, self.world.recall(request)), self.profile
        )


_NO_CONTEXT = read_request(b'{"previous_response_id":"r"}', {}).context()


def plain_read(body: bytes) -> Request | None:
    """Read a request; return None if it cannot be read."""
    try:
        return read_request(body, {"session-id": "s"})
    except Unspliceable:
        return None


def conversation(data: bytes) -> None:
    """Check that only emitted reasoning is injected, once, and that no other byte changes."""
    given = read(data)
    profile = PROFILES[given.dice.choice(PROFILE_NAMES)]
    played = Played(profile)
    request: Request | None = None
    seen: _Seen | None = None
    for n, said in enumerate(given.documents):
        if n % 2:
            played.learn(request, said)
            continue
        request = plain_read(said)
        if request is None:
            continue
        decided = played.plan(request)
        if not request.is_stateful:
            judge_plan(played.world.turns.values(), request, decided, profile)
            _judge_again(played, request, decided)
            now = _Seen(request, decided.apply(request.body), dict(played.world.turns))
            if seen is not None:
                _judge_prefix(seen, now)
            seen = now
        stranger = Played(profile)
        assert not stranger.plan(request).edits
        _judge_repair(played, request, given.dice)


def judge_plan(turns: Collection[Turn], request: Request, decided: Plan, profile: Profile) -> None:
    """Check the edits of a plan: verbatim from upstream, each once, at places the API accepts."""
    body = request.body
    edited = decided.apply(body)
    assert (edited is body) == (not decided.edits)
    done, undone = spliced(body, decided.edits)
    assert (done, undone) == (edited, body)
    if is_deep(edited):
        return
    thoughts = Counter(
        raw
        for turn in turns
        if family(request.model) in turn.models
        for item in turn.items
        for part in item.run
        for raw in {part.raw, without_id(part), in_form(part, profile)}
    )
    ids = {item.id for turn in turns for item in turn.items}
    put_in: dict[int, list[bytes]] = {}
    for edit in decided.edits:
        if edit.new[:1] == b"{":
            assert edit.start == edit.end
            assert edit.new[-1:] == b","
            put_in.setdefault(edit.start, []).append(edit.new[:-1])
    used = Counter(raw for raws in put_in.values() for raw in raws)
    assert not used - thoughts, "upstream never emitted it, or less often"
    assert used.total() == decided.outcomes.get(Outcome.INJECTED, 0)
    starts = {place.item.start: place.item for place in request.places}
    assert all(starts[at].role is not Role.FRAME for at in put_in)
    emitted = [phase_of(item) for turn in turns for item in turn.items]
    known = ids | {json.loads(phase) for phase in emitted if phase}
    _judge_result(request, decided.edits, put_in, json_of(edited), known)


def _judge_result(
    request: Request,
    edits: Sequence[Edit],
    put_in: dict[int, list[bytes]],
    edited: Any,
    known: set[str],
) -> None:
    """Check that the result is the client's items but for ids and phases, and injected ones."""
    if not edits:
        return
    before = json_of(request.body)
    items = dict(before)["input"]
    got = dict(edited)["input"]
    assert less(edited, ["input"]) == less(before, ["input"])
    at = 0
    for place, item in zip(request.places, items, strict=True):
        for raw in put_in.get(place.item.start, ()):
            assert got[at] == meaning(raw)
            at += 1
        if got[at] != item:
            added = dict(got[at]).keys() - dict(item).keys() - {"id"}
            assert less(got[at], ["id", *added]) == less(item, ["id"])
            assert dict(got[at]).get("id") in {*known, None}
            assert all(name == "phase" and dict(got[at])[name] in known for name in added)
        at += 1
    assert at == len(got)


def _judge_again(played: Played, request: Request, decided: Plan) -> None:
    """Check that a second plan is equal, and that an injected request gets nothing more."""
    assert played.plan(request) == decided
    if not decided.edits:
        return
    once = plain_read(decided.apply(request.body))
    assert once is not None
    again = played.plan(once)
    judge_plan(played.world.turns.values(), once, again, played.profile)
    assert not again.outcomes.get(Outcome.INJECTED, 0), "injected twice"


class _Seen(NamedTuple):
    """A request as the client sent it, and as upstream received it."""

    sent: Request
    edited: bytes
    turns: dict[bytes, Turn]


def _is_news(turn: Turn, before: Request) -> bool:
    """Return whether a turn shares no id, call id or content with an earlier request."""
    items = [place.item for place in before.places]
    held = {value for item in items for value in (item.id, item.call_id, item.content)} - {"", b""}
    names = {value for one in turn.items for value in (one.id, one.call_id, one.content)}
    names |= {part.id for one in turn.items for part in one.run}
    return not held & names


def _judge_prefix(before: _Seen, now: _Seen) -> None:
    """Check that for a client that only appends, the request to upstream keeps its prefix."""
    raws, longer = ([place.item.raw for place in seen.sent.places] for seen in (before, now))
    same = ("model", "store", "instructions")
    is_longer = longer[: len(raws)] == raws and all(
        before.sent.raw(key) == now.sent.raw(key) for key in same
    )
    new = [turn for this, turn in now.turns.items() if this not in before.turns]
    kept = before.turns.items() <= now.turns.items()
    if is_longer and kept and all(_is_news(turn, before.sent) for turn in new):
        saw, sees = (plain_read(seen.edited) for seen in (before, now))
        assert saw is not None
        assert sees is not None
        old, longer = ([place.item.raw for place in seen.places] for seen in (saw, sees))
        assert longer[: len(old)] == old, "the prefix has changed"


def _judge_repair(played: Played, request: Request, dice: random.Random) -> None:
    """Check that a repaired request consists of sent and captured items."""
    turns = played.world.recall(request).turns
    bit = dice.choice((0, 0, 1, 255))
    repairs = Repairs(
        frozenset(dice.sample(list(Repair), dice.choice((1, len(Repair))))),
        lambda blob: bool(blob[0] & bit),
        takes_reasoning=dice.random() < 0.9,
        profile=played.profile,
    )
    mended = repair(request, turns, repairs)
    assert (mended.body is request.body) == (not mended.counts)
    _judge_made(request, mended.body, list(played.world.turns.values()))
    assert _words(request.body) == _words(mended.body)


def _words(body: bytes) -> list[object]:
    """Return the texts of user messages in a request, which a repair never changes."""
    request = plain_read(body)
    assert request is not None
    items = [place.item for place in request.places]
    return [i.said for i in items if i.role is Role.CLIENT and i.type == "message" and not i.id]


def _judge_made(request: Request, body: bytes, turns: list[Turn]) -> None:
    """Check that each item was sent or captured, except for some members, and the rest is equal."""
    raws = [item.raw for turn in turns for item in turn.items if item.raw]
    raws += [part.raw for turn in turns for item in turn.items for part in item.run]
    if any(map(is_deep, [request.body, body, *raws])):
        return
    before, after = json_of(request.body), json_of(body)
    assert less(before, ["input", "include"]) == less(after, ["input", "include"])
    sent, got = dict(before).get("input"), dict(after).get("input")
    if got == sent:
        return
    assert isinstance(sent, list)
    assert isinstance(got, list)
    sources = [_essence(item) for item in [*sent, *map(meaning, raws)]]
    for item in got:
        assert _essence(item) in sources


def _essence(item: Any) -> Any:
    return less(item, LEFT_OUT) if isinstance(item, Object) else item


def cures(data: bytes) -> None:
    """Check that the healed request for any refusal consists of sent and captured items."""
    given = read(data)
    *documents, said = given.documents
    profile = PROFILES[given.dice.choice(PROFILE_NAMES)]
    played = Played(profile)
    request: Request | None = None
    for n, each in enumerate(documents):
        if n % 2:
            played.learn(request, each)
        else:
            request = plain_read(each)
    if request is None:
        return
    diagnosis = diagnose(400, said)
    if diagnosis.kind is RefusalKind.OTHER or given.dice.random() < 0.3:
        diagnosis = drawn(given.dice, request, played.world.turns.values())
    decided = played.plan(request)
    sent = plain_read(decided.apply(request.body)) if not request.is_stateful else request
    assert sent is not None
    choice = choose(lookups_for(sent, diagnosis), lambda key: played.world.index.get(key, ()))
    kept = [t for t in played.world.turns.values() if t.conversation in choice.conversations]
    recalled = LookupResult(kept, choice.crowded)
    found = cure(sent, request, diagnosis, recalled, profile)
    assert cure(sent, request, diagnosis, recalled, profile) == found
    if found is None:
        return
    assert found.body != sent.body
    assert found.is_clients_own == (found.body == request.body)
    if found.is_clients_own:
        return
    _judge_made(sent, found.body, kept)
    assert _words(sent.body) == _words(found.body)


def drawn(dice: random.Random, request: Request, turns: Iterable[Turn]) -> Diagnosis:
    """Draw a refusal of a request."""
    items = [place.item for place in request.places]
    names = [name for item in items for name in (item.id, item.call_id)]
    emitted = [item for turn in turns for item in turn.items]
    names += [name for item in emitted for name in (item.id, item.call_id)]
    names += [part.id for item in emitted for part in item.run]
    blob = dice.choice([item.blob for item in items] or [""])
    return Diagnosis(
        dice.choice(list(RefusalKind)),
        subject=dice.choice([*names, ""]),
        wanted=dice.choice([*names, "rs_unknown"]),
        index=dice.choice([None, *range(len(items))]),
        member=dice.choice(["status", "content", "encrypted_content", "id"]),
        ends=(blob[:4], blob[-4:]) if blob and dice.random() < 0.5 else None,
        is_bound=dice.random() < 0.3,
        is_foreign=dice.random() < 0.3,
    )
