"""Adapter of Anthropic Messages: what counts as an addition, and what as a changed message."""

import pytest

from tests.recordings.atoms.adapter import Altered, Atom
from tests.recordings.atoms.messages import Messages

THOUGHT = '{"type":"thinking","thinking":"Hm","signature":"Eg=="}'
OPAQUE = '{"type":"redacted_thinking","data":"Em=="}'
TEXT = '{"type":"text","text":"Hi"}'
CALL = '{"type":"tool_use","id":"toolu_1","name":"add","input":{}}'
ADAPTER = Messages()


def said(*blocks: str) -> str:
    """Return an assistant's message."""
    return f'{{"role":"assistant","content":[{",".join(blocks)}]}}'


STRING = '{"role":"assistant","content":"Hi"}'


@pytest.mark.parametrize(
    ("sent", "got", "places"),
    [
        (said(TEXT, CALL), said(THOUGHT, TEXT, CALL), ["after 0", "after 0"]),
        (said(TEXT, CALL), said(TEXT, OPAQUE, CALL), ["after 1"]),
        (said(TEXT, CALL), said(OPAQUE, TEXT, OPAQUE, CALL), ["after 0", "after 1"]),
        (STRING, said(THOUGHT, TEXT), ["after 0", "after 0"]),
    ],
)
def test_added_blocks_are_found(sent: str, got: str, places: list[str]) -> None:
    """Each has its place and its bytes."""
    added = ADAPTER.additions(sent, got)
    assert [atom.place for one in added for atom in one.atoms] == places
    assert all(one.raw in (THOUGHT, OPAQUE) for one in added)


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        (said(TEXT, CALL), said(THOUGHT, CALL, TEXT)),
        (said(TEXT, CALL), said(THOUGHT, TEXT)),
        (said(TEXT), said(THOUGHT, TEXT, CALL)),
        (said(TEXT), said(THOUGHT, TEXT).replace(",", ", ", 1)),
        (STRING, said(THOUGHT, TEXT.replace("Hi", "Ho"))),
        (STRING, said(THOUGHT, TEXT, CALL)),
        (STRING, STRING.replace("Hi", "Ho")),
    ],
)
def test_any_other_change_is_an_alteration(sent: str, got: str) -> None:
    """Only reasoning may be added; all other bytes are the client's."""
    with pytest.raises(Altered):
        ADAPTER.additions(sent, got)


@pytest.mark.parametrize(
    ("model", "binds"),
    [
        ("claude-opus-5-5", True),
        ("anthropic.claude-fable-5-1-v1:0", True),
        ("claude-opus-5-20260901", False),
        ("claude-sonnet-4-6", False),
    ],
)
def test_newer_models_bind_reasoning_to_its_history(model: str, binds: bool) -> None:
    """The check began with 5.1."""
    assert ADAPTER.binds(f'{{"model":"{model}","messages":[]}}') is binds


def test_reasoning_is_taken_out_of_a_message() -> None:
    """Only blocks that hold these atoms alone."""
    whole = said(THOUGHT, TEXT, OPAQUE, CALL)
    atoms = ADAPTER.said(whole).atoms
    assert [atom.field for atom in atoms] == ["thinking", "signature", "data"]
    assert ADAPTER.without(whole, atoms) == said(TEXT, CALL)
    assert ADAPTER.without(whole, atoms[2:]) == said(THOUGHT, TEXT, CALL)
    assert ADAPTER.without(whole, [Atom("after 0", "thinking", "Hm", is_text=True)]) == whole
    assert ADAPTER.without(STRING, atoms) == STRING
