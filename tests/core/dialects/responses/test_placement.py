"""Placement: where missing reasoning is injected, in which form, and when it is not."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.plan import Outcome

from tests.core.world import (
    Item,
    World,
    answer,
    body,
    call,
    drawn,
    input_of,
    message,
    nameless,
    output,
    reasoning,
    search,
    user,
)

ASK = user("What is the weather in Paris?")
MORE = user("And tomorrow?")
R1, R2, R3 = reasoning("1"), reasoning("2"), reasoning("3")
C1, C2, C3 = call("1"), call("2", tool="get_time"), call("3", tool="get_news")
SAID = message("1", "It is sunny in Paris today.")
WS = search("1")


def world_of(*items: Item, **more: Any) -> World:
    """Return a world that captured one response with these items."""
    world = World()
    world.learn(body([ASK], **more.pop("asked", {})), list(items), **more)
    return world


REF1, REF2 = ({"type": "item_reference", "id": part["id"]} for part in (R1, R2))


# (items emitted by upstream, items sent after the question, items that upstream receives)
PLACES = [
    pytest.param([R1, C1], [C1, output(C1)], [R1, C1, output(C1)], id="one-call"),
    pytest.param([R1, SAID], [SAID, MORE], [R1, SAID, MORE], id="message"),
    pytest.param([R1, R2, C1], [C1], [R1, R2, C1], id="a-run-of-two"),
    pytest.param(
        [R1, C1, C2, C3],
        [C1, C2, C3, output(C1), output(C2), output(C3)],
        [R1, C1, C2, C3, output(C1), output(C2), output(C3)],
        id="parallel",
    ),
    pytest.param(
        [R1, C1, C2],
        [C1, output(C1), C2, output(C2)],
        [R1, C1, output(C1), C2, output(C2)],
        id="parallel-sent-interleaved",
    ),
    pytest.param([R1, WS, R2, SAID], [WS, SAID], [R1, WS, R2, SAID], id="hosted-between"),
    pytest.param([R1, SAID, C1], [SAID, C1], [R1, SAID, C1], id="preamble"),
    pytest.param([C1], [C1, output(C1)], [C1, output(C1)], id="nothing-to-inject"),
    pytest.param([R1, C1], [R1, C1], [R1, C1], id="kept-by-client"),
    pytest.param([R1, R2, C1], [R2, C1], [R1, R2, C1], id="half-kept-first-missing"),
    pytest.param([R1, R2, C1], [R1, C1], [R1, R2, C1], id="half-kept-last-missing"),
    pytest.param([R1, C1, R2, C2], [R1, C1, C2], [R1, C1, R2, C2], id="mixed-history"),
    pytest.param([R1, C1, R2, C2], [R1, R2, C1, C2], [R1, R2, C1, C2], id="kept-in-another-order"),
    pytest.param(
        [R1, C1],
        [{"type": "item_reference", "id": R1["id"]}, C1],
        [{"type": "item_reference", "id": R1["id"]}, C1],
        id="kept-by-reference",
    ),
    pytest.param([R1, R2, C1], [REF2, C1], [R1, REF2, C1], id="half-by-reference-first-missing"),
    pytest.param([R1, R2, C1], [REF1, C1], [REF1, R2, C1], id="half-by-reference-last-missing"),
    pytest.param(
        [R1, R2, R3, C1], [REF2, C1], [R1, REF2, R3, C1], id="middle-by-reference-others-missing"
    ),
    pytest.param(
        [R1, R2, C1],
        [REF2, {"type": "item_reference", "id": C1["id"]}],
        [R1, REF2, {"type": "item_reference", "id": C1["id"]}],
        id="all-by-reference-first-missing",
    ),
    pytest.param([R1, C1], [nameless(R1), C1], [nameless(R1), C1], id="kept-by-blob"),
    pytest.param(
        [R1, C1],
        [{"type": "reasoning", "summary": []}, C1],
        [{"type": "reasoning", "summary": []}, C1],
        id="kept-unidentifiable-in-place",
    ),
]


@pytest.mark.parametrize(("emitted", "sent", "want"), PLACES)
def test_reasoning_is_injected_directly_before_its_follower(
    emitted: list[Item], sent: list[Item], want: list[Item]
) -> None:
    """Upstream receives each reasoning item once, in output order, at its original place."""
    assert world_of(*emitted).seen(body([ASK, *sent])) == [ASK, *want]


# Every item that a model can emit after reasoning, with the keys that the API gives it.
DEEDS: list[Item] = [
    {
        "type": "custom_tool_call",
        "id": f"ctc_{drawn(1)}",
        "call_id": f"call_{drawn('0000001a')}",
        "input": "x",
    },
    {"type": "web_search_call", "id": f"ws_{drawn(1)}", "action": {"type": "search", "query": "x"}},
    {"type": "file_search_call", "id": f"fs_{drawn(1)}", "queries": ["x"], "results": None},
    {"type": "code_interpreter_call", "id": f"ci_{drawn(1)}", "code": "1", "container_id": "c"},
    {"type": "image_generation_call", "id": f"ig_{drawn(1)}", "result": "iVBO"},
    {"type": "mcp_call", "id": f"mcp_{drawn(1)}", "name": "ask", "arguments": "{}"},
    {"type": "mcp_approval_request", "id": f"mcpr_{drawn(1)}", "name": "ask", "arguments": "{}"},
    {
        "type": "shell_call",
        "id": f"sh_{drawn(1)}",
        "call_id": f"call_{drawn('0000001b')}",
        "action": {},
    },
    {
        "type": "local_shell_call",
        "id": f"lsh_{drawn(1)}",
        "call_id": f"call_{drawn('0000001c')}",
        "action": {},
    },
    {"type": "apply_patch_call", "id": f"apc_{drawn(1)}", "call_id": f"call_{drawn('0000001d')}"},
    {
        "type": "computer_call",
        "id": f"cu_{drawn(1)}",
        "call_id": f"call_{drawn('0000001e')}",
        "action": {},
    },
    {"type": "tool_search_call", "id": f"tsc_{drawn(1)}", "call_id": None, "arguments": {"q": 1}},
    {
        "type": "program",
        "id": f"cm_{drawn(1)}",
        "call_id": f"call_{drawn('0000001f')}",
        "code": "f()",
    },
    {"type": "a_new_call", "id": f"anc_{drawn(1)}", "call_id": f"call_{drawn('0000001g')}"},
]


@pytest.mark.parametrize("deed", DEEDS, ids=[deed["type"] for deed in DEEDS])
def test_reasoning_is_injected_before_every_type_of_item(deed: Item) -> None:
    """The follower may be any call, hosted or not, a program, or an item of an unknown type."""
    emitted = {**deed, "status": "completed"}
    assert world_of(R1, emitted).seen(body([ASK, deed, MORE])) == [ASK, R1, deed, MORE]
    if deed.get("call_id"):
        bare = nameless(deed)
        seen = world_of(R1, emitted).seen(body([ASK, bare, MORE], store=False))
        assert seen == [ASK, nameless(R1), bare, MORE]


# (items emitted, `store` of the request, `store` of the response, items sent, items received)
FORMS = [
    pytest.param([R1, C1], False, True, [C1], [R1, C1], id="unstored-with-ids"),
    pytest.param(
        [R1, C1], False, False, [nameless(C1)], [nameless(R1), nameless(C1)], id="unstored-without"
    ),
    pytest.param([R1, C1], None, True, [nameless(C1)], [R1, C1], id="stored-pair-restored"),
    pytest.param(
        [R1, C1],
        None,
        False,
        [nameless(C1)],
        [nameless(R1), nameless(C1)],
        id="not-stored-by-upstream",
    ),
    pytest.param([R1, C1], None, True, [{**C1, "id": None}], [R1, C1], id="null-id-replaced"),
    pytest.param(
        [R1, C1],
        None,
        True,
        [{**C1, "id": "fc_made_up"}],
        [nameless(R1), {**C1, "id": "fc_made_up"}],
        id="made-up-id-left-alone",
    ),
    pytest.param(
        [R1, SAID],
        None,
        True,
        [{"role": "assistant", "content": "It is sunny in Paris today."}],
        [nameless(R1), {"role": "assistant", "content": "It is sunny in Paris today."}],
        id="easy-message-takes-no-id",
    ),
    pytest.param(
        [R1, C1, C2], False, True, [nameless(C1), C2], [R1, C1, C2], id="one-of-two-keeps-its-id"
    ),
    pytest.param(
        [R1, C1, C2], False, True, [C2], [nameless(R1), nameless(C2)], id="first-of-group-dropped"
    ),
    pytest.param(
        [R1, SAID, C1],
        False,
        True,
        [C1, SAID],
        [nameless(R1), nameless(C1), nameless(SAID)],
        id="group-reordered",
    ),
    pytest.param(
        [{**R1, "encrypted_content": None}, C1],
        None,
        True,
        [C1],
        [{**R1, "encrypted_content": None}, C1],
        id="named-only",
    ),
]


@pytest.mark.parametrize(("emitted", "store", "kept", "sent", "want"), FORMS)
def test_ids_stay_together(
    emitted: list[Item], store: bool | None, kept: bool, sent: list[Item], want: list[Item]
) -> None:
    """Reasoning is injected with its id if its group has ids, and otherwise without it."""
    more = {} if store is None else {"store": store}
    seen = world_of(*emitted, store=kept).seen(body([ASK, *sent], **more))

    assert [sorted(item.items(), key=str) for item in seen] == [
        sorted(item.items(), key=str) for item in [ASK, *want]
    ]


def test_readable_reasoning_is_injected_unchanged() -> None:
    """Readable reasoning (DeepSeek, vLLM) is not bound to other ids, so it keeps its own."""
    text = [{"type": "reasoning_text", "text": "The user asks."}]
    said = {"type": "reasoning", "id": "b5a1c9d2-0001", "status": "completed", "content": text}
    sent = body([ASK, nameless(C1)])

    seen = world_of({**said, "summary": []}, C1).seen(sent)

    assert seen[1:] == [
        {key: value for key, value in said.items() if key != "status"} | {"summary": []},
        nameless(C1),
    ]


def test_injected_reasoning_keeps_its_bytes() -> None:
    """Injected bytes are those that upstream wrote, including their spelling and unknown fields."""
    raw = (
        b'{"type" :"reasoning","new":[1.0e0,"\\u00e9"],"status":"completed", "id":"rs_00000001",'
        b'"summary":[ ] , "encrypted_content":"gAAAA\\/x"}'
    )
    world = World()
    asked = read_request(body([ASK]), {})
    capture = ResponsesCapture(Origin(asked.context(), asked.model), 1 << 20)
    whole = answer([], "resp_000000001").replace(b'"output": []', b'"output": [%s,%s]')
    capture.read(whole % (raw, json.dumps(C1).encode()))
    turn = capture.snapshot(1).turn
    assert turn is not None
    world.keep(turn)
    sent = body([ASK, C1])
    anchor = body([C1]).split(b"[")[1].split(b"]")[0]

    got = world.ask(sent)[2].apply(sent)

    went = raw.replace(b'"status":"completed", ', b"")
    assert got == sent.replace(anchor, went + b"," + anchor)


# (items emitted, other fields of both sides, items sent, outcomes, items received)
GUARDS = [
    pytest.param(
        [R1, C1],
        {"asked": {"model": "o4-mini"}, "model": "o4-mini-2025-04-16"},
        [C1, output(C1)],
        {Outcome.GUARDED_MODEL: 1, Outcome.DEGRADED: 1},
        [nameless(C1), output(C1)],
        id="another-model",
    ),
    pytest.param(
        [R1, WS, R2, SAID],
        {"asked": {"model": "o4-mini"}, "model": "o4-mini-2025-04-16"},
        [WS, SAID],
        {Outcome.GUARDED_MODEL: 2, Outcome.DEGRADED: 1},
        [WS, nameless(SAID)],
        id="another-model-id-demanded",
    ),
    pytest.param(
        [R1, {**SAID, "status": "incomplete"}],
        {"status": "incomplete"},
        [SAID, MORE],
        {Outcome.GUARDED_UNFINISHED: 1, Outcome.DEGRADED: 1},
        [nameless(SAID), MORE],
        id="never-finished",
    ),
    pytest.param(
        [{**R1, "encrypted_content": None}, C1],
        {"store": False},
        [C1],
        {Outcome.GUARDED_FORM: 1, Outcome.DEGRADED: 1},
        [nameless(C1)],
        id="no-blob-and-not-stored",
    ),
    pytest.param(
        [{**R1, "encrypted_content": None}, SAID],
        {},
        [{"role": "assistant", "content": "It is sunny in Paris today."}],
        {Outcome.GUARDED_FORM: 1},
        [{"role": "assistant", "content": "It is sunny in Paris today."}],
        id="no-blob-and-no-id",
    ),
    pytest.param(
        [R1, R2, C1],
        {"asked": {"model": "o4-mini"}, "model": "o4-mini"},
        [R1, C1],
        {Outcome.GUARDED_MODEL: 1, Outcome.PRESENT: 1},
        [R1, C1],
        id="half-replayed",
    ),
    pytest.param(
        [R1, WS, SAID],
        {},
        [SAID],
        {Outcome.INJECTED: 1},
        [nameless(R1), nameless(SAID)],
        id="hosted-item-dropped",
    ),
]


@pytest.mark.parametrize(("emitted", "more", "sent", "outcomes", "want"), GUARDS)
def test_items_of_guarded_reasoning_are_degraded(
    emitted: list[Item],
    more: dict[str, Any],
    sent: list[Item],
    outcomes: dict[Outcome, int],
    want: list[Item],
) -> None:
    """Ids that demand guarded reasoning are left out where the API allows it, and are counted."""
    world = world_of(*emitted, **more)
    asked = body([ASK, *sent])

    assert world.seen(asked) == [ASK, *want]
    assert world.ask(asked)[2].outcomes == outcomes


def test_an_alias_and_its_snapshot_are_one_family() -> None:
    """A turn of `gpt-5`, answered by `gpt-5-2025-08-07`, may continue under either name."""
    world = world_of(R1, C1, asked={"model": "gpt-5"}, model="gpt-5-2025-08-07")

    for model in ("gpt-5", "gpt-5-2025-08-07", "openai/gpt-5"):
        assert world.seen(body([ASK, C1], model=model)) == [ASK, R1, C1]


@pytest.mark.parametrize(
    ("model", "sent", "want"),
    [
        pytest.param("gpt-5.6-sol", [C1, output(C1), SAID], {Outcome.MISSED: 2}, id="two-runs"),
        pytest.param("gpt-5.6-sol", [C1, C2, SAID], {Outcome.MISSED: 1}, id="one-run"),
        pytest.param("gpt-5.6-sol", [R1, C1], {}, id="replayed"),
        pytest.param("gpt-4o", [C1], {}, id="does-not-reason"),
        pytest.param("gpt-5.6-sol", [MORE], {}, id="nothing-emitted"),
    ],
)
def test_an_unknown_run_is_counted_as_missed(
    model: str, sent: list[Item], want: dict[Outcome, int]
) -> None:
    """A run of emitted items without reasoning that was never captured is one miss."""
    assert World().ask(body([ASK, *sent], model=model))[2].outcomes == want


def test_two_items_may_share_one_id() -> None:
    """Two reasoning items with one id (xAI) are distinguished by their blobs."""
    twin = {**R2, "id": R1["id"]}
    world = world_of(R1, WS, twin, SAID)

    assert world.seen(body([ASK, WS, SAID])) == [ASK, R1, WS, twin, SAID]
    assert world.seen(body([ASK, WS, twin, SAID])) == [ASK, R1, WS, twin, SAID]
    assert world.seen(body([ASK, R1, WS, SAID])) == [ASK, R1, WS, twin, SAID]


def test_a_plan_without_edits_returns_the_same_object() -> None:
    """If nothing is injected, the body is not copied."""
    sent = body([ASK])

    assert World().ask(sent)[2].apply(sent) is sent


def test_reasoning_in_another_place_is_not_an_anchor() -> None:
    """Missing reasoning is injected at its anchor, not next to a sibling that the client moved."""
    sent = [R2, user("earlier"), ASK, C1]

    assert world_of(R1, R2, C1).seen(body(sent)) == [R2, user("earlier"), ASK, R1, C1]


def test_a_rewritten_message_before_a_matched_call_is_matched() -> None:
    """If a call is certainly matched, the other items in its response's order are matched too."""
    unknown = {**SAID, "id": "msg_made_up", "content": "Something else."}
    nameless_thought = {"type": "reasoning", "summary": []}
    sent = body([ASK, unknown, nameless_thought, nameless(C1)])

    _, _, decided = world_of(R1, R2, SAID, C1).ask(sent)

    assert decided.outcomes == {Outcome.PRESENT: 1, Outcome.INJECTED: 1}


def test_a_run_after_an_unknown_item_of_its_group_is_not_injected() -> None:
    """The run may belong before the unknown item, so its place is not known."""
    unknown = [{**SAID, "id": f"msg_made_up_{n}", "content": "Something else."} for n in "ab"]
    sent = body([ASK, *unknown, reasoning("9"), nameless(C1)])

    _, _, decided = world_of(R1, R2, SAID, C1).ask(sent)

    assert decided.outcomes == {Outcome.PRESENT: 1, Outcome.GUARDED_FORM: 1, Outcome.MISSED: 1}
    assert decided.edits == ()


def test_a_replayed_unfinished_turn_is_not_edited() -> None:
    """The client chose to send the reasoning of an interrupted response, so the proxy keeps it."""
    half = {**SAID, "status": "incomplete"}
    sent = body([ASK, R1, half, user("go on")])

    decided = world_of(R1, half, status="incomplete").ask(sent)[2]

    assert decided.apply(sent) is sent


@pytest.mark.parametrize(
    "replayed",
    [{"type": "item_reference", "id": R2["id"]}, nameless(R2)],
    ids=["by-reference", "by-value"],
)
def test_nothing_is_injected_next_to_replayed_reasoning(replayed: Item) -> None:
    """Reasoning before an item counts as the reasoning of that item, even if it is unknown."""
    sent = body([ASK, replayed, nameless(C1), user("go on")])

    _, _, decided = world_of(R1, C1).ask(sent)

    assert decided.apply(sent) is sent
    assert decided.outcomes == {Outcome.PRESENT: 1}


def test_many_reasoning_items_without_ids_cost_linear_time() -> None:
    """Twenty thousand items are scanned once, not once for each item."""
    sent = body([{"type": "reasoning"}] * 20_000)

    assert World().ask(sent)[2].edits == ()


def odd(sent: bytes) -> bytes:
    """Return a body in which the call has one key twice."""
    return sent.replace(
        b'"name" : "get_weather"', b'"name" : "get_weather" , "name" : "get_weather"'
    )


def test_an_id_that_cannot_be_removed_stays() -> None:
    """Reasoning of another model is not injected, and the item is not degraded either."""
    world = World()
    world.learn(body([ASK], model="o4-mini"), [R1, C1], model="o4-mini")
    sent = odd(body([ASK, C1, output(C1)]))

    decided = world.ask(sent)[2]

    assert decided.apply(sent) is sent
    assert decided.outcomes == {Outcome.GUARDED_MODEL: 1}


def test_an_id_that_cannot_be_added_is_left_out() -> None:
    """The reasoning is then injected by value, without its id."""
    world = World()
    world.learn(body([ASK]), [R1, C1])
    bare = {key: value for key, value in C1.items() if key != "id"}
    sent = odd(body([ASK, bare, output(C1)]))

    got = world.ask(sent)[2].apply(sent)

    thought = {key: value for key, value in R1.items() if key != "id"}
    assert input_of(got) == [ASK, thought, bare, output(C1)]
    assert got == sent.replace(
        b'{"type" : "function_call" ',
        json.dumps(thought).encode() + b',{"type" : "function_call" ',
        1,
    )
