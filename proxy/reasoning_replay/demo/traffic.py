"""
Traffic of the playground: agents that talk through the proxy in a loop, each with its own habits.

Together they cause everything that the inspector shows: injected, present, missed and ambiguous
reasoning, repaired and healed requests, prefixes that move, refusals, a client that leaves, a path
that is not replayed, and one that lacks `/v1`. Some speak Chat Completions or Messages.
"""

import asyncio
import contextlib
import itertools
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal

import aiohttp

from reasoning_replay.demo.agent_loop import TURNS_MAX
from reasoning_replay.demo.scripted_model import Item
from reasoning_replay.demo.wires import CHAT, MESSAGES

__all__ = ["HABITS", "Habit", "keep_talking"]

ROUNDS: Final = 3  # questions of one conversation
# Pauses of a client, in words that the model writes in that time.
TOOL_WORDS: Final = 20
READING_WORDS: Final = 60
STRAY_WORDS: Final = 100
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
ANSWER: Final[Item] = {
    "role": "assistant",
    "content": 'You asked: "Hello!". This answer is scripted, so take an umbrella.',
}
RESULT: Final = "7 degrees, rain, 3 trains a day"
TOOLS: Final[list[Item]] = [
    {
        "type": "function",
        "name": name,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    for name in ("get_weather", "find_trains")
]
CHAT_TOOLS: Final[list[Item]] = [
    {"type": "function", "function": {name: tool[name] for name in ("name", "parameters")}}
    for tool in TOOLS
]
MESSAGES_TOOLS: Final[list[Item]] = [
    {"name": tool["name"], "input_schema": tool["parameters"]} for tool in TOOLS
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """
    The way in which a client treats its history.

    Attributes:
        key: API key; clients that share it are one tenant.
        dialect: The API that it uses. With Chat Completions, it keeps the members that the OpenAI
            SDK declares, and with Messages all blocks but the reasoning; ids included.
        effort: Its `reasoning_effort`. With `low`, the chat model calls tools without a thought.
            The API demands its empty text all the same, so the request is refused and healed.
        begins_elsewhere: Whether its first question goes to the API directly, and without tools,
            as in a conversation that began before the proxy was there.
        changes_account: Whether its history gets reasoning of another account after one question.
        tells_time: Whether its instructions have the time of day, so that their prefix moves.
    """

    key: str
    dialect: Literal["responses", "chat", "messages"] = "responses"
    model: str = "gpt-5.4"
    effort: str = "medium"
    keeps_reasoning: bool = False
    keeps_ids: bool = True
    stores: bool = True
    streams: bool = True
    begins_elsewhere: bool = False
    changes_account: bool = False
    tells_time: bool = False


HABITS: Final = (
    Habit(key="sk-trips"),
    Habit(key="sk-trips", keeps_ids=False),
    Habit(key="sk-mail", stores=False, streams=False, model="gpt-5.4-mini"),
    Habit(key="sk-careful", keeps_reasoning=True),
    Habit(key="sk-newcomer", begins_elsewhere=True),
    Habit(key="sk-newcomer", begins_elsewhere=True, keeps_ids=False),
    Habit(key="sk-mover", changes_account=True, stores=False),
    Habit(key="sk-classic", model="gpt-4.1"),
    Habit(key="sk-clock", tells_time=True),
    Habit(key="sk-chat", dialect="chat", model="deepseek-v4-flash"),
    Habit(key="sk-brief", dialect="chat", model="deepseek-v4-flash", streams=False, effort="low"),
    Habit(key="sk-claude", dialect="messages", model="claude-sonnet-4-6", streams=False),
)


async def keep_talking(base_url: str, upstream_url: str, word_s: float) -> None:
    """
    Run all agents until the task is cancelled.

    Args:
        base_url: Base URL of the proxy.
        upstream_url: Base URL of the API.
        word_s: Time in which the model writes one word, in seconds.
    """
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        for number, habit in enumerate(HABITS):
            agent = AGENTS[habit.dialect](session, base_url, upstream_url, word_s, habit)
            questions = itertools.islice(itertools.cycle(QUESTIONS), number, None)
            group.create_task(agent.run(questions))
        group.create_task(_stray(session, base_url, word_s))


class _Agent:
    """One agent: a conversation of a few questions, and then the next one."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        upstream_url: str,
        word_s: float,
        habit: Habit,
    ) -> None:
        self._session = session
        self._base_url = base_url
        self._upstream_url = upstream_url
        self._word_s = word_s
        self._habit = habit

    async def run(self, questions: Iterator[str]) -> None:
        """Hold one conversation after another."""
        while True:
            # The proxy may be about to stop.
            with contextlib.suppress(aiohttp.ClientError):
                await self._converse(questions)
            await asyncio.sleep(READING_WORDS * self._word_s)

    async def _converse(self, questions: Iterator[str]) -> None:
        history = [INSTRUCTIONS]
        for number, question in enumerate(itertools.islice(questions, ROUNDS)):
            if number == 1 and self._habit.changes_account:
                history.append(_foreign())
            if self._habit.tells_time:
                history[0] = {**INSTRUCTIONS, "content": f"It is {9 + number}:00. You plan trips."}
            history.append({"role": "user", "content": question})
            is_direct = self._habit.begins_elsewhere and number == 0
            if not await self._answered(history, self._upstream_url if is_direct else None):
                return
            await asyncio.sleep(READING_WORDS * self._word_s)

    async def _answered(self, history: list[Item], elsewhere: str | None) -> bool:
        """Run the tools that the model calls; return whether it answered in the end."""
        for _ in range(TURNS_MAX):
            output = await self._ask(elsewhere or self._base_url, history)
            history += map(self._kept, self._without_reasoning(output))
            results = self._results(output)
            if not results:
                return bool(output)
            await asyncio.sleep(TOOL_WORDS * self._word_s)
            history += results
        return False

    async def _ask(self, base_url: str, history: list[Item]) -> list[Item]:
        """Send the history; return the output, which is empty if the request was refused."""
        tools = TOOLS if base_url == self._base_url else []
        body: Item = {"input": history, "store": self._habit.stores, "tools": tools}
        text = await self._sent(f"{base_url}/responses", body)
        if not text or not self._habit.streams:
            return list(json.loads(text)["output"]) if text else []
        last = text.rpartition("data: ")[2]  # response.completed
        return list(json.loads(last)["response"]["output"])

    async def _sent(self, url: str, body: Item) -> str:
        """Send a request; return the text of the response, "" if it was refused."""
        body |= {"model": self._habit.model, "stream": self._habit.streams}
        headers = {"Authorization": f"Bearer {self._habit.key}"}
        async with self._session.post(url, json=body, headers=headers) as response:
            text = await response.text()
        return text if response.status == HTTPStatus.OK else ""

    def _results(self, output: list[Item]) -> list[Item]:
        """Return the results of the tools that the model calls."""
        return [
            {"type": "function_call_output", "call_id": one["call_id"], "output": RESULT}
            for one in output
            if one["type"] == "function_call"
        ]

    def _without_reasoning(self, output: list[Item]) -> list[Item]:
        keeps = self._habit.keeps_reasoning
        return [item for item in output if keeps or item["type"] != "reasoning"]

    def _kept(self, item: Item) -> Item:
        keeps = self._habit.keeps_ids
        return {name: value for name, value in item.items() if keeps or name != "id"}


class _ChatAgent(_Agent):
    """An agent on Chat Completions; its output is one message."""

    _wire = CHAT

    async def _ask(self, base_url: str, history: list[Item]) -> list[Item]:
        body = {"messages": history, "tools": CHAT_TOOLS, "reasoning_effort": self._habit.effort}
        text = await self._sent(f"{base_url}{self._wire.path}", body)
        if not text:
            return []
        if self._habit.streams:
            return [_joined(text)]
        return self._wire.said(json.loads(text))

    def _results(self, output: list[Item]) -> list[Item]:
        return self._wire.results(output)

    def _without_reasoning(self, output: list[Item]) -> list[Item]:
        return self._wire.kept(output)

    def _kept(self, item: Item) -> Item:
        return item


class _MessagesAgent(_ChatAgent):
    """An agent on Messages, which streams nothing."""

    _wire = MESSAGES

    async def _ask(self, base_url: str, history: list[Item]) -> list[Item]:
        instructions, *messages = history
        body: Item = {"system": instructions["content"], "messages": messages, "max_tokens": 4096}
        body |= {"tools": MESSAGES_TOOLS, "thinking": {"type": "enabled", "budget_tokens": 1024}}
        text = await self._sent(f"{base_url}{self._wire.path}", body)
        return self._wire.said(json.loads(text)) if text else []


AGENTS: Final[dict[str, type[_Agent]]] = {
    "responses": _Agent,
    "chat": _ChatAgent,
    "messages": _MessagesAgent,
}


def _joined(stream: str) -> Item:
    """Return the message of a stream, without members that the SDK does not declare."""
    text, calls = "", list[Item]()
    for line in stream.splitlines():
        if not line.startswith("data: {"):
            continue
        delta: Item = json.loads(line.removeprefix("data: "))["choices"][0]["delta"]
        text += delta.get("content") or ""
        for part in delta.get("tool_calls") or ():
            if part["index"] == len(calls):
                calls.append(part)
            else:
                calls[-1]["function"]["arguments"] += part["function"]["arguments"]
    message: Item = {"role": "assistant", "content": text}
    return message | ({"tool_calls": calls} if calls else {})


async def _stray(session: aiohttp.ClientSession, base_url: str, word_s: float) -> None:
    """Send single requests that do not belong to a conversation, one after another."""
    hello: Item = {"model": "gpt-5.4", "input": HELLO["content"]}
    after: Item = {"model": "gpt-5.4", "input": [HELLO, ANSWER, {"role": "user", "content": "So?"}]}
    text: Item = {"model": "text-embedding-3-small", "input": HELLO["content"]}
    responses, root = f"{base_url}/responses", base_url.removesuffix("/v1")
    lost: Item = {"type": "reasoning", "id": "rs_of_last_year", "summary": []}
    key = {"Authorization": "Bearer sk-stray"}
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
