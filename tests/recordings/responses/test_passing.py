"""Passthrough: complete requests are not changed, and every response arrives as sent."""

import json
from dataclasses import replace

import pytest

from tests.e2e.proxies import proxied
from tests.recordings import wire
from tests.recordings.responses import tape
from tests.recordings.responses.client import Variant, is_stateful, take
from tests.recordings.responses.judge import has_easy_form, judge
from tests.recordings.responses.runs import alone, own
from tests.recordings.responses.tape import load
from tests.recordings.runner import Result, client, faults, play
from tests.recordings.upstream import Answer, upstream

pytestmark = pytest.mark.usefixtures("recordings")

SEEDS = pytest.mark.parametrize("seed", [None, 2], ids=["whole responses", "responses in pieces"])


@SEEDS
@pytest.mark.parametrize("kind", ["plain", "oracle"])
async def test_complete_requests_pass(kind: str, seed: int | None) -> None:
    """If no model reasoned, or the client replays it all, only `include` may be changed."""
    played = await alone(load(kind), Variant.AS_RECORDED, seed)

    assert faults(played) == []
    assert {one.verdict.result for one in played} == {Result.NOTHING_TO_DO}
    assert sum(one.verdict.ids_changed for one in played) == 0


async def test_stateful_requests_are_not_changed() -> None:
    """If upstream holds the history, it receives exactly the bytes that the client sent."""
    played = await alone(load("stateful"), Variant.AS_RECORDED)
    stateful = [one for one in played if is_stateful(json.loads(one.take.body))]

    assert faults(played) == []
    assert all(one.arrived == (one.take.body,) for one in stateful)
    assert stateful


async def test_captured_reasoning_is_injected_for_real_dropping_clients() -> None:
    """
    Reasoning is injected for every real dropping client that received blobs.

    Most of these clients did not ask for encrypted reasoning and received none. An id alone is
    useless to an upstream that does not store items.
    """
    played = await alone(load("dropped"), Variant.AS_RECORDED)
    sealed = {one.name for one in played if one.verdict.wanted and one.take.is_sealed}

    assert faults(played) == []
    assert {one.name for one in played if one.verdict.result is Result.INJECTED} == sealed
    assert sealed


async def test_all_reasoning_is_injected_if_upstream_sends_blobs() -> None:
    """If upstream sends blobs, as the proxy asks it to, all dropped reasoning is injected."""
    sealed = [tape.sealed(recording) for recording in load("dropped")]
    under_own_profile = await own(sealed, Variant.AS_RECORDED)
    played = await alone(sealed, Variant.AS_RECORDED)
    asked = [one for one in played if b"reasoning.encrypted_content" in one.arrived[0]]

    assert faults(played + under_own_profile) == []
    assert [one.name for one in played + under_own_profile if one.is_lacking] == []
    # In the other requests upstream stores the items, and their ids are enough if they have one.
    assert asked == [
        one
        for one in played
        if (body := json.loads(one.take.body)).get("store") is False or has_easy_form(body)
    ]


@SEEDS
@pytest.mark.parametrize("kind", ["stream", "error", "other"])
async def test_responses_pass_byte_for_byte(kind: str, seed: int | None) -> None:
    """Status, content type and every byte of a stream or an error are upstream's."""
    played = await alone(load(kind), Variant.AS_RECORDED, seed)

    assert faults(played) == []
    assert played


async def test_quoted_errors_pass_byte_for_byte() -> None:
    """A refusal of injected items is healed once; if that fails too, the client receives it."""
    place = wire.root()
    assert place is not None
    quoted = json.loads((place / "quoted-errors.json").read_bytes())
    recording = next(one for one in load("oracle") if one.exchanges[1].origins)
    first, second, *_ = recording.exchanges
    for n, error in enumerate(quoted):
        body = error.get("body") or {"error": {"message": error["message"], "code": None}}
        answer = Answer(error["status"], "application/json", "", json.dumps(body).encode())
        refused = replace(second, status=answer.status, encoding="", answer=answer.body)
        async with upstream() as fake, proxied(fake) as url, client() as session:
            fake.knows([first, refused])
            for exchange in (first, refused):
                sent = take(recording, exchange, Variant.IDS_KEPT)
                played = await play(session, fake, (url, f"sk-{n}"), sent, judge)

        got = played.answer
        assert (got.status, got.body) == (answer.status, answer.body)
        assert len(played.arrived) <= 2
