"""Soak: a few seconds of it break no bound, and its judge finds every fault and nothing else."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.soak.claims import MEMBER, Claim, Item, Told, is_reasoning, rest, said
from tests.soak.hostile import kinds
from tests.soak.judge import Judge
from tests.soak.report import broken, table
from tests.soak.run import Options, soak

SECONDS = 3.0


@pytest.mark.usefixtures("own_redis")  # skips the test without a Redis
async def test_a_short_soak_breaks_no_bound() -> None:
    """Redis fails once, upstream now and then, one tenant is hostile, and no bound is broken."""
    options = Options(
        minutes=SECONDS / 60, seed="smoke", rate=40, share=0.1, outages_every_s=1.0, clients=12
    )
    result = await soak(options)
    assert broken(result) == [], table(result, options)
    assert result.counts["bytes compared"] > 0
    assert all(result.counts[f"hostile: {name}"] for name in kinds())
    assert not result.counts["hostile requests that broke off"]


# The judge

ASK: Item = {"role": "user", "content": "Where?"}
R1: Item = {"type": "reasoning", "id": "rs_1", "summary": []}
R2: Item = {"type": "reasoning", "id": "rs_2", "summary": []}
THEIRS: Item = {"type": "reasoning", "id": "rs_theirs", "summary": []}
MADE_UP: Item = {"type": "reasoning", "id": "", "summary": []}
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
        """Return that it never looks the same."""
        return False


def sent() -> tuple[Item, Claim]:
    """Build a request of a client that drops the reasoning of the history WHOLE."""
    body: Item = {"model": "m", "input": DROPPED}
    claim = Claim(
        number="n1",
        whole=[item["id"] if is_reasoning(item) else "" for item in WHOLE],
        kept=0,
        is_fragile=False,
        said=said(body),
        rest=rest(body),
    )
    return body | {MEMBER: "n1"}, claim


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
    judge.expects(claim)
    judge.arrived(body | {"input": list(arrives)}, Emitter())
    assert wrong(judge) == found


def told(**more: Any) -> Told:
    """Build the report of a response that arrived as sent."""
    fields: Item = {
        "number": "n1",
        "status": 200,
        "mark": "injected=0",
        "request_id": "req_1",
        "body": bytearray(BODY),
        "is_whole": True,
    }
    return Told(**(fields | more))


PART = {"body": bytearray(BODY[:4]), "is_whole": False}
FLIPPED = {"body": bytearray(BODY[:-1] + b"]")}
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
    judge.expects(claim)
    _, attempt = judge.arrived(body, Emitter())
    attempt.fault, attempt.status, attempt.request_id = fault, 200, "req_1"
    attempt.body += BODY
    attempt.is_whole = is_whole
    judge.told(told)
    assert wrong(judge) == found
