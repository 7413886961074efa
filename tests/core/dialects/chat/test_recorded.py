"""Recorded conversations: the dialect injects what their clients once sent themselves."""

import pytest

from tests.core.dialects.chat.recorded import folders, replay

IN_CONTENT = "its reasoning is a part of `content`"
FAILED = "the response ended with an error, so it is no turn"
LOST = "the client lost the first word, which the dialect has"
# Start of a recording's name -> why a message of it does not get what the client sent.
NOT_THE_SAME = {
    "004-oc-mistral": IN_CONTENT,
    "010-pydantic-ai-test_huggingface": IN_CONTENT,
    "039-ruby_llm": IN_CONTENT,
    "047-ruby_llm": IN_CONTENT,
    "008-pydantic-ai-test_groq": FAILED,
    "009-pydantic-ai-test_groq": FAILED,
    "073-fantasy-glm": LOST,
    "075-fantasy-glm": LOST,
    "083-fantasy-kimi": LOST,
}


def test_oracles_get_their_reasoning_back() -> None:
    """Each message gets all of it, and nothing else; the exceptions have a reason."""
    found = folders("oracle")
    if not found:
        pytest.skip("no recordings in ../shared/recorded, and REPLAY_TEST_RECORDED names none")
    total = 0
    for folder in found:
        due, lacks = replay(folder)
        total += due
        why = next(
            (NOT_THE_SAME[start] for start in NOT_THE_SAME if folder.name.startswith(start)), ""
        )
        assert bool(lacks) is bool(why), (folder.name, lacks)
        if why == LOST:
            (lack,) = lacks
            assert [*lack.added] == [f"The {text}" for text in lack.lacking]
        else:
            assert not any(lack.added for lack in lacks)
    assert total > len(found)


def test_other_recordings_break_nothing() -> None:
    """A client that dropped its reasoning gets that of its own conversation."""
    found = [*folders("dropped"), *folders("foreign"), *folders("error")]
    if not found:
        pytest.skip("no recordings in ../shared/recorded, and REPLAY_TEST_RECORDED names none")
    added = 0
    for folder in found:
        _, lacks = replay(folder)
        added += sum(bool(lack.added) for lack in lacks)
    assert added
