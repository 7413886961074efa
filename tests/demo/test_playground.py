"""The playground shows everything that the inspector can show, and serves the reader's own code."""

import asyncio
import contextlib
import itertools
import json
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from reasoning_replay.demo import playground as module
from reasoning_replay.demo.playground import Playground, playground

from tests.e2e.agent import Agent
from tests.patience import SOON_S

ANY = "127.0.0.1:0"
# What the agents cause, as lines of the metrics.
SHOWN = (
    'items_total{dialect="responses",outcome="injected",reason=""}',
    'items_total{dialect="responses",outcome="present",reason=""}',
    'items_total{dialect="responses",outcome="lacking",reason="missed"}',
    'items_total{dialect="responses",outcome="lacking",reason="ambiguous"}',
    'heals_total{diagnosis="blob",dialect="responses",result="cured"}',
    'heals_total{diagnosis="lacks_reasoning",dialect="responses",result="cured"}',
    'repairs_total{dialect="responses",repair="foreign"}',
    'requests_total{dialect="responses",result="no_scope"}',
    'requests_total{dialect="responses",result="stateful"}',
    'items_total{dialect="chat",outcome="injected",reason=""}',
    'heals_total{diagnosis="lacks_reasoning",dialect="chat",result="cured"}',
    'items_total{dialect="messages",outcome="injected",reason=""}',
    'items_total{dialect="gemini",outcome="injected",reason=""}',
    'outcome="client_gone",route="responses"',
    'outcome="refused",route="responses",status="404"',
    'outcome="refused",route="responses",status="400"',
    'route="embeddings"',
)


@pytest.fixture
async def place() -> AsyncIterator[Playground]:
    """A playground that is much faster than a human reads."""
    async with playground(ANY, ANY, word_s=0.0005) as place:
        yield place


async def test_its_agents_cause_everything_that_the_inspector_shows(place: Playground) -> None:
    """Injected, present and missed items, repairs, healing, refusals and a client that leaves."""
    left = set(SHOWN)
    async with aiohttp.ClientSession() as session, asyncio.timeout(SOON_S):
        while left:
            await asyncio.sleep(0.1)
            async with session.get(f"{place.inspector}metrics") as response:
                lines = (await response.text()).splitlines()
            counted = [
                line for line in lines if not line.endswith(" 0.0") and "created" not in line
            ]
            left = {name for name in left if not any(name in line for line in counted)}


async def test_the_inspector_shows_conversations_that_are_interleaved(place: Playground) -> None:
    """Several tenants and conversations, which go on after another one's turn."""
    conversations: list[tuple[str, str]] = []
    async with (
        aiohttp.ClientSession() as session,
        asyncio.timeout(SOON_S),
        session.get(f"{place.inspector}inspector/events") as response,
    ):
        async for line in response.content:
            told = json.loads(line).get("exchange")
            if told and told["conversation"]:
                conversations.append((told["scope"], told["conversation"]))
            tenants = {scope for scope, _ in conversations}
            returns = sum(
                a != b and b in conversations[:at]
                for at, (a, b) in enumerate(itertools.pairwise(conversations), 1)
            )
            if len(tenants) > 4 and returns > len(set(conversations)) > len(tenants):
                break


async def test_the_inspector_can_leave_the_agents_out(place: Playground) -> None:
    """It is told the tenants of all agents, and the reader's is none of them."""
    async with (
        Agent(place.base_url, "async", "ids") as agent,
        aiohttp.ClientSession() as session,
        asyncio.timeout(SOON_S),
        session.get(f"{place.inspector}inspector/events") as response,
    ):
        await agent.converse(["Where does it rain?"])
        agents: list[str] = []
        others: set[str] = set()
        ours: set[str] = set()
        async for line in response.content:
            told = json.loads(line)
            agents = told.get("hello", {}).get("agents", agents)
            one = told.get("exchange", {"scope": ""})
            if one["scope"]:
                (others if one["scope"] in agents else ours).add(one["scope"])
            if len(others) == len(agents) and ours:
                break
        assert len(ours) == 1


@pytest.fixture
def ignores_ctrl_c() -> Iterator[None]:
    """Let child processes ignore SIGINT at their start, as a shell's background job does."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignores_ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_ctrl_c_ends_it(number: signal.Signals) -> None:
    """It says where to look, and Ctrl-C ends it at once, without a traceback, also with `&`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "reasoning_replay", "demo", "--serve"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(SOON_S):
        said = b""
        while b"Ctrl-C ends the playground." not in said:
            line = await process.stdout.readline()
            assert line
            said += line
        await asyncio.sleep(0.5)  # its agents are talking
        process.send_signal(number)
        rest, complaints = await process.communicate()
    assert b"OPENAI_BASE_URL=http://127.0.0.1:" in said
    for name, path in ((b"OPENAI", rb"/v1"), (b"ANTHROPIC", rb"")):  # the proxy, and the API
        urls = re.findall(name + rb"_BASE_URL=(http://127\.0\.0\.1:\d+)" + path + rb"[ \n]", said)
        assert len(set(urls)) == 2
    assert re.search(rb"http://127\.0\.0\.1:\d+/#show=mine\n", said)
    assert complaints == b""
    if number == signal.SIGINT:
        assert (process.returncode, rest) == (0, b"\nThe playground has ended.\n")
    else:
        assert process.returncode == 128 + signal.SIGTERM


async def test_it_uses_free_ports_if_a_usual_one_is_taken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a usual port is in use, it chooses free ones and says so."""
    monkeypatch.setattr(module, "keep_talking", lambda *_: asyncio.sleep(0))
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # another process uses it, which does as well
            stack.enter_context(socket.create_server(("127.0.0.1", 8080)))
        serving = asyncio.create_task(module._serve())
        said = ""
        async with asyncio.timeout(SOON_S):
            while "Ctrl-C" not in said:
                await asyncio.sleep(0.05)
                said += capsys.readouterr().out
        serving.cancel()
        await asyncio.wait([serving])
    assert (
        "127.0.0.1:8080 or 127.0.0.1:9090 is in use, so free ports were chosen instead.\n" in said
    )
    assert "OPENAI_BASE_URL=http://127.0.0.1:8080/v1" not in said


def test_it_says_when_it_cannot_listen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without loopback it prints one line and exits with 1."""

    def refused(*_: object) -> object:
        raise OSError("address not available")

    monkeypatch.setattr(module, "playground", refused)

    assert module.serve() == 1
    said = capsys.readouterr().out
    assert said == "The playground cannot listen on loopback: address not available\n"
