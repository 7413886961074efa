"""Rewritten text: clients that normalise text get their reasoning, and keep their own text."""

from typing import Any

import pytest

from tests.web.wire import CALL, MESSAGE, NEXT, RESULT, RS, as_json, response, whole
from tests.web.world import World, world

LINK = "([met.no](https://www.met.no/?utm_source=openai))"

# (the question, the response, the client's copy of the question, its copy of the response)
REWRITTEN = [
    pytest.param("What’s up?", "It’s “fine”.", "What's up?", 'It\'s "fine".', id="quotes"),  # noqa: RUF001
    pytest.param("Oslo – rain?", "No — snow…", "Oslo - rain?", "No - snow...", id="dashes"),  # noqa: RUF001
    pytest.param("Caf\u00e9?", "Caf\u00e9!", "Cafe\u0301?", "Cafe\u0301!", id="unicode-form"),
    pytest.param("7\u00a0°C?", "7\u202f°C\u200b", "7 °C? ", "7 °C", id="white-space"),
    pytest.param("a < b?", "a < b && c", "a &lt; b?", "a &lt; b &amp;&amp; c", id="html-escapes"),
    pytest.param("Rain?", f"Snow. {LINK}", "Rain?", "Snow.", id="web-citation"),
    pytest.param("Rain?", "Snow.【4:0†source】", "Rain?", "Snow.", id="file-citation"),
    pytest.param("Rain?", "Snow. \ue200cite\ue202turn0search0\ue201", "Rain?", "Snow.", id="span"),
]


def asked(text: str) -> dict[str, object]:
    """Return a user message."""
    return {"role": "user", "content": text}


def told(*parts: dict[str, object]) -> dict[str, object]:
    """Return an assistant message without an id."""
    return {"type": "message", "role": "assistant", "content": list(parts)}


def words(text: str) -> dict[str, object]:
    """Return a text part of a message."""
    return {"type": "output_text", "text": text}


def refusal(text: str) -> dict[str, object]:
    """Return a refusal part of a message."""
    return {"type": "refusal", "refusal": text}


async def learn(w: World, asked_for: dict[str, object], said: dict[str, object]) -> None:
    """Let the proxy capture one response."""
    w.upstream.answers(whole(as_json(response(RS, MESSAGE | {"content": [said]}))))
    w.upstream.otherwise = whole(b"{}")
    await w.turn(asked_for, store=False)


@pytest.mark.parametrize(("question", "answer", "kept_question", "kept_answer"), REWRITTEN)
async def test_a_normalised_text_is_matched(
    store: dict[str, Any], question: str, answer: str, kept_question: str, kept_answer: str
) -> None:
    """
    A text that the client normalised is matched.

    Short texts match only after the same history, so the texts of both sides are normalised.
    """
    kept = [asked(kept_question), told(words(kept_answer)), NEXT]
    async with world(**store) as w:
        await learn(w, asked(question), words(answer))
        assert (await w.turn(*kept, store=False)).mark == "injected=1"
        [first, thought, *rest] = w.sent()["input"]
    assert [first, *rest] == kept
    assert thought["encrypted_content"] == RS["encrypted_content"]


async def test_a_refusal_without_an_id_is_matched(store: dict[str, Any]) -> None:
    """A refusal part matches a refusal only; the same words as text are another message."""
    rain = asked("Rain?")
    async with world(**store) as w:
        await learn(w, rain, refusal("I can’t say."))  # noqa: RUF001
        for said, injected in [(refusal("I can't say."), 1), (words("I can't say."), 0)]:
            answer = await w.turn(rain, told(said), NEXT, store=False)
            assert (answer.mark or "").startswith(f"injected={injected}")
        refused_once = w.sent(-2)["input"]
    assert refused_once[1]["encrypted_content"] == RS["encrypted_content"]


@pytest.mark.parametrize(
    ("one", "other", "mark"),
    [
        ("gpt-5", "openai/gpt-5:nitro", "injected=1"),
        ("openai/gpt-5:online", "gpt-5", "injected=1"),
        ("gpt-oss:20b", "gpt-oss:120b", "injected=0, guarded_model=1, degraded=1"),
    ],
)
async def test_a_routers_suffix_is_the_same_model(
    store: dict[str, Any], one: str, other: str, mark: str
) -> None:
    """A router's suffix is the same model, while a tag with another size is another model."""
    rain = asked("Rain?")
    async with world(**store) as w:
        w.upstream.answers(whole(as_json(response(RS, CALL, model=one))))
        w.upstream.otherwise = whole(b"{}")
        await w.turn(rain, model=one, store=False)
        answer = await w.turn(rain, CALL, RESULT, model=other, store=False)
        assert answer.mark == mark
        assert w.sent()["model"] == other
