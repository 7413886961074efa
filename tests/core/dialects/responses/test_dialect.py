"""Responses dialect: what the Responses API gives to the engine."""

import json

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.base import Bodies
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.profiles import PROFILES
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.seen import Seen

from tests.core.dialects.responses.exchanges import ASK, C1, R1, SCOPE, decided, engine, found
from tests.core.world import Item, body, input_of, nameless, output


def test_a_request_that_continues_a_stored_response_is_not_repaired() -> None:
    """Its history is stored at the upstream, so a repeated item is left to the upstream."""
    one = engine()
    sent = body([R1, R1, C1, output(C1)], previous_response_id="resp_0")
    made = decided(one, sent, LookupResult())

    assert made.body is sent
    assert made.state is RequestState.STATEFUL


def test_a_sound_request_of_an_unknown_conversation_is_not_parsed_again() -> None:
    """Reasoning that the client replays needs no repair, unless it is there twice in a row."""
    one = engine()
    sent = body([ASK, R1, C1, output(C1)])
    assert decided(one, sent, LookupResult()).body is sent
    twice = decided(one, body([ASK, R1, R1, C1, output(C1)]), LookupResult())
    assert input_of(twice.body) == [ASK, R1, C1, output(C1)]


def test_a_repaired_request_keeps_its_hint() -> None:
    """The client's own name for its conversation counts for the repaired body as well."""
    one = engine()
    sent = body([ASK, R1, R1, C1, output(C1)], prompt_cache_key="thread-1")
    made = decided(one, sent, found(one))

    assert input_of(made.body) == [ASK, R1, C1, output(C1)]
    assert made.repairs == {Repair.DUPLICATES: 1}
    named = decided(one, body([ASK], prompt_cache_key="thread-1"), LookupResult())
    assert made.origin is not None
    assert named.origin is not None
    assert made.origin.context.hint == named.origin.context.hint != b""


@pytest.mark.parametrize("items", [[], [ASK, R1]])
def test_an_input_that_is_empty_or_ends_with_reasoning_is_repaired(items: list[Item]) -> None:
    """Reasoning at the end is removed if the upstream would require the item after it."""
    made = decided(engine(), body(items), LookupResult())

    assert input_of(made.body) == items[:1]


INCLUDED = ["reasoning.encrypted_content"]
EASY = {"role": "assistant", "content": "Sunny."}


@pytest.mark.parametrize(
    ("include", "items", "more", "is_included"),
    [
        pytest.param("auto", [ASK], {"store": False}, True, id="nothing-is-stored"),
        pytest.param("auto", [ASK], {}, False, id="ids-are-enough"),
        pytest.param("auto", [ASK, EASY, ASK], {}, True, id="easy-form-has-no-ids"),
        pytest.param("always", [ASK], {}, True, id="always"),
        pytest.param("never", [ASK], {"store": False}, False, id="never"),
        pytest.param("always", [ASK], {"background": True}, False, id="in-the-background"),
        pytest.param("always", [ASK], {"model": "gpt-4o"}, False, id="a-model-without-reasoning"),
        pytest.param("always", [ASK], {"previous_response_id": "resp_0"}, False, id="stateful"),
    ],
)
def test_encrypted_reasoning_is_requested_where_ids_are_not_enough(
    include: str, items: list[Item], more: Item, *, is_included: bool
) -> None:
    """The setting `include` decides; nothing else in the request changes."""
    sent = body(items, **more)
    made = decided(engine(include=include), sent, LookupResult())

    assert json.loads(made.body) == json.loads(sent) | (
        {"include": INCLUDED} if is_included else {}
    )


def test_an_upstream_that_ignores_include_is_not_sent_it() -> None:
    """The profile has priority over the setting."""
    sent = body([ASK], store=False)
    made = decided(engine(include="always", profile=PROFILES["vllm"]), sent, LookupResult())

    assert made.body is sent


def test_a_retrieved_response_is_captured_once() -> None:
    """A retrieved response is captured, unless it was captured when it was created."""
    one = engine()
    held = found(one)

    retrieval = one.readers.retrieval
    assert retrieval is not None
    assert retrieval.id_in("/v1/responses/resp_1") == "resp_1"
    assert retrieval.origin_of("resp_1", held) is None
    assert retrieval.origin_of("resp_2", held) is not None


def test_a_retrieved_response_keeps_the_context_of_its_request() -> None:
    """The values recorded when the background response was created stay unchanged."""
    one = engine()
    (turn,) = found(one).turns
    begun = structs.replace(turn, items=(), seen=Seen(b"basis", 3, ()))
    assert one.readers.retrieval is not None
    origin = one.readers.retrieval.origin_of("resp_1", LookupResult([begun]))

    assert origin is not None
    kept = ("context", "conversation", "parent", "created_ms", "seen")
    assert [getattr(origin, name) for name in kept] == [getattr(begun, name) for name in kept]


@pytest.mark.parametrize(
    ("said", "vendor", "want"),
    [
        pytest.param(
            f"Referenced reasoning item '{R1['id']}' was not found or has expired.",
            "generic",
            [ASK, nameless(R1), nameless(C1), output(C1)],
            id="ids-are-not-found",
        ),
        pytest.param(
            'input[1].type \\"reasoning\\" is not a valid input item type',
            "generic",
            [ASK, nameless(C1), output(C1)],
            id="no-reasoning",
        ),
        pytest.param(
            'input[1].type \\"reasoning\\" is not a valid input item type',
            "copilot",
            [ASK, C1, output(C1)],
            id="no-reasoning-and-no-pairs",
        ),
    ],
)
def test_a_refused_form_is_not_sent_again(said: str, vendor: str, want: list[Item]) -> None:
    """What upstream refuses of a model is learned, for reasoning that is injected or replayed."""
    one = engine(profile=PROFILES[vendor])
    held = found(one)
    dropped, kept = body([ASK, C1, output(C1)]), body([ASK, R1, C1, output(C1)])
    sent = decided(one, dropped, held)
    assert input_of(sent.body) == [ASK, R1, C1, output(C1)]

    bodies = Bodies(dropped, sent.body)
    refusal = one.readers.diagnose(400, b'{"error":{"message":"%s"}}' % said.encode())
    cured = one.cure(SCOPE, bodies, one.ask_for_cure(bodies, refusal), refusal, held)
    assert cured is not None
    assert without_ids_of_calls(input_of(cured.body)) == without_ids_of_calls(want)
    one.learn(SCOPE, refusal, cured, "gpt-5.6-sol")

    assert input_of(decided(one, dropped, held).body) == want
    assert without_ids_of_calls(input_of(decided(one, kept, held).body)) == without_ids_of_calls(
        want
    )


def without_ids_of_calls(items: list[Item]) -> list[Item]:
    """Return items without the ids of calls, which may stay where nothing is paired."""
    return [nameless(item) if item.get("type") == "function_call" else item for item in items]
