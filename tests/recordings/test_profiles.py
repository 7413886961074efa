"""Under the profile of the vendor who answered, real inputs come out in the form it accepted."""

import json
from collections.abc import Iterator

import pytest
from reasoning_replay.core.dialects.responses.profiles import AUTO, PROFILES, profile_of

from tests.recordings import tape
from tests.recordings.client import Variant
from tests.recordings.judge import RULES, TOGETHER, Result
from tests.recordings.runs import own
from tests.recordings.tape import Recording

pytestmark = pytest.mark.usefixtures("recordings")

KINDS = ("oracle", "dropped", "plain", "stateful", "stream", "error", "other")
DROPPING = [variant for variant in Variant if variant is not Variant.AS_RECORDED]


def every() -> Iterator[Recording]:
    """Return all recordings."""
    for kind in KINDS:
        yield from tape.load(kind)


@pytest.mark.parametrize("variant", DROPPING)
async def test_a_recording_is_restored_under_its_own_profile(variant: Variant) -> None:
    """All that was dropped, with ids as the vendor's rule has it."""
    played = await own(tape.load("oracle"), variant)

    assert [fault for one in played for fault in one.faults] == []
    assert [one.name for one in played if one.is_lacking] == []
    assert Result.RESTORED in {one.verdict.result for one in played}


async def test_the_form_is_the_one_that_the_vendor_accepted() -> None:
    """
    Upstream receives the very ids of the recorded input, none more and none less.

    Of OpenAI's own recordings some hold reasoning with its id ahead of a call without: it accepts
    that too, but only where nothing is stored, so that neither has its id here.
    """
    theirs = [one for one in tape.load("oracle") if one.vendor != "openai"]
    played = await own(theirs, Variant.IDS_KEPT)

    assert [
        one.name for one in played if ids(one.arrived[0]) != ids(one.take.exchange.request)
    ] == []


@pytest.mark.parametrize("kind", KINDS)
async def test_what_lacks_nothing_passes_under_its_own_profile(kind: str) -> None:
    """As recorded, and byte for byte downstream: no profile has an opinion of what is there."""
    played = await own(tape.load(kind), Variant.AS_RECORDED)

    assert [fault for one in played for fault in one.faults] == []
    assert {one.name for one in played if one.is_lacking and one.sealed} == set()
    assert played


async def test_real_dropping_clients_get_all_back_when_upstream_seals_it() -> None:
    """As under `auto`."""
    sealed = [tape.sealed(recording) for recording in tape.load("dropped")]
    played = await own(sealed, Variant.AS_RECORDED)

    assert [fault for one in played for fault in one.faults] == []
    assert [one.name for one in played if one.is_lacking] == []


def test_auto_knows_the_recorded_hosts() -> None:
    """Wherever the address was recorded, that is; a login of ChatGPT was recorded as OpenAI's."""
    wrong = [
        (exchange.name, exchange.url)
        for recording in every()
        for exchange in recording.exchanges
        if exchange.url.startswith("https://") and "openai-oauth" not in recording.name
        if profile_of(AUTO, exchange.url) is not PROFILES[recording.vendor]
    ]

    assert wrong == []


def test_recorded_blobs_have_the_shape_of_their_vendor() -> None:
    """And none is taken for another's, where another's shape is known."""
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


def test_the_judge_has_the_rules_of_the_profiles() -> None:
    """Told twice, as the judge shares no code with the proxy; and told the same."""
    for name in {recording.vendor for recording in every()} | set(RULES):
        rule = RULES.get(name, TOGETHER)

        assert (name, rule.ids, rule.keeps_items) == (
            name,
            PROFILES[name].ids,
            PROFILES[name].keeps_items,
        )


def ids(body: bytes) -> list[object]:
    """Return the ids of a request's input, None for each item without."""
    items = json.loads(body)["input"]
    return [item.get("id") for item in items] if isinstance(items, list) else []


def shape(name: str) -> str:
    """Return the pattern of a vendor's blobs."""
    return PROFILES[name].blob.pattern
