"""Refusals played through the core: the request that upstream refuses, and its cure."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.refusal_memory import RefusalMemory
from reasoning_replay.core.dialects.responses.heal.captured import Case
from reasoning_replay.core.dialects.responses.heal.cure import RefusedResponses, lookups_for
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import Repair, repair
from reasoning_replay.core.dialects.responses.profiles import GENERIC, Profile
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.lookup_keys import LookupResult, choose

from tests.core.world import Item, World, body, call, drawn, input_of, user

ASK, MORE = user("What is the weather in Paris?"), user("And tomorrow?")
DEFAULT = GENERIC
SCREEN = call("4", id=f"cu_{drawn(4)}", type="computer_call", action={"type": "screenshot"})
STATEFUL = {"previous_response_id": f"resp_{drawn(9)}"}


def hollow(item: Item) -> Item:
    """Return reasoning that has nothing left but its id."""
    return {key: value for key, value in item.items() if key != "encrypted_content"}


def reference(item: Item) -> Item:
    """Return a reference to a stored item."""
    return {"type": "item_reference", "id": item["id"]}


def world_of(*turns: Sequence[Item], **more: Any) -> World:
    """Return a world that captured these responses, each after the earlier ones."""
    world, history = World(), [ASK]
    for emitted in turns:
        world.learn(body(history), list(emitted), **more)
        history += [*emitted, MORE]
    return world


def recalled_for(world: World, sent: Request, diagnosis: Diagnosis) -> LookupResult:
    """Return what the store finds for a cure."""
    asked = lookups_for(sent, diagnosis)
    choice = choose(asked, lambda key: world.index.get(key, ()))
    chosen = set(choice.conversations)
    turns = [turn for turn in world.turns.values() if turn.conversation in chosen]
    return LookupResult(turns, choice.crowded)


def case_of(
    world: World, items: Sequence[Item], diagnosis: Diagnosis | None = None, **more: Any
) -> Case:
    """Return the refused request with these items, together with what the store finds for it."""
    sent = read_request(body(items, **more), {})
    refusal = diagnosis or Diagnosis(RefusalKind.OTHER)
    return Case(sent, sent, refusal, recalled_for(world, sent, refusal), DEFAULT)


def cure_of(world: World, items: Sequence[Item], diagnosis: Diagnosis, **more: Any) -> Cure:
    """Return the cure of a request with these items; `given` are the items that the client sent."""
    found = maybe_cure_of(world, items, diagnosis, **more)
    assert found is not None
    return found


def maybe_cure_of(
    world: World,
    items: Sequence[Item],
    diagnosis: Diagnosis,
    *,
    given: Sequence[Item] | None = None,
    profile: Profile = DEFAULT,
    **more: Any,
) -> Cure | None:
    """Return the same; None if the refusal is passed on."""
    came = None if given is None else body(given, **more)
    return cure_of_body(world, body(items, **more), diagnosis, given=came, profile=profile)


def cure_of_body(
    world: World,
    refused: bytes,
    diagnosis: Diagnosis,
    *,
    given: bytes | None = None,
    profile: Profile = DEFAULT,
) -> Cure | None:
    """Return the cure of a request body; `given` is the body that the client sent."""
    sent = read_request(refused, {})
    came = sent if given is None else read_request(given, {})
    return RefusedResponses(
        sent, came, diagnosis, recalled_for(world, sent, diagnosis), profile
    ).cure()


def cured(
    world: World, items: Sequence[Item], diagnosis: Diagnosis, **more: Any
) -> list[Item] | None:
    """Return the input of the healed request; None where the refusal is passed on."""
    found = maybe_cure_of(world, items, diagnosis, **more)
    return input_of(found.body) if found is not None else None


class Repaired(NamedTuple):
    """A repaired body, and the number of items per repair."""

    body: bytes
    counts: dict[Repair, int]


def repaired(
    world: World,
    items: Sequence[Item],
    refused: Sequence[tuple[str, str | bytes]] = (),
    *,
    allowed: Collection[Repair] = frozenset(Repair),
    profile: Profile = DEFAULT,
    **more: Any,
) -> Repaired:
    """Return a request after the repairs; `refused` is what upstream has refused before."""
    sent = body(items, **more)
    return repaired_body(world, sent, refused, allowed=allowed, profile=profile)


def repaired_body(
    world: World,
    sent: bytes,
    refused: Sequence[tuple[str, str | bytes]] = (),
    *,
    turns_of: bytes = b"",
    allowed: Collection[Repair] = frozenset(Repair),
    profile: Profile = DEFAULT,
) -> Repaired:
    """Return a body after the repairs, with the turns that are known for it or another one."""
    memory = RefusalMemory(lambda: 0.0)
    for kind, what in refused:
        memory.refuse(b"", kind, what)
    held = world.recall(read_request(turns_of or sent, {}))
    request = read_request(sent, {})
    case = Case(request, request, Diagnosis(RefusalKind.OTHER), held, profile)
    done = repair(case, memory.known_to(b""), allowed)
    return Repaired(done[0], dict(done[1]))
