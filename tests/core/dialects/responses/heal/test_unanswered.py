"""Calls without an output are left out with their reasoning, if the operator allows it."""

from dataclasses import replace

import pytest
from reasoning_replay.core.dialects.responses.heal.diagnosis import (
    Diagnosis,
    RefusalKind,
    diagnose,
)
from reasoning_replay.core.dialects.responses.profiles import Ids

from tests.core.dialects.responses.heal.played import ASK, DEFAULT, cured, world_of
from tests.core.dialects.responses.notation import NAMED, history

DROPS = replace(DEFAULT, drops_unanswered=True)
KEEPS_IDS = replace(DROPS, ids=Ids.REQUIRED)
C1 = str(NAMED["c1"]["call_id"])
REFUSED = Diagnosis(RefusalKind.LACKS_OUTPUT, subject=C1)

CASES = [
    pytest.param("r1 c1 u2", "u2", id="call-and-its-reasoning"),
    pytest.param("c1 u2", "u2", id="without-reasoning"),
    pytest.param("r1 c1 r2 c2 u2", "u2", id="both-of-two"),
    pytest.param("r1 c1 r2 c2 o2 u2", "r2 c2 o2 u2", id="one-of-two-turns"),
    pytest.param("r1 c2 c1 o2 u2", "r1 c2 o2 u2", id="second-of-a-batch"),
    pytest.param("r1 c1 c2 o2 u2", "r1:noid c2:noid o2 u2", id="first-of-a-batch"),
    pytest.param("r1 m1 c1 u2", "r1 m1 u2", id="a-message-stays"),
    pytest.param("r2 c2 u2", None, id="another-call"),
]


@pytest.mark.parametrize(("sent", "want"), CASES)
def test_a_call_without_an_output_is_left_out(sent: str, want: str | None) -> None:
    """It goes as one unit with what led to it alone; answered calls keep their reasoning."""
    got = cured(world_of(), [ASK, *history(sent)], REFUSED, profile=DROPS)

    assert got == (None if want is None else [ASK, *history(want)])


def test_what_cannot_lose_its_id_loses_its_reasoning() -> None:
    """Reasoning whose first call goes cannot stay where ids are required."""
    sent = [ASK, *history("r1 c1 c2 o2 u2")]
    got = cured(world_of(), sent, REFUSED, profile=KEEPS_IDS)

    assert got == [ASK, *history("c2:noid o2 u2")]


def test_an_output_before_its_call_is_only_moved() -> None:
    """The call is answered, so nothing is left out."""
    got = cured(world_of(), [ASK, *history("o1 c1 u2")], REFUSED, profile=DROPS)

    assert got == [ASK, *history("c1 o1 u2")]


def test_off_by_default() -> None:
    """A call is what the model said: without the setting, the refusal is the client's."""
    assert cured(world_of(), [ASK, *history("r1 c1 u2")], REFUSED) is None


AGENT = (
    b'{"error":{"message":"Encrypted function output content could not be decrypted or decoded."}}'
)


def test_what_agents_send_each_other_is_named_and_has_no_cure() -> None:
    """Only the backend that encrypted it can read it; reasoning has nothing to do with it."""
    refused = diagnose(400, AGENT)

    assert (refused.kind, refused.incurable) == (RefusalKind.BLOB, "blob;of=agent")
    assert cured(world_of(), [ASK, *history("r1 c1 o1 u2")], refused) is None


def test_hints_name_the_way_out() -> None:
    """An operator finds the setting in the log; other refusals have no hint."""
    assert "drop_unanswered: on" in REFUSED.hint
    assert "account" in diagnose(400, AGENT).hint
    assert Diagnosis(RefusalKind.DUPLICATE).hint == ""
    assert Diagnosis(RefusalKind.DUPLICATE).incurable == ""
