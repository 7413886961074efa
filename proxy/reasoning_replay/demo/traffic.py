"""
Traffic of the playground: agents that talk through the proxy in a loop, each with its own habits.

Together they cause everything that the inspector shows: injected, present and lacking
reasoning, repaired and healed requests, refusals, a client that leaves, a path that is not
replayed, and one that lacks `/v1`. Some use another API than Responses.
"""

import asyncio
import contextlib
import itertools
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import aiohttp

from reasoning_replay.core.dialects.registry import CHAT, GEMINI, MESSAGES, RESPONSES
from reasoning_replay.demo.agent_loop import TURNS_MAX, WEATHER
from reasoning_replay.strict_api.scenarios import ANSWER
from reasoning_replay.wires import WIRES, Item, Reply

ROUNDS: Final = 3  # questions of one conversation
# Pauses of a client, in words that the model writes in that time.
TOOL_WORDS: Final = 20
READING_WORDS: Final = 60
STRAY_WORDS: Final = 400
# Between the starts of two agents, and between two conversations of an agent: two or three agents
# talk at a time, so that readers find their own requests.
APART_WORDS: Final = 300
REST_WORDS: Final = 3000
INSTRUCTIONS: Final[Item] = {"role": "developer", "content": "You plan trips. " * 40}
QUESTIONS: Final = (
    "Which of my trips will be rainy?",
    "Which of them should I move?",
    "Is there a night train?",
    "What should I pack?",
    "Where can I swim?",
    "Which hotel has a sauna?",
    "Who else is travelling?",
)
HELLO: Final[Item] = {"role": "user", "content": "Hello!"}
RESULT: Final = "7 degrees, rain, 3 trains a day"
TRAINS: Final = WEATHER | {"name": "find_trains", "description": "Finds trains to a city."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """
    The way in which a client treats its history.

    Attributes:
        key: API key; clients that share it are one tenant.
        dialect: The API that it uses.
        more: Further members of each request.
        begins_elsewhere: Whether its first question goes to the API directly, and without tools,
            as in a conversation that began before the proxy was there.
        changes_account: Whether its history gets reasoning of another account after one question.
        tells_time: Whether its instructions have the time of day, so that their prefix moves.
    """

    key: str
    dialect: str = RESPONSES
    model: str = "gpt-5.4"
    more: Mapping[str, Any] = field(default_factory=dict)
    keeps_reasoning: bool = False
    keeps_ids: bool = True
    begins_elsewhere: bool = False
    changes_account: bool = False
    tells_time: bool = False


# In the order in which they begin: at first those that differ most.
HABITS: Final = (
    Habit(key="sk-trips"),
    Habit(key="sk-newcomer", begins_elsewhere=True),
    Habit(key="sk-chat", dialect=CHAT, model="deepseek-v4-flash"),
    Habit(key="sk-clock", tells_time=True),
    Habit(key="sk-claude", dialect=MESSAGES, model="claude-sonnet-4-6"),
    Habit(key="sk-gemini", dialect=GEMINI, model="gemini-3-pro-preview"),
    Habit(key="sk-mover", changes_account=True, more={"store": False}),
    Habit(key="sk-mail", more={"store": False}, model="gpt-5.4-mini"),
    # The chat model then calls tools without a thought, but demands its empty text all the same, so
    # the request is refused and healed.
    Habit(
        key="sk-brief", dialect=CHAT, model="deepseek-v4-flash", more={"reasoning_effort": "low"}
    ),
    Habit(key="sk-careful", keeps_reasoning=True),
    Habit(key="sk-newcomer", begins_elsewhere=True, keeps_ids=False),
    Habit(key="sk-classic", model="gpt-4.1"),
    Habit(key="sk-trips", keeps_ids=False),
)
STRAY_KEY: Final = "sk-stray"
# All keys of the agents. A reader uses another one.
KEYS: Final = sorted({STRAY_KEY, *(habit.key for habit in HABITS)})


async def keep_talking(base_url: str, upstream_url: str, word_s: float) -> None:
    """Run all agents until the task is cancelled; the model writes one word in `word_s`."""
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        for number, habit in enumerate(HABITS):
            agent = _Agent(session, base_url, upstream_url, word_s, habit)
            questions = itertools.islice(itertools.cycle(QUESTIONS), number, None)
            group.create_task(agent.run(questions, number * APART_WORDS * word_s))
        group.create_task(_stray(session, base_url, word_s))


@dataclass(frozen=True, slots=True)
class _Agent:
    """One agent: a conversation of a few questions, and then the next one."""

    session: aiohttp.ClientSession
    base_url: str
    upstream_url: str
    word_s: float
    habit: Habit

    async def run(self, questions: Iterator[str], after_s: float) -> None:
        """Hold one conversation after another; the first one begins after a pause."""
        await asyncio.sleep(after_s)
        while True:
            # The proxy may be about to stop.
            with contextlib.suppress(aiohttp.ClientError):
                await self._converse(questions)
            await asyncio.sleep(REST_WORDS * self.word_s)

    async def _converse(self, questions: Iterator[str]) -> None:
        habit = self.habit
        history = [] if habit.dialect in {MESSAGES, GEMINI} else [INSTRUCTIONS]
        for number, question in enumerate(itertools.islice(questions, ROUNDS)):
            if number == 1 and habit.changes_account:
                history.append(_foreign())
            if habit.tells_time:
                history[0] = {**INSTRUCTIONS, "content": f"It is {9 + number}:00. You plan trips."}
            history.append(WIRES[habit.dialect].says(question))
            is_direct = habit.begins_elsewhere and number == 0
            if not await self._answered(history, is_direct=is_direct):
                return
            await asyncio.sleep(READING_WORDS * self.word_s)

    async def _answered(self, history: list[Item], *, is_direct: bool) -> bool:
        """Run the tools that the model calls; return whether it answered in the end."""
        for _ in range(TURNS_MAX):
            reply = await self._ask(history, is_direct=is_direct)
            if reply is None:
                return False
            said = reply.said if self.habit.keeps_reasoning else reply.kept
            dropped = () if self.habit.keeps_ids else ("id",)
            history += [{name: one[name] for name in one if name not in dropped} for one in said]
            if not reply.calls:
                return True
            await asyncio.sleep(TOOL_WORDS * self.word_s)
            history += WIRES[self.habit.dialect].results(reply.calls, RESULT)
        return False

    async def _ask(self, history: list[Item], *, is_direct: bool) -> Reply | None:
        """Send the history; return None if it was refused."""
        habit, wire = self.habit, WIRES[self.habit.dialect]
        functions = () if is_direct else (WEATHER, TRAINS)
        body = {**wire.request(habit.model, history, *functions), **habit.more}
        streams = habit.dialect == RESPONSES
        body |= {"stream": True} if streams else {}
        url = (self.upstream_url if is_direct else self.base_url) + wire.path_of(habit.model)
        headers = {"Authorization": f"Bearer {habit.key}"}
        async with self.session.post(url, json=body, headers=headers) as response:
            text = await response.text()
        if response.status != HTTPStatus.OK:
            return None
        if streams:  # the last event is response.completed
            return wire.read(json.loads(text.rpartition("data: ")[2])["response"])
        return wire.read(json.loads(text))


async def _stray(session: aiohttp.ClientSession, base_url: str, word_s: float) -> None:
    """Send single requests that do not belong to a conversation, one after another."""
    hello: Item = {"model": "gpt-5.4", "input": HELLO["content"]}
    history = [HELLO, {"role": "assistant", "content": ANSWER}, {"role": "user", "content": "So?"}]
    after: Item = {"model": "gpt-5.4", "input": history}
    text: Item = {"model": "text-embedding-3-small", "input": HELLO["content"]}
    responses, root = f"{base_url}/responses", base_url.removesuffix("/v1")
    lost: Item = {"type": "reasoning", "id": "rs_of_last_year", "summary": []}
    key = {"Authorization": f"Bearer {STRAY_KEY}"}
    for url, body, headers, leaves in itertools.cycle(
        (
            (responses, hello, {}, False),  # without a key
            (f"{base_url}/embeddings", text, key, False),  # a path that is not replayed
            (f"{root}/responses", hello, key, False),  # a base URL without /v1
            (responses, hello | {"stream": True}, key, True),  # leaves after the first bytes
            (responses, hello, key, False),
            (responses, hello, key, False),
            (responses, after, key, False),  # follows either of them
            (responses, hello | {"input": [lost]}, key, False),  # refused
            (responses, hello | {"previous_response_id": "resp_gone"}, key, False),
        )
    ):
        await asyncio.sleep(STRAY_WORDS * word_s)
        with contextlib.suppress(aiohttp.ClientError):
            async with session.post(url, json=body, headers=headers) as response:
                await (response.content.readline() if leaves else response.read())
                if leaves:
                    response.close()


def _foreign() -> Item:
    """Return reasoning that another account was issued."""
    blob = "gAAAA" + secrets.token_urlsafe(640)
    item_id = f"rs_{secrets.token_hex(24)}"
    return {"type": "reasoning", "id": item_id, "summary": [], "encrypted_content": blob}
