"""Each case of the public reports ends as it should: through the app, and on two replicas."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import aiohttp
import pytest
from reasoning_replay.strict_api import Item, StrictApi
from reasoning_replay.strict_api.responses_rules import kind_of

from tests.cases.reading import Case, read, root
from tests.cases.upstream import made
from tests.e2e.proxies import proxied
from tests.redis_server import RedisServer

Way = Literal["plain", "stream", "replicas"]
CALLED: Final = "user reasoning function_call function_call_output"
UNREASONED: Final = "user function_call function_call_output"


class Right(NamedTuple):
    """
    The right end of a case.

    Attributes:
        want: The kinds of the last accepted input; a reference counts as one.
        attempts: Most requests that upstream may receive for all of the client's.
        refused: Whether the client's requests are refused without the proxy.
        form: How each item of reasoning is sent: with or without its id, or in any way.
        missed: The mark of the last exchange has no such words.
    """

    want: str
    attempts: int
    refused: bool = True
    form: Literal["id", "no-id", "any"] = "any"


RIGHT: Final[Mapping[str, Right]] = {
    "f1a_no_summary_openai": Right(CALLED, 3, form="id"),
    "f1b_no_summary_stored": Right(CALLED, 3, form="id"),
    "f1c_no_summary_meta": Right(CALLED, 3),
    "f1d_no_summary_xai": Right(CALLED, 3),
    "f1e_content_null_xai": Right(CALLED, 3),
    "f1f_empty_no_id_llamacpp": Right(CALLED, 3),
    "f2a_bare_id_store_unset": Right(CALLED, 3),
    "f2b_id_refused_blob_good_kept": Right(CALLED, 3, form="no-id"),
    "f2c_id_refused_blob_good_dropped": Right(CALLED, 3, refused=False, form="no-id"),
    "f5a_takes_none_kept": Right(UNREASONED, 3),
    "f5b_takes_none_dropped": Right(
        f"user{' function_call function_call_output' * 4}", 6, refused=False
    ),
    "f6_late_blob": Right(CALLED, 2),
    "f7a_cut_makes_reasoning_twice": Right(
        "reasoning function_call function_call function_call_output function_call_output", 3
    ),
    "f7b_cut_call_comes_back_with_id": Right(
        "function_call function_call_output reasoning message user", 4
    ),
    "f8_good_references_dropped": Right(
        "user function_call function_call_output user reasoning message user", 5
    ),
    "f9_stateful_then_whole_history": Right(
        "user" + " reasoning message user" * 4, 5, refused=False
    ),
    "f10_foreign_text_and_bare_id": Right("user function_call function_call_output user", 3),
    "f12_error_is_third_event": Right(UNREASONED, 3),
    "f13_custom_as_function": Right(CALLED, 2, refused=False),
    "f14_bare_id_before_easy_message": Right("user reasoning message user", 3, form="no-id"),
    "f15_agent_message_is_input": Right(
        "user agent_message reasoning message agent_message user reasoning message agent_message"
        " user",
        3,
        refused=False,
    ),
    "f18_repair_gives_an_id_that_is_refused": Right(CALLED, 2, refused=False, form="no-id"),
}
# What is not built yet, and by which way.
STREAMS_ONLY: Final = {"f6_late_blob", "f8_good_references_dropped", "f12_error_is_third_event"}


def cases(*ways: Way) -> list[Any]:
    """Return each case with each way to play it."""
    found = []
    for name in RIGHT:
        found += [
            pytest.param(name, way, id=f"{name}-{way}")
            for way in ways
            if way != "plain" or name not in STREAMS_ONLY
        ]
    return found


class Played(NamedTuple):
    """
    What a client got for one request.

    Attributes:
        status: The HTTP status; 400 also for a refusal in a stream.
        mark: The proxy's response header.
        received: The inputs that upstream received for it.
    """

    status: int
    mark: str
    received: list[list[Item]]


async def play(case: Case, upstream: StrictApi, urls: list[str], way: Way) -> list[Played]:
    """Play the requests of a case, at each of the URLs in turn."""
    played = []
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer sk-cases"}) as session:
        for number, request in enumerate(case.requests):
            is_stream = case.name in STREAMS_ONLY or way == "stream"
            body = {"model": "gpt-5", **request, "stream": is_stream}
            before = len(upstream.received)
            url = urls[number % len(urls)]
            async with session.post(f"{url}/responses", json=body) as response:
                raw = await response.read()
                mark = response.headers.get("x-reasoning-replay", "")
                status = 400 if b"event: error" in raw else response.status
            played.append(Played(status, mark, list(upstream.received)[before:]))
    return played


@contextlib.asynccontextmanager
async def served(
    case: Case, way: Way, redis_url: str
) -> AsyncIterator[tuple[StrictApi, list[str]]]:
    """Run the upstream of a case, and one proxy, or two on one Redis."""
    more = {"upstream_profile": case.profile}
    async with StrictApi(made(case)) as upstream:
        if way != "replicas":
            async with proxied(upstream, **more) as url:
                yield upstream, [url]
            return
        async with (
            proxied(upstream, redis_url, **more) as one,
            proxied(upstream, redis_url, **more) as other,
        ):
            yield upstream, [one, other]


@pytest.fixture(scope="module", autouse=True)
def _case_files() -> None:
    """Skip the tests if the cases are not available."""
    if root() is None:
        pytest.skip("no cases found: set REPLAY_TEST_CASES to their folder")


def test_every_file_has_its_right_value() -> None:
    """No file is left out."""
    folder = root()
    assert folder is not None
    assert {one.stem for one in folder.glob("f*.json")} == RIGHT.keys()


@pytest.mark.parametrize(("name", "way"), cases("plain", "stream"))
async def test_straight_it_fails_as_reported(name: str, way: Way) -> None:
    """Without the proxy the vendor refuses what users report, and nothing else."""
    case = read(name)
    async with StrictApi(made(case)) as upstream:
        played = await play(case, upstream, [upstream.base_url], way)

    assert (played[-1].status != 200) == RIGHT[name].refused


@pytest.mark.parametrize(("name", "way"), cases("plain", "stream", "replicas"))
async def test_through_the_proxy_it_is_right(
    name: str, way: Way, shared_redis: RedisServer
) -> None:
    """The client gets no refusal, and upstream the reasoning that it emitted, in a few attempts."""
    case, right = read(name), RIGHT[name]
    async with served(case, way, shared_redis.url) as (upstream, urls):
        played = await play(case, upstream, urls, way)

    sent = played[-1].received[-1]
    assert [one.status for one in played] == [200] * len(case.requests)
    assert " ".join(map(_kind, sent)) == right.want
    assert sum(len(one.received) for one in played) <= right.attempts
    _is_as_emitted(case, sent, right)
    assert "missed" not in played[-1].mark


async def test_references_to_a_stored_response_stay() -> None:
    """Only the items of the response that was cut off are sent by value."""
    case = read("f8_good_references_dropped")
    async with served(case, "stream", "memory://") as (upstream, urls):
        played = await play(case, upstream, urls, "stream")

    assert played[-1].received[-1][-3:] == case.requests[-1]["input"][-3:]


def _kind(item: Item) -> str:
    """Return the kind of an item; a reference has that of its item."""
    if item.get("role") == "user":
        return "user"
    kind, prefix = kind_of(item), str(item.get("id")).partition("_")[0]
    named = {"rs": "reasoning", "msg": "message", "fc": "function_call"}
    return named[prefix] if kind == "item_reference" else kind


def _is_as_emitted(case: Case, sent: list[Item], right: Right) -> None:
    """Check each item of reasoning: emitted, unchanged, in the right form, once."""
    emitted = {one["id"]: one for output in case.outputs for one in output}
    blobs = {one.get("encrypted_content"): one["id"] for one in emitted.values()}
    seen = []
    for item in sent:
        if item.get("type") != "reasoning":
            continue
        own = emitted[
            item.get("id") or blobs.get(item.get("encrypted_content"), "") or _only(emitted)
        ]
        seen.append(own["id"])
        if item.get("encrypted_content"):
            assert item["encrypted_content"] == own["encrypted_content"]
        assert item["summary"] == own["summary"]
        assert right.form == "any" or ("id" in item) == (right.form == "id")
        hides = case.upstream.get("enc_default") is False or "enc_default" not in case.upstream
        assert item.get("encrypted_content") or item.get("content") or hides
    assert len(seen) == len({*seen})


def _only(emitted: Mapping[str, Item]) -> str:
    return next(name for name, one in emitted.items() if one["type"] == "reasoning")
