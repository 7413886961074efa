"""
Stage: replicas on one store, their clients, and an upstream that may refuse reasoning.

What happens on it is a list of acts: `act("ask", 0, 1)` lets client 0 ask replica 1.
"""

import asyncio
import contextlib
import json
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from unittest import mock

from reasoning_replay.adapters.stores.base import StoreError
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import App, running

from tests.core.world import drawn
from tests.patience import SOON_S
from tests.web.line import Answer, line_to, request
from tests.web.scripted import Script, Step, Upstream
from tests.web.wire import as_json, error, events, response, stream, whole
from tests.web.world import MODEL, Hooked, eventually

Item = dict[str, Any]

RESPONSES: Final = "/v1/responses"
OTHER_MODEL: Final = "o4-mini"
CLIENTS_MAX: Final = 4
FILLER: Final = "Which file sets the timeout of the build? " + "word " * 800


class Turn(NamedTuple):
    """
    One response of the upstream.

    Attributes:
        name: Name that its visible items and its reasoning contain.
        kind: `call`, `calls`, `text`, or `same`: visible items that all such turns share.
    """

    name: str
    kind: str


def text_of(turn: Turn) -> str:
    """Return the text of a turn."""
    return "OK." if turn.kind == "same" else f"I looked at <{turn.name}>, and it is fine as it is."


def calls_of(turn: Turn) -> list[tuple[str, str]]:
    """Return id and arguments of the turn's calls."""
    if turn.kind == "same":
        return [("call_0", "{}")]
    count = {"call": 1, "calls": 2, "text": 0}[turn.kind]
    return [
        (f"call_{drawn(f'{turn.name}.{n}')}", json.dumps({"file": f"<{turn.name}>.{n}"}))
        for n in range(count)
    ]


def thought_of(turn: Turn) -> str:
    """Return the blob of a turn."""
    return f"gAAAA[{turn.name}]"


def emitted(turn: Turn) -> list[Item]:
    """Return the items of a response."""
    name = drawn(turn.name)
    thought = {"id": f"rs_{name}", "type": "reasoning", "summary": []}
    made: list[Item] = [thought | {"encrypted_content": thought_of(turn)}]
    if turn.kind in {"text", "calls"}:
        part = {"type": "output_text", "text": text_of(turn), "annotations": []}
        fixed = {"id": f"msg_{name}", "type": "message", "role": "assistant"}
        made.append(fixed | {"status": "completed", "content": [part]})
    for n, (call_id, arguments) in enumerate(calls_of(turn)):
        fixed = {"id": f"fc_{drawn(f'{name}{n}')}", "type": "function_call"}
        made.append(fixed | {"call_id": call_id, "name": "read", "arguments": arguments})
    return made


def answer(turn: Turn, *, is_streamed: bool) -> bytes:
    """Return the whole response."""
    rid = f"resp_{drawn(turn.name)}"
    items = emitted(turn)
    if is_streamed:
        return stream(events(*items, rid=rid))
    return whole(as_json(response(*items, rid=rid)))


def sent_back(turn: Turn, *, has_ids: bool, has_thought: bool) -> list[Item]:
    """Return the turn as a client sends it, with the outputs of its calls."""
    items = [one for one in emitted(turn) if has_thought or one["type"] != "reasoning"]
    if not has_ids:
        items = [{k: v for k, v in one.items() if k != "id"} for one in items]
    outputs = [
        {"type": "function_call_output", "call_id": call_id, "output": "done: " + call_id}
        for call_id, _ in calls_of(turn)
    ]
    return [*items, *outputs]


def user(text: str) -> Item:
    """Return a user's message."""
    return {"role": "user", "content": text}


def refusal(thought: str) -> bytes:
    """Return the refusal of reasoning."""
    return error(
        f"The encrypted content {thought} could not be verified. Reason: Encrypted content "
        "organization_id did not match the target organization."
    )


@dataclass
class Client:
    """
    One client; a fork is a copy.

    Attributes:
        history: What it has, each entry a message, raw JSON, or a turn of the upstream.
        more: Further members of its body.
        is_first: Whether those stand before the history.
        comma: How it separates members and items.
        before: White space or a mark before the body.
    """

    tenant: str = "a"
    history: list[Item | str | Turn] = field(default_factory=list)
    more: Item = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    has_ids: bool = True
    has_thoughts: bool = False
    is_first: bool = True
    comma: str = ","
    before: bytes = b""

    def fork(self) -> "Client":
        """Return a copy that shares nothing."""
        return replace(self, history=[*self.history], more={**self.more}, headers={**self.headers})

    @property
    def turns(self) -> list[Turn]:
        """The turns in its history."""
        return [one for one in self.history if isinstance(one, Turn)]

    def body(self) -> bytes:
        """Return the body, spelled this client's way."""
        entries: list[str] = []
        for one in self.history:
            if isinstance(one, Turn):
                made = sent_back(one, has_ids=self.has_ids, has_thought=self.has_thoughts)
                entries += map(self._spelled, made)
            else:
                entries.append(one if isinstance(one, str) else self._spelled(one))
        members = {"model": MODEL} | self.more
        parts = [f'"{name}":{self._spelled(value)}' for name, value in members.items()]
        parts.insert(len(parts) if self.is_first else 0, f'"input":[{self.comma.join(entries)}]')
        return self.before + ("{" + self.comma.join(parts) + "}").encode()

    def _spelled(self, value: object) -> str:
        return json.dumps(value, separators=(self.comma, ":"))


def _counts(mark: str | None) -> dict[str, int]:
    """Return what a response header counts. Ambiguous or missed: nothing is injected."""
    made: dict[str, int] = {}
    for one in (mark or "").split(", "):
        name, _, value = one.partition("=")
        name = "missed" if name == "ambiguous" else name
        made[name if value.isdigit() else one] = made.get(name, 0) + int(value.isdigit() and value)
    return made


class Seen(NamedTuple):
    """What one exchange looked like from outside."""

    bodies: list[bytes]
    status: int
    mark: dict[str, int]
    answer: bytes


@dataclass
class Stage:
    """
    Replicas on one store, and what was seen.

    Attributes:
        refused: Reasoning that the upstream refuses.
        seen: Every exchange.
        ways: Number of decisions by way.
    """

    upstream: Upstream
    settings: Settings
    stack: contextlib.AsyncExitStack
    apps: list[App] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    seen: list[Seen] = field(default_factory=list)
    ways: dict[str, float] = field(default_factory=dict)
    fault: str = ""
    turns: int = 0
    _stops: list[contextlib.AsyncExitStack] = field(default_factory=list)

    async def start(self, replica: int) -> None:
        """Start a replica, in place of the one there was; local copies are gone."""
        stop = await self.stack.enter_async_context(contextlib.AsyncExitStack())
        if replica < len(self.apps):
            await self._stops[replica].aclose()
            self.note_ways(self.apps[replica])
        app = await stop.enter_async_context(running(self.settings))
        self.apps[replica : replica + 1] = [app]
        self._stops[replica : replica + 1] = [stop]

    def note_ways(self, app: App) -> None:
        """Add an app's decisions."""
        for family in app.metrics.registry.collect():
            for one in family.samples:
                if one.name == "reasoning_replay_decisions_total":
                    way = one.labels["way"]
                    self.ways[way] = self.ways.get(way, 0) + one.value

    def client(self, index: int) -> Client:
        """Return one of the clients; there is always one."""
        if not self.clients:
            self.clients.append(Client(history=[user(FILLER)]))
        return self.clients[index % len(self.clients)]

    def judged(self, turn: Turn, *, is_streamed: bool) -> Script:
        """Return a script that refuses bad reasoning, and else responds with this turn."""

        async def step(_: Script, writer: asyncio.StreamWriter) -> None:
            got = self.upstream.received[-1].body.decode()
            bad = next((one for one in sorted(self.refused) if one in got), None)
            made = refusal(bad) if bad else answer(turn, is_streamed=is_streamed)
            if self.fault == "cut" and not bad:
                writer.write(made[: 2 * len(made) // 3])
                await writer.drain()
                writer.transport.abort()
            elif self.fault == "500":
                writer.write(whole(b'{"error":{"message":"x"}}', status="500 Oops"))
            else:
                writer.write(made)
                await writer.drain()

        steps: list[Step] = [step]
        return Script(steps)

    async def exchange(
        self, client: Client, replica: int, kind: str = "call", path: str = RESPONSES
    ) -> Turn | None:
        """Send a history, and note what was seen; return the turn that follows, if it arrives."""
        body = client.body()
        self.turns += 1
        turn = Turn(f"{client.tenant}{self.turns}", kind)
        is_streamed = bool(client.more.get("stream"))
        self.upstream.plays(*(self.judged(turn, is_streamed=is_streamed) for _ in range(3)))
        at = len(self.upstream.received)
        headers = [f"Authorization: Bearer sk-{client.tenant}", "Content-Type: application/json"]
        headers += [f"{name}: {value}" for name, value in client.headers.items()]
        data = request("POST", path, *headers, body=body)
        app = self.apps[replica % len(self.apps)]
        with self.failing(app):
            async with line_to(app.url) as line:
                await line.send(data)
                head = await line.head()
                got, is_whole = await line.until_it_ends()
        # A save may go on in the background, and end sooner or later than the next request begins.
        store = app.store
        await eventually(lambda: not store.tasks)
        self.upstream.forget_scripts()
        bodies = [one.body for one in self.upstream.received[at:]]
        self.seen.append(Seen(bodies, head.status, _counts(Answer(head, got).mark), got))
        for one in bodies:
            self.judge(one, body, client)
        self.fault = ""
        return turn if head.status == 200 and is_whole else None

    @contextlib.contextmanager
    def failing(self, app: App) -> Iterator[None]:
        """Let the store fail for one exchange, if it is to."""
        if self.fault not in {"recall", "save"}:
            yield
            return
        which = self.fault

        async def before(operation: str) -> None:
            if operation == which:
                raise StoreError("for a test")

        inner = app.store.inner
        if inner is None:  # there, only a bug can fail
            method = {"recall": "choose", "save": "write"}[which]
            with mock.patch.object(app.store._table, method, side_effect=StoreError("for a test")):
                yield
            return
        app.store.inner = Hooked(inner, before)
        try:
            yield
        finally:
            app.store.inner = inner

    def judge(self, got: bytes, sent: bytes, client: Client) -> None:
        """Check that nothing foreign was injected into a request."""
        for piece in got.decode(errors="surrogatepass").split("gAAAA[")[1:]:
            name = piece.partition("]")[0]
            if thought_of(Turn(name, "")).encode() in sent:
                continue
            assert name.startswith(client.tenant), f"{client.tenant} got {name}"
            kinds = {one.name: one.kind for one in client.turns}
            assert name in kinds or "same" in kinds.values(), f"{name} was never in this history"

    async def conversations(self) -> list[tuple[int, int]]:
        """Return the sizes of the stored conversations."""
        page = await self.apps[0].store.survey(None, "", 1000)
        return sorted((one.turns, one.turn_bytes) for one in page.conversations)


@contextlib.asynccontextmanager
async def stage(upstream: Upstream, kind: str, redis: str, **more: Any) -> AsyncIterator[Stage]:
    """Set up replicas on an empty store: one on `memory`, else two."""
    with tempfile.TemporaryDirectory(prefix="rr-") as folder:
        urls = {
            "memory": "memory://",
            "sqlite": f"sqlite://{folder}/replay.db",
            "redis": f"{redis}?prefix=rr-{secrets.token_hex(8)}",
        }
        given: dict[str, Any] = {
            "upstream_url": upstream.url + "/v1",
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "store_budget_ms": int(1000 * SOON_S),
            "store_url": urls[kind],
            "scope_secret": "s",
            "log_level": "error",
        }
        async with contextlib.AsyncExitStack() as stack:
            made = Stage(upstream, Settings(**(given | more)), stack)
            for replica in range(1 if kind == "memory" else 2):
                await made.start(replica)
            yield made
