"""Recordings of Responses: complete requests pass, and ids have the form that vendors accept."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from reasoning_replay.core.dialects.responses.profiles import PROFILES, profile_of
from reasoning_replay.core.dialects.vendors import AUTO

from tests.e2e.proxies import proxied
from tests.recordings import wire
from tests.recordings.client import Variant, take
from tests.recordings.judge import Result
from tests.recordings.reasons import twin_of
from tests.recordings.responses import (
    RULES,
    TOGETHER,
    Responses,
    has_easy_form,
    is_stateful,
    sealed,
)
from tests.recordings.runner import Played, alone, client, faults, mix, own, play
from tests.recordings.table import DROPPING, KNOWN, excuses
from tests.recordings.tape import Recording, load
from tests.recordings.upstream import Answer, upstream

# A run plays hundreds of exchanges: a busy machine is no fault.
pytestmark = [pytest.mark.usefixtures("recordings"), pytest.mark.timeout(900)]

ADAPTER = Responses()
KINDS = ("oracle", "dropped", "plain", "stateful", "stream", "error", "other")


def every() -> Iterator[Recording]:
    """Yield all recordings."""
    for kind in KINDS:
        yield from load(ADAPTER, kind)


async def replayed(
    kind: str, seed: int | None = None, *, has_profile: bool = False
) -> list[Played]:
    """Play requests as their real clients sent them, at their vendor or at an unknown one."""
    if has_profile:
        return await own(ADAPTER, load(ADAPTER, kind), Variant.REPLAYED)
    return await alone(ADAPTER, load(ADAPTER, kind), Variant.REPLAYED, seed=seed)


@pytest.mark.parametrize("seed", [None, 2], ids=["whole responses", "responses in pieces"])
@pytest.mark.parametrize("kind", KINDS)
async def test_complete_requests_pass(kind: str, seed: int | None) -> None:
    """If no model reasoned, or the client replays it all, only `include` may be changed."""
    played = await replayed(kind, seed)

    assert played
    assert faults(played) == []
    if kind in ("plain", "oracle"):
        assert {one.verdict.result for one in played} == {Result.NOTHING_TO_DO}
        assert all(ids(one.arrived[0]) == ids(one.take.body) for one in played)


@pytest.mark.parametrize("kind", KINDS)
async def test_complete_requests_pass_under_the_vendors_profile(kind: str) -> None:
    """A profile changes neither a complete request nor any byte of a response."""
    played = await replayed(kind, has_profile=True)

    assert played
    assert faults(played) == []
    assert {one.name for one in played if one.is_lacking} <= set(excuses(ADAPTER, played))


async def test_stateful_requests_are_not_changed() -> None:
    """If upstream holds the history, it receives exactly the bytes that the client sent."""
    played = await replayed("stateful")
    stateful = [one for one in played if is_stateful(json.loads(one.take.body))]

    assert all(one.arrived == (one.take.body,) for one in stateful)
    assert stateful


async def test_captured_reasoning_is_injected_for_real_dropping_clients() -> None:
    """
    Reasoning is injected for every real dropping client that received blobs.

    Most of these clients did not ask for encrypted reasoning and received none. An id alone is
    useless to an upstream that does not store items.
    """
    played = await replayed("dropped")
    injected = {one.name for one in played if one.verdict.result is Result.INJECTED}
    excused = excuses(ADAPTER, played)

    assert injected == {one.name for one in played if one.take.lacks} - set(excused)
    assert injected


async def test_all_reasoning_is_injected_if_upstream_sends_blobs() -> None:
    """If upstream sends blobs, as the proxy asks it to, all dropped reasoning is injected."""
    as_if_asked = [sealed(recording) for recording in load(ADAPTER, "dropped")]
    under_own_profile = await own(ADAPTER, as_if_asked, Variant.REPLAYED)
    played = await alone(ADAPTER, as_if_asked, Variant.REPLAYED)
    asked = [one for one in played if b"reasoning.encrypted_content" in one.arrived[0]]

    assert faults(played + under_own_profile) == []
    assert [one.name for one in played + under_own_profile if one.is_lacking] == []
    # In the other requests upstream stores the items, and their ids are enough if they have one.
    assert asked == [
        one
        for one in played
        if (body := json.loads(one.take.body)).get("store") is False or has_easy_form(body)
    ]


async def test_quoted_errors_pass_byte_for_byte() -> None:
    """A refusal of injected items is healed once; if that fails too, the client receives it."""
    place = wire.root()
    assert place is not None
    quoted = json.loads((place / "quoted-errors.json").read_bytes())
    recording = next(one for one in load(ADAPTER, "oracle") if one.exchanges[1].origins)
    first, second, *_ = recording.exchanges
    for n, error in enumerate(quoted):
        body = error.get("body") or {"error": {"message": error["message"], "code": None}}
        answer = Answer(error["status"], "application/json", "", json.dumps(body).encode())
        refused = replace(second, status=answer.status, encoding="", answer=answer.body)
        async with upstream() as fake, proxied(fake) as url, client() as session:
            fake.knows([first, refused])
            for exchange in (first, refused):
                sent = take(ADAPTER, recording, exchange, Variant.DROPPED)
                played = await play(session, fake, (url, f"sk-{n}"), sent, ADAPTER)

        got = played.answer
        assert (got.status, got.body) == (answer.status, answer.body)
        assert len(played.arrived) <= 2


@pytest.mark.parametrize("variant", DROPPING)
async def test_ids_are_right_under_the_vendors_profile(variant: Variant) -> None:
    """Upstream receives the input that the real API accepted, with ids as its rule demands."""
    played = await own(ADAPTER, load(ADAPTER, "oracle"), variant)

    assert faults(played) == []
    assert {one.name for one in played if one.is_lacking} <= set(excuses(ADAPTER, played))
    assert Result.INJECTED in {one.verdict.result for one in played}


@pytest.mark.parametrize("variant", DROPPING)
def test_every_ambiguous_exchange_has_a_twin(variant: Variant) -> None:
    """For every excused exchange, another conversation of the tenant has the same content."""
    known = KNOWN["responses"]
    named = {**known.one_tenant, **(known.ids_dropped if variant.drops_ids else {})}
    found = {
        exchange.name: twin_of(ADAPTER, take(ADAPTER, recording, exchange, variant), mix(ADAPTER))
        for recording in load(ADAPTER, "oracle")
        for exchange in recording.exchanges
        if exchange.name in named
    }

    assert [name for name, reason in found.items() if reason is None] == []


def test_the_computed_places_are_the_recorded_ones() -> None:
    """
    In every recorded input with reasoning, it stands where the tests compute its place.

    Dropping clients are judged by the computed places, because their recorded inputs have no
    reasoning.
    """
    for recording in load(ADAPTER, "oracle"):
        for exchange in recording.exchanges:
            text = exchange.request.decode()
            there = [
                bool(ADAPTER.said(text[at.start : at.end]).atoms) for at in ADAPTER.spans(text)
            ]
            lacks = take(ADAPTER, recording, exchange, Variant.DROPPED).lacks

            assert {at for at, has_some in enumerate(there) if has_some} == set(lacks)


async def test_the_form_is_the_one_that_the_vendor_accepted() -> None:
    """
    Upstream receives exactly the ids of the recorded input.

    Some of OpenAI's own recordings have reasoning with its id before a call without one. It accepts
    that form too, but only if nothing is stored, so the proxy injects neither id there.
    """
    theirs = [one for one in load(ADAPTER, "oracle") if one.profile != "openai"]
    played = await own(ADAPTER, theirs)

    assert [
        one.name for one in played if ids(one.arrived[0]) != ids(one.take.exchange.request)
    ] == []


def test_auto_finds_the_profile_of_recorded_hosts() -> None:
    """`auto` finds the profile of every recorded URL; ChatGPT logins were recorded as OpenAI's."""
    wrong = [
        (exchange.name, exchange.url)
        for recording in every()
        for exchange in recording.exchanges
        if exchange.url.startswith("https://") and "openai-oauth" not in recording.name
        if profile_of(AUTO, exchange.url) is not PROFILES[recording.profile]
    ]

    assert wrong == []


def test_recorded_blobs_match_only_the_pattern_of_their_vendor() -> None:
    """A recorded blob matches the pattern of its vendor, and no other known pattern."""
    wrong = [
        (recording.name, blob[:40])
        for recording in every()
        for said in recording.answers.values()
        for atom in said.atoms
        if (blob := json.loads(atom.value).get("encrypted_content"))
        for name in ("openai", "azure", "codex", "xai", "bedrock", recording.profile)
        if PROFILES[name].is_own_blob(blob) is not (shape(name) == shape(recording.profile))
    ]

    assert wrong == []


def test_the_judge_and_the_profiles_have_the_same_rules() -> None:
    """The judge shares no code with the proxy, so its rules are written twice and must be equal."""
    for name in {recording.profile for recording in every()} | set(RULES):
        rule = RULES.get(name, TOGETHER)

        assert (name, rule.ids, rule.keeps_items) == (
            name,
            PROFILES[name].ids,
            PROFILES[name].keeps_items,
        )


def ids(body: bytes) -> list[object]:
    """Return the ids of a request's input, None for each item without one."""
    items = json.loads(body)["input"]
    return [item.get("id") for item in items] if isinstance(items, list) else []


def shape(name: str) -> str:
    """Return the pattern of a vendor's blobs."""
    return PROFILES[name].blob.pattern
