"""Dialect: the Messages API as an implementation of the interface."""

from contextlib import nullcontext

from reasoning_replay.core.dialects.base import AnyDialect
from reasoning_replay.core.dialects.captures import ErrorNames
from reasoning_replay.core.dialects.messages.binding import prefix_of
from reasoning_replay.core.dialects.messages.dialect import MessagesDialect
from reasoning_replay.core.dialects.messages.request import read_request
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.sent_items import DIGEST_BYTES, common_items
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.dialects.messages.streams import MODEL, THOUGHT, answer, text
from tests.core.dialects.messages.tenant import (
    BOUND,
    CALLER,
    Message,
    Tenant,
    assistant,
    body_of,
    dropped,
    settings_of,
    user,
)

ASK, GO = user("What is the weather in Paris?"), user("Go on")
SAID = text("It is sunny in Paris, and warm.")
LATER = [ASK, assistant(THOUGHT, SAID), GO]


def learned(tenant: Tenant, model: str = MODEL) -> Tenant:
    """Return the tenant after one response."""
    tenant.learn([ASK], THOUGHT, SAID, model=model)
    return tenant


def test_a_request_is_decided_on() -> None:
    """The decision has the body, the counts, the summary, and the origin of the response."""
    tenant = learned(Tenant())
    decided = tenant.decide(body_of(dropped(LATER)))

    assert decided.state is RequestState.PLANNED
    assert decided.injected_bytes == len(
        '{"type": "thinking", "thinking": "Hm", "signature": "Eg=="}'
    )
    assert decided.summary is not None
    assert decided.summary.total == 3
    assert decided.origin is not None
    (turn,) = tenant.store.turns.values()
    assert (decided.origin.parent, decided.origin.stores) == (turn.id, False)
    assert decided.origin.binding == b""


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
    tenant = learned(Tenant(settings_of(is_shadow=True)), BOUND)
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


def test_a_response_of_which_the_request_is_unknown() -> None:
    """Its turn has no history."""
    captured = Tenant().dialect.capture(None)
    captured.read(answer(THOUGHT, SAID))
    turn = captured.snapshot(1).turn
    assert turn is not None
    assert not turn.context.is_known


def test_this_api_stores_nothing() -> None:
    """No request fetches a response; no JSON response with a success is an error."""
    dialect: AnyDialect = MessagesDialect(settings_of(), lambda: 0.0, nullcontext())
    assert dialect.retrieved("/v1/messages/msg_1") == ""
    assert dialect.origin_of("msg_1", LookupResult()) is None
    dialect.note_issued(NO_ACCOUNT, ())
    assert Tenant().dialect.maybe_failing(b"{") is False


def test_the_path_names_the_model_in_the_clouds() -> None:
    """Without the name, nothing is injected."""
    tenant = learned(Tenant())
    body = body_of(dropped(LATER)).replace(b'"model"', b'"other"')
    path = f"/v1/projects/p/locations/l/publishers/anthropic/models/{MODEL}:rawPredict"
    for given, count in ((path, 1), ("", 0)):
        question = tenant.dialect.ask(body, {}, b"t", given)
        found = tenant.store.recall(question.request)
        decided = tenant.dialect.decide(CALLER, body, question, found, is_created=False)
        assert (decided.body != body) is bool(count)
        assert decided.outcomes.get("injected", 0) == count  # type: ignore[call-overload]


def compact(messages: list[Message], **more: str) -> bytes:
    """Return a request as the SDKs write it."""
    return body_of(messages, **more).replace(b" , ", b",").replace(b" : ", b":")


def test_digests_tell_that_a_request_begins_with_the_one_before() -> None:
    """They are of the blocks as they are sent; a cache mark, which clients move, is no part."""
    tenant = learned(Tenant())
    marked = SAID | {"cache_control": {"type": "ephemeral"}}
    first = tenant.decide(compact(dropped([ASK, assistant(THOUGHT, marked), GO])))
    whole = [*LATER, assistant(text("It is dry as well.")), GO]
    second = tenant.decide(compact(dropped(whole)))
    other = tenant.decide(compact(dropped([user("Hello"), *whole[1:]]), system="Be brief."))
    assert first.summary is not None
    assert second.summary is not None
    assert other.summary is not None
    sent = first.summary.sent
    assert (sent.total, len(sent.injected)) == (4, DIGEST_BYTES)
    assert common_items(sent, second.summary.sent) == 4
    assert common_items(sent, other.summary.sent) == 0
    assert other.summary.sent.head != sent.head == second.summary.sent.head


def test_digests_in_shadow_mode_are_those_of_the_clients_request() -> None:
    """Nothing is injected into what is sent."""
    tenant = learned(Tenant(settings_of(is_shadow=True)))
    decided = tenant.decide(body_of(dropped(LATER)))
    assert decided.summary is not None
    assert (decided.summary.sent.total, decided.summary.sent.injected) == (3, b"")


def test_an_error_has_names() -> None:
    """They are words of the API."""
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    assert Tenant().dialect.error_names(body) == ErrorNames("", "overloaded_error")
