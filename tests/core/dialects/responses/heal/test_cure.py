"""A refused request is sent once more only if there is something to change in it."""

import json

import pytest
from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.responses.heal.cure import HOLLOW_LOOKED_UP, cure, lookups_for
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.profiles import Policy
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_name, keys_of_request

from tests.core.dialects.responses.heal.played import ASK, cure_of, hollow, reference, world_of
from tests.core.world import World, body, call, nameless, output, reasoning

R1, R2 = reasoning("1"), reasoning("2")
C1, C2 = call("1"), call("2")
O1, O2 = output(C1, "one"), output(C2, "two")
SENT, GIVEN = [ASK, R1, C1, O1], [ASK, C1, O1]
NAMED = {"subject": C1["id"], "wanted": R2["id"]}


@pytest.mark.parametrize("fault", sorted(RefusalKind))
def test_where_nothing_can_be_done_the_refusal_is_the_clients(fault: RefusalKind) -> None:
    """Nothing in it, nothing known of it, nothing of ours: no second request."""
    assert cure_of(World(), [ASK], Diagnosis(fault, subject="x", wanted="y")) is None


@pytest.mark.parametrize(
    "fault", [RefusalKind.INPUT, RefusalKind.OTHER, RefusalKind.INCLUDE, RefusalKind.NOT_FOUND]
)
def test_where_nothing_else_can_be_done_the_client_gets_its_own_way(fault: RefusalKind) -> None:
    """What we edited may be the cause: its own bytes are sent."""
    found = cure_of(World(), SENT, Diagnosis(fault, subject="x"), given=GIVEN)

    assert found == Cure(body(GIVEN), is_clients_own=True)


@pytest.mark.parametrize("fault", [RefusalKind.LACKS_OUTPUT, RefusalKind.LACKS_CALL])
def test_what_we_never_cause_is_not_taken_back(fault: RefusalKind) -> None:
    """As long as no output is missing by what was edited, and no call."""
    assert cure_of(World(), SENT, Diagnosis(fault), given=GIVEN) is None
    assert cure_of(World(), SENT[:-1], Diagnosis(fault), given=GIVEN) is not None


def test_a_cure_that_is_what_the_client_sent_takes_back() -> None:
    """However it was come by."""
    given, sent = (
        read_request(json.dumps({"input": items}, separators=(",", ":")).encode(), {})
        for items in ([ASK, nameless(C1), O1], SENT)
    )
    found = cure(sent, given, Diagnosis(RefusalKind.BLOB), LookupResult(), Policy())

    assert found is not None
    assert found.is_clients_own
    assert found.body == given.body


def test_what_a_cure_adds_is_counted() -> None:
    """Beyond what the client sent."""
    refusal = Diagnosis(RefusalKind.LACKS_REASONING, subject=C1["id"], wanted=R1["id"])

    added = cure_of(world_of([R1, C1]), GIVEN, refusal)
    taken = cure_of(World(), SENT, Diagnosis(RefusalKind.NO_REASONING_MODEL))

    assert added is not None
    assert taken is not None
    assert (added.injected, added.is_clients_own) == (1, False)
    assert (taken.injected, taken.is_clients_own) == (0, False)


def test_what_upstream_names_is_looked_up_first() -> None:
    """The reasoning that is lacking, the item that lacks it, ids alone, and outputs."""
    sent = read_request(body([ASK, hollow(R1), reference(C2), O1]), {})
    asked = lookups_for(sent, Diagnosis(RefusalKind.LACKS_REASONING, **NAMED))
    names = [R2["id"], C1["id"], R1["id"], C2["id"], C1["call_id"]]

    assert [list(one.certain) for one in asked[:5]] == [keys_of_name(name) for name in names]
    assert [one.keys for one in asked[5:]] == [one.keys for one in keys_of_request(sent)]


def test_a_lookup_is_bounded() -> None:
    """The newest ids and outputs, each once; what nobody could find is not looked for."""
    many = [hollow(reasoning(f"{n}")) for n in range(HOLLOW_LOOKED_UP * 2)]
    sent = read_request(body([ASK, *many, *many, *[O1] * 200]), {})

    asked = lookups_for(sent, Diagnosis(RefusalKind.NOT_FOUND, subject="call_0"))

    assert len(asked) == HOLLOW_LOOKED_UP + 1 + len(keys_of_request(sent))


def test_a_body_that_cannot_be_cut_is_not_cured() -> None:
    """A key twice in reasoning: nobody knows which of the two is meant."""
    raw = b'{"input":[{"type":"reasoning","id":"rs_1","status":1,"status":2},{"role":"user"}]}'
    sent = read_request(raw, {})

    found = cure(
        sent, sent, Diagnosis(RefusalKind.FIELD, member="status"), LookupResult(), Policy()
    )

    assert found is None
    assert json.loads(raw)["input"][0]["status"] == 2
