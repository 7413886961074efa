"""Recordings of Chat Completions: they can be stripped and matched, before any proxy."""

from collections.abc import Iterator

import pytest

from tests.recordings.adapter import Role, Said, emitted_as
from tests.recordings.chat import Chat
from tests.recordings.client import Take, Variant, take
from tests.recordings.reasons import Known, reason_of, twin_of
from tests.recordings.runner import mix
from tests.recordings.tape import load

pytestmark = pytest.mark.usefixtures("recordings")

CHAT = Chat()
KNOWN = Known.of("chat")


def takes(kind: str, variant: Variant = Variant.DROPPED) -> Iterator[Take]:
    """Yield every exchange of a folder, as a client plays it."""
    for recording in load(CHAT, kind):
        for exchange in recording.exchanges:
            yield take(CHAT, recording, exchange, variant)


def test_as_much_is_stripped_as_the_recording_counts() -> None:
    """Of each request, the reasoning that its own notes count is stripped, or is visible text."""
    counted = 0
    for this in takes("oracle"):
        stripped = {
            (at, one)
            for at, lack in this.lacks.items()
            for atom in lack.dropped
            for one in emitted_as(atom, lack.answer.atoms)
        }
        counted += len(stripped)
        if not this.is_held:
            assert (this.exchange.name, len(stripped)) == (this.exchange.name, this.exchange.atoms)
    assert counted


def test_every_replayed_message_is_matched_with_its_answer() -> None:
    """Every message of the model in a request has an answer, unless it comes from elsewhere."""
    unmatched = {
        this.exchange.name
        for kind in ("oracle", "dropped")
        for this in takes(kind)
        if this.exchange.replay in ("full", "partial", "none")
        for at, message in enumerate(_messages(this.exchange.request.decode()))
        if message.role is Role.MODEL
        if at not in this.exchange.origins
    }

    # Groq's API failed in the first answer: what the client made of it was no answer.
    assert unmatched <= {
        "007-pydantic-ai-test_groq-test_tool_use_failed_error/3",
        "008-pydantic-ai-test_groq-test_tool_use_failed_error_streaming/3",
        "009-pydantic-ai-test_groq-test_tool_use_failed_error_streaming_with_text/2",
    }


def test_the_reasons_are_the_known_ones() -> None:
    """The exchanges that cannot be restored are those of the table, for the reasons it names."""
    every = [this for kind in ("oracle", "dropped") for this in takes(kind)]
    names = {this.exchange.name for this in every}
    found = {this.exchange.name: reason_of(CHAT, this) for this in every}
    twins = {this.exchange.name: twin_of(CHAT, this, mix(CHAT)) for this in every}

    assert {name: reason for name, reason in found.items() if reason} == {
        name: reason for name, reason in KNOWN.alone.items() if name in names
    }
    assert {name: twins[name] for name in names & set(KNOWN.one_tenant)} == {
        name: reason for name, reason in KNOWN.one_tenant.items() if name in names
    }


def _messages(request: str) -> list[Said]:
    return [CHAT.said(request[span.start : span.end]) for span in CHAT.spans(request)]
