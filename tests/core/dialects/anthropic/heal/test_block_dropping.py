"""Block dropping: by setting, the API is asked to leave out what is bound to another history."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.anthropic.heal.cure import BETA

from tests.core.dialects.anthropic.heal.test_completed import damaged, partial
from tests.core.dialects.anthropic.heal.test_cure import ELSEWHERE, history, signatures
from tests.core.dialects.anthropic.heal.test_diagnosis import INVALID
from tests.core.dialects.anthropic.streams import thought
from tests.core.dialects.anthropic.tenant import (
    BOUND,
    Tenant,
    assistant,
    body_of,
    dialect_of,
    user,
)

ADAPTIVE: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "omitted"}}
ASKS = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def tenant_of(*, drops: bool = True) -> Tenant:
    """Return a tenant whose operator allows it."""
    return Tenant(dialect_of(drops=drops))


def test_the_api_is_asked_once() -> None:
    """Nothing else changes. The next request lacks what the API left out."""
    tenant = tenant_of()
    given = body_of(history(tenant, BOUND), BOUND, **ADAPTIVE)
    cured = tenant.cure(given, given, ELSEWHERE.format(3, 0))
    sent = json.loads(cured.body)
    assert sent == json.loads(given) | {"thinking": ADAPTIVE["thinking"] | ASKS}
    assert (cured.header, cured.is_clients_own) == (BETA, False)
    assert signatures(tenant.decide(given).body) == ["S0"]


def test_a_message_that_cannot_lose_its_block() -> None:
    """It has nothing else, so only the API can leave it out."""
    tenant = tenant_of()
    told = [user("Hi"), assistant(thought("", "own")), user("Go on.")]
    given = body_of(told, BOUND, **ADAPTIVE)
    cured = tenant.cure(given, given, ELSEWHERE.format(1, 0))
    assert cured.header == BETA


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"thinking": {"type": "disabled"}},
        {"thinking": {"type": 5}},
        {"thinking": "adaptive"},
        {"thinking": ADAPTIVE["thinking"] | ASKS},
        ADAPTIVE | {"anthropic_version": "vertex-2023-10-16"},
    ],
)
def test_a_request_that_cannot_ask(more: dict[str, Any]) -> None:
    """It does not think, or says how, or goes to a cloud: the retry lacks the blocks."""
    tenant = tenant_of()
    given = body_of(history(tenant, BOUND), BOUND, **more)
    cured = tenant.cure(given, given, ELSEWHERE.format(3, 0))
    assert (signatures(cured.body), cured.header) == (["S0"], None)


@pytest.mark.parametrize(
    ("drops", "refusal"),
    [(False, ELSEWHERE.format(3, 0)), (True, f"messages.3.content.0: {INVALID}")],
)
def test_another_refusal_or_no_permission(*, drops: bool, refusal: str) -> None:
    """The retry lacks the blocks."""
    tenant = tenant_of(drops=drops)
    given = body_of(history(tenant, BOUND), BOUND, **ADAPTIVE)
    cured = tenant.cure(given, given, refusal)
    assert cured.header is None


def test_what_can_be_completed_is_not_dropped() -> None:
    """The client made the hole, and the block is known."""
    tenant = tenant_of()
    told = history(tenant, BOUND)
    given = body_of(damaged(told, partial), BOUND, **ADAPTIVE)
    cured = tenant.cure(given, given, ELSEWHERE.format(5, 0))
    assert (json.loads(cured.body)["messages"], cured.header) == (told, None)
