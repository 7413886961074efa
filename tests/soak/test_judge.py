"""The judge of the soak finds what is wrong, and nothing else."""

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from tests.soak.claims import MEMBER, Claim, Item, Told, is_fragile, is_reasoning, rest, said
from tests.soak.judge import Judge

ASK: Item = {"role": "user", "content": "Where?"}
R1: Item = {"type": "reasoning", "id": "rs_1", "summary": []}
R2: Item = {"type": "reasoning", "id": "rs_2", "summary": []}
THEIRS: Item = {"type": "reasoning", "id": "rs_theirs", "summary": []}
MADE_UP: Item = {"type": "reasoning", "id": "", "summary": []}
TWIN: Item = {"type": "reasoning", "id": "rs_twin", "summary": []}
C1: Item = {"type": "function_call", "id": "fc_1", "call_id": "call_1"}
O1: Item = {"type": "function_call_output", "call_id": "call_1", "output": "7"}
A2: Item = {"type": "message", "role": "assistant", "id": "msg_2", "content": "Here."}
WHOLE = [ASK, R1, C1, O1, R2, A2]
DROPPED = [ASK, C1, O1, A2]
BODY = b'{"id": "resp_1"}'


class Emitter:
    """Has emitted everything but what is theirs."""

    def id_of(self, item: Item) -> str:
        """By its id."""
        return str(item["id"])

    def owns(self, item_id: str) -> bool:
        """Not what is theirs."""
        return item_id != str(THEIRS["id"])

    def fits(self, item_id: str, behind: Sequence[Item]) -> bool:
        """Only the twin."""
        return bool(behind) and item_id == str(TWIN["id"])


def sent(items: Sequence[Item] = DROPPED) -> tuple[Item, Claim]:
    """Spell a request of somebody whose history is WHOLE."""
    body: Item = {"model": "m", "input": list(items)}
    claim = Claim(
        number="n1",
        whole=[item["id"] if is_reasoning(item) else "" for item in WHOLE],
        kept=sum(map(is_reasoning, items)),
        is_fragile=is_fragile(items),
        said=said(body),
        rest=rest(body),
    )
    return body | {MEMBER: {}}, claim


def wrong(judge: Judge) -> set[str]:
    """Name what was found."""
    return {name[7:] for name in judge.counts if name.startswith("wrong: ")}


@pytest.mark.parametrize(
    ("arrives", "found"),
    [
        pytest.param(WHOLE, set(), id="whole"),
        pytest.param(DROPPED, set(), id="nothing-put-back"),
        pytest.param([ASK, C1, O1, R2, A2], set(), id="some-put-back"),
        pytest.param([ASK, R1, {**C1, "id": "fc_2"}, O1, A2], set(), id="an-id-put-back"),
        pytest.param([ASK, R2, C1, O1, R1, A2], {"misplaced"}, id="exchanged"),
        pytest.param([ASK, C1, R1, O1, R2, A2], {"misplaced"}, id="behind-its-call"),
        pytest.param([ASK, R1, C1, O1, R2, A2, R2], {"doubled"}, id="twice"),
        pytest.param([ASK, R1, R1, C1, O1, R2, A2], {"doubled"}, id="twice-at-once"),
        pytest.param([ASK, THEIRS, C1, O1, A2], {"another's", "foreign"}, id="of-a-stranger"),
        pytest.param([ASK, MADE_UP, C1, O1, A2], {"invented"}, id="made-up"),
        pytest.param([ASK, R1, C1, {**O1, "output": "8"}, R2, A2], {"altered"}, id="another-word"),
        pytest.param([ASK, R1, C1, O1, R2], {"altered"}, id="less"),
        pytest.param([*WHOLE, ASK], {"altered"}, id="more"),
        pytest.param([ASK, A2, C1, O1], {"altered"}, id="in-another-order"),
    ],
)
def test_what_arrives_is_compared(arrives: Sequence[Item], found: set[str]) -> None:
    """Reasoning may be missing; what is there is in its place, and all else as it was said."""
    body, claim = sent()
    judge = Judge()
    judge.arrived(claim, body | {"input": list(arrives)}, Emitter())
    assert wrong(judge) == found


def test_the_rest_of_a_request_is_compared() -> None:
    """But for `include`, which may be asked for."""
    body, claim = sent()
    judge = Judge()
    judge.arrived(claim, body | {"include": ["reasoning.encrypted_content"]}, Emitter())
    assert wrong(judge) == set()
    judge.arrived(claim, body | {"model": "n"}, Emitter())
    assert wrong(judge) == {"altered"}


def test_less_may_be_sent_the_second_time() -> None:
    """When upstream has refused the first; never more."""
    body, claim = sent()
    judge = Judge()
    judge.arrived(claim, body, Emitter())
    judge.arrived(claim, body | {"input": [ASK, A2]}, Emitter())
    assert wrong(judge) == set()
    judge.arrived(claim, body | {"input": [ASK, A2, O1]}, Emitter())
    assert wrong(judge) == {"altered"}


def told(**more: Any) -> Told:
    """Say that an answer has come as it was sent."""
    fields: Item = {
        "number": "n1",
        "status": 200,
        "mark": "injected=0",
        "request_id": "req_1",
        "size": len(BODY),
        "digest": hashlib.sha256(BODY).hexdigest(),
        "is_whole": True,
    }
    return Told(**(fields | more))


PART = {"size": 4, "digest": hashlib.sha256(BODY[:4]).hexdigest(), "is_whole": False}
FLIPPED = {"digest": hashlib.sha256(BODY[:-1] + b"]").hexdigest()}
OURS = {"status": 502, "mark": "error=upstream_failed", "request_id": ""}


@pytest.mark.parametrize(
    ("fault", "is_whole", "told", "found"),
    [
        pytest.param("", True, told(), set(), id="as-sent"),
        pytest.param("", True, told(**FLIPPED), {"bytes"}, id="one-byte-is-another"),
        pytest.param("", True, told(request_id="req_2"), {"bytes"}, id="of-another-answer"),
        pytest.param("", True, told(status=201), {"bytes"}, id="another-status"),
        pytest.param("", True, told(**PART), {"ours"}, id="cut-off-by-us"),
        pytest.param("", True, told(**PART, has_left=True), set(), id="its-client-left"),
        pytest.param("cut", False, told(**PART), set(), id="cut-off-upstream"),
        pytest.param("cut", False, told(), {"bytes"}, id="half-passes-for-whole"),
        pytest.param("", True, told(**OURS), {"ours"}, id="an-error-of-ours"),
        pytest.param("reset", False, told(**OURS), set(), id="upstream-was-away"),
        pytest.param("", True, told(status=0, mark=""), {"ours"}, id="no-answer"),
    ],
)
def test_what_is_answered_is_compared(
    fault: str, is_whole: bool, told: Told, found: set[str]
) -> None:
    """A client gets what upstream sent, all of it or as much as came."""
    body, claim = sent()
    judge = Judge()
    attempt = judge.arrived(claim, body, Emitter())
    attempt.fault, attempt.status, attempt.request_id = fault, 200, "req_1"
    attempt.body += BODY
    attempt.is_whole = is_whole
    judge.told(told)
    assert wrong(judge) == found


@pytest.mark.parametrize(
    ("items", "has_failed", "found"),
    [
        pytest.param(WHOLE, True, set(), id="as-it-was-written"),
        pytest.param(WHOLE, False, {"refused"}, id="though-all-was-there"),
        pytest.param(DROPPED, True, {"refused"}, id="though-it-said-nothing-wrong"),
    ],
)
def test_a_refusal_is_excused_where_what_mends_it_is_lost(
    items: Sequence[Item], has_failed: bool, found: set[str]
) -> None:
    """And where it is what the client itself replays that upstream would not take."""
    body, claim = sent(items)
    judge = Judge()
    attempt = judge.arrived(claim, body, Emitter())
    attempt.status, attempt.request_id, attempt.is_whole = 400, "req_1", True
    attempt.body += BODY
    judge.told(told(status=400, has_failed=has_failed))
    assert wrong(judge) == found


@pytest.mark.parametrize(("has_failed", "found"), [(True, set()), (False, {"another's"})])
def test_a_twin_is_excused_where_the_right_one_is_lost(has_failed: bool, found: set[str]) -> None:
    """Where both are known, neither is certain, and none may be given."""
    body, claim = sent()
    judge = Judge()
    attempt = judge.arrived(claim, body | {"input": [ASK, TWIN, C1, O1, A2]}, Emitter())
    attempt.status, attempt.request_id, attempt.is_whole = 200, "req_1", True
    attempt.body += BODY
    judge.told(told(has_failed=has_failed))
    assert wrong(judge) == found
