"""Recordings of Chat Completions: they can be stripped, matched and judged, before any proxy."""

import json
from collections.abc import Iterator, Mapping

import pytest

from tests.recordings import rawjson
from tests.recordings.atoms.adapter import Role, Said
from tests.recordings.atoms.chat import Chat
from tests.recordings.atoms.chat_stream import assembled
from tests.recordings.atoms.client import Take, Variant, emitted_as, take
from tests.recordings.atoms.judge import Note, Result, judge
from tests.recordings.atoms.known import CHAT as KNOWN
from tests.recordings.atoms.reasons import reason_of, twin_of
from tests.recordings.atoms.runs import mix
from tests.recordings.atoms.tape import Recording, load
from tests.recordings.rawjson import Edit

pytestmark = pytest.mark.usefixtures("recordings")

CHAT = Chat()


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
            for one in emitted_as(atom, lack.answer)
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


def test_a_right_proxy_is_judged_right() -> None:
    """A body with exactly what each answer emitted is accepted, whatever the client had sent."""
    for kind in ("oracle", "dropped"):
        for this in takes(kind):
            verdict = judge(CHAT, this, _injected(this))

            assert (this.exchange.name, verdict.wrong) == (this.exchange.name, [])
            assert verdict.result is (Result.INJECTED if this.lacks else Result.NOTHING_TO_DO)


def test_the_clients_own_request_differs_only_by_known_classes() -> None:
    """If the answer's own member is put where the client once had it, most clients sent just it."""
    noted = {
        this.exchange.name: judge(CHAT, this, _injected(this)).notes
        for this in takes("oracle")
        if this.lacks
    }

    assert sum(not notes for notes in noted.values()) > 25
    assert {note for notes in noted.values() for note in notes} == set(Note)


def test_a_proxy_that_confuses_turns_is_judged_wrong() -> None:
    """The reasoning of another exchange of the same recording is wrong in every message."""
    judged = 0
    for this in takes("oracle"):
        for at, lack in this.lacks.items():
            values = {atom.value for atom in lack.answer.atoms}
            others = {
                n: said
                for n, said in this.recording.answers.items()
                if any(not atom.place and atom.value not in values for atom in said.atoms)
            }
            for n in others:
                judged += 1
                assert judge(CHAT, this, _injected(this, {at: n})).result is Result.WRONG
    assert judged > 50


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


def test_recorded_requests_are_played_as_they_are() -> None:
    """A client that replays what it once sent sends the recorded bytes, and lacks nothing of it."""
    for this in takes("oracle", Variant.REPLAYED):
        assert this.body == this.exchange.request


def _messages(request: str) -> list[Said]:
    return [CHAT.said(request[span.start : span.end]) for span in CHAT.spans(request)]


def _injected(this: Take, confused: Mapping[int, int] | None = None) -> bytes:
    """Do what a proxy must do: splice each answer's reasoning into the message that lacks it."""
    text = this.body.decode()
    edits = []
    for at, lack in this.lacks.items():
        span = CHAT.spans(text)[at]
        answer = _answer(this.recording, (confused or {}).get(at, lack.origin))
        edits.append(Edit(span.start, span.end, _spliced(text[span.start : span.end], answer)))
    return rawjson.apply(text, edits).encode()


def _answer(recording: Recording, n: int) -> str:
    """Return the message of an answer as JSON text, as upstream wrote it if it was no stream."""
    said = recording.answers[n]
    return said.raw or json.dumps(assembled(recording.exchanges[n - 1].answer)[0])


def _spliced(message: str, answer: str) -> str:
    """Add the reasoning members of an answer to a message, and of its calls to the calls."""
    calls, emitted = rawjson.member(message, "tool_calls"), rawjson.member(answer, "tool_calls")
    if calls is not None and emitted is not None and answer[emitted.start] == "[":
        theirs = rawjson.elements(answer, emitted.start)
        edits = [
            Edit(
                one.start,
                one.end,
                _spliced(message[one.start : one.end], answer[at.start : at.end]),
            )
            for one, at in zip(rawjson.elements(message, calls.start), theirs, strict=False)
        ]
        message = rawjson.apply(message, edits)
    for one in rawjson.members(answer):
        raw = answer[one.start : one.end]
        is_reasoning = "reasoning" in one.key or one.key in ("extra_content", "thought_signature")
        if is_reasoning and raw not in ("null", '""', "[]", "{}"):
            message = f"{message[:-1]},{json.dumps(one.key)}:{raw}" + "}"
    return message
