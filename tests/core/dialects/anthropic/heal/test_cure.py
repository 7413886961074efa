"""Cure: a refused request is changed by the least edit, and upstream's judgement is remembered."""

import json

import pytest
from reasoning_replay.core.dialects.anthropic.profiles import GENERIC
from reasoning_replay.core.dialects.base import Cure

from tests.core.dialects.anthropic.heal.test_diagnosis import INVALID
from tests.core.dialects.anthropic.streams import MODEL, THOUGHT, call, text, thought
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

MISSING = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`."
ELSEWHERE = (
    f"messages.{{}}.content.{{}}: {INVALID}. The block is bound to a different conversation."
)
MODIFIED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified"
)
DISABLED = "When thinking is disabled, an `assistant` message in the final position cannot contain"
UNKNOWN = "messages.1.content.0: Input tag 'thinking' found using 'type' does not match"
OTHER = "Too many thinking blocks"
LONG = "This is the answer number {} to what was asked."


def history(tenant: Tenant, model: str = MODEL, turns: int = 3, name: str = "one") -> list[Message]:
    """Return a history of some turns with all reasoning; the second has two runs."""
    told = [user(f"Start number {name}, please.")]
    for n in range(turns):
        made = [thought("", f"S{n}"), text(LONG.format(f"{name} {n}"))]
        if n == 1:
            made += [thought("", "I1"), call("add", f"toolu_{drawn(name)}")]
        told.append(tenant.learn(dropped(told), *made, model=model))
        last = result(made[-1]["id"]) if n == 1 else user(f"Go on after number {n}, please.")
        told.append(last)
    return told


def signatures(body: bytes) -> list[str]:
    """Return the signatures in a request."""
    return [
        block["signature"]
        for message in json.loads(body)["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "thinking"
    ]


def healed(
    tenant: Tenant, told: list[Message], refusal: str, model: str = MODEL
) -> tuple[Cure, bytes]:
    """Return the cure for a request that the proxy edited, and the refused body."""
    given = body_of(told, model)
    sent = tenant.decide(given).body
    return tenant.cure(given, sent, refusal), sent


def left(tenant: Tenant, told: list[Message], refusal: str, model: str = MODEL) -> list[str]:
    """Return the signatures in the cured request; the cure must exist."""
    cured, _ = healed(tenant, told, refusal, model)
    return signatures(cured.body)


ALL = ["S0", "S1", "I1", "S2"]


def test_missing_reasoning_is_injected() -> None:
    """All that is known, if the store did not respond before the first attempt."""
    tenant = Tenant()
    told = dropped(history(tenant))
    given = body_of(told)
    sent = tenant.decide(given, fails=True).body
    assert signatures(sent) == []
    cured = tenant.cure(given, sent, MISSING)
    assert signatures(cured.body) == ALL
    assert (cured.injected, cured.is_clients_own, cured.lost) == (4, False, frozenset())
    made = (thought("", name) for name in ALL)
    assert cured.injected_bytes == sum(len(json.dumps(block)) for block in made)


def test_missing_reasoning_that_is_not_known() -> None:
    """There is nothing to send instead."""
    tenant = Tenant()
    given = body_of([user("Hi"), assistant(text(LONG)), user("Go on")])
    assert tenant.maybe_cure(given, given, MISSING) is None
    told = dropped(history(tenant))
    sent = tenant.decide(body_of(told)).body
    assert tenant.maybe_cure(body_of(told), sent, MISSING) is None  # all of it was sent


def test_a_block_that_upstream_cannot_read_is_left_out_and_withheld() -> None:
    """With the others that were injected into its message; the rest of the request stays."""
    tenant = Tenant()
    told = dropped(history(tenant))
    cured, sent = healed(tenant, told, f"messages.3.content.2: {INVALID}")
    assert signatures(sent) == ALL
    assert signatures(cured.body) == ["S0", "S2"]
    assert (cured.injected, cured.is_clients_own, len(cured.lost)) == (2, False, 2)
    (turn,) = cured.withheld
    assert [part.blobs for item in turn.items for part in item.run]
    assert signatures(tenant.decide(body_of(told)).body) == ["S0", "S2"]  # remembered


def test_an_unsigned_block_that_upstream_does_not_accept_is_never_sent_again() -> None:
    """It is known by its bytes."""
    tenant = Tenant(dialect_of(GENERIC))
    made = tenant.learn([user("Hi")], thought("Hm", None), text(LONG))
    told = dropped([user("Hi"), made, user("Go on")])
    cured, sent = healed(tenant, told, f"messages.1.content.0: {INVALID}")
    assert cured.body == body_of(told) != sent
    assert tenant.send(told) == told


def test_the_clients_own_block_is_left_out_with_its_message() -> None:
    """They are taken out of later requests before the first attempt, for an hour."""
    tenant = Tenant()
    told = history(tenant)
    given = body_of(told)
    cured = tenant.cure(given, given, f"messages.3.content.0: {INVALID}")
    assert signatures(cured.body) == ["S0", "S2"]
    assert (cured.injected, cured.injected_bytes, cured.present) == (0, 0, -2)

    decided = tenant.decide(given)
    assert decided.body == cured.body
    assert decided.repairs == {"foreign": 2}
    assert decided.outcomes == {"present": 2, "refused": 2}
    tenant.hours = 1.1
    assert tenant.decide(given).body is given


def test_blocks_that_another_model_made_are_left_out_together() -> None:
    """Upstream names the first one only; the others may be good for the model that made them."""
    tenant, asked = Tenant(), "claude-opus-4-6"
    told = history(tenant)
    mine = [thought("", "M"), text("This is said by the model that is asked now.")]
    told += [tenant.learn(dropped(told), *mine, model=asked), user("Go on.")]
    given = body_of(told, asked)
    cured = tenant.cure(given, given, f"messages.1.content.0: {INVALID}")
    assert signatures(cured.body) == ["M"]
    assert len(cured.lost) == 1
    mixed = [*told[:7], *dropped(told[7:])]  # what the proxy injected is not touched
    assert left(tenant, mixed, f"messages.3.content.0: {INVALID}", asked) == ["M"]


def test_foreign_blocks_are_left_alone_by_setting() -> None:
    """Then, every request with one is refused, and healed."""
    tenant = Tenant(dialect_of(repairs=()))
    given = body_of(history(tenant))
    tenant.cure(given, given, f"messages.3.content.0: {INVALID}")
    assert tenant.decide(given).body is given


def test_a_refusal_of_other_blocks_changes_nothing_here() -> None:
    """The memory holds the digests of other blocks."""
    tenant = Tenant()
    given = body_of(history(tenant))
    tenant.cure(given, given, f"messages.3.content.0: {INVALID}")
    other = body_of([user("Hi"), assistant(thought("x", "other"), text("Hello")), user("Go on")])
    assert tenant.decide(other).body is other


def test_a_message_of_one_block_is_kept() -> None:
    """The API accepts no empty message."""
    tenant = Tenant()
    given = body_of([user("Hi"), assistant(thought("x", "other")), user("Go on")])
    assert tenant.maybe_cure(given, given, f"messages.1.content.0: {INVALID}") is None


@pytest.mark.parametrize(
    ("place", "want"),
    [((1, 0), []), ((3, 0), ["S0"]), ((3, 2), ["S0"]), ((5, 0), ["S0", "S1", "I1"])],
)
def test_reasoning_after_a_block_that_is_bound_elsewhere(
    place: tuple[int, int], want: list[str]
) -> None:
    """It is bound to a history with that block, so it is left out as well."""
    tenant = Tenant()
    told = dropped(history(tenant, BOUND))
    assert left(tenant, told, ELSEWHERE.format(*place), BOUND) == want
    assert signatures(tenant.decide(body_of(told, BOUND)).body) == want


def test_the_clients_reasoning_after_a_bound_block() -> None:
    """Its blocks in older messages stay."""
    tenant = Tenant()
    given = body_of(history(tenant, BOUND), BOUND)
    cured = tenant.cure(given, given, ELSEWHERE.format(3, 2))
    assert signatures(cured.body) == ["S0"]
    assert tenant.decide(given).body == cured.body


def test_nothing_is_injected_after_a_cured_request() -> None:
    """Its response is bound to a history that is not recorded, so its reasoning is withheld."""
    tenant = Tenant()
    told = dropped(history(tenant, BOUND, 2))
    given = body_of(told, BOUND)
    decided = tenant.decide(given)
    tenant.cure(given, decided.body, ELSEWHERE.format(1, 0))
    made = [THOUGHT, text("This is said after the cure.")]
    response = json.dumps({"content": made, "model": BOUND, "id": "msg_1"}).encode()
    tenant.keep(decided, response, is_cured=True)
    told += [*dropped([assistant(*made)]), user("And then?")]
    assert signatures(tenant.decide(body_of(told, BOUND)).body) == []


@pytest.mark.parametrize("refusal", [DISABLED, UNKNOWN, OTHER, f"{INVALID} of some message"])
def test_what_was_injected_is_taken_back(refusal: str) -> None:
    """The client's own request is sent, byte for byte, also if a text had become a list."""
    tenant = Tenant()
    told = dropped(history(tenant))
    told[1] = {"role": "assistant", "content": told[1]["content"][0]["text"]}
    cured, sent = healed(tenant, told, refusal)
    assert sent != body_of(told)
    assert (cured.body, cured.is_clients_own) == (body_of(told), True)
    assert bool(cured.lost) is ("Invalid" in refusal)


def test_a_type_that_is_not_accepted_is_remembered() -> None:
    """Nothing is injected for that model for an hour; other models are not affected."""
    tenant = Tenant()
    told = dropped(history(tenant))
    given = body_of(told)
    healed(tenant, told, UNKNOWN)
    assert tenant.decide(given).body is given
    other = dropped(history(tenant, "claude-opus-4-6", name="two"))
    assert signatures(tenant.decide(body_of(other, "claude-opus-4-6")).body) == ALL
    tenant.hours = 1.1
    assert signatures(tenant.decide(given).body) == ALL


@pytest.mark.parametrize("place", ["", "messages.5.content.0: "])
def test_a_modified_message_loses_what_was_injected(place: str) -> None:
    """Only the latest one, and for good."""
    tenant = Tenant()
    told = dropped(history(tenant))
    assert left(tenant, told, place + MODIFIED) == ["S0", "S1", "I1"]
    assert signatures(tenant.decide(body_of(told)).body) == ["S0", "S1", "I1"]


def test_a_message_that_the_client_modified() -> None:
    """The proxy has injected nothing into it."""
    tenant = Tenant()
    told = history(tenant)
    told = [*dropped(told[:5]), told[5], told[6]]
    given = body_of(told)
    assert tenant.maybe_cure(given, tenant.decide(given).body, MODIFIED) is None
    given = body_of([user("Hi")])
    assert tenant.maybe_cure(given, given, MODIFIED) is None


@pytest.mark.parametrize(
    "refusal",
    [MODIFIED, f"messages.1.content.2: {MODIFIED}", f"messages.1.content.1: {INVALID}"],
)
def test_a_refusal_names_the_message_before_ours(refusal: str) -> None:
    """Adjacent messages are one for the API: all that was injected into any of them goes."""
    tenant = Tenant()
    ask, more = user("Hi"), call("add", f"toolu_{drawn('b')}")
    first = call("add", f"toolu_{drawn('a')}")
    tenant.learn([ask], text(LONG), thought("", "a"), first, thought("", "b"), more)
    told = [ask, assistant(text(LONG)), assistant(first), assistant(more), result(first["id"])]
    cured, sent = healed(tenant, told, refusal)
    assert signatures(sent) == ["a", "b"]
    assert (cured.body, len(cured.lost)) == (body_of(told), 2)
    assert tenant.send(told) == told


@pytest.mark.parametrize("named", [2, 3, 4])
def test_a_position_in_the_joined_messages(named: int) -> None:
    """Upstream may count them as joined; all after the one that is meant goes, as before."""
    tenant = Tenant()
    told = dropped(history(tenant, BOUND))
    first, second = told[3]["content"]
    told[3:4] = [assistant(first), assistant(second)]
    cured, sent = healed(tenant, told, ELSEWHERE.format(named, 0), BOUND)
    assert signatures(sent) == ALL
    assert signatures(cured.body) == ["S0"]


@pytest.mark.parametrize("refusal", [DISABLED, UNKNOWN, OTHER, MODIFIED])
def test_without_an_edit_there_is_nothing_to_take_back(refusal: str) -> None:
    """The refusal is forwarded."""
    tenant = Tenant()
    given = body_of(history(tenant))
    assert tenant.maybe_cure(given, given, refusal) is None


def test_the_clients_blocks_in_other_messages_stay() -> None:
    """A mixed history: what the client sends is never taken back as if it was injected."""
    tenant = Tenant()
    told = history(tenant)
    mixed = [*told[:2], *dropped(told[2:])]
    cured, sent = healed(tenant, mixed, OTHER)
    assert signatures(sent) == ALL
    assert signatures(cured.body) == ["S0"]
    assert cured.is_clients_own


def test_a_block_that_is_named_beside_others() -> None:
    """Blocks at the end of a message are removed with the comma before them."""
    tenant = Tenant()
    odd = assistant(text("Hello"), thought("", "a"), thought("", "b"))
    given = body_of([user("Hi"), odd, user("Go on")])
    cured = tenant.cure(given, given, ELSEWHERE.format(1, 1))
    assert json.loads(cured.body)["messages"][1] == assistant(text("Hello"))
