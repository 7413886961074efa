"""Profiles: real inputs, under the profile of their vendor, arrive in the form it accepted."""

import json
from collections.abc import Iterator

import pytest
from reasoning_replay.core.dialects.responses.profiles import PROFILES, profile_of
from reasoning_replay.core.dialects.vendors import AUTO

from tests.recordings.responses import tape
from tests.recordings.responses.client import Variant
from tests.recordings.responses.judge import RULES, TOGETHER
from tests.recordings.responses.runs import own
from tests.recordings.responses.tape import Recording
from tests.recordings.runner import faults

pytestmark = pytest.mark.usefixtures("recordings")

KINDS = ("oracle", "dropped", "plain", "stateful", "stream", "error", "other")


def every() -> Iterator[Recording]:
    """Yield all recordings."""
    for kind in KINDS:
        yield from tape.load(kind)


async def test_the_form_is_the_one_that_the_vendor_accepted() -> None:
    """
    Upstream receives exactly the ids of the recorded input.

    Some of OpenAI's own recordings have reasoning with its id before a call without one. It accepts
    that form too, but only if nothing is stored, so the proxy injects neither id there.
    """
    theirs = [one for one in tape.load("oracle") if one.vendor != "openai"]
    played = await own(theirs, Variant.IDS_KEPT)

    assert [
        one.name for one in played if ids(one.arrived[0]) != ids(one.take.exchange.request)
    ] == []


@pytest.mark.parametrize("kind", KINDS)
async def test_complete_requests_pass_under_the_vendors_profile(kind: str) -> None:
    """A profile changes neither a complete request nor any byte of a response."""
    played = await own(tape.load(kind), Variant.AS_RECORDED)

    assert faults(played) == []
    assert {one.name for one in played if one.is_lacking and one.take.is_sealed} == set()
    assert played


def test_auto_finds_the_profile_of_recorded_hosts() -> None:
    """`auto` finds the profile of every recorded URL; ChatGPT logins were recorded as OpenAI's."""
    wrong = [
        (exchange.name, exchange.url)
        for recording in every()
        for exchange in recording.exchanges
        if exchange.url.startswith("https://") and "openai-oauth" not in recording.name
        if profile_of(AUTO, exchange.url) is not PROFILES[recording.vendor]
    ]

    assert wrong == []


def test_recorded_blobs_match_only_the_pattern_of_their_vendor() -> None:
    """A recorded blob matches the pattern of its vendor, and no other known pattern."""
    wrong = [
        (one.key, recording.name, blob[:40])
        for recording in every()
        for one in recording.emitted.values()
        if one.is_reasoning
        for blob in one.blobs
        for name in ("openai", "azure", "codex", "xai", "bedrock", recording.vendor)
        if PROFILES[name].is_own_blob(blob) is not (shape(name) == shape(recording.vendor))
    ]

    assert wrong == []


def test_the_judge_and_the_profiles_have_the_same_rules() -> None:
    """The judge shares no code with the proxy, so its rules are written twice and must be equal."""
    for name in {recording.vendor for recording in every()} | set(RULES):
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
