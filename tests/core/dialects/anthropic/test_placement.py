"""Placement: a message gets all reasoning of its turn, each block at its place, or none."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.anthropic.profiles import GENERIC

from tests.core.dialects.anthropic.streams import (
    MODEL,
    REDACTED,
    THOUGHT,
    call,
    text,
    thought,
)
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
from tests.core.world import World

ASK, GO = user("What is the weather in Paris?"), user("Go on, and tell me about Rome")
LONG = text("It is sunny in Paris, and warm.")
CALL_ID = "toolu_01QiEjkBaC9vDtcLcogRZGdj"
CALL = call("get_weather", CALL_ID, city="Paris", days=2)
SECOND = call("get_weather", "toolu_01KxYwXjGNkqkpvqfLTPPR8Q", city="Rome")
LATE = thought("", "Eh==")
BLANK = text("\n\n")
SEARCH = call("web_search", "srvtoolu_01GUk7pHBFbRVEoNiViomUfx", "server_tool_use", query="x")
FOUND = {"type": "web_search_tool_result", "tool_use_id": SEARCH["id"], "content": []}


def after(*blocks: Any) -> tuple[Tenant, list[Message]]:
    """Return a tenant with one turn, and the history with that turn and what follows it."""
    tenant = Tenant()
    made = tenant.learn([ASK], *blocks)
    results = [result(block["id"]) for block in blocks if block["type"] == "tool_use"]
    return tenant, [ASK, made, *(results or [GO])]


@pytest.mark.parametrize(
    "blocks",
    [
        [THOUGHT, LONG],
        [THOUGHT, REDACTED, LONG],
        [THOUGHT, CALL],
        [THOUGHT, LONG, CALL],
        [THOUGHT, CALL, SECOND],
        [THOUGHT, LONG, CALL, LATE, SECOND],
        [LONG, LATE, CALL],
        [LATE, SEARCH, FOUND, THOUGHT, LONG],
        [LONG, text("More."), CALL],
        [CALL],
    ],
)
def test_each_block_comes_back_at_its_place(blocks: list[Any]) -> None:
    """Also between calls, between hosted tools, and with empty text."""
    tenant, history = after(*blocks)
    assert tenant.send(dropped(history)) == history


def test_only_the_blocks_are_added() -> None:
    """A text becomes a list; spacing, order of keys and numbers stay as they are."""
    tenant, history = after(THOUGHT, LONG)
    body = body_of([ASK, {"content": LONG["text"], "role": "assistant"}, GO])
    made = json.dumps(THOUGHT).encode()
    said = json.dumps(LONG["text"]).encode()

    got = tenant.decide(body).body
    assert got == body.replace(said, b'[%b,{"type":"text","text":%b}]' % (made, said))

    body = body_of(dropped(history))
    got = tenant.decide(body).body
    assert got.replace(made + b",", b"") == body


def test_a_cache_mark_is_kept() -> None:
    """Blocks that the client marked match, and are not touched."""
    tenant, history = after(THOUGHT, LONG, CALL)
    marked = CALL | {"cache_control": {"type": "ephemeral"}}
    got = tenant.send([ASK, assistant(LONG, marked), history[2]])
    assert got[1] == assistant(THOUGHT, LONG, marked)


@pytest.mark.parametrize(
    ("blocks", "sent", "want"),
    [
        ([THOUGHT, BLANK, CALL], [BLANK, CALL], [THOUGHT, BLANK, CALL]),
        ([THOUGHT, BLANK, CALL], [CALL], [THOUGHT, CALL]),
        ([BLANK, THOUGHT, CALL], [BLANK, CALL], [BLANK, THOUGHT, CALL]),
        ([THOUGHT, BLANK, LATE, CALL], [BLANK, CALL], [THOUGHT, BLANK, LATE, CALL]),
        ([LONG, BLANK, LATE, CALL], [LONG, BLANK, CALL], [LONG, BLANK, LATE, CALL]),
        ([LONG, BLANK, LATE, CALL], [LONG, CALL], [LONG, LATE, CALL]),
        ([BLANK, LONG, LATE, CALL], [LONG, BLANK, CALL], [LONG, BLANK, LATE, CALL]),
        ([CALL, LATE, BLANK], [CALL, BLANK], [CALL, LATE, BLANK]),
        ([CALL, BLANK, LATE], [CALL], [CALL, LATE]),
        ([CALL, BLANK, BLANK, LATE], [CALL, BLANK], None),
        ([LONG, LATE, CALL], [BLANK, LONG, CALL], None),
        ([BLANK, BLANK, LONG, LATE, CALL], [BLANK, LONG, CALL], None),
    ],
)
def test_blank_text_may_be_left_out(blocks: Any, sent: Any, want: Any) -> None:
    """Clients drop it, because the API refuses it; where it is kept, it counts as a block."""
    tenant, history = after(*blocks)
    kept = [ASK, assistant(*sent), history[2]]
    assert tenant.send(kept)[1] == assistant(*(want or sent))
    if want is None:
        assert tenant.outcomes(kept) == {"guarded_form": 1}


@pytest.mark.parametrize(
    "sent",
    [
        [assistant(CALL)],
        [assistant(LONG)],
        [assistant(SECOND, CALL)],
        [assistant(LONG, CALL, SECOND, text("More."))],
        [assistant(text("It was sunny in Paris, and warm."), CALL, SECOND)],
        [assistant(LONG, CALL | {"input": {}}, SECOND)],
        [assistant(LONG), assistant(SECOND, CALL)],
        [assistant(LONG), assistant(CALL), result(CALL_ID), assistant(SECOND)],
    ],
)
def test_a_message_with_other_blocks_gets_nothing(sent: list[Message]) -> None:
    """Left out, added, changed, reordered or split: the message is not the one of the turn."""
    tenant, _ = after(THOUGHT, LONG, CALL, LATE, SECOND)
    history = [ASK, *sent, result(CALL_ID), GO]
    assert tenant.send(history) == history
    assert "injected" not in tenant.outcomes(history)


def said(words: str) -> Message:
    """Return an assistant's message whose content is a string."""
    return {"role": "assistant", "content": words}


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        (
            [assistant(LONG), assistant(CALL, SECOND)],
            [assistant(THOUGHT, LONG), assistant(CALL, LATE, SECOND)],
        ),
        (
            [assistant(LONG), assistant(CALL), assistant(SECOND)],
            [assistant(THOUGHT, LONG), assistant(CALL), assistant(LATE, SECOND)],
        ),
        (
            [said(LONG["text"]), assistant(CALL, SECOND)],
            [assistant(THOUGHT, LONG), assistant(CALL, LATE, SECOND)],
        ),
        (
            [assistant(LONG), said(""), assistant(CALL, SECOND)],
            [assistant(THOUGHT, LONG), said(""), assistant(CALL, LATE, SECOND)],
        ),
    ],
)
def test_adjacent_messages_are_one(sent: list[Message], want: list[Message]) -> None:
    """The API joins them: each block goes where it is due in the joined message."""
    tenant, history = after(THOUGHT, LONG, CALL, LATE, SECOND)
    assert tenant.send([ASK, *sent, *history[2:]]) == [ASK, *want, *history[2:]]
    later = [ASK, *sent, *history[2:], assistant(text("Something else.")), GO]
    assert tenant.send(later) == [ASK, *want, *later[1 + len(want) :]]


def test_several_blocks_before_a_text_in_a_later_message() -> None:
    """The text becomes a list, and has all of them before it."""
    tenant, history = after(LONG, THOUGHT, REDACTED, text("And warm."))
    got = tenant.send([ASK, assistant(LONG), said("And warm."), GO])
    assert got == [
        ASK,
        assistant(LONG),
        assistant(THOUGHT, REDACTED, text("And warm.")),
        history[2],
    ]


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        ([[THOUGHT], [LONG, CALL, SECOND]], [[THOUGHT], [LONG, CALL, LATE, SECOND]]),
        ([[THOUGHT], [LONG], [CALL, SECOND]], [[THOUGHT], [LONG], [CALL, LATE, SECOND]]),
        ([[THOUGHT, BLANK], [LONG, CALL, SECOND]], None),
        ([[THOUGHT, LONG], [CALL, SECOND]], [[THOUGHT, LONG], [CALL, LATE, SECOND]]),
        ([[LONG, CALL], [LATE, SECOND]], [[THOUGHT, LONG, CALL], [LATE, SECOND]]),
        ([[LONG, CALL, SECOND], [THOUGHT]], None),
    ],
)
def test_reasoning_in_an_adjacent_message_is_a_part_of_the_turn(sent: Any, want: Any) -> None:
    """What is replayed in one is replayed in all: none is sent twice, and the rest is added."""
    tenant, history = after(THOUGHT, LONG, CALL, LATE, SECOND)
    given = [ASK, *(assistant(*blocks) for blocks in sent), *history[2:]]
    assert tenant.send(given) == [ASK, *(assistant(*each) for each in want or sent), *history[2:]]
    assert tenant.outcomes(given) == {"present": 1} | ({"injected": 1} if want else {})


def test_reasoning_alone_in_the_last_message() -> None:
    """It is not adjacent to the turn before, which gets its own."""
    tenant, history = after(THOUGHT, CALL)
    sent = [*dropped(history), assistant(LATE)]
    assert tenant.send(sent) == [*history, assistant(LATE)]


@pytest.mark.parametrize(
    "sent",
    [
        [assistant(call("other", "toolu_01Hk2nQ9xT7bLw2RsVqWm4")), assistant(LONG, CALL)],
        [assistant(LONG, CALL), assistant(text("Never heard of that before."))],
        [assistant(LONG), assistant(CALL | {"input": {}})],
    ],
)
def test_an_adjacent_message_of_another_origin_withholds_all(sent: list[Message]) -> None:
    """The joined message is not the one of the turn."""
    tenant, history = after(THOUGHT, LONG, CALL)
    sent = [ASK, *sent, *history[2:]]
    assert tenant.send(sent) == sent
    assert tenant.outcomes(sent) == {"guarded_form": 1}


PLACEHOLDER = text("[System: Empty message content sanitised to satisfy protocol]")


@pytest.mark.parametrize("model", [MODEL, BOUND])
@pytest.mark.parametrize(
    "sent",
    [
        [assistant(PLACEHOLDER, CALL, SECOND)],
        [assistant(CALL, SECOND)],
        [assistant(text("Hm"), LONG, CALL, SECOND)],
        [assistant(BLANK, PLACEHOLDER, CALL, SECOND)],
        [assistant(PLACEHOLDER), assistant(CALL), assistant(SECOND)],
        [said("Hm"), assistant(LONG, CALL, SECOND)],
    ],
)
@pytest.mark.parametrize("blocks", [[LONG, CALL, SECOND], [CALL, SECOND]])
def test_text_before_certain_calls(blocks: list[Any], sent: list[Message], model: str) -> None:
    """The reasoning led to the calls, so it leads the message, whatever the client says there."""
    tenant = Tenant()
    tenant.learn([ASK], THOUGHT, REDACTED, *blocks, model=model)
    first, *others = sent
    content = first["content"]
    blocks_ = [text(content)] if isinstance(content, str) else content
    history = [*others, result(CALL_ID)]
    got = tenant.send([ASK, *sent, result(CALL_ID)], model)
    assert got == [ASK, assistant(THOUGHT, REDACTED, *blocks_), *history]


@pytest.mark.parametrize(
    ("blocks", "sent"),
    [
        ([THOUGHT, CALL, SECOND], [PLACEHOLDER, SECOND, CALL]),
        ([THOUGHT, CALL, SECOND], [PLACEHOLDER, CALL]),
        ([THOUGHT, CALL, SECOND], [CALL, PLACEHOLDER, SECOND]),
        ([THOUGHT, CALL], [CALL, PLACEHOLDER]),
        ([THOUGHT, CALL], [PLACEHOLDER, CALL, SECOND]),
        ([THOUGHT, CALL], [PLACEHOLDER, CALL | {"input": {}}]),
        ([THOUGHT, CALL], [PLACEHOLDER, CALL | {"id": "call_0"}]),
        ([LONG, THOUGHT, CALL], [PLACEHOLDER, CALL]),
        ([BLANK, THOUGHT, CALL], [PLACEHOLDER, CALL]),
        ([THOUGHT, LONG, LATE, CALL], [PLACEHOLDER, CALL]),
        ([THOUGHT, CALL, LONG], [PLACEHOLDER, CALL]),
        ([THOUGHT, CALL, LONG, SECOND], [CALL, SECOND]),
        ([THOUGHT, call("add", "call_0", n=1)], [PLACEHOLDER, call("add", "call_0", n=1)]),
        ([THOUGHT, LONG], [PLACEHOLDER, LONG]),
    ],
)
def test_text_before_calls_that_are_not_certain(blocks: list[Any], sent: list[Any]) -> None:
    """Other calls, another order, an id that recurs, or reasoning that does not lead the turn."""
    tenant = Tenant()
    tenant.learn([ASK], *blocks)
    told = [ASK, assistant(*sent), result(CALL_ID), GO]
    assert tenant.send(told) == told


def test_calls_after_a_system_message_do_not_begin_their_response() -> None:
    """The text before them is in a message of its own, and the reasoning led to that."""
    tenant = Tenant()
    tenant.learn([ASK], THOUGHT, LONG, CALL)
    note = {"role": "system", "content": "Keep it short."}
    told = [ASK, assistant(LONG), note, assistant(CALL), result(CALL_ID), GO]
    assert tenant.send(told) == told


def test_merged_messages_get_nothing() -> None:
    """Blocks of two turns in one message are not those of either."""
    tenant, history = after(THOUGHT, CALL)
    second = tenant.learn(dropped(history), LATE, SECOND)
    merged = [ASK, assistant(CALL, *dropped([second])[0]["content"]), result(CALL_ID), GO]
    assert tenant.send(merged) == merged
    assert tenant.outcomes(merged) == {"guarded_form": 2}


@pytest.mark.parametrize("model", [MODEL, BOUND])
def test_a_paused_turn_and_its_continuation(model: str) -> None:
    """Each gets its own blocks, then and later, in two messages or in one."""
    tenant = Tenant()
    first = tenant.learn([ASK], THOUGHT, SEARCH, FOUND, LONG, reason="pause_turn", model=model)
    assert tenant.send(dropped([ASK, first]), model) == [ASK, first]
    second = tenant.learn(dropped([ASK, first]), LATE, CALL, model=model)
    both = [ASK, first, second, result(CALL_ID)]
    assert tenant.send(dropped(both), model) == both
    joined = [ASK, assistant(*first["content"], *second["content"]), result(CALL_ID)]
    assert tenant.send(dropped(joined), model) == joined
    partly = [ASK, assistant(*first["content"], CALL), result(CALL_ID)]
    assert tenant.send(partly, model) == joined
    third = tenant.learn(dropped(joined), thought("", "Et=="), LONG, model=model)
    assert tenant.send(dropped([*joined, third, GO]), model) == [*joined, third, GO]
    cut = [ASK, assistant(SEARCH, LONG, CALL), result(CALL_ID)]  # one block is gone
    assert tenant.send(cut, model) == cut


def test_a_continuation_of_which_a_block_is_gone_is_not_told_from_the_paused_turn() -> None:
    """Nothing is injected into a message that cannot be divided."""
    tenant = Tenant()
    first = tenant.learn([ASK], THOUGHT, SEARCH, FOUND, LONG, reason="pause_turn")
    tenant.learn(dropped([ASK, first]), LATE, CALL, SECOND)
    cut = [ASK, assistant(*dropped([first])[0]["content"], CALL), result(CALL_ID)]
    assert tenant.send(cut) == cut


def test_a_text_without_reasoning_stays_a_string() -> None:
    """Only a message that gets a block has a list of them."""
    tenant = Tenant()
    tenant.learn([ASK], LONG, LATE, CALL)
    told = [ASK, said(LONG["text"]), assistant(CALL), result(CALL_ID), GO]
    assert tenant.send(told) == [*told[:2], assistant(LATE, CALL), *told[3:]]


@pytest.mark.parametrize("model", [MODEL, BOUND])
@pytest.mark.parametrize(
    "blocks", [[THOUGHT, CALL, LATE], [CALL, LATE], [THOUGHT, LONG, LATE, REDACTED]]
)
def test_reasoning_at_the_end_of_a_message(blocks: list[Any], model: str) -> None:
    """A message has all blocks or none, so those at the end come back as well."""
    tenant = Tenant()
    made = tenant.learn([ASK], *blocks, model=model)
    last = result(CALL_ID) if CALL in blocks else GO
    history = [ASK, made, last]
    assert tenant.send(dropped(history), model) == history
    assert tenant.send(history, model) == history
    assert tenant.send([ASK, assistant(*blocks[:-1]), last], model) == history
    second = tenant.learn(dropped(history), thought("", "Et=="), text("Fine."), model=model)
    assert tenant.send(dropped([*history, second, GO]), model) == [*history, second, GO]
    if CALL not in blocks:
        as_text = [ASK, said(LONG["text"]), GO]
        assert tenant.send(as_text, model) == history


@pytest.mark.parametrize("apart", [True, False])
def test_no_block_goes_ahead_of_the_text_of_another_turn(apart: bool) -> None:
    """A client that moves its final text in front of older calls; a new text is another matter."""
    tenant = Tenant()
    calls = tenant.learn([ASK], THOUGHT, CALL, SECOND)
    results = user([result(CALL_ID)["content"][0], result(SECOND["id"])["content"][0]])
    tenant.learn(dropped([ASK, calls, results]), LATE, LONG)
    moved = [assistant(LONG), assistant(CALL, SECOND)] if apart else [assistant(LONG, CALL, SECOND)]
    want = (
        [assistant(LONG), assistant(THOUGHT, CALL, SECOND)]
        if apart
        else [assistant(LONG, THOUGHT, CALL, SECOND)]
    )
    assert tenant.send([ASK, *moved, results, GO]) == [ASK, *want, results, GO]
    changed = [assistant(LONG), assistant(CALL | {"input": {}}, SECOND)]
    assert tenant.send([ASK, *changed, results, GO]) == [ASK, *changed, results, GO]
    first = tenant.learn([ASK], THOUGHT, text("Let me look."), call("add", "toolu_01QZ7pHBFbRVEo"))
    replaced = [ASK, assistant(LONG, first["content"][-1]), result("toolu_01QZ7pHBFbRVEo")]
    assert tenant.send(replaced) == replaced  # its own text is gone
    refused = tenant.cure(
        body_of([ASK, *moved, results, GO]),
        body_of([ASK, *want, results, GO]),
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`.",
    )
    first, *others = moved
    demanded = [ASK, assistant(THOUGHT, *first["content"]), *others, results, GO]
    assert json.loads(refused.body)["messages"] == demanded
    assert tenant.send([ASK, *moved, results, GO]) == demanded


@pytest.mark.parametrize("model", [MODEL, BOUND])
def test_what_was_missed_stays_missed_although_ids_are_certain(model: str) -> None:
    """Another replica may not have found the turn; upstream has seen the message without it."""
    tenant = Tenant()
    made = tenant.learn([ASK], THOUGHT, CALL, model=model)
    history = [ASK, made, result(CALL_ID)]
    away, tenant.store = tenant.store, World()
    second = tenant.learn(dropped(history), LATE, SECOND, model=model)
    for turn in away.turns.values():
        tenant.store.keep(turn)
    history += [second, result(SECOND["id"])]
    want = [*dropped(history[:3]), *history[3:]]
    assert tenant.send(dropped(history), model) == want
    third = tenant.learn(dropped(history), thought("", "Et=="), LONG, model=model)
    assert tenant.send(dropped([*history, third, GO]), model) == [*want, third, GO]


@pytest.mark.parametrize(
    "own", [[LATE, LONG], [REDACTED, LONG], [LONG, THOUGHT], [THOUGHT, THOUGHT, LONG]]
)
def test_a_message_with_other_reasoning_of_the_client_is_left_alone(own: list[Any]) -> None:
    """Moved, foreign, or there twice."""
    tenant, history = after(THOUGHT, LONG, CALL, LATE, SECOND)
    sent = [ASK, assistant(*own, CALL, SECOND), *history[2:]]
    assert tenant.send(sent) == sent
    assert tenant.outcomes(sent) == {"present": len(own) - 1}


def test_a_message_of_reasoning_alone() -> None:
    """It is the client's own."""
    tenant, _ = after(THOUGHT, LONG)
    sent = [ASK, assistant(THOUGHT, LATE), GO]
    assert tenant.send(sent) == sent
    assert tenant.outcomes(sent) == {"present": 2}


def test_reasoning_is_injected_into_its_own_model_alone() -> None:
    """The name must be one that the turn has, without any alias."""
    tenant, history = after(THOUGHT, LONG)
    sent = dropped(history)
    assert tenant.send(sent, MODEL) == history
    assert tenant.outcomes(sent, model="claude-sonnet-4-5") == {"guarded_model": 1}
    assert tenant.outcomes(sent, model=f"{MODEL}-20260101") == {"guarded_model": 1}


def test_nothing_is_injected_if_reasoning_is_switched_off() -> None:
    """Absence of the switch is not off."""
    tenant, history = after(THOUGHT, LONG)
    sent = dropped(history)
    assert tenant.outcomes(sent, thinking={"type": "disabled"}) == {"skipped": 1}
    assert tenant.outcomes(sent, thinking={"type": "adaptive"}) == {"injected": 1}
    assert tenant.outcomes(sent) == {"injected": 1}


def test_context_that_upstream_edits_by_itself() -> None:
    """
    The client keeps the whole history, and so does the proxy; upstream clears what it was told.

    The rule in the request stays as it is.
    """
    tenant, history = after(THOUGHT, LONG)
    keep = {"type": "thinking_turns", "value": 1}
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": keep}]}
    body = body_of(dropped(history), context_management=edits)
    want = body_of(history, context_management=edits)
    assert json.loads(tenant.decide(body).body) == json.loads(want)


def test_unsigned_blocks_never_go_to_who_signs() -> None:
    """Where they are usual, they are injected."""
    for settings, outcome in ((dialect_of(), "guarded_form"), (dialect_of(GENERIC), "injected")):
        tenant = Tenant(settings)
        made = tenant.learn([ASK], thought("Hm", ""), LONG)
        assert tenant.outcomes(dropped([ASK, made, GO])) == {outcome: 1}


def test_an_incomplete_turn_gives_nothing() -> None:
    """Its reasoning led to a block that never finished."""
    tenant = Tenant()
    made = tenant.learn([ASK], THOUGHT, LONG, LATE, CALL, reason="max_tokens")
    assert tenant.outcomes(dropped([ASK, made, result(CALL_ID)])) == {"guarded_unfinished": 2}


def test_what_is_not_known_is_counted() -> None:
    """Adjacent messages of which nothing is known count once; a turn without reasoning, never."""
    tenant, history = after(LONG)
    assert tenant.outcomes(history) == {}
    unknown = [assistant(text("Never heard of that before.")), assistant(text("Nor of this."))]
    assert tenant.outcomes([ASK, *unknown, GO]) == {"missed": 1}
    assert tenant.outcomes([ASK, unknown[0], GO, unknown[1], GO]) == {"missed": 2}
    assert Tenant().outcomes([ASK]) == {}


def test_two_turns_that_cannot_be_told_apart() -> None:
    """Neither is used, and it is counted."""
    tenant, short = Tenant(), text("OK")
    for signature in ("Ea==", "Eb=="):
        tenant.learn([user("Hi")], thought("Hm", signature), short)
    assert tenant.outcomes([user("Hi"), assistant(short), GO]) == {"ambiguous": 1}


def test_notes_are_in_the_order_of_their_places() -> None:
    """The summary lists them by message."""
    tenant, history = after(THOUGHT, LONG)
    second = tenant.learn(dropped(history), LATE, CALL)
    history = [*dropped(history), second, result(CALL_ID)]
    history[1] = assistant(LONG)
    made = tenant.learn(history, REDACTED, text("And it is warm in Rome, too."))
    decided = tenant.decide(body_of([*history, *dropped([made]), GO]))
    assert decided.summary is not None
    notes = json.loads(decided.summary.shown)["notes"]
    assert [note[1] for note in notes] == ["injected", "present", "injected"]
    assert [note[0] for note in notes] == sorted(note[0] for note in notes)
    assert notes[0][4] == "thinking.0"


def test_a_lone_surrogate_does_not_move_an_edit() -> None:
    """The offsets are those of the client's body."""
    tenant, history = after(THOUGHT, LONG)
    half = user("half \ud83d")
    decided = tenant.decide(body_of([*dropped(history), half]))
    assert json.loads(decided.body) == json.loads(body_of([*history, half]))
