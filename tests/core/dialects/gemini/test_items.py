"""Items: the parts of a content, equal for all forms that clients give them."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.gemini.items import CALL, MESSAGE, OUTPUT, read_content
from reasoning_replay.core.dialects.gemini.parts import read_part
from reasoning_replay.core.history.items import Role

from tests.core.dialects.gemini.contents import SIG, Content, Part, call, model, output, said, user


def read(content: Any) -> list[Any]:
    """Return the items of a content."""
    raw = json.dumps(content).encode()
    return read_content(raw, 0, len(raw))


def content_of(*parts: Part) -> list[bytes]:
    """Return what the items of a model's content say."""
    return [item.content for item in read(model(*parts))]


def test_the_items_of_a_model_are_its_parts() -> None:
    """Texts that follow each other are one; thoughts and bare signatures are none."""
    parts = [
        said("Hm", thought=True),
        said("One "),
        said("two", thought=True, thoughtSignature=SIG),
        said("three"),
        call(call_id="k3f9x2ab"),
        {"thoughtSignature": SIG},
        said(" \n"),
        {"inlineData": {"mimeType": "image/png", "data": "aaaa"}},
        said("four"),
    ]
    raw = json.dumps(model(*parts)).encode()
    items = read_content(raw, 100, 100 + len(raw))

    kinds = [(item.type, item.role, item.numbers) for item in items]
    assert kinds == [
        (MESSAGE, Role.MODEL, (1, 3)),
        (CALL, Role.MODEL, (4,)),
        ("inlineData", Role.MODEL, (7,)),
        (MESSAGE, Role.MODEL, (8,)),
    ]
    for item in items:
        assert raw[item.start - 100 : item.end - 100] == item.raw
        assert item.is_anchor
        assert item.id == ""
    assert json.loads(items[1].raw) == parts[4]
    assert (items[0].words, items[1].call_id, items[1].name) == (
        "One three",
        "k3f9x2ab",
        "get_weather",
    )
    assert [item.chars for item in items] == [9, 9, 13, 4]


def test_the_items_of_a_client_are_its_parts() -> None:
    """Outputs of tools are of their own type; any role but the model's is the client's."""
    parts = [*user("Hi", {"fileData": {"fileUri": "gs://x"}})["parts"], *output()["parts"]]
    items = read({"role": "function", "parts": parts})

    assert [(item.type, item.role) for item in items] == [
        (MESSAGE, Role.CLIENT),
        (MESSAGE, Role.CLIENT),
        (OUTPUT, Role.CLIENT),
    ]
    assert not any(item.is_anchor for item in items)
    assert [item.chars for item in items] == [2, 0, 5]
    assert len({item.said for item in items}) == 3
    assert items[2].said == read(output(call_id="other1234"))[0].said
    assert items[0].said == read(user("Hi "))[0].said
    assert read({"parts": {"text": "Hi"}})[0].said == items[0].said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([said("One two")], [said("One "), said("two")]),
        ([call()], [call(thoughtSignature=SIG, call_id="k3f9x2ab")]),
        ([call()], [{"function_call": {"args": {"city": "Paris"}, "name": "get_weather"}}]),
        (
            [{"functionCall": {"name": "f", "args": {"n": 1.0}}}],
            [{"functionCall": {"name": "f", "args": {"n": 1}}}],
        ),
        (
            [{"functionCall": {"name": "f"}}],
            [{"functionCall": {"name": "f", "args": {}}, "text": None}],
        ),
        (
            [{"toolCall": {"toolType": "S", "args": {"q": 1}, "id": "a"}}],
            [{"tool_call": {"args": {"q": 1}, "tool_type": "S", "id": None}}],
        ),
    ],
)
def test_forms_that_say_the_same_are_equal(one: list[Part], other: list[Part]) -> None:
    """Pieces, spelling of names and numbers, order, ids and signatures make no difference."""
    assert content_of(*one) == content_of(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([said("One")], [said("Two")]),
        ([call("Paris")], [call("Rome")]),
        (
            [{"executableCode": {"language": "PYTHON", "code": "1"}}],
            [{"executableCode": {"language": "PYTHON", "code": "2"}}],
        ),
    ],
)
def test_forms_that_differ_are_not(one: list[Part], other: list[Part]) -> None:
    """Another text, argument or code is another content."""
    assert content_of(*one) != content_of(*other)


def test_ids_that_gateways_make_are_not_taken_for_random() -> None:
    """They hold the signature of a call, and are the client's own."""
    (item,) = read(model(call(call_id="call_8d1f0c2e9b7a__thought__EpwCCpkC")))
    assert item.call_id == ""


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (5, 1),
        ({"role": "model", "parts": 5}, 0),
        ({"role": "model", "parts": {"text": "one"}}, 0),
        ({"role": "model"}, 0),
        ({"role": "user"}, 0),
        ({"role": "model", "parts": [5, "x", None, {}, {"text": 5}]}, 1),
        ({"role": "user", "parts": [5]}, 1),
    ],
)
def test_unknown_shapes_never_fail(content: Content, count: int) -> None:
    """A content that cannot be read is one item of the client, or none."""
    assert len(read(content)) == count


def test_a_content_that_repeats_a_member_is_one_item() -> None:
    """Readers disagree on it."""
    (item,) = read_content(b'{"role":"model","role":"user","parts":[]}', 0, 41)
    assert (item.type, item.role) == ("", Role.CLIENT)


def test_a_signature_has_either_spelling_and_a_value() -> None:
    """An empty one is none."""
    assert read_part(b'{"text":"a","thought_signature":"Eg=="}').signed == "thought_signature"
    assert read_part(b'{"text":"a","thoughtSignature":""}').signed == ""
    assert read_part(b'{"text":"a","thoughtSignature":null}').signed == ""
    assert read_part(b'{"text":"a","thoughtSignature":5}').signed == ""
