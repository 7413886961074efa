"""Each case of the Gemini API ends as it should, through one proxy and through two on one Redis."""

from typing import Final

import pytest
from reasoning_replay.strict_api import Item

from tests.cases.others import Case, Played, Session, Way, read, read_all, session
from tests.redis_server import RedisServer

ASK: Final[Item] = {"role": "user", "parts": [{"text": "weather?"}]}
# Name -> the status without the proxy.
STRAIGHT: Final = {
    "gemini_moved_signature": 400,
    "gemini_sentinel": 200,
    "gemini_split_parallel": 400,
}
SIGNED: Final[Item] = {
    "functionCall": {"id": "a1", "name": "get_weather", "args": {"city": "Rome"}},
    "thoughtSignature": "U0lH",
}


def emitted(case: Case) -> Item:
    """Return what upstream emits first."""
    return {"role": "model", "parts": case.file.get("response_1_parts", [SIGNED])}


async def play(case: Case, client: Session) -> Played:
    """Ask, and send what the client makes of the answer."""
    assert (await client.ask(ASK)).status == 200
    if "request_2_contents" in case.file:
        return await client.ask(*case.file["request_2_contents"])
    parts: list[Item] = case.file["request_2_model_parts"]
    return await client.ask(ASK, {"role": "model", "parts": parts}, results_of(parts))


def results_of(parts: list[Item]) -> Item:
    """Return the results of all calls, as one content."""
    calls = [part["functionCall"] for part in parts]
    results = [{"id": one["id"], "name": one["name"], "response": {"w": 1}} for one in calls]
    return {"role": "user", "parts": [{"functionResponse": one} for one in results]}


@pytest.fixture(scope="module", autouse=True)
def _case_files() -> None:
    """Skip the tests if the cases are not available."""
    if not read_all("gemini"):
        pytest.skip("no cases found: set REPLAY_TEST_CASES to their folder")


def test_every_file_is_played() -> None:
    """No file is left out."""
    assert read_all("gemini") == sorted(STRAIGHT)


@pytest.mark.parametrize("name", STRAIGHT)
async def test_straight_it_fails_as_reported(name: str) -> None:
    """Without the proxy, the API refuses the request, or the reasoning is lost."""
    case = read(name)
    async with session(case, [emitted(case)], "straight") as client:
        played = await play(case, client)
        judgement = client.upstream.exchanges[-1].judgement

    assert played.status == STRAIGHT[name]
    assert judgement is not None
    assert played.status == 400 or judgement.lost


ROME: Final[Item] = {"functionCall": SIGNED["functionCall"]}
OSLO: Final[Item] = {"functionCall": {"id": "b2", "name": "get_weather", "args": {"city": "Oslo"}}}
RIGHT: Final = [ASK, {"role": "model", "parts": [SIGNED, OSLO]}, results_of([ROME, OSLO])]


@pytest.mark.parametrize("way", ["proxied", "replicas"])
@pytest.mark.parametrize("name", ["gemini_moved_signature", "gemini_split_parallel"])
async def test_calls_of_one_response_are_as_emitted(
    name: str, way: Way, shared_redis: RedisServer
) -> None:
    """After one refusal of the conversation; the next request is right at the first attempt."""
    case = read(name)
    async with session(case, [emitted(case)], way, shared_redis.url) as client:
        played = await play(case, client)
        said = {"role": "model", "parts": [{"text": "It rains in both."}]}
        later = [said, {"role": "user", "parts": [{"text": "Thank you."}]}]
        again = await client.ask(*played.received[0], *later)
        judgement = client.upstream.exchanges[-1].judgement

    assert (played.status, played.received[1:]) == (200, [RIGHT])
    assert played.mark.endswith("healed=lacks_reasoning")
    assert (again.status, again.received) == (200, [[*RIGHT, *later]])
    assert judgement is not None
    assert [one.state for one in judgement.findings][:1] == ["whole"]


@pytest.mark.parametrize("way", ["proxied", "replicas"])
@pytest.mark.parametrize(
    ("sentinel", "mark"),
    [("keep", "injected=0, lacking=1, unchecked=1"), ("replace", "injected=1")],
)
async def test_a_sentinel_is_no_signature(
    sentinel: str, mark: str, way: Way, shared_redis: RedisServer
) -> None:
    """It has a word of its own; by setting, the stored signature takes its place."""
    case = read("gemini_sentinel")
    more = {"gemini_sentinel": sentinel}
    async with session(case, [emitted(case)], way, shared_redis.url, **more) as client:
        played = await play(case, client)

    right = SIGNED if sentinel == "replace" else case.file["request_2_model_parts"][0]
    assert (played.status, played.mark) == (200, mark)
    assert [one[1]["parts"] for one in played.received] == [[right]]
