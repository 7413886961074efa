"""
Short way, attacked through the proxy: it sends the same bytes upstream as the long way.

A story is a list of steps of clients that share a tenant, or not. It is played twice, on stores of
its own: as it is, and with every decision forced to take the long way. Both runs must look the
same from outside: the bytes that upstream received, what the clients got, and what is stored.
"""

import asyncio
import contextlib
import json
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.adapters.stores.base import StoreError
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.known_prefix import LongWay
from reasoning_replay.core.dialects.states import Way
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import App, running
from typing_extensions import override

from tests.core.world import drawn
from tests.fast_lane import each_value, examples, slow
from tests.patience import SOON_S
from tests.redis_server import RedisServer
from tests.web.chat import completions
from tests.web.gemini import exchanges as gemini
from tests.web.line import Answer, line_to, request
from tests.web.messages import exchanges
from tests.web.scripted import Script, Step, Upstream, scripted
from tests.web.wire import as_json, error, events, response, stream, whole
from tests.web.world import Hooked, eventually

Item = dict[str, Any]
Entry = Item | str  # a string is JSON as the client spells it

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


# --- the three APIs: each turn as the upstream emits it, and as clients send it back ---


def _text(turn: Turn) -> str:
    return "OK." if turn.kind == "same" else f"I looked at <{turn.name}>, and it is fine as it is."


def _calls(turn: Turn) -> list[tuple[str, str]]:
    """Return id and arguments of the turn's calls."""
    if turn.kind == "same":
        return [("call_0", "{}")]
    count = {"call": 1, "calls": 2, "text": 0}[turn.kind]
    return [
        (f"call_{drawn(f'{turn.name}.{n}')}", json.dumps({"file": f"<{turn.name}>.{n}"}))
        for n in range(count)
    ]


def _thought(turn: Turn) -> str:
    return f"gAAAA[{turn.name}]"


class Api:
    """One API: paths, bodies, and how a turn looks in it."""

    name = "responses"
    path = "/v1/responses"
    count_path = "/v1/responses/input_tokens"
    history = "input"
    model = "gpt-5.4"
    other_model = "o4-mini"
    header = "Authorization: Bearer sk-{}"

    def emitted(self, turn: Turn) -> list[Item]:
        """Return the items of a response."""
        name = drawn(turn.name)
        thought = {"id": f"rs_{name}", "type": "reasoning", "summary": []}
        made: list[Item] = [thought | {"encrypted_content": _thought(turn)}]
        if turn.kind in {"text", "calls"}:
            part = {"type": "output_text", "text": _text(turn), "annotations": []}
            fixed = {"id": f"msg_{name}", "type": "message", "role": "assistant"}
            made.append(fixed | {"status": "completed", "content": [part]})
        for n, (call_id, arguments) in enumerate(_calls(turn)):
            fixed = {"id": f"fc_{drawn(f'{name}{n}')}", "type": "function_call"}
            made.append(fixed | {"call_id": call_id, "name": "read", "arguments": arguments})
        return made

    def answer(self, turn: Turn, *, is_streamed: bool) -> bytes:
        """Return the whole response."""
        rid = f"resp_{drawn(turn.name)}"
        items = self.emitted(turn)
        if is_streamed:
            return stream(events(*items, rid=rid))
        return whole(as_json(response(*items, rid=rid)))

    def sent_back(self, turn: Turn, *, has_ids: bool, has_thought: bool) -> list[Item]:
        """Return the turn as a client sends it, with the outputs of its calls."""
        items = [one for one in self.emitted(turn) if has_thought or one["type"] != "reasoning"]
        if not has_ids:
            items = [{k: v for k, v in one.items() if k != "id"} for one in items]
        outputs = [
            {"type": "function_call_output", "call_id": call_id, "output": "done: " + call_id}
            for call_id, _ in _calls(turn)
        ]
        return [*items, *outputs]

    def user(self, text: str) -> Item:
        """Return a user's message."""
        return {"role": "user", "content": text}

    def refusal(self, thought: str) -> bytes:
        """Return the refusal of reasoning."""
        return error(
            f"The encrypted content {thought} could not be verified. Reason: Encrypted content "
            "organization_id did not match the target organization."
        )


class Chat(Api):
    """Chat Completions."""

    name = "chat"
    path = completions.CHAT
    count_path = ""
    history = "messages"
    model = completions.MODEL
    other_model = "vendor-small"

    @override
    def emitted(self, turn: Turn) -> list[Item]:
        made: Item = {"role": "assistant", "content": _text(turn)}
        if calls := _calls(turn):
            made["tool_calls"] = [
                {"id": one, "type": "function", "function": {"name": "read", "arguments": what}}
                for one, what in calls
            ]
        return [made | {"reasoning_content": _thought(turn)}]

    @override
    def answer(self, turn: Turn, *, is_streamed: bool) -> bytes:
        (made,) = self.emitted(turn)
        finish = "tool_calls" if "tool_calls" in made else "stop"
        if not is_streamed:
            return whole(as_json(completions.said(made, finish)))
        deltas = [{"role": "assistant", "reasoning_content": made["reasoning_content"]}]
        deltas.append({"content": made["content"]})
        calls = made.get("tool_calls", [])
        deltas += [{"tool_calls": [one | {"index": n}]} for n, one in enumerate(calls)]
        return completions.streamed(*deltas, finish=finish)

    @override
    def sent_back(self, turn: Turn, *, has_ids: bool, has_thought: bool) -> list[Item]:
        (made,) = self.emitted(turn)
        if not has_thought:
            del made["reasoning_content"]
        outputs = [
            {"role": "tool", "tool_call_id": one, "content": "done: " + one}
            for one, _ in _calls(turn)
        ]
        return [made, *outputs]

    @override
    def refusal(self, thought: str) -> bytes:
        return completions.refusal(completions.UNSUPPORTED)


class Messages(Api):
    """Anthropic Messages."""

    name = "messages"
    path = exchanges.PATH
    count_path = exchanges.COUNT
    history = "messages"
    model = exchanges.MODEL
    other_model = exchanges.BOUND
    header = "x-api-key: sk-ant-{}"

    @override
    def emitted(self, turn: Turn) -> list[Item]:
        blocks: list[Item] = [
            {"type": "thinking", "thinking": "Hm.", "signature": _thought(turn)},
            {"type": "text", "text": _text(turn)},
        ]
        blocks += [
            {"type": "tool_use", "id": one, "name": "read", "input": json.loads(what)}
            for one, what in _calls(turn)
        ]
        return blocks

    @override
    def answer(self, turn: Turn, *, is_streamed: bool) -> bytes:
        reason = "tool_use" if _calls(turn) else "end_turn"
        made = exchanges.streamed if is_streamed else exchanges.answer
        return made(*self.emitted(turn), reason=reason)

    @override
    def sent_back(self, turn: Turn, *, has_ids: bool, has_thought: bool) -> list[Item]:
        blocks = [one for one in self.emitted(turn) if has_thought or one["type"] != "thinking"]
        made: list[Item] = [{"role": "assistant", "content": blocks}]
        if calls := _calls(turn):
            outputs = [
                {"type": "tool_result", "tool_use_id": one, "content": "done: " + one}
                for one, _ in calls
            ]
            made.append({"role": "user", "content": outputs})
        return made

    @override
    def refusal(self, thought: str) -> bytes:
        return exchanges.refusal("messages.1.content.0: Invalid `signature` in `thinking` block")


class Gemini(Api):
    """Gemini; the signature is of the first part."""

    name = "gemini"
    path = f"/v1beta/models/{gemini.MODEL}:generateContent"
    count_path = f"/v1beta/models/{gemini.MODEL}:countTokens"
    history = "contents"
    model = gemini.MODEL
    other_model = "gemini-2.5-flash"
    header = "x-goog-api-key: sk-{}"

    @override
    def emitted(self, turn: Turn) -> list[Item]:
        parts: list[Item] = [{"text": _text(turn)}]
        parts += [
            {"functionCall": {"id": one, "name": "read", "args": json.loads(what)}}
            for one, what in _calls(turn)
        ]
        parts[0]["thoughtSignature"] = _thought(turn)
        return parts

    @override
    def answer(self, turn: Turn, *, is_streamed: bool) -> bytes:
        made = gemini.streamed if is_streamed else gemini.answer
        return made(*self.emitted(turn))

    @override
    def sent_back(self, turn: Turn, *, has_ids: bool, has_thought: bool) -> list[Item]:
        parts = self.emitted(turn)
        if not has_thought:
            del parts[0]["thoughtSignature"]
        made: list[Item] = [{"role": "model", "parts": parts}]
        if calls := _calls(turn):
            outputs = [
                {"functionResponse": {"id": one, "name": "read", "response": {"output": one}}}
                for one, _ in calls
            ]
            made.append({"role": "user", "parts": outputs})
        return made

    @override
    def user(self, text: str) -> Item:
        return {"role": "user", "parts": [{"text": text}]}

    @override
    def refusal(self, thought: str) -> bytes:
        return gemini.refusal("Corrupted thought signature.")


APIS: Final = {api.name: api for api in (Api(), Chat(), Messages(), Gemini())}


# --- clients ---


@dataclass
class Client:
    """
    One client; a fork is a copy.

    Attributes:
        history: What it has, each entry a message, raw JSON, or a turn of the upstream.
        more: Further members of its body.
        is_first: Whether those stand before the history.
        spelling: Separators, and whether characters are escaped.
    """

    tenant: str = "a"
    history: list[Entry | Turn] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    has_ids: bool = True
    has_thoughts: bool = False
    is_first: bool = True
    comma: str = ","
    colon: str = ":"
    is_ascii: bool = True
    before: bytes = b""
    mark: int | None = None
    repeats: int = 0

    def fork(self) -> "Client":
        """Return a copy that shares nothing."""
        return replace(self, history=[*self.history], more={**self.more}, headers={**self.headers})

    def entries(self, api: Api) -> list[Entry]:
        """Return the history as it is sent."""
        made: list[Entry] = []
        for one in self.history:
            if isinstance(one, Turn):
                made += api.sent_back(one, has_ids=self.has_ids, has_thought=self.has_thoughts)
            else:
                made.append(one)
        if self.mark is not None and made:
            made[self.mark % len(made)] = _marked(made[self.mark % len(made)])
        return made

    def body(self, api: Api) -> bytes:
        """Return the body, spelled this client's way."""
        entries = self.comma.join(map(self._spelled, self.entries(api)))
        members = {"model": api.model} | self.more
        rest = [f'"{k}"{self.colon}{self._spelled(v)}' for k, v in members.items()]
        history = [f'"{api.history}"{self.colon}[{entries}]'] * (1 + self.repeats)
        parts = [*rest, *history] if self.is_first else [*history, *rest]
        return self.before + ("{" + self.comma.join(parts) + "}").encode()

    def _spelled(self, value: Any) -> str:
        if isinstance(value, str) and value.startswith("{"):
            return value
        return json.dumps(value, separators=(self.comma, self.colon), ensure_ascii=self.is_ascii)


def _marked(entry: Entry) -> Entry:
    """Return a message with a cache mark, if it has a list of blocks."""
    if isinstance(entry, str) or not isinstance(entry.get("content"), list):
        return entry
    *others, last = entry["content"]
    return entry | {"content": [*others, last | {"cache_control": {"type": "ephemeral"}}]}


def _counts(mark: str | None) -> dict[str, int]:
    """Return what a response header counts. Ambiguous or missed: nothing is injected."""
    made: dict[str, int] = {}
    for one in (mark or "").split(", "):
        name, _, value = one.partition("=")
        name = "missed" if name == "ambiguous" else name
        made[name if value.isdigit() else one] = made.get(name, 0) + int(value.isdigit() and value)
    return made


# --- the stage: replicas on one store, in front of one upstream ---


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

    api: Api
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
            self.count(self.apps[replica])
        app = await stop.enter_async_context(running(self.settings))
        self.apps[replica : replica + 1] = [app]
        self._stops[replica : replica + 1] = [stop]

    def count(self, app: App) -> None:
        """Add an app's decisions."""
        for family in app.metrics.registry.collect():
            for one in family.samples:
                if one.name == "reasoning_replay_decisions_total":
                    way = one.labels["way"]
                    self.ways[way] = self.ways.get(way, 0) + one.value

    def client(self, index: int) -> Client:
        """Return one of the clients; there is always one."""
        if not self.clients:
            self.clients.append(Client(history=[self.api.user(FILLER)]))
        return self.clients[index % len(self.clients)]

    def new_turn(self, kind: str, tenant: str) -> Turn:
        """Return the next turn."""
        self.turns += 1
        return Turn(f"{tenant}{self.turns}", kind)

    def judged(self, turn: Turn, *, is_streamed: bool) -> Script:
        """Return a script that refuses bad reasoning, and else responds with this turn."""

        async def step(_: Script, writer: asyncio.StreamWriter) -> None:
            got = self.upstream.received[-1].body.decode()
            bad = next((one for one in sorted(self.refused) if one in got), None)
            made = self.api.refusal(bad) if bad else self.api.answer(turn, is_streamed=is_streamed)
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
        self, body: bytes, client: Client, replica: int, turn: Turn, path: str = ""
    ) -> Answer | None:
        """Send a body, and note what was seen."""
        is_streamed = bool(client.more.get("stream"))
        self.upstream.plays(*(self.judged(turn, is_streamed=is_streamed) for _ in range(3)))
        at = len(self.upstream.received)
        headers = [self.api.header.format(client.tenant), "Content-Type: application/json"]
        headers += [f"{name}: {value}" for name, value in client.headers.items()]
        data = request("POST", path or self.api.path, *headers, body=body)
        app = self.apps[replica % len(self.apps)]
        with self.failing(app):
            async with line_to(app.url) as line:
                await line.send(data)
                head = await line.head()
                got, is_whole = await line.until_it_ends()
        # A conversation that was left is deleted in the background: sooner or later than the next
        # request, as chance has it.
        store = app.store
        await eventually(lambda: not (store._tasks or store._saves.tasks))
        self.upstream.forget_scripts()
        bodies = [one.body for one in self.upstream.received[at:]]
        answer = Answer(head, got)
        self.seen.append(Seen(bodies, answer.status, _counts(answer.mark), got))
        for one in bodies:
            self.judge(one, body, client)
        self.fault = ""
        return answer if answer.status == 200 and is_whole else None

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
        app.store.inner = Hooked(inner, before)
        try:
            yield
        finally:
            app.store.inner = inner

    def judge(self, got: bytes, sent: bytes, client: Client) -> None:
        """Check that nothing foreign was injected into a request."""
        for piece in got.decode(errors="surrogatepass").split("gAAAA[")[1:]:
            name = piece.partition("]")[0]
            if _thought(Turn(name, "")).encode() in sent:
                continue
            assert name.startswith(client.tenant), f"{client.tenant} got {name}"
            kinds = {one.name: one.kind for one in client.history if isinstance(one, Turn)}
            assert name in kinds or "same" in kinds.values(), f"{name} was never in this history"

    async def conversations(self) -> list[tuple[int, int]]:
        """Return the sizes of the stored conversations."""
        page = await self.apps[0].store.survey(None, "", 1000)
        return sorted((one.turns, one.turn_bytes) for one in page.conversations)


# --- steps ---


@dataclass(frozen=True)
class Act:
    """A step of a story, with a readable repr."""

    name: str
    args: tuple[Any, ...] = ()

    async def __call__(self, stage: Stage) -> None:
        """Do it."""
        done = DOINGS[self.name](stage, *self.args)
        if asyncio.iscoroutine(done):
            await done

    def __repr__(self) -> str:
        return f"act({', '.join(map(repr, (self.name, *self.args)))})"


def act(name: str, *args: Any) -> Act:
    """Return a step."""
    return Act(name, args)


async def ask(s: Stage, who: int, replica: int = 0, kind: str = "call") -> None:
    """Send the history; keep the response, and say something if it was a text."""
    client = s.client(who)
    turn = s.new_turn(kind, client.tenant)
    got = await s.exchange(client.body(s.api), client, replica, turn)
    if got is not None:
        client.history.append(turn)
        if not _calls(turn):
            client.history.append(s.api.user(f"Go on after {len(client.history)}, please."))


async def lose(s: Stage, who: int, replica: int = 0, kind: str = "call") -> None:
    """Send the history; the response is lost."""
    client = s.client(who)
    turn = s.new_turn(kind, client.tenant)
    await s.exchange(client.body(s.api), client, replica, turn)


async def count(s: Stage, who: int, replica: int = 0) -> None:
    """Count the tokens of the same body."""
    if s.api.count_path:
        client = s.client(who)
        turn = s.new_turn("text", client.tenant)
        await s.exchange(client.body(s.api), client, replica, turn, s.api.count_path)


async def stranger(s: Stage, who: int, replica: int = 0) -> None:
    """Let another tenant send the same body."""
    client = s.client(who).fork()
    client.tenant = "b"
    await s.exchange(client.body(s.api), client, replica, s.new_turn("call", "b"))


def fork(s: Stage, who: int) -> None:
    """Go on as two clients."""
    client = s.client(who)
    if len(s.clients) < 4:
        s.clients.append(client.fork())


def adopt(s: Stage, who: int, tenant: str) -> None:
    """Go on as another tenant, too."""
    client = s.client(who).fork()
    client.tenant = tenant
    s.clients.append(client)


def have(s: Stage, who: int, name: str, value: Any) -> None:
    """Set an attribute of a client."""
    s.client(who)
    setattr(s.client(who), name, value)


def say(s: Stage, who: int, name: str, value: Any) -> None:
    """Set a member of the body; None: remove it."""
    client = s.client(who)
    client.more.pop(name, None)
    value = s.api.other_model if value == "other" else value
    if value is not None:
        client.more[name] = value


def head(s: Stage, who: int, name: str, value: str) -> None:
    """Set a header."""
    s.client(who).headers[name] = value


def add(s: Stage, who: int, at: int, entry: Entry) -> None:
    """Insert an entry; -1: at the end."""
    history = s.client(who).history
    history.insert(len(history) if at == -1 else at % (len(history) + 1), entry)


def remove(s: Stage, who: int, at: int) -> None:
    """Remove one entry, if another stays."""
    history = s.client(who).history
    if len(history) > 1:
        del history[at % len(history)]


def cut(s: Stage, who: int, size: int) -> None:
    """Cut the start off, as a window does."""
    history = s.client(who).history
    del history[: min(size, len(history) - 1)]


def back(s: Stage, who: int, size: int) -> None:
    """Go back, as an edit of an older message does."""
    history = s.client(who).history
    del history[max(1, len(history) - size) :]


def swap(s: Stage, who: int, at: int) -> None:
    """Swap two entries."""
    history = s.client(who).history
    if len(history) > 1:
        at %= len(history) - 1
        history[at], history[at + 1] = history[at + 1], history[at]


def double(s: Stage, who: int, at: int) -> None:
    """Send an entry twice."""
    history = s.client(who).history
    history.append(history[at % len(history)])


def steal(s: Stage, who: int, whose: int) -> None:
    """Continue with the newest turn of another client."""
    turns = [one for one in s.client(whose).history if isinstance(one, Turn)]
    s.client(who).history += turns[-1:]


def fail(s: Stage, how: str) -> None:
    """Let the next exchange fail this way."""
    s.fault = how


def refuse(s: Stage, who: int, at: int) -> None:
    """Let the upstream refuse the reasoning of a turn from now on."""
    turns = [one for one in s.client(who).history if isinstance(one, Turn)]
    if turns:
        s.refused.add(_thought(turns[at % len(turns)]))


def accept(s: Stage) -> None:
    """Let the upstream accept everything again."""
    s.refused.clear()


async def delete(s: Stage, replica: int, which: int | None) -> None:
    """Delete one conversation, or all, by the admin port."""
    app = s.apps[replica % len(s.apps)]
    page = await app.store.survey(None, "", 1000)
    found = sorted(page.conversations, key=lambda one: (one.scope, one.turns, one.turn_bytes))
    if which is not None:
        found = found[which % len(found) :][:1] if found else []
    for one in found:
        target = f"/conversations/{one.scope.hex()}:{one.conversation.hex()}"
        async with line_to(app.admin_url) as line:
            got = await line.ask(f"DELETE {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert got.status == 200


async def restart(s: Stage, replica: int) -> None:
    """Restart a replica of a store that outlives it."""
    if len(s.apps) > 1:
        await s.start(replica % len(s.apps))


DOINGS: Final[dict[str, Callable[..., Any]]] = {
    one.__name__: one
    for one in (ask, lose, count, stranger, fork, adopt, have, say, head, add, remove, cut, back)
} | {one.__name__: one for one in (swap, double, steal, fail, refuse, accept, delete, restart)}


# --- playing a story twice ---


@contextlib.asynccontextmanager
async def stage(
    api: Api, upstream: Upstream, kind: str, redis: str, **more: Any
) -> AsyncIterator[Stage]:
    """Set up replicas on an empty store: one on `memory`, else two."""
    with tempfile.TemporaryDirectory(prefix="rr-") as folder:
        urls = {
            "memory": "memory://",
            "sqlite": f"sqlite:///{folder}/replay.db",
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
            made = Stage(api, upstream, Settings(**(given | more)), stack)
            for replica in range(1 if kind == "memory" else 2):
                await made.start(replica)
            yield made


def _never(*_: Any, **__: Any) -> Any:
    raise LongWay(Way.NEW)


async def run(
    api: Api, upstream: Upstream, kind: str, redis: str, story: Sequence[Act], **more: Any
) -> tuple[list[Seen], list[tuple[int, int]], dict[str, float]]:
    """Play a story, then let each client ask once more, of fresh replicas and in other forms."""
    async with stage(api, upstream, kind, redis, **more) as s:
        for one in story:
            await one(s)
        for app in s.apps:
            s.count(app)
        ways = dict(s.ways)
        stored = await s.conversations()
        for replica in range(len(s.apps) if len(s.apps) > 1 else 0):
            await s.start(replica)
        for client in list(s.clients):
            for has_ids in (client.has_ids, not client.has_ids):
                probe = client.fork()
                probe.has_ids = has_ids
                turn = s.new_turn("text", client.tenant)
                await s.exchange(probe.body(api), probe, 0, turn)
        return s.seen, stored, ways


async def compare(
    api: Api, kind: str, redis: str, story: Sequence[Act], **more: Any
) -> dict[str, float]:
    """Play a story both ways; return the decisions by way of the first run."""
    async with scripted() as upstream:
        seen, stored, ways = await run(api, upstream, kind, redis, story, **more)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Engine, "ask_after", _never)
            other, kept, none = await run(api, upstream, kind, redis, story, **more)
    assert not none.get("short")
    for number, (one, two) in enumerate(zip(seen, other, strict=True)):
        assert one == two, f"exchange {number} of {story}"
    assert stored == kept
    return ways


# --- stories ---

KINDS: Final = ("call", "text", "calls", "same")
REPLICAS: Final = (0, 0, 0, 1, 0, 0, 1, 1, 1)


def asks(count: int, who: int = 0, **more: Any) -> list[Act]:
    """Return turns of one client; now and then the other replica serves one or two."""
    return [act("ask", who, REPLICAS[n], more.get("kind", "call")) for n in range(count)]


GROWS = asks(4)
RAW = {
    "spaces": '{ "role" :\t"user" ,\n "content" : "a" }',
    "escapes": '{"role":"user","content":"\\u0061\\/\\u00e9\\ud83d\\ude00"}',
    "lone-surrogate": '{"role":"user","content":"\\ud800"}',
    "numbers": '{"role":"user","content":"n","x":[1.0e0,1E400,-0.0,12345678901234567890]}',
    "double-key": '{"role":"user","content":"a","content":"b"}',
    "brackets": '{"role":"user","content":"]}],\\"input\\":[{\\"},{"}',
    "looks-like-a-key": '{"role":"user","content":"x\\",\\"messages\\":["}',
    "deep": '{"role":"user","content":"d","x":' + "[" * 90 + "]" * 90 + "}",
    "broken": '{"role":"user","content":"a"',
    "trailing-comma": '{"role":"user","content":"a"},',
    "nan": '{"role":"user","content":"a","x":NaN}',
}

STORIES: Final[dict[str, list[Act]]] = {
    "grows": asks(6),
    "texts": asks(6, kind="text"),
    "parallel calls": asks(5, kind="calls"),
    "same": asks(6, kind="same"),
    "ids dropped": [act("have", 0, "has_ids", False), *asks(5)],
    "ids dropped later": [*GROWS, act("have", 0, "has_ids", False), *asks(3)],
    "ids kept later": [act("have", 0, "has_ids", False), *GROWS, act("have", 0, "has_ids", True), *asks(3)],  # noqa: E501
    "reasoning sent later": [*GROWS, act("have", 0, "has_thoughts", True), *asks(3)],
    "reasoning dropped later": [act("have", 0, "has_thoughts", True), *GROWS, act("have", 0, "has_thoughts", False), *asks(3)],  # noqa: E501
    "forks": [*GROWS, act("fork", 0), *asks(3, 0), *asks(3, 1)],
    "forks beside": [*GROWS, act("fork", 0), *[act("ask", n % 2, n // 2) for n in range(8)]],
    "forks of the first": [act("fork", 0), *[act("ask", n % 2, n % 3) for n in range(9)]],
    "forks without ids": [act("have", 0, "has_ids", False), *asks(2), act("fork", 0), *[act("ask", n % 2, n // 2, "same") for n in range(8)]],  # noqa: E501
    "same forks with texts": [act("fork", 0), *[act("ask", n % 2, n % 3, "same") for n in range(4)], *[act("ask", n % 2, 0, "text") for n in range(4)]],  # noqa: E501
    "a third fork steals": [*asks(2), act("fork", 0), *asks(2, 0), *asks(2, 1), act("steal", 0, 1), *asks(3, 0), *asks(2, 1)],  # noqa: E501
    "responses lost": [*asks(2), act("lose", 0), *asks(2), act("lose", 0, 1), act("lose", 0), *asks(3)],  # noqa: E501
    "same responses lost": [act("lose", 0, 0, "same"), act("ask", 0, 0, "same"), act("lose", 0, 1, "same"), *asks(4, kind="same")],  # noqa: E501
    "other tenant": [*GROWS, act("stranger", 0), *asks(2), act("stranger", 0, 1), act("stranger", 0), *asks(2)],  # noqa: E501
    "history taken to another tenant": [*GROWS, act("adopt", 0, "b"), *[act("ask", n % 2, n // 2) for n in range(8)]],  # noqa: E501
    "deleted": [*GROWS, act("delete", 0, None), *asks(4)],
    "deleted at the other": [*GROWS, act("delete", 1, None), act("ask", 0, 0), act("ask", 0, 0), *asks(3)],  # noqa: E501
    "one of two deleted": [*asks(2), act("fork", 0), *asks(2, 0), *asks(2, 1), act("delete", 0, 0), *asks(3, 0), *asks(3, 1)],  # noqa: E501
    "lookup fails": [*GROWS, act("fail", "recall"), *asks(4)],
    "lookup fails at the other": [*asks(3), act("fail", "recall"), act("ask", 0, 1), act("ask", 0, 1), act("fail", "recall"), *asks(3)],  # noqa: E501
    "lookup fails at first": [act("fail", "recall"), *asks(5)],
    "save fails": [*asks(3), act("fail", "save"), *asks(4)],
    "cut off": [*asks(3), act("fail", "cut"), *asks(4)],
    "upstream fails": [*asks(3), act("fail", "500"), *asks(4)],
    "refused and healed": [*GROWS, act("refuse", 0, 1), *asks(4)],
    "refused, then accepted": [*GROWS, act("refuse", 0, 0), act("ask", 0, 0), act("accept"), *asks(4)],  # noqa: E501
    "refused at one fork": [*GROWS, act("fork", 0), act("refuse", 0, 2), *asks(3, 0), act("accept"), *asks(3, 1)],  # noqa: E501
    "newest refused": [*GROWS, act("refuse", 0, -1), *asks(2), act("refuse", 0, -1), *asks(3)],
    "restarted": [*GROWS, act("restart", 0), *asks(3), act("restart", 1), *asks(3)],
    "edited old": [*GROWS, act("add", 0, 1, {"role": "user", "content": "Wait."}), *asks(3)],
    "edited first": [*GROWS, act("remove", 0, 0), *asks(3)],
    "edited tail": [*GROWS, act("add", 0, -1, {"role": "user", "content": "Wait."}), *asks(3), act("remove", 0, -4), *asks(2)],  # noqa: E501
    "a turn removed": [*GROWS, act("remove", 0, 2), *asks(3)],
    "swapped": [*GROWS, act("swap", 0, 1), *asks(3), act("swap", 0, -1), *asks(2)],
    "doubled": [*GROWS, act("double", 0, 2), *asks(3)],
    "back and on": [*asks(5), act("back", 0, 2), *asks(4)],
    "back and on again": [*asks(3), act("fork", 0), act("back", 0, 1), *asks(2), act("back", 0, 3), *asks(3), *asks(2, 1)],  # noqa: E501
    "back twice, the same": [*asks(3, kind="same"), act("back", 0, 2), *asks(3, kind="same"), act("back", 0, 2), *asks(3, kind="same")],  # noqa: E501
    "window": [*asks(4), act("cut", 0, 2), *asks(2), act("cut", 0, 1), *asks(3)],
    "model changes": [*GROWS, act("say", 0, "model", "other"), *asks(2), act("say", 0, "model", None), *asks(3)],  # noqa: E501
    "counted": [act("count", 0), act("ask", 0), act("count", 0), act("ask", 0), act("count", 0, 1), act("count", 0), *asks(4), act("count", 0)],  # noqa: E501
    "counted after a fork": [*GROWS, act("fork", 0), act("count", 1), *asks(2, 0), act("count", 1), *asks(2, 1), act("count", 0)],  # noqa: E501
    "streamed and not": [act("ask", 0), act("say", 0, "stream", True), *asks(3), act("say", 0, "stream", None), *asks(2)],  # noqa: E501
    "history first": [act("have", 0, "is_first", False), *asks(5)],
    "history first, later members change": [act("have", 0, "is_first", False), *GROWS, act("say", 0, "model", "other"), *asks(2), act("say", 0, "temperature", 1), *asks(2)],  # noqa: E501
    "history moves in the body": [*GROWS, act("have", 0, "is_first", False), *asks(2), act("have", 0, "is_first", True), *asks(2)],  # noqa: E501
    "history twice in the body": [act("have", 0, "is_first", False), *GROWS, act("have", 0, "repeats", 1), *asks(2), act("have", 0, "repeats", 0), *asks(2)],  # noqa: E501
    "BOM": [act("have", 0, "before", b"\xef\xbb\xbf"), *asks(3), act("have", 0, "before", b""), *asks(3)],  # noqa: E501
    "white space first": [act("have", 0, "before", b" \n"), *asks(5)],
    "odd spaces": [act("have", 0, "comma", " ,\n "), act("have", 0, "colon", "\t: "), *asks(5)],
    "spaces change": [*GROWS, act("have", 0, "comma", " , "), *asks(3)],
    "not escaped": [act("have", 0, "is_ascii", False), act("add", 0, -1, {"role": "user", "content": "Żółw 🐢 \u2028"}), *asks(4)],  # noqa: E501
    "mark moves": [act("add", 0, -1, {"role": "user", "content": [{"type": "text", "text": "Mark me."}]}), *[one for n in range(5) for one in (act("have", 0, "mark", -1), act("ask", 0, n))], act("have", 0, "mark", 1), *asks(2), act("have", 0, "mark", None), *asks(2)],  # noqa: E501
    "store changes": [act("say", 0, "store", False), *asks(3), act("say", 0, "store", True), *asks(2), act("say", 0, "store", None), *asks(3)],  # noqa: E501
    "include changes": [act("say", 0, "store", False), *asks(3), act("say", 0, "include", ["reasoning.encrypted_content"]), *asks(2), act("say", 0, "include", []), *asks(2)],  # noqa: E501
    "becomes stateful": [*GROWS, act("say", 0, "previous_response_id", f"resp_{drawn('a4')}"), *asks(2), act("say", 0, "previous_response_id", None), *asks(2)],  # noqa: E501
    "phase, effort and so on": [*asks(3), act("say", 0, "reasoning", {"effort": "none"}), *asks(2), act("say", 0, "reasoning", {"effort": "high"}), *asks(2)],  # noqa: E501
    "thinking off": [*asks(3), act("say", 0, "thinking", {"type": "disabled"}), *asks(2), act("say", 0, "thinking", None), *asks(2)],  # noqa: E501
    **{f"{name} changes": [act("say", 0, name, "one" * 50), *GROWS, act("say", 0, name, "two" * 50), *asks(2), act("say", 0, name, "one" * 50), *asks(2)] for name in ("instructions", "system", "prompt_cache_key")},  # noqa: E501
    **{f"{name} changes": [act("say", 0, name, [{"type": "function", "name": "read"}]), *GROWS, act("say", 0, name, []), *asks(3)] for name in ("tools",)},  # noqa: E501
    **{f"{name} changes": [act("head", 0, name, "s1"), *GROWS, act("head", 0, name, "s2"), *asks(3)] for name in ("session_id", "x-session-id", "session-id")},  # noqa: E501
    "cache keys of forks": [act("fork", 0), act("say", 0, "prompt_cache_key", "k0"), act("say", 1, "prompt_cache_key", "k1"), *[act("ask", n % 2, n % 3, "same") for n in range(8)]],  # noqa: E501
    "sessions of forks": [act("fork", 0), act("head", 0, "session_id", "k0"), act("head", 1, "session_id", "k1"), *[act("ask", n % 2, n % 3, "same") for n in range(8)]],  # noqa: E501
    "sessions change on equal bytes": [act("head", 0, "session_id", "k0"), act("fork", 0), *asks(3, 0, kind="same"), act("head", 1, "session_id", "k1"), *asks(3, 1, kind="same"), act("head", 0, "session_id", "k1"), *asks(2, 0), act("head", 1, "session_id", "k0"), *asks(2, 1)],  # noqa: E501
    **{f"raw {name} in the middle": [*asks(3), act("add", 0, -1, raw), *asks(3)] for name, raw in RAW.items()},  # noqa: E501
    **{f"raw {name} at last": [*asks(3), act("add", 0, -1, raw), act("ask", 0), act("remove", 0, -2), *asks(3)] for name, raw in RAW.items()},  # noqa: E501
}  # fmt: skip

CERTAIN: Final = ("grows", "parallel calls", "forks", "counted", "history first")


@pytest.fixture(scope="module")
def address(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Return the address of the shared Redis, if a store needs it."""

    def of(kind: str) -> str:
        if kind != "redis":
            return ""
        server: RedisServer = request.getfixturevalue("shared_redis")
        return server.url

    return of


@each_value(story=[*STORIES], api=[*APIS], kind=["memory", "sqlite", "redis"])
async def test_both_ways_look_the_same(
    story: str, api: str, kind: str, address: Callable[[str], str]
) -> None:
    """Upstream, the clients and the store see no difference."""
    ways = await compare(APIS[api], kind, address(kind), STORIES[story])
    if story in CERTAIN:
        assert ways["short"] >= sum(ways.values()) / (3 if kind == "memory" else 6)


@slow
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "more",
    [
        {"conversation_max_bytes": 16_384},
        {"recent_max_bytes": 0},
        {"include": "always"},
        {"include": "never"},
        {"chat_rounds": "current"},
        {"mode": "shadow"},
        {"heal": "off"},
        {"repairs": "none"},
    ],
    ids=str,
)
async def test_both_ways_look_the_same_with_other_settings(api: str, more: dict[str, Any]) -> None:
    """So they do if a conversation is trimmed, or no copy is kept."""
    story = [*GROWS, act("refuse", 0, 1), act("ask", 0), act("accept"), act("fork", 0)]
    story += [act("ask", n % 2, 0, KINDS[n % 4]) for n in range(60)]
    await compare(APIS[api], "memory", "", story, **more)


# --- random stories ---

clients = st.sampled_from([0, 0, 0, 1, 2])
replicas = st.sampled_from([0, 0, 0, 0, 1])
places = st.integers(-4, 6)
kinds = st.sampled_from(["call", "call", "calls", "text", "same", "same"])
turns = st.builds(act, st.just("ask"), clients, replicas, kinds)
MEMBERS: Final[list[tuple[str, Any]]] = [
    ("model", "other"),
    ("model", None),
    ("stream", True),
    ("stream", None),
    ("store", False),
    ("store", True),
    ("store", None),
    ("instructions", "Be brief."),
    ("instructions", None),
    ("prompt_cache_key", "k0"),
    ("prompt_cache_key", "k1"),
    ("tools", []),
    ("include", ["reasoning.encrypted_content"]),
    ("previous_response_id", f"resp_{drawn('a2')}"),
    ("previous_response_id", None),
    ("reasoning", {"effort": "none"}),
    ("reasoning", None),
    ("thinking", {"type": "disabled"}),
    ("thinking", None),
]
ATTRIBUTES: Final[list[tuple[str, Any]]] = [
    ("has_ids", False),
    ("has_ids", True),
    ("has_thoughts", True),
    ("has_thoughts", False),
    ("is_first", False),
    ("is_first", True),
    ("comma", " , "),
    ("comma", ","),
    ("before", b" "),
    ("mark", -1),
    ("mark", None),
]
others = st.one_of(
    st.builds(act, st.sampled_from(["lose"]), clients, replicas, kinds),
    st.builds(act, st.sampled_from(["count", "stranger"]), clients, replicas),
    st.builds(act, st.just("fork"), clients),
    st.builds(act, st.just("fork"), clients),
    st.builds(act, st.just("adopt"), clients, st.sampled_from(["a", "b"])),
    st.builds(lambda who, one: act("say", who, *one), clients, st.sampled_from(MEMBERS)),
    st.builds(lambda who, one: act("have", who, *one), clients, st.sampled_from(ATTRIBUTES)),
    st.builds(act, st.just("head"), clients, st.just("session_id"), st.sampled_from(["s", "t"])),
    st.builds(
        act,
        st.just("add"),
        clients,
        st.one_of(st.just(-1), places),
        st.sampled_from([{"role": "user", "content": "Wait."}, *RAW.values()]),
    ),
    st.builds(act, st.sampled_from(["remove", "swap", "double"]), clients, places),
    st.builds(act, st.sampled_from(["cut", "back"]), clients, st.integers(1, 3)),
    st.builds(act, st.just("steal"), clients, clients),
    st.builds(act, st.just("fail"), st.sampled_from(["recall", "save", "cut", "500"])),
    st.builds(act, st.just("refuse"), clients, places),
    st.builds(act, st.just("accept")),
    st.builds(act, st.just("delete"), replicas, st.sampled_from([None, 0, 1])),
    st.builds(act, st.just("restart"), replicas),
)
# Chosen first, because a union of unions gives each of its parts the same share.
steps = st.sampled_from([turns, turns, turns, others]).flatmap(lambda chosen: chosen)
stories = st.lists(steps, min_size=5, max_size=24)


@slow
@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
@pytest.mark.parametrize("api", APIS)
@examples(40)
@given(story=stories)
def test_random_stories(
    api: str, kind: str, address: Callable[[str], str], story: list[Act]
) -> None:
    """Both ways look the same, whatever the clients do."""
    asyncio.run(compare(APIS[api], kind, address(kind), story))
