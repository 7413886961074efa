"""Dialect: what the Messages API gives to the engine."""

from reasoning_replay.core.dialects.anthropic.binding import prefix_of
from reasoning_replay.core.dialects.anthropic.request import read_request
from reasoning_replay.core.dialects.states import RequestState

from tests.core.dialects.anthropic.streams import MODEL, THOUGHT, text
from tests.core.dialects.anthropic.tenant import (
    BOUND,
    Message,
    Tenant,
    assistant,
    body_of,
    dropped,
    user,
)

ASK, GO = user("What is the weather in Paris?"), user("Go on")
SAID = text("It is sunny in Paris, and warm.")
LATER = [ASK, assistant(THOUGHT, SAID), GO]


def learned(tenant: Tenant, model: str = MODEL) -> Tenant:
    """Return the tenant after one response."""
    tenant.learn([ASK], THOUGHT, SAID, model=model)
    return tenant


def test_a_first_request_is_sent_as_it_is() -> None:
    """Nothing to inject means the identical object."""
    body = body_of([ASK], thinking={"type": "disabled"})
    decided = Tenant().decide(body)

    assert decided.body is body
    assert decided.origin is not None
    assert decided.origin.conversation == b""
    assert decided.origin.switched_off


def test_shadow_mode_counts_and_changes_nothing() -> None:
    """The counts say what would have been injected; the binding is that of what is sent."""
    tenant = learned(Tenant(is_shadow=True), BOUND)
    body = body_of(dropped(LATER), BOUND)
    decided = tenant.decide(body)

    assert decided.body is body
    assert [*decided.outcomes.values()] == [1]
    assert decided.injected_bytes == 0
    assert decided.origin is not None
    assert decided.origin.binding == prefix_of(read_request(body, {}))


def test_without_a_lookup_nothing_is_injected() -> None:
    """The binding is that of the request as it is sent."""
    tenant = learned(Tenant(), BOUND)
    body = body_of(dropped(LATER), BOUND)
    decided = tenant.decide(body, fails=True)

    assert decided.body is body
    assert decided.state is RequestState.STORE_FAILED
    assert decided.origin is not None
    assert decided.origin.seen is None
    assert decided.origin.binding == prefix_of(read_request(body, {}))


def test_the_binding_is_that_of_the_edited_request() -> None:
    """What is injected is a part of what upstream receives."""
    tenant = learned(Tenant(), BOUND)
    decided = tenant.decide(body_of(dropped(LATER), BOUND))
    assert decided.origin is not None
    assert decided.origin.binding == prefix_of(read_request(decided.body, {}))


def test_the_path_names_the_model_in_the_clouds() -> None:
    """Without the name, nothing is injected."""
    tenant = learned(Tenant())
    body = body_of(dropped(LATER)).replace(b'"model"', b'"other"')
    path = f"/v1/projects/p/locations/l/publishers/anthropic/models/{MODEL}:rawPredict"
    for given, count in ((path, 1), ("", 0)):
        decided = tenant.decide(body, given)
        assert (decided.body != body) is bool(count)
        assert decided.outcomes.get("injected", 0) == count  # type: ignore[call-overload]


def compact(messages: list[Message], **more: str) -> bytes:
    """Return a request as the SDKs write it."""
    return body_of(messages, **more).replace(b" , ", b",").replace(b" : ", b":")
