"""The judge of the recordings accepts what may be added, and names everything else."""

import json

import pytest

from tests.recordings.client import Take, Variant, take
from tests.recordings.judge import Result, Rule, judge
from tests.recordings.tape import Emitted, Exchange, Json, Recording

ASK: Json = {"role": "user", "content": "Weather?"}
CALL: Json = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "weather"}
DONE: Json = {"type": "function_call_output", "call_id": "call_a", "output": "Sun."}
THOUGHT: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gDONE"}
OTHER: Json = {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "gNINE"}
FORGED: Json = {**THOUGHT, "encrypted_content": "gFORGED"}
BARE: Json = {"type": "reasoning", "summary": [], "encrypted_content": "gDONE"}
BARE_CALL: Json = {name: value for name, value in CALL.items() if name != "id"}


def wire(*items: Json, store: bool = False, include: list[str] | None = None) -> bytes:
    """Write a request with odd spacing, so that a re-encoded one differs."""
    rest = json.dumps({"store": store} | ({} if include is None else {"include": include}))[1:]
    inputs = " ,\n".join(json.dumps(item) for item in items)
    return ('{ "model":"gpt-5", "input": [' + inputs + " ], " + rest).encode()


def taken(
    *recorded: Json,
    variant: Variant = Variant.IDS_KEPT,
    store: bool = False,
    include: list[str] | None = None,
) -> Take:
    """Record a call, then a request that replays it, and return how a client plays the latter."""
    emitted = (
        Emitted((1, 0), THOUGHT, frozenset({"gADDED", "gDONE"})),
        Emitted((1, 1), {**CALL, "status": "completed"}),
    )
    at = next(n for n, item in enumerate(recorded) if item.get("type") == "function_call")
    body = wire(*recorded, store=store, include=include)
    second = Exchange("tape", 2, "", "", body, {}, 200, "", "", b"", (), {at: (1, 1)})
    recording = Recording("tape", "oracle", "openai", (second,), {one.key: one for one in emitted})
    return take(recording, second, variant)


def test_the_client_drops_reasoning_and_no_other_byte() -> None:
    """What a client sends is the recorded request less its reasoning, spacing kept."""
    assert taken(ASK, THOUGHT, CALL, DONE).body == wire(ASK, CALL, DONE)


def test_the_client_may_drop_ids_and_the_head() -> None:
    """Dropped ids and a cut head leave all other bytes as they were recorded."""
    sent = taken(ASK, THOUGHT, CALL, DONE, variant=Variant.HEAD_CUT_IDS_DROPPED).body

    assert json.loads(sent)["input"] == [BARE_CALL, DONE]


@pytest.mark.parametrize(
    ("arrived", "result"),
    [
        pytest.param([ASK, THOUGHT, CALL, DONE], Result.RESTORED, id="with both ids"),
        pytest.param([ASK, BARE, BARE_CALL, DONE], Result.RESTORED, id="with neither id"),
        pytest.param([ASK, CALL, DONE], Result.UNTOUCHED, id="nothing added"),
        pytest.param([ASK, BARE_CALL, DONE], Result.UNTOUCHED, id="id left out"),
        pytest.param([ASK, CALL, THOUGHT, DONE], Result.WRONG, id="too late"),
        pytest.param([THOUGHT, ASK, CALL, DONE], Result.WRONG, id="too early"),
        pytest.param([ASK, THOUGHT, THOUGHT, CALL, DONE], Result.WRONG, id="twice"),
        pytest.param([ASK, CALL, DONE, THOUGHT], Result.WRONG, id="at the end"),
        pytest.param([ASK, OTHER, CALL, DONE], Result.WRONG, id="of another conversation"),
        pytest.param([ASK, THOUGHT, OTHER, CALL, DONE], Result.WRONG, id="one too many"),
        pytest.param([ASK, FORGED, CALL, DONE], Result.WRONG, id="a blob of nobody's"),
        pytest.param([ASK, THOUGHT, BARE_CALL, DONE], Result.WRONG, id="half a pair of ids"),
        pytest.param([ASK, BARE, CALL, DONE], Result.WRONG, id="the other half"),
        pytest.param([ASK, {**THOUGHT, "summary": 1}, CALL, DONE], Result.WRONG, id="changed"),
        pytest.param([ASK, THOUGHT, {**CALL, "id": "fc_2"}, DONE], Result.WRONG, id="made-up id"),
        pytest.param([ASK, THOUGHT, CALL], Result.WRONG, id="an item lost"),
        pytest.param([DONE, ASK, CALL], Result.WRONG, id="another order"),
        pytest.param([ASK, ASK, CALL, DONE], Result.WRONG, id="an item more"),
    ],
)
def test_judges_what_arrived(arrived: list[Json], result: Result) -> None:
    """Restored is the recorded input, wrong is all that a proxy must never do."""
    assert judge(taken(ASK, THOUGHT, CALL, DONE), wire(*arrived)).result is result


def test_a_restored_id_is_upstreams() -> None:
    """An id that the client dropped may come back, but only as it was emitted."""
    this = taken(ASK, THOUGHT, CALL, DONE, variant=Variant.IDS_DROPPED)
    given_back = {"id": "fc_1", **BARE_CALL}

    assert judge(this, wire(ASK, THOUGHT, given_back, DONE)).result is Result.RESTORED
    assert judge(this, wire(ASK, THOUGHT, {**given_back, "id": "fc_2"}, DONE)).wrong


def test_what_the_recorded_client_dropped_itself_is_wanted_too() -> None:
    """A recorded input without reasoning lacks what its answers emitted."""
    this = taken(ASK, CALL, DONE, variant=Variant.AS_RECORDED)

    assert judge(this, wire(ASK, THOUGHT, CALL, DONE)).result is Result.RESTORED
    assert judge(this, wire(ASK, CALL, DONE)).result is Result.UNTOUCHED


@pytest.mark.parametrize("before", [None, ["a"], []])
def test_include_may_grow_by_one_value(before: list[str] | None) -> None:
    """One value more in include is no fault, wherever include stands."""
    this = taken(ASK, THOUGHT, CALL, DONE, include=before)
    grown = [*(before or []), "reasoning.encrypted_content"]

    verdict = judge(this, wire(ASK, THOUGHT, CALL, DONE, include=grown))

    assert (verdict.result, verdict.has_include) == (Result.RESTORED, True)


@pytest.mark.parametrize(
    "arrived",
    [
        pytest.param(wire(ASK, CALL, DONE, store=True), id="a field changed"),
        pytest.param(wire(ASK, CALL, DONE).replace(b"{ ", b"{"), id="a space lost"),
        pytest.param(wire(ASK, CALL, DONE, include=["x"]), id="another include"),
        pytest.param(wire(ASK, CALL, DONE)[:-9], id="cut short"),
    ],
)
def test_all_other_bytes_are_the_clients(arrived: bytes) -> None:
    """Anything else that differs, be it a space, is a fault."""
    assert judge(taken(ASK, THOUGHT, CALL, DONE), arrived).result is Result.WRONG


@pytest.mark.parametrize(
    ("ids", "stores", "right"),
    [
        pytest.param("together", False, [True, False, False, True], id="together"),
        pytest.param("kept", False, [True, False, False, False], id="kept"),
        pytest.param("dropped", False, [False, False, False, True], id="dropped"),
        pytest.param("required", False, [True, True, False, False], id="required"),
        pytest.param("required", True, [True, False, False, False], id="required-stored"),
    ],
)
def test_ids_travel_by_the_rule(ids: str, stores: bool, right: list[bool]) -> None:
    """Of the four ways that a pair can arrive, those are right which the upstream takes."""
    this = taken(ASK, THOUGHT, CALL, DONE, store=stores)
    pairs = [(THOUGHT, CALL), (THOUGHT, BARE_CALL), (BARE, CALL), (BARE, BARE_CALL)]
    arrived = [wire(ASK, *pair, DONE, store=stores) for pair in pairs]

    assert [not judge(this, body, Rule(ids)).wrong for body in arrived] == right


@pytest.mark.parametrize(
    ("ids", "is_right"),
    [("together", False), ("kept", True), ("dropped", False), ("required", True)],
)
def test_a_call_without_its_id_may_stay_so(ids: str, is_right: bool) -> None:
    """Reasoning with its id ahead of a call without: not every upstream takes that."""
    this = taken(ASK, THOUGHT, CALL, DONE, variant=Variant.IDS_DROPPED)
    at = this.body.index(b'{"type": "function_call"')
    arrived = this.body[:at] + json.dumps(THOUGHT).encode() + b"," + this.body[at:]

    assert judge(this, arrived, Rule(ids)).result is (Result.RESTORED if is_right else Result.WRONG)


def test_include_may_grow_wherever_nothing_is_kept() -> None:
    """Whatever the request says about `store`."""
    this = taken(ASK, THOUGHT, CALL, DONE, store=True)
    grown = wire(ASK, THOUGHT, CALL, DONE, store=True, include=["reasoning.encrypted_content"])

    assert judge(this, grown, Rule(keeps_items=False)).result is Result.RESTORED
    assert judge(this, grown).wrong


@pytest.mark.parametrize(
    ("said", "is_needed"),
    [
        ({"role": "assistant", "content": "Hi."}, True),
        ({"role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}, True),
        ({"type": "message", "role": "assistant", "content": "Hi."}, True),
        ({"type": "message", "role": "assistant", "content": []}, False),
        ({"id": "msg_1", "role": "assistant", "content": "Hi."}, False),
        (ASK, False),
    ],
)
def test_include_may_grow_where_an_item_can_have_no_id(
    said: dict[str, object], *, is_needed: bool
) -> None:
    """A message of the model in the easy form goes by the blob alone."""
    this = taken(ASK, THOUGHT, CALL, DONE, said, store=True)
    grown = wire(
        ASK, THOUGHT, CALL, DONE, said, store=True, include=["reasoning.encrypted_content"]
    )

    assert bool(judge(this, grown).wrong) is not is_needed
