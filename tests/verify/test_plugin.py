"""The fixture `strict_api` serves blocking and asynchronous clients, and judges them."""

import subprocess
import sys
from pathlib import Path

import pytest
from reasoning_replay.verify.plugin import ServedApi

from tests.e2e.agent import Agent, Way
from tests.e2e.gemini_agent import GeminiAgent
from tests.e2e.messages_agent import MessagesAgent

ASKED = ("Where does it rain?",)
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


@pytest.mark.parametrize("way", ["sync", "async-stream"])
async def test_clients_that_keep_everything_are_whole(strict_api: ServedApi, way: Way) -> None:
    """Of any vendor's SDK, in one test."""
    async with Agent(strict_api.openai_base_url, way, "everything") as agent:
        await agent.converse(ASKED)
    url, model = strict_api.anthropic_base_url, "claude-sonnet-4-6"
    async with MessagesAgent(url, way, "everything", THINKING, model=model) as other:
        await other.converse(ASKED)
    url, model = strict_api.gemini_base_url, "gemini-3-pro-preview"
    async with GeminiAgent(url, way, "everything", model=model) as third:
        await third.converse(ASKED)
    strict_api.assert_whole()
    assert {one.dialect for one in strict_api.run.exchanges} == {"responses", "messages", "gemini"}


@pytest.mark.strict_api(scenario="one-call", strict=True)
async def test_a_loss_fails_with_the_report(strict_api: ServedApi) -> None:
    """The message names the request, the turn and the place."""
    async with Agent(strict_api.openai_base_url, "async", "no-ids") as agent:
        with pytest.raises(Exception, match="Reasoning of turn 1 is missing"):
            await agent.converse(ASKED)
    with pytest.raises(AssertionError, match="request 2: reasoning of turn 1 is missing at input"):
        strict_api.assert_whole()


def test_a_client_that_never_called_fails(strict_api: ServedApi) -> None:
    """A test that tests nothing is no success."""
    with pytest.raises(AssertionError, match="never called the API"):
        strict_api.assert_whole()


SUITE = """
import pytest

@pytest.mark.strict_api(scenario="parallel")
def test_one(strict_api):
    assert strict_api.openai_base_url.endswith("/v1")

@pytest.mark.strict_api(colour="red")
def test_two(strict_api):
    pass
"""


def test_it_is_found_by_pytest(tmp_path: Path) -> None:
    """The fixture and its marker are there without any import; an unknown option is an error."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    words = [sys.executable, "-m", "pytest", "--strict-markers", "-p", "no:randomly", str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert "1 passed" in done.stdout
    assert "1 error" in done.stdout
    assert "the marker strict_api has no colour" in done.stdout
