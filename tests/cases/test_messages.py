"""Each case of Anthropic Messages ends as it should, through one proxy and two on one Redis."""

import secrets
from collections.abc import Sequence
from typing import Final, get_args

import pytest
from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.binding import is_reasoning

from tests.cases.others import Case, Played, Session, Way, read, read_all, session
from tests.redis_server import RedisServer

NAMES: Final = ["messages_paused_joined"]
ASK: Final[Item] = {"role": "user", "content": "What is the weather, and what is new?"}
SEARCH_ID, CALL_ID = "srvtoolu_01GUk7pHBFbRVEoNiViomUfx", "toolu_01QiEjkBaC9vDtcLcogRZGdj"
# The blocks that the file names.
BLOCKS: Final[dict[str, Item]] = {
    "thinking A": {"type": "thinking", "thinking": "A", "signature": "QQ=="},
    "thinking B": {"type": "thinking", "thinking": "B", "signature": "Qg=="},
    "server_tool_use s1": {
        "type": "server_tool_use",
        "id": SEARCH_ID,
        "name": "web_search",
        "input": {"query": "news"},
    },
    "web_search_tool_result s1": {
        "type": "web_search_tool_result",
        "tool_use_id": SEARCH_ID,
        "content": [],
    },
    "text x": {"type": "text", "text": "Nothing is new. Let me look at the weather."},
    "tool_use u1": {"type": "tool_use", "id": CALL_ID, "name": "get_weather", "input": {}},
}
RESULT: Final[Item] = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": CALL_ID, "content": "Rain."}],
}


def said(names: Sequence[str]) -> Item:
    """Return the message of the blocks that the file names."""
    blocks = [BLOCKS[name] for name in names if not name.startswith("stop:")]
    return {"role": "assistant", "content": blocks}


def emitted(case: Case) -> list[Item]:
    """Return what upstream emits: the paused response, and its continuation."""
    return [said(case.file[f"response_{n}_blocks"]) for n in (1, 2)]


async def play(case: Case, client: Session, *, drops: bool) -> Played:
    """Ask, go on after the pause, and send both as one message without reasoning."""
    first, second = emitted(case)
    blocks = [block for block in first["content"] if not (drops and is_reasoning(block))]
    assert (await client.ask(ASK)).status == 200
    assert (await client.ask(ASK, {**first, "content": blocks})).status == 200
    last = said(case.file["request_3_last_assistant"])
    assert last["content"] == [
        block for one in (first, second) for block in one["content"] if not is_reasoning(block)
    ]
    return await client.ask(ASK, last, RESULT)


@pytest.fixture(scope="module", autouse=True)
def _case_files() -> None:
    """Skip the tests if the cases are not available."""
    if not read_all("messages"):
        pytest.skip("no cases found: set REPLAY_TEST_CASES to their folder")


def test_every_file_is_played() -> None:
    """No file is left out."""
    assert read_all("messages") == NAMES


@pytest.mark.parametrize("way", get_args(Way))
async def test_a_paused_response_and_its_continuation(way: Way, shared_redis: RedisServer) -> None:
    """Straight it is refused, as reported; through the proxy, each has its own blocks."""
    case = read("messages_paused_joined")
    url = f"{shared_redis.url}?prefix=rr-{secrets.token_hex(8)}"
    async with session(case, emitted(case), way, url) as client:
        played = await play(case, client, drops=way != "straight")
    whole = [block for one in emitted(case) for block in one["content"]]
    if way == "straight":
        assert played.status == 400
        return
    assert (played.status, played.mark) == (200, "injected=2")
    assert [history[1]["content"] for history in played.received] == [whole]
