"""Repairs: the edits before the first attempt, made only where the request is certainly wrong."""

from collections.abc import Collection
from dataclasses import replace

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.refusal_memory import BLOB, DAMAGED
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.profiles import GENERIC, PROFILES, Ids
from reasoning_replay.core.history.model_names import family

from tests.core.dialects.responses.heal.played import (
    ASK,
    MORE,
    Repaired,
    repaired,
    repaired_body,
    world_of,
)
from tests.core.dialects.responses.heal.test_blobs import digest_of
from tests.core.dialects.responses.notation import history, request_of, rows
from tests.core.world import (
    MODEL,
    Item,
    World,
    body,
    call,
    input_of,
    nameless,
    output,
    reasoning,
    search,
)

R1, R2, C1, WS = reasoning("1"), reasoning("2"), call("1"), search("1")
O1 = output(C1, "one")
COLUMNS = ("captured", "request_", "sent", "want", "counts")
REPAIRED = rows("heal/repairs.md")


def played(
    captured: str, request_: str, items: list[Item], allowed: Collection[Repair] = frozenset(Repair)
) -> Repaired:
    """Return a row's request after the repairs; its cells say what was captured and learnt."""
    world = world_of(*map(history, captured.split(" / "))) if captured else World()
    profile, learnt, rest = GENERIC, list[tuple[str, str | bytes]](), list[str]()
    for word in filter(None, request_.split("; ")):
        match word.split(" "):
            case ["refused", name]:
                learnt.append((BLOB, digest_of(*history(name))))
            case ["no", "reasoning"]:
                learnt.append((RefusalKind.NO_REASONING_MODEL, family(MODEL)))
            case ["checks", "ids"]:
                learnt.append((RefusalKind.LACKS_REASONING, family(MODEL)))
            case ["damages"]:
                learnt += [(DAMAGED, turn.conversation) for turn in world.turns.values()]
            case ["upstream", name]:
                profile = PROFILES[name]
            case ["ids", name]:
                profile = replace(GENERIC, ids=Ids(name))
            case _:
                rest.append(word)
    more = request_of("; ".join(rest))
    return repaired(world, [ASK, *items], learnt, allowed=allowed, profile=profile, **more)


@pytest.mark.parametrize(COLUMNS, REPAIRED)
def test_certain_faults_are_repaired(
    captured: str, request_: str, sent: str, want: str, counts: str
) -> None:
    """Each repair edits only its own fault, and is counted; a pair stays as the history grows."""
    for rest in ([], [MORE]) if "unpaired" in counts else ([],):
        done = played(captured, request_, [*history(sent), *rest])

        assert input_of(done.body) == [ASK, *history(want), *rest]
        assert ", ".join(f"{repair}={n}" for repair, n in done.counts.items()) == counts


@pytest.mark.parametrize(COLUMNS, REPAIRED)
def test_each_repair_may_be_switched_off(
    captured: str, request_: str, sent: str, want: str, counts: str
) -> None:
    """A repair that is switched off edits nothing; the other repairs still work."""
    for switched_off in Repair:
        done = played(captured, request_, history(sent), frozenset(Repair) - {switched_off})

        assert switched_off not in done.counts
        if switched_off not in counts:
            assert input_of(done.body) == [ASK, *history(want)]


def test_reasoning_of_an_unknown_model_is_not_foreign() -> None:
    """A retrieved turn may name no model, so its reasoning is not certainly foreign."""
    world = world_of([R1, C1])
    world.turns = {key: structs.replace(turn, models=()) for key, turn in world.turns.items()}

    assert repaired(world, [ASK, R1, C1, O1]).counts == {}


def test_without_repairs_the_same_object_is_returned() -> None:
    """The body is not copied."""
    for items in ([ASK], [ASK, R1, C1, O1, R2, WS, MORE]):
        sent = body(items)
        assert repaired_body(world_of([R1, C1]), sent).body is sent


def test_a_request_of_reasoning_alone_stays() -> None:
    """The repair would leave an empty input, which upstream refuses."""
    assert repaired(World(), [R1]).counts == {}


def test_an_item_that_cannot_be_edited_is_not_counted() -> None:
    """An item in which a key occurs twice is sent unchanged, and no repair is counted."""
    sent = body([ASK, R1, nameless(C1), O1]).replace(b'"arguments"', b'"name":"x","arguments"')
    done = repaired_body(world_of([R1, C1]), sent)

    assert (done.body is sent, done.counts) == (True, {})
