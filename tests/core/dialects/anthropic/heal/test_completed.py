"""Completion: captured reasoning completes what the client sends of it, or replaces it."""

import json
from collections.abc import Callable

import pytest
from reasoning_replay.core.dialects.anthropic.profiles import PROFILES

from tests.core.dialects.anthropic.heal.test_cure import (
    ALL,
    DISABLED,
    ELSEWHERE,
    LONG,
    MODIFIED,
    OTHER,
    UNKNOWN,
    history,
    signatures,
)
from tests.core.dialects.anthropic.heal.test_diagnosis import INVALID
from tests.core.dialects.anthropic.streams import MODEL, Block, call, text, thought
from tests.core.dialects.anthropic.tenant import (
    BOUND,
    Message,
    Tenant,
    assistant,
    body_of,
    dialect_of,
    dropped,
    result,
    user,
)
from tests.core.world import drawn

Damage = Callable[[Block], Block | None]


def unsigned(block: Block) -> Block | None:
    """Return a block without its signature."""
    return {name: value for name, value in block.items() if name != "signature"}


def emptied(block: Block) -> Block | None:
    """Return a block with an empty signature."""
    return block | {"signature": ""}


def halved(block: Block) -> Block | None:
    """Return a block with a piece of its signature."""
    return block | {"signature": block["signature"][:1]}


def redacted(block: Block) -> Block | None:
    """Return a block of another type with the same signature."""
    return {"type": "redacted_thinking", "data": block["signature"]}


def partial(block: Block) -> Block | None:
    """Return a block, except one."""
    return None if block["signature"] == "S1" else block


def foreign(block: Block) -> Block | None:
    """Return a block with another signature: it may be a good one."""
    return block | {"signature": "another"}


def respelled(block: Block) -> Block | None:
    """Return the same block in another spelling, which upstream accepts."""
    return dict(reversed(block.items())) | {"cache_control": {"type": "ephemeral"}}


def damaged(told: list[Message], damage: Damage, at: int = 3) -> list[Message]:
    """Return a history whose message with two runs the client has damaged."""
    blocks = told[at]["content"]
    made = [damage(block) if block["type"] == "thinking" else block for block in blocks]
    return [*told[:at], assistant(*(one for one in made if one is not None)), *told[at + 1 :]]


NAMED = "messages.3.content.0: {}"


@pytest.mark.parametrize("model", [MODEL, BOUND])
@pytest.mark.parametrize("damage", [unsigned, emptied, halved, redacted, partial])
def test_what_the_api_would_refuse_is_completed_before_it_can(damage: Damage, model: str) -> None:
    """All of the message, where it was emitted, at each request; no memory is needed."""
    tenant = Tenant()
    told = history(tenant, model)
    given = damaged(told, damage)
    for length in (5, 7):
        assert tenant.send(given[:length], model) == told[:length]
    counted = tenant.outcomes(given, model=model)
    replaced = {"injected": 1, "present": 3} if damage is partial else {"injected": 2, "present": 2}
    assert counted == replaced


def test_no_byte_of_a_part_changes() -> None:
    """What is missing is inserted, and that is all."""
    tenant = Tenant()
    given = body_of(damaged(history(tenant), partial))
    got = tenant.decide(given).body
    added = json.dumps(thought("", "S1")).encode() + b","
    assert (got.count(added), got.replace(added, b"")) == (1, given)


ANOTHER_WORD = thought("Another word.", "Sw==")


@pytest.mark.parametrize(
    ("sent", "is_completed"),
    [
        ([thought("One and two", "Sb==")], True),  # both in one, with the last signature
        ([thought("One", "Sa==Sb==")], True),
        ([thought("On", "Sa=="), thought("and two", "Sb==")], True),
        ([thought("", "Sa=="), thought("and two", "Sb==")], False),
        ([thought("One", "Sw==")], True),
        ([ANOTHER_WORD], False),
        ([thought("and two", "Sb=="), thought("One", "Sa==")], False),  # moved
        ([thought("and two", "Sb==")], True),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_damaged_copy(sent: list[Block], is_completed: bool, is_named: bool) -> None:
    """The signature does not fit it; without a random id, only a signature proves the turn."""
    tenant = Tenant()
    ask = user("Start, please.")
    last = call("add", f"toolu_{drawn('a')}") if is_named else text("A text of some length.")
    tenant.learn([ask], thought("One", "Sa=="), thought("and two", "Sb=="), last)
    next_ = result(last["id"]) if is_named else user("Go on.")
    given = [ask, assistant(*sent, last), next_]
    is_proven = is_named or any(block["signature"] in ("Sa==", "Sb==") for block in sent)
    whole = [ask, assistant(thought("One", "Sa=="), thought("and two", "Sb=="), last), next_]
    assert tenant.send(given) == (whole if is_completed and is_proven else given)


def test_a_vendor_that_signs_nothing_takes_any_block() -> None:
    """Only what is missing is added there."""
    tenant, model = Tenant(dialect_of(PROFILES["deepseek"])), "deepseek-chat"
    ask, said = user("Start, please."), call("add", f"toolu_{drawn('a')}")
    made = [thought("One", None), thought("Two", None), said]
    tenant.learn([ask], *made, model=model)
    for sent, got in (([made[1], said], made), ([thought("On", None), said], None)):
        given = [ask, assistant(*sent), result(said["id"])]
        assert tenant.send(given, model) == [ask, assistant(*(got or sent)), given[2]]


@pytest.mark.parametrize(
    "refusal", [NAMED.format(INVALID), INVALID, NAMED.format(MODIFIED), NAMED.format(OTHER)]
)
def test_what_is_refused_is_replaced(refusal: str) -> None:
    """All of the message, where it was emitted; the next request has it at the first attempt."""
    tenant = Tenant()
    told = history(tenant)
    given = body_of(damaged(told, foreign))
    assert tenant.decide(given).body is given  # not without a refusal
    if "blocks in the latest" in refusal:
        given = body_of(damaged(told, foreign)[:5])
        told = told[:5]
    cured = tenant.cure(given, given, refusal)
    assert json.loads(cured.body)["messages"] == told
    assert (cured.injected, cured.is_clients_own, cured.lost) == (2, False, frozenset())
    decided = tenant.decide(given)
    assert decided.body == cured.body
    assert decided.outcomes["injected"] == 2  # type: ignore[index]


def test_it_is_remembered_for_the_conversation() -> None:
    """The client damages the next message as well; another conversation is left as it is."""
    tenant = Tenant()
    told = history(tenant)
    given = body_of(damaged(told, foreign))
    tenant.cure(given, given, NAMED.format(INVALID))
    later = [thought("", "L"), text("This is the last answer of them all.")]
    told += [tenant.learn(damaged(told, foreign), *later), user("Go on.")]
    sent = damaged(damaged(told, foreign), foreign, 7)
    assert signatures(tenant.decide(body_of(sent)).body) == [*ALL, "L"]
    other = body_of(damaged(history(tenant, name="two"), foreign))
    assert tenant.decide(other).body is other
    tenant.hours = 1.1
    assert tenant.decide(body_of(sent)).body == body_of(sent)


@pytest.mark.parametrize("refusal", [NAMED.format(INVALID), NAMED.format(MODIFIED)])
def test_reasoning_as_it_was_emitted_is_not_completed(refusal: str) -> None:
    """Another spelling is no damage, so the cure is the usual one."""
    tenant = Tenant()
    told = damaged(history(tenant), respelled)
    given = body_of(told)
    cured = tenant.maybe_cure(given, given, refusal)
    assert (cured is None) is ("modified" in refusal)
    assert cured is None or signatures(cured.body) == ["S0", "S2"]
    assert cured is None or cured.completed == frozenset()


def test_a_message_of_an_unknown_turn_loses_what_is_refused() -> None:
    """The refusal is not about the known one, so that stays as it is."""
    tenant = Tenant()
    told = damaged(history(tenant), partial)
    odd = [assistant(thought("", "own"), text("I am of another proxy.")), user("Go on.")]
    given = body_of([*told, *odd])
    cured = tenant.cure(given, given, f"messages.7.content.0: {INVALID}")
    assert signatures(cured.body) == ["S0", "I1", "S2"]


@pytest.mark.parametrize("refusal", [DISABLED, UNKNOWN])
def test_a_refusal_of_all_reasoning_completes_nothing(refusal: str) -> None:
    """More of it would be refused as well."""
    tenant = Tenant()
    given = body_of(damaged(history(tenant), partial))
    assert tenant.maybe_cure(given, given, refusal) is None


def test_what_was_refused_before_is_not_sent_again() -> None:
    """A completion leaves out the blocks that the repair had taken out."""
    tenant = Tenant()
    told = history(tenant)
    odd = [assistant(thought("", "own"), text("I am of another proxy.")), user("Go on.")]
    given = body_of([*damaged(told, foreign), *odd])
    tenant.cure(given, given, f"messages.7.content.0: {INVALID}")
    sent = tenant.decide(given).body
    assert signatures(sent) == ["S0", "another", "another", "S2"]
    cured = tenant.cure(given, sent, NAMED.format(INVALID))
    assert signatures(cured.body) == ALL


def test_a_completion_that_is_refused() -> None:
    """The client's own message is sent, and the captured reasoning never again."""
    tenant = Tenant()
    given = body_of(damaged(history(tenant), emptied))
    tenant.cure(given, given, NAMED.format(INVALID))
    sent = tenant.decide(given).body
    cured = tenant.cure(given, sent, NAMED.format(INVALID))
    assert (cured.body, cured.is_clients_own) == (given, True)
    assert tenant.decide(given).body == given


def test_what_was_completed_before_is_not_what_a_refusal_of_another_message_is_about() -> None:
    """The client's blocks after an edit go; the part before it stays completed."""
    tenant = Tenant(dialect_of(PROFILES["generic"]))
    told = history(tenant)
    sent = [*damaged(told, partial)[:4], user("I said something else."), *told[5:]]
    given = body_of(sent)
    decided = tenant.decide(given).body
    assert signatures(decided) == ALL
    cured = tenant.cure(given, decided, ELSEWHERE.format(5, 0))
    assert signatures(cured.body) == ["S0", "S1", "I1"]
    assert cured.completed == frozenset()


def test_reasoning_that_is_withheld_is_not_sent_instead() -> None:
    """Upstream has refused it: the cure is the usual one."""
    tenant = Tenant()
    told = history(tenant)
    bare = body_of(dropped(told))
    sent = tenant.decide(bare).body
    tenant.cure(bare, sent, NAMED.format(INVALID))
    given = body_of(damaged(told, emptied))
    cured = tenant.cure(given, given, NAMED.format(INVALID))
    assert signatures(cured.body) == ["S0", "S2"]


@pytest.mark.parametrize("parts", ["alone", "both", "behind"])
def test_reasoning_in_a_message_of_its_own(parts: str) -> None:
    """No message is emptied. Where one could only be emptied, it stays."""
    tenant = Tenant()
    ask, more = user("Hi"), call("add", f"toolu_{drawn('a')}")
    said = [thought("", "a"), thought("", "b"), text("Wait."), more]
    tenant.learn([ask], *said)
    bad = [thought("", "x"), thought("", "y")]
    apart = {
        "alone": [assistant(*bad), assistant(*said[2:])],
        "both": [assistant(bad[0]), assistant(bad[1], *said[2:])],
        "behind": [assistant(*said[2:]), assistant(*bad)],
    }[parts]
    given = body_of([ask, *apart, result(more["id"])])
    cured = tenant.maybe_cure(given, given, f"messages.1.content.0: {INVALID}")
    if parts == "behind":
        assert cured is None
        return
    assert cured is not None
    want = [ask, assistant(*said[:2]), assistant(*said[2:]), result(more["id"])]
    assert json.loads(cured.body)["messages"] == want


def test_a_bound_turn_is_completed_after_its_own_history_alone() -> None:
    """And so are those that follow: they are bound to the completed history."""
    tenant = Tenant()
    told = history(tenant, BOUND)
    given = body_of(damaged(told, partial), BOUND)
    cured = tenant.cure(given, given, ELSEWHERE.format(5, 0))
    assert json.loads(cured.body)["messages"] == told
    edited = [user("I said something else."), *damaged(told, partial)[1:]]
    given = body_of(edited, BOUND)
    cured = tenant.cure(given, given, ELSEWHERE.format(3, 0))
    assert signatures(cured.body) == ["S0"]


def test_a_response_is_bound_to_the_completed_request() -> None:
    """Its own reasoning comes back, although the request was healed."""
    tenant = Tenant()
    told = history(tenant, BOUND, 2)
    given = body_of(damaged(told, foreign), BOUND)
    decided = tenant.decide(given)
    cured = tenant.cure(given, decided.body, NAMED.format(MODIFIED))
    made = [thought("", "N"), text("This is said after the cure.")]
    response = json.dumps({"content": made, "model": BOUND, "id": "msg_1"}).encode()
    tenant.keep(decided, response, cured=cured)
    told += [assistant(*made), user("And then?")]
    assert tenant.send(damaged(dropped(told), foreign), BOUND) == told


def test_a_refusal_teaches_that_a_model_binds() -> None:
    """For an hour, its reasoning comes back after its own history alone."""
    tenant = Tenant()
    told = history(tenant, turns=1)
    sent = tenant.decide(body_of(dropped(told)))
    cured = tenant.cure(body_of(dropped(told)), sent.body, ELSEWHERE.format(1, 0))
    made = [thought("", "N"), text("This is said after the cure.")]
    response = json.dumps({"content": made, "model": MODEL, "id": "msg_1"}).encode()
    tenant.keep(sent, response, cured=cured)
    told = [*dropped(told), assistant(*made), user("And then?")]
    told += [tenant.learn(dropped(told), thought("", "O"), text(LONG)), user("Go on.")]
    assert tenant.send(dropped(told)) == told
    edited = [user("I said something else."), *dropped(told[1:])]
    assert tenant.send(edited) == edited
    assert tenant.outcomes(edited)["guarded_prefix"] == 2
    tenant.hours = 1.1
    assert signatures(tenant.decide(body_of(edited)).body) == ["S0", "N", "O"]
