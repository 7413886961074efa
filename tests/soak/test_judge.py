"""Judge of the soak: it finds every fault, and reports nothing else."""

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
    """An emitter of all items except those of another caller."""

    def id_of(self, item: Item) -> str:
        """Return the id of the item."""
        return str(item["id"])

    def owns(self, item_id: str) -> bool:
        """Return whether the item is not another caller's."""
        return item_id != str(THEIRS["id"])

    def fits(self, item_id: str, behind: Sequence[Item]) -> bool:
        """Return whether the item is the twin."""
        return bool(behind) and item_id == str(TWIN["id"])


def sent(items: Sequence[Item] = DROPPED) -> tuple[Item, Claim]:
    """Build a request of a client with the history WHOLE."""
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
    """Return the names of the faults found."""
    return {name[7:] for name in judge.counts if name.startswith("wrong: ")}


@pytest.mark.parametrize(
    ("arrives", "found"),
    [
        pytest.param(WHOLE, set(), id="whole"),
        pytest.param(DROPPED, set(), id="nothing-injected"),
        pytest.param([ASK, C1, O1, R2, A2], set(), id="some-injected"),
        pytest.param([ASK, R1, {**C1, "id": "fc_2"}, O1, A2], set(), id="id-injected"),
        pytest.param([ASK, R2, C1, O1, R1, A2], {"misplaced"}, id="swapped"),
        pytest.param([ASK, C1, R1, O1, R2, A2], {"misplaced"}, id="after-its-call"),
        pytest.param([ASK, R1, C1, O1, R2, A2, R2], {"doubled"}, id="twice"),
        pytest.param([ASK, R1, R1, C1, O1, R2, A2], {"doubled"}, id="twice-at-once"),
        pytest.param([ASK, THEIRS, C1, O1, A2], {"other conversation", "foreign"}, id="stranger"),
        pytest.param([ASK, MADE_UP, C1, O1, A2], {"invented"}, id="made-up"),
        pytest.param([ASK, R1, C1, {**O1, "output": "8"}, R2, A2], {"altered"}, id="changed-text"),
        pytest.param([ASK, R1, C1, O1, R2], {"altered"}, id="item-lost"),
        pytest.param([*WHOLE, ASK], {"altered"}, id="item-added"),
        pytest.param([ASK, A2, C1, O1], {"altered"}, id="reordered"),
    ],
)
def test_received_items_are_compared(arrives: Sequence[Item], found: set[str]) -> None:
    """Reasoning may be missing, but never misplaced; all other items must be unchanged."""
    body, claim = sent()
    judge = Judge()
    judge.arrived(claim, body | {"input": list(arrives)}, Emitter())
    assert wrong(judge) == found


def test_the_rest_of_a_request_is_compared() -> None:
    """All members except `include` must be unchanged."""
    body, claim = sent()
    judge = Judge()
    judge.arrived(claim, body | {"include": ["reasoning.encrypted_content"]}, Emitter())
    assert wrong(judge) == set()
    judge.arrived(claim, body | {"model": "n"}, Emitter())
    assert wrong(judge) == {"altered"}


def test_a_retry_may_have_fewer_items() -> None:
    """After a refusal the proxy may send fewer items, but never more and never reordered."""
    body, claim = sent()
    judge = Judge()
    judge.arrived(claim, body, Emitter())
    judge.arrived(claim, body | {"input": [ASK, A2]}, Emitter())
    assert wrong(judge) == set()
    judge.arrived(claim, body | {"input": [ASK, A2, O1]}, Emitter())
    assert wrong(judge) == {"altered"}


def told(**more: Any) -> Told:
    """Build the report of a response that arrived as sent."""
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
        pytest.param("", True, told(**FLIPPED), {"bytes"}, id="one-byte-changed"),
        pytest.param("", True, told(request_id="req_2"), {"bytes"}, id="of-another-response"),
        pytest.param("", True, told(status=201), {"bytes"}, id="another-status"),
        pytest.param("", True, told(**PART), {"proxy"}, id="cut-off-by-the-proxy"),
        pytest.param("", True, told(**PART, has_left=True), set(), id="its-client-left"),
        pytest.param("cut", False, told(**PART), set(), id="cut-off-upstream"),
        pytest.param("cut", False, told(), {"bytes"}, id="half-looks-complete"),
        pytest.param("", True, told(**OURS), {"proxy"}, id="proxy-error"),
        pytest.param("reset", False, told(**OURS), set(), id="upstream-away"),
        pytest.param("", True, told(status=0, mark=""), {"proxy"}, id="no-response"),
    ],
)
def test_responses_are_compared(fault: str, is_whole: bool, told: Told, found: set[str]) -> None:
    """A client receives what upstream sent: all of it, or as much as was sent."""
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
        pytest.param(WHOLE, True, set(), id="store-failed"),
        pytest.param(WHOLE, False, {"refused"}, id="nothing-failed"),
        pytest.param(DROPPED, True, {"refused"}, id="request-had-no-fault"),
    ],
)
def test_a_refusal_is_excused_if_the_store_lost_the_items(
    items: Sequence[Item], has_failed: bool, found: set[str]
) -> None:
    """A refusal is excused only for items that the client replays and that a failed store lost."""
    body, claim = sent(items)
    judge = Judge()
    attempt = judge.arrived(claim, body, Emitter())
    attempt.status, attempt.request_id, attempt.is_whole = 400, "req_1", True
    attempt.body += BODY
    judge.told(told(status=400, has_failed=has_failed))
    assert wrong(judge) == found


@pytest.mark.parametrize(("has_failed", "found"), [(True, set()), (False, {"other conversation"})])
def test_a_twin_is_excused_if_the_store_failed(has_failed: bool, found: set[str]) -> None:
    """If both twins are known, the match is ambiguous, and neither may be injected."""
    body, claim = sent()
    judge = Judge()
    attempt = judge.arrived(claim, body | {"input": [ASK, TWIN, C1, O1, A2]}, Emitter())
    attempt.status, attempt.request_id, attempt.is_whole = 200, "req_1", True
    attempt.body += BODY
    judge.told(told(has_failed=has_failed))
    assert wrong(judge) == found
