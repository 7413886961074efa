"""Test client: makes an honest history over raw HTTP, then sends the request of a scenario."""

import json
from typing import Any, NamedTuple

import aiohttp
import msgspec

from tests.demand.notation import Item, Past
from tests.demand.rows import Scenario
from tests.strict import StrictResponses

QUESTIONS = ("Where does it rain today?", "And tomorrow?", "And on Sunday?")
MARK = "x-reasoning-replay"


class Answer(NamedTuple):
    """
    One whole response.

    Attributes:
        status: Its HTTP status.
        raw: Its body.
        said: The error that it reports; "" if there is none.
        mark: The proxy's response header; word -> value.
    """

    status: int
    raw: bytes
    said: str
    mark: dict[str, str]


def api_for(scenario: Scenario) -> StrictResponses:
    """Return the upstream of a scenario, as it is while the history is made."""
    api = StrictResponses()
    api.behaviour = msgspec.structs.replace(
        scenario.behaviour, loop=scenario.loop, quirks=scenario.quirks
    )
    return api


class Client:
    """
    The client of one scenario.

    Args:
        session: HTTP connections.
        scenario: The scenario that it plays.
        stream: Whether it requests streams.
    """

    def __init__(self, session: aiohttp.ClientSession, scenario: Scenario, *, stream: bool) -> None:
        self._session = session
        self._scenario = scenario
        self._stream = stream

    async def converse(self, base_url: str) -> Past:
        """Make the honest history: keep all items, answer every call, ask the next question."""
        scenario, past = self._scenario, Past()
        rounds = 0
        for _ in range(scenario.turns):
            if not past.items or past.items[-1].get("role") == "assistant":
                past.items.append({"role": "user", "content": QUESTIONS[rounds]})
                rounds += 1
            told = past.items
            if "conversation" in scenario.body:  # upstream stores the earlier items
                told = [item for item in past.items[-1:] if item.get("role") != "assistant"]
            answer = await self.send(base_url, self.request(told))
            assert (answer.status, answer.said) == (200, "")
            past.items += self._take(answer.raw, past)
        if scenario.asks:
            past.items.append({"role": "user", "content": scenario.asks})
        return past

    def request(self, items: list[Item], **last: Any) -> bytes:
        """Return a request body."""
        body = {"model": self._scenario.model, "input": items, "stream": self._stream}
        return json.dumps(body | dict(self._scenario.body) | last).encode()

    def last(self, items: list[Item], past: Past) -> bytes:
        """Return the body of the last request, which the scenario tests."""
        more = dict(self._scenario.last)
        if more.get("previous_response_id") == "previous":
            more["previous_response_id"] = past.responses[-1]
        return self.request(items, **more)

    async def send(self, base_url: str, body: bytes) -> Answer:
        """Send a request and read the whole response."""
        key = "sk-demand" if self._scenario.key == "api-key" else "Bearer sk-demand"
        headers = {self._scenario.key: key, "Content-Type": "application/json"}
        async with self._session.post(
            f"{base_url}/responses", data=body, headers=headers
        ) as response:
            raw = await response.read()
            said = _said(raw) if response.status == 200 else _fault(raw)
            words = [one.partition("=") for one in response.headers.get(MARK, "").split(", ")]
            mark = {name: value for name, _, value in words}
            return Answer(response.status, raw, said, mark)

    def kept(self, raw: bytes) -> list[Item]:
        """Return the items that an honest client keeps of a response, and outputs for its calls."""
        return self._take(raw, Past())

    def _take(self, raw: bytes, past: Past) -> list[Item]:
        if not self._stream:
            answer = json.loads(raw)
            past.responses.append(answer["id"])
            return _with_outputs(answer["output"])
        told = _events(raw)
        past.responses.append(told[-1]["response"]["id"])
        added = [event["item"] for event in told if event["type"] == "response.output_item.added"]
        done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
        final = told[-1]["response"]["output"]
        for first, item, last in zip(added, done, final, strict=True):
            past.added[item["id"]] = first["id"]
            past.completed[item["id"]] = last
        return _with_outputs(done)


def _with_outputs(items: list[Item]) -> list[Item]:
    calls = [item for item in items if "call_id" in item]
    return [*items, *map(_answered, calls)]


def _answered(call: Item) -> Item:
    return {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": "7 degrees"}


def _events(raw: bytes) -> list[Item]:
    blocks = raw.decode().removesuffix("\n\n").split("\n\n")
    return [json.loads(block.partition("\ndata: ")[2]) for block in blocks]


def _fault(raw: bytes) -> str:
    try:
        said: str = json.loads(raw)["error"]["message"]
    except ValueError:
        return raw.decode()
    return said


def _said(raw: bytes) -> str:
    """Return the error that an accepted stream reports in `error` or `response.failed`, or ""."""
    if not raw.startswith(b"event:"):
        return ""
    for event in _events(raw):
        if event["type"] == "error":
            return str(event.get("error", event)["message"])
        if event["type"] == "response.failed":
            return str(event["response"]["error"]["message"])
    return ""
