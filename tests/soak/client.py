"""Client of the soak: it plays a conversation, drops items, retries, and reports its responses."""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Literal

import aiohttp

from tests.soak.claims import MEMBER, Claim, Item, Told, is_fragile, is_reasoning, rest, said
from tests.soak.habits import Habit
from tests.soak.relay import LOOP, TERMINAL

if TYPE_CHECKING:
    from tests.soak.load import Load

Way = Literal["json", "stream", "websocket"]
MODEL = "gpt-5.4"
MARK = "x-reasoning-replay"
TOOLS: list[Item] = [
    {
        "type": "function",
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
    {"type": "custom", "name": "run_code"},
]
TRIES = 6
ROUNDS_MAX = 8
PAUSE_S = 0.1
WAITS_S = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """
    Parameters of a conversation.

    Attributes:
        habit: How its client writes histories.
        way: How it sends requests.
        loop: The scripted loop of the model.
        key: The credential of its tenant.
        name: Its name, if its client names it.
        questions: The user messages, one after the other.
        padding: Number of made-up items before the first question.
        is_like_another: Whether another conversation has the same texts.
        title: Its habit and way, in words.
    """

    habit: Habit
    way: Way
    loop: str
    key: str
    name: str
    questions: Sequence[str]
    padding: int = 0
    is_like_another: bool = False
    title: str = ""


class Conversation:
    """
    One client in the middle of a conversation.

    Args:
        plan: The parameters of the conversation.
        load: The load that it is a part of.
        chance: Source of its random choices.
    """

    def __init__(self, plan: Plan, load: "Load", chance: Random) -> None:
        self._plan = plan
        self._load = load
        self._answers: list[str] = []
        self._chance = chance
        self._whole: list[Item] = []
        self._new = 0  # index of the first item that upstream has not received
        self._previous = ""
        self._failures = load.failures()
        # After a cut head, a conversation without a name cannot be identified for certain.
        self._is_plain = not plan.is_like_another and not plan.habit.rounds_kept
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        for at in range(plan.padding):
            role = "assistant" if at % 2 else "user"
            self._whole.append({"role": role, "content": f"{plan.name}, earlier words, {at}."})

    async def run(self) -> None:
        """Ask the questions in turn; stop when a request fails for good."""
        try:
            for question in self._plan.questions:
                self._whole.append({"role": "user", "content": question})
                if not await self._answered():
                    return
                if self._load.quits():
                    return
        finally:
            await self._hang_up()

    async def _answered(self) -> bool:
        """Continue until the model calls no tool; return False if a request fails for good."""
        if self._chance.random() < 0.1 and self._plan.way != "websocket":
            await self._count_tokens()
        for _ in range(ROUNDS_MAX):
            if self._chance.random() < 0.04:
                await self._twice_at_once()
            output = await self._turn()
            if output is None or self._load.quits():
                return False
            if self._chance.random() < 0.04 and not self._plan.habit.is_stateful:
                output = await self._regenerated(output)
                if output is None:
                    return False
            calls = self._take(output)
            if not calls:
                return True
            self._whole += calls
            await asyncio.sleep(self._chance.random() * 2 * PAUSE_S)
        return True

    def _take(self, output: Sequence[Item]) -> list[Item]:
        """Keep a response, and return the outputs of the tools that it calls."""
        self._whole += output
        self._new = len(self._whole)
        return [
            {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "7 degrees"}
            for item in output
            if item["type"] in ("function_call", "custom_tool_call")
        ]

    async def _regenerated(self, output: Sequence[Item]) -> list[Item] | None:
        """Send the request again, and continue with either response."""
        self._is_plain = False  # two responses have the same text, and only their ids differ
        again = await self._turn()
        return again if again is None or self._chance.random() < 0.5 else list(output)

    async def _twice_at_once(self) -> None:
        """Send the next request in advance, and disconnect during the response."""
        if self._plan.way == "websocket":
            return
        self._is_plain = False
        with contextlib.suppress(TimeoutError):
            await self._ask(*self._request(), leaves_behind=self._chance.randrange(0, 3_000))

    async def _count_tokens(self) -> None:
        with contextlib.suppress(TimeoutError):  # it is told like any other request
            await self._ask(*self._request(creates=False), "/input_tokens")

    async def _turn(self) -> list[Item] | None:
        """Send the request until it is answered; return None if it never is."""
        for _ in range(TRIES):
            if self._load.quits():
                break
            number, body = self._request()
            try:
                got = await self._ask(number, body)
            except TimeoutError:
                return None
            if got.is_whole and got.status == 200:
                answer = _answer_in(bytes(got.body), self._plan.way)
                self._previous = answer["id"]
                self._answers.append(got.request_id or answer["id"])
                return list(answer["output"])
            self._is_plain = False  # upstream has emitted items that this client has not received
            await asyncio.sleep(PAUSE_S + self._chance.random() * 3 * PAUSE_S)
        return None

    # One request...

    def _request(self, *, creates: bool = True) -> tuple[str, Item]:
        plan, habit = self._plan, self._plan.habit
        whole = self._cut() if habit.rounds_kept else self._whole
        body: Item = {"model": MODEL, "tools": TOOLS, **habit.more}
        if habit.is_stateful and self._previous:
            whole = self._whole[self._new :]
            body["previous_response_id"] = self._previous
        if "prompt_cache_key" in habit.named:
            body["prompt_cache_key"] = plan.name
        if plan.way == "stream" and creates:
            body["stream"] = True
        written = [_written(item, habit) for item in whole]
        body["input"] = [item for item in written if item is not None]
        if plan.way == "websocket" and creates:
            body = {"type": "response.create", **body}
        claim = Claim(
            number=self._load.number(),
            whole=[item["id"] if is_reasoning(item) else "" for item in whole],
            kept=sum(map(is_reasoning, body["input"])),
            is_fragile=is_fragile(body["input"]),
            said=said(body),
            rest=rest(body),
            client=f"{plan.title}, after {' '.join(self._answers)}",
        )
        self._load.judge.expects(claim)
        body[MEMBER] = claim.number
        return claim.number, body

    def _cut(self) -> list[Item]:
        """Return the newest rounds, after a summary if the habit makes one."""
        habit = self._plan.habit
        asked = [at for at, item in enumerate(self._whole) if item.get("role") == "user"]
        if len(asked) <= habit.rounds_kept:
            return self._whole
        begins = asked[-habit.rounds_kept]
        summary = {"role": "user", "content": f"Summary of {begins} items, {self._plan.name}."}
        return [*([summary] if habit.sums_up else []), *self._whole[begins:]]

    async def _ask(
        self, number: str, body: Item, path: str = "", leaves_behind: int | None = None
    ) -> Told:
        got = Told(number)
        await self._load.slot()
        try:
            with contextlib.suppress(aiohttp.ClientError):
                if self._plan.way == "websocket" and not path:
                    await asyncio.wait_for(self._ask_socket(body, got), WAITS_S)
                else:
                    asked = self._ask_http(body, path, got, leaves_behind)
                    await asyncio.wait_for(asked, WAITS_S)
        finally:
            failures = self._load.failures()
            got.has_failed = failures != self._failures or failures % 2 == 1
            is_answered = got.is_whole and got.status == 200 and not path
            got.is_plain = self._is_plain and not got.has_failed and is_answered
            self._load.judge.told(got)
        return got

    async def _ask_http(self, body: Item, path: str, got: Told, leaves_behind: int | None) -> None:
        headers = {
            "Authorization": f"Bearer {self._plan.key}",
            "Content-Type": "application/json",
            LOOP: self._plan.loop,
        }
        if "session-id" in self._plan.habit.named:
            headers["session-id"] = self._plan.name
        data = json.dumps(body, separators=(",", ":")).encode()
        url = f"{self._chance.choice(self._load.urls)}/responses{path}"
        async with self._load.session.post(url, data=data, headers=headers) as response:
            got.status = response.status
            got.mark = response.headers.get(MARK, "")
            got.request_id = response.headers.get("x-request-id", "")
            async for piece in response.content.iter_any():
                got.body += piece
                if leaves_behind is not None and len(got.body) > leaves_behind:
                    got.has_left = True
                    response.close()
                    return
            got.is_whole = True

    async def _ask_socket(self, body: Item, got: Told) -> None:
        if self._socket is None or self._socket.closed:
            url = f"{self._chance.choice(self._load.urls)}/responses"
            headers = {"Authorization": f"Bearer {self._plan.key}", LOOP: self._plan.loop}
            self._socket = await self._load.session.ws_connect(url, headers=headers, max_msg_size=0)
        got.status = 200
        await self._socket.send_str(json.dumps(body, separators=(",", ":")))
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                break
            got.body += message.data.encode()
            event = json.loads(message.data)
            if event["type"] in TERMINAL:
                got.is_whole = True
                got.status = event.get("status", 200)
                return
        await self._hang_up()

    async def _hang_up(self) -> None:
        if self._socket is not None:
            await self._socket.close()
            self._socket = None


def _written(item: Item, habit: Habit) -> Item | None:
    return habit.maybe_write(item) if "id" in item else item


def _answer_in(data: bytes, way: Way) -> Item:
    """Read the final response object, with the items of its `done` events."""
    if way == "json":
        answer: Item = json.loads(data)
        return answer
    if way == "websocket":
        events = _objects(data.decode())
    else:
        events = [
            json.loads(line[5:]) for line in data.decode().splitlines() if line[:5] == "data:"
        ]
    response: Item = events[-1]["response"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    return response | {"output": done}


def _objects(text: str) -> list[Item]:
    """Decode JSON objects that follow one another."""
    decoder = json.JSONDecoder()
    found: list[Item] = []
    at = 0
    while at < len(text):
        one, at = decoder.raw_decode(text, at)
        found.append(one)
    return found
