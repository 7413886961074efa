"""Each case of the Gemini API ends as it should, through one proxy and through two on one Redis."""

from typing import Final

import pytest
from reasoning_replay.strict_api import Item

from tests.cases.others import Case, Played, Session, read, read_all, session

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
