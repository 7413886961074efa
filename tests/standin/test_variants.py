"""Scripted loops: each plays as written, with and without reasoning, and can be played again."""

from typing import Unpack, get_args

import msgspec
import pytest

from tests.standin.mint import Ids, Mint
from tests.standin.shapes import FunctionCall, InputItem, Message, Tool
from tests.standin.variants import LOOPS, Cue, Variant, cue, perform, progress, script
from tests.standin.world import ASK, Item, More, World, answers, as_input, without

VARIANTS: tuple[Variant, ...] = get_args(Variant)
NAMES = {
    "reasoning": "R",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "web_search_call": "ws",
}


def line_of(output: list[Item]) -> str:
    """Write a response in the notation of the loops."""
    return " ".join(_letter(item) for item in output)


def _letter(item: Item) -> str:
    if item["type"] != "message":
        return NAMES[item["type"]]
    return "A" if any(part["text"] for part in item["content"]) else "E" if item["content"] else "N"


def play(world: World, variant: Variant, items: list[Item], **more: Unpack[More]) -> list[str]:
    """Replay everything until the loop ends; `items` grows by the history."""
    lines = []
    for _ in range(6):
        _, output = world.emit(variant, items, **more)
        lines.append(line_of(output))
        items += as_input(output)
        if not answers(output):
            return lines
    return lines


def test_every_variant_has_its_loop() -> None:
    """The type `Variant` and the table of loops have the same names."""
    assert set(VARIANTS) == set(LOOPS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_loop_is_played_to_its_end_and_again(variant: Variant) -> None:
    """Each line is one response; a new user message restarts the loop."""
    world = World()
    items: list[Item] = [ASK]

    assert play(world, variant, items) == list(LOOPS[variant])
    items.append({"role": "user", "content": "And tomorrow?"})
    assert play(world, variant, items) == list(LOOPS[variant])


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_without_reasoning_plays_the_same_without_it(variant: Variant) -> None:
    """gpt-4o responds with the same calls and messages."""
    expected = [line.replace("R ", "") for line in LOOPS[variant]]

    assert play(World(), variant, [ASK], model="gpt-4o") == expected


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_loop_continues_with_new_items_only(variant: Variant) -> None:
    """With `previous_response_id` the loop is the same as with the whole history."""
    world = World()
    turn, output = world.emit(variant)
    lines = [line_of(output)]
    while new := answers(output):
        turn, output = world.emit(variant, new, previous_response_id=turn.answer.id)
        lines.append(line_of(output))

    assert lines == list(LOOPS[variant])


def test_call_ids_are_unique_save_in_call_zero() -> None:
    """Some providers use `call_0` in every response; all other loops have unique call ids."""
    world = World()
    chain: list[Item] = [ASK]
    zero: list[Item] = [ASK]
    play(world, "chain", chain)
    play(world, "call_zero", zero)

    def call_ids(items: list[Item]) -> list[str]:
        return [item["call_id"] for item in items if item.get("type") == "function_call"]

    assert len(set(call_ids(chain))) == 3
    assert call_ids(zero) == ["call_0"] * 3


def test_replayed_ids_keep_the_lineage() -> None:
    """Ids keep their lineage while the client replays them; without them it is a new one."""
    world = World()
    first, output = world.emit()
    items = [ASK, *as_input(output)]
    second, _ = world.emit(items=items)
    third, _ = world.emit(items=[without(item, "id") for item in items])

    assert first.answer.id[:21] == second.answer.id[:21]
    assert first.answer.id[:21] != third.answer.id[:21]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ([], 0),
        (["user"], 0),
        (["user", "function_call", "function_call_output"], 1),
        (["user", "custom_tool_call_output", "function_call_output"], 2),
        (["user", "function_call_output", "user"], 0),
        (["function_call_output"], 1),
    ],
)
def test_progress_counts_outputs_since_the_last_question(line: list[str], count: int) -> None:
    """The position in a loop is computed from the request alone."""
    items = [InputItem(role="user") if kind == "user" else InputItem(type=kind) for kind in line]

    assert progress(items) == count


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("answered", range(12))
def test_there_is_always_a_next_response(variant: Variant, answered: int) -> None:
    """For any number of outputs, the next response is a line of the loop."""
    assert " ".join(script(variant, answered)) in LOOPS[variant]


SCHEMA = msgspec.Raw(
    b'{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},'
    b'"exact":{"type":"boolean"},"unit":{"type":["string","null"]},"more":{"type":"object"}}}'
)


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        (
            SCHEMA,
            {
                "city": "tea, round 1, step 1",
                "days": 1,
                "exact": True,
                "unit": "tea, round 1, step 1",
                "more": None,
            },
        ),
        (msgspec.Raw(b"null"), {"query": "tea, round 1, step 1"}),
        (msgspec.Raw(b'{"properties":7}'), {"query": "tea, round 1, step 1"}),
    ],
)
def test_calls_fit_the_declared_tool(parameters: msgspec.Raw, arguments: dict[str, object]) -> None:
    """A call has the name of a declared tool, and each argument has a value of its type."""
    tools = [Tool("web_search"), Tool("function", "get_weather", parameters)]
    given = cue([InputItem(role="user", content="tea")], tools)

    call = perform("one_call", given, Ids(Mint(b""), "0" * 16, 0), reasons=False)[0]

    assert isinstance(call, FunctionCall)
    assert call.name == "get_weather"
    assert msgspec.json.decode(call.arguments) == arguments


def test_a_preamble_is_commentary_and_an_answer_is_final() -> None:
    """`phase` marks a message before calls as commentary, and the last one as final."""
    cue_ = Cue(answered=0, round=1, topic="tea")
    ids = Ids(Mint(b""), "0" * 16, 0)

    def phases(variant: Variant) -> list[str]:
        items = perform(variant, cue_, ids, reasons=True)
        return [item.phase for item in items if isinstance(item, Message)]

    assert phases("preamble") == ["commentary"]
    assert phases("message") == ["final_answer"]
