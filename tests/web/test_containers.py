"""
Every container that lives longer than an exchange has a bound, and is in a table here.

A new one fails this test. It belongs into the table once something enforces its bound.
"""

import ast
import contextlib
import functools
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import reasoning_replay
from reasoning_replay.adapters.resilience.conversation import KEY_BYTES, ROW_BYTES
from reasoning_replay.adapters.resilience.deletions import KNOWN_MAX
from reasoning_replay.adapters.runtime.resolver import NAMES_MAX
from reasoning_replay.adapters.stores.redis.address import MAX_CONNECTIONS
from reasoning_replay.adapters.stores.sqlite.store import NOTED_AT_ONCE
from reasoning_replay.adapters.telemetry.log_output import QUEUED_LINES
from reasoning_replay.adapters.telemetry.metrics import Metrics, Series
from reasoning_replay.core.dialects.refusal_memory import REMEMBERED, REMEMBERED_EACH
from reasoning_replay.core.dialects.request_body import ITEMS_MAX
from reasoning_replay.core.history.item_summary import NOTED_SHOWN
from reasoning_replay.core.history.lookup_keys import CONVERSATIONS_LOADED
from reasoning_replay.core.history.prefix_cache import LEAST_BYTES, PREFIXES_PER_HEAD
from reasoning_replay.core.history.room import EVICTED_REMEMBERED
from reasoning_replay.web.admin.inspector import recorder
from reasoning_replay.web.admin.inspector.events import WATCHERS_MAX
from reasoning_replay.web.admin.inspector.minutes import MINUTES

from tests.web.containers import containers_of
from tests.web.gemini import exchanges as gemini
from tests.web.line import request
from tests.web.test_dialects import APIS
from tests.web.wire import CALL, RS, as_json, response, whole
from tests.web.world import World, eventually, world

PACKAGE = Path(reasoning_replay.__file__).parent
# Commands, and an API for tests: they end with their work, and serve no one else.
COMMANDS = {"check", "cli", "demo", "strict_api", "verify", "wires"}
ROOM_BYTES = 64 << 10
CONNECTIONS = 50
TURNS = 1024  # default of conversation_max_turns
PREFIXES = ROOM_BYTES // LEAST_BYTES
KEPT = PREFIXES + ROOM_BYTES // ROW_BYTES


class Bound(NamedTuple):
    """
    Bound of a container.

    Attributes:
        most: Entries at most; 0: none once no exchange is in flight; None: as many as at the start.
        by: What enforces it.
    """

    most: int | None
    by: str


FIXED = Bound(None, "nothing is added after the start")
IN_FLIGHT = Bound(0, "removed by the exchange or the operation that added it")
RECORDS = Bound(4 * TURNS, "a store trims conversations; a copy is of its size")
EACH = Bound(99, "one exchange that the recorder has: a fixed set of names")
ITEMS = Bound(ITEMS_MAX, "a parsed prefix; longer requests are not parsed, and PrefixCache evicts")
ROWS: dict[str, dict[str, Bound]] = {
    "adapters.resilience": {
        "conversation.Batch.keys": RECORDS,
        "conversation.Batch.records": RECORDS,
        "conversation.Conversation.added": RECORDS,
        "conversation.Conversation.added[]": RECORDS,
        "conversation.Conversation.keys": Bound(ROOM_BYTES // KEY_BYTES, "LocalTable"),
        "conversation.Conversation.older": RECORDS,
        "conversation.Conversation.sizes": Bound(TURNS, "trimmed"),
        "conversation.Conversation.turns": RECORDS,
        "deletions.Deletions._marks": Bound(KNOWN_MAX, "note_scope drops the oldest"),
        "deletions.Deletions._noted": Bound(KNOWN_MAX, "note drops the oldest"),
        "local_table.LocalTable._rows": Bound(ROOM_BYTES // ROW_BYTES, "evicted beyond its room"),
        "local_table.LocalTable._leaving": Bound(
            ROOM_BYTES // ROW_BYTES, "_let_go drops all, at the next use"
        ),
        "local_table.LocalTable._index": Bound(
            ROOM_BYTES // ROW_BYTES, "a scope leaves with its last key"
        ),
        "local_table.LocalTable._index[]": Bound(
            ROOM_BYTES // KEY_BYTES, "keys leave with their rows"
        ),
        "reader.Reader.tasks": IN_FLIGHT,
        "slots.Slots._free": Bound(ROOM_BYTES // ROW_BYTES + 1, "the most rows at any time"),
        "slots.Slots._names": Bound(ROOM_BYTES // ROW_BYTES + 1, "the most rows at any time"),
        "writer.Writer._overdue": Bound(0, "weak: rows of the table, until they are saved"),
        "writer.Writer._overdue[]": Bound(0, "what Python keeps of a weak dictionary"),
        "writer.Writer.tasks": IN_FLIGHT,
        "store_guard.StoreGuard.breakers": FIXED,
        "store_guard.StoreGuard.failing": Bound(3, "the operations of a store"),
    },
    "adapters.runtime": {
        "blocking.BlockingCalls._begun": IN_FLIGHT,
        "fair_semaphore.FairSemaphore._held": IN_FLIGHT,
        "fair_semaphore.FairSemaphore._waiting": IN_FLIGHT,
        "resolver.Resolver._last": Bound(NAMES_MAX, "_note drops the oldest"),
    },
    "adapters.stores": {
        "redis.address.RedisAddress.options": FIXED,
        "redis.connect.connect.<locals>.server.<locals>.make(options)": FIXED,
        "redis.connect.connect.<locals>.server.<locals>.make(options)[]": FIXED,
        "redis.connect.connect.<locals>.server.<locals>.make(settings)": FIXED,
        "redis.pool.Pool._free": Bound(MAX_CONNECTIONS, "a pool opens no more"),
        "redis.pool.Pool._used": IN_FLIGHT,
        "redis.renewals.Renewals.tasks": IN_FLIGHT,
        "sqlite.store.SqliteStore._noted": Bound(NOTED_AT_ONCE, "_note_use skips further ones"),
    },
    "adapters.telemetry": {
        "log_output.LineWriter._lines": Bound(QUEUED_LINES, "further lines are dropped"),
        **{
            f"metrics.Metrics.{name}": Bound(10_000, "labels have fixed values, models a setting's")
            for name, one in vars(Metrics()).items()
            if isinstance(one, Series)
        },
        "metrics.Metrics._models": FIXED,
        "metrics.Metrics._of_dialects": FIXED,
        "metrics.Metrics._of_dialects[]": FIXED,
        "metrics.Metrics._of_dialects[][]": FIXED,
        "metrics.Metrics._seen": Bound(100, "dialects and none, by upstream"),
    },
    "adapters.upstream": {
        "client.UpstreamClient._connections": Bound(CONNECTIONS, "exchanges, and idle for IDLE_S"),
        "client.UpstreamClient._origins": Bound(1, "the upstream's origin"),
        "client._Origin.idle": Bound(CONNECTIONS, "as the connections"),
        "dialer.Dialer.proxy_headers": FIXED,
        "response.UpstreamResponse._by_name": Bound(1000, "the last head; the parser has a limit"),
        "response.UpstreamResponse._pieces": IN_FLIGHT,
        "response.UpstreamResponse.headers": Bound(1000, "as above"),
    },
    "core": {
        "dialects.foreign_keys.ForeignKeys._issuers": FIXED,
        "dialects.known_state.KnownState.used": Bound(
            CONVERSATIONS_LOADED, "the conversations of one lookup"
        ),
        **{
            f"dialects.responses.request.Request.{name}": ITEMS
            for name in (
                "_chains",
                "_wholes",
                "anchors",
                "heard",
                "places",
                "run",
                "said",
                "values",
            )
        },
        "dialects.refusal_memory.RefusalMemory._issued_for": Bound(REMEMBERED, "as _owners"),
        "dialects.refusal_memory._Shares._owners": Bound(REMEMBERED, "put evicts"),
        "dialects.refusal_memory._Shares._owners[]": Bound(REMEMBERED_EACH, "put evicts"),
        "dialects.refusal_memory._Shares._stamps": Bound(REMEMBERED, "as _owners"),
        "history.item_index.ItemIndex.by_call": RECORDS,
        "history.item_index.ItemIndex.by_call[]": RECORDS,
        **{
            f"history.item_index.ItemIndex.{name}": RECORDS
            for name in (
                "by_content",
                "by_content[]",
                "children",
                "children[]",
                "parentless",
            )
        },
        "history.item_index.ItemIndex.by_id": RECORDS,
        "history.item_index.ItemIndex.by_id[]": RECORDS,
        "history.item_index.ItemIndex.by_whole": RECORDS,
        "history.item_index.ItemIndex.by_whole[]": RECORDS,
        "history.item_index.ItemIndex.turns": RECORDS,
        "history.item_index.ItemIndex.types": RECORDS,
        "history.item_summary.ShownItems": Bound(NOTED_SHOWN, "shown_items leaves others out"),
        "history.plan.Plan.completed": ITEMS,
        "history.plan.Plan.forms": EACH,
        "history.plan.Plan.outcomes": EACH,
        "history.request_history.HistoryPrefix": ITEMS,
        "history.request_history.Place.before": ITEMS,
        "history.prefix_cache.PrefixCache._groups": Bound(PREFIXES, "evicted by bytes"),
        "history.prefix_cache.ParsedPrefix.groups": Bound(PREFIXES, "as PrefixCache._groups"),
        "history.prefix_cache.ParsedPrefix.groups[]": Bound(PREFIXES_PER_HEAD, "as above"),
        "history.prefix_cache.PrefixCache._groups[]": Bound(PREFIXES_PER_HEAD, "keep evicts"),
        "history.room.Room._evicted": Bound(EVICTED_REMEMBERED, "_note_gone drops the oldest"),
        "history.room.Room._members": Bound(KEPT, "evicted beyond local_max_bytes"),
        "history.room.Room._of_size": Bound(64, "bits of a size"),
        "history.room.Room._of_size[]": Bound(KEPT, "as its shares"),
        "history.room.Room._shares": Bound(KEPT, "leave with what they hold"),
        "history.room._Members.sizes": Bound(KEPT, "as Room._members"),
        "history.room._Share.recent": Bound(KEPT, "as Room._members"),
        "history.room._Share.unsaved": Bound(KEPT, "as Room._members"),
    },
    "web.admin": {
        "app.admin_app.<locals>.index(paths)": FIXED,
        "conversations.Conversations.scopings": FIXED,
        "inspector.events.Watchers._watchers": Bound(WATCHERS_MAX, "further ones are refused"),
        "inspector.minutes.Minutes._minutes": Bound(MINUTES, "a deque of this length"),
        "inspector.minutes.Minutes._minutes[]": Bound(99, "one number for each sum"),
        "inspector.recorder.Recorder._open": IN_FLIGHT,
        "inspector.recorder.Recorder._over": Bound(
            recorder.KEPT_BYTES // recorder.EXCHANGE_BYTES, "end drops the oldest"
        ),
    },
    "settings": {"model.Settings.upstreams": FIXED},
    "web": {
        "app.App.agents": FIXED,
        "app.App.upstreams": FIXED,
        "exchange.RequestReport.forms": EACH,
        "exchange.RequestReport.outcomes": EACH,
        "exchange.RequestReport.repairs": EACH,
        "handler.ProxyHandler._phases": FIXED,
        "exchange_log.ExchangeLog._warned_s": Bound(2, "the other protocols"),
        "http.client_connection.ClientConnection._messages": IN_FLIGHT,
        "http.server.Server._connections": Bound(CONNECTIONS, "max_connections"),
        "http.server.Server._kwargs": FIXED,
        "http.server.Server._open": Bound(CONNECTIONS, "max_connections"),
        "memory_budget.MemoryBudget._held": IN_FLIGHT,
        "memory_budget.MemoryBudget._waiting": IN_FLIGHT,
        "pipeline.admission.AdmissionControl._tenants": IN_FLIGHT,
        "own_paths.OwnPaths._without": FIXED,
        "own_paths.OwnPaths.base_urls": FIXED,
        "pipeline.path_advice.PathAdvice._apis": FIXED,
        "pipeline.path_advice.PathAdvice._lacking": FIXED,
        "pipeline.path_advice.PathAdvice._untold": Bound(2, "only removed from"),
        "pipeline.path_advice.PathAdvice._warned_s": Bound(20, "the kinds of mistakes"),
        "pipeline.request_phase.RequestPhase.replays": FIXED,
        "tracing.Tracer._addresses": FIXED,
        "tracing.Tracer._providers": FIXED,
        "upstreams.UpstreamChoice._hosts": FIXED,
    },
}
TABLE = {f"{place}.{name}": bound for place, rows in ROWS.items() for name, bound in rows.items()}
TURNS = 60


async def converse(w: World) -> None:
    """Exchange requests of each dialect, with many conversations, a mistake, and long bodies."""
    long = "x" * 2 * LEAST_BYTES
    for n in range(TURNS):
        ask = {"role": "user", "content": f"{n} {long}"}
        found = [
            RS | {"id": f"rs_{n}" * 4},
            CALL | {"id": f"fc_{n}" * 4, "call_id": f"call_{n}" * 4},
        ]
        w.upstream.answers(whole(as_json(response(*found, rid=f"resp_{n}"))), whole(b"{}"))
        await w.turn(ask)
        await w.turn(
            ask,
            found[1],
            {"type": "function_call_output", "output": "", "call_id": f"call_{n}" * 4},
        )
    for api in APIS:
        w.upstream.answers(api.plain, whole(b"{}"))
        await api.send(w, api.lost[:1])
        await api.send(w, api.lost)
    w.upstream.answers(whole(b"{}"), whole(b"{}"))
    await w.ask(request("POST", gemini.PATH, "x-goog-api-key: k", body=b'{"contents":[]}'))
    await w.get("/v1/v1/models")


def too_long(w: World, at_start: dict[str, list[Any]]) -> list[str]:
    """Return the containers of a proxy at rest that have more entries than their bound."""
    wrong = []
    for name, found in containers_of(w.app).items():
        bound = TABLE.get(name, IN_FLIGHT)
        most = max(map(len, at_start.get(name, [()]))) if bound.most is None else bound.most
        if (longest := max(map(len, found))) > most:
            wrong.append(f"{name}: {longest} > {most}, which {bound.by}")
    return wrong


def url_of(kind: str, asked: pytest.FixtureRequest) -> str:
    """Return the address of an empty store."""
    if kind == "memory":
        return "memory://"
    if kind == "sqlite":
        return f"sqlite://{asked.getfixturevalue('tmp_path')}/replay.db"
    return str(asked.getfixturevalue("own_redis").url)


@pytest.mark.parametrize("store", ["memory", "sqlite", "redis"])
async def test_every_container_of_a_proxy_has_a_bound(
    store: str, request: pytest.FixtureRequest
) -> None:
    """They are found by a walk, after exchanges of each dialect, and are within their bounds."""
    url = url_of(store, request)
    sizes: dict[str, Any] = {"local_max_bytes": ROOM_BYTES}
    if store == "memory":
        sizes["store_max_bytes"] = ROOM_BYTES
    async with world(store_url=url, max_connections=CONNECTIONS, **sizes) as w:
        at_start = containers_of(w.app)
        sizes_at_start = {
            name: [[None] * len(one) for one in kept] for name, kept in at_start.items()
        }
        await converse(w)
        found = containers_of(w.app).keys()
        assert found <= TABLE.keys(), f"without a bound: {sorted(found - TABLE.keys())}"
        with contextlib.suppress(AssertionError):
            await eventually(lambda: not too_long(w, sizes_at_start))
        assert too_long(w, sizes_at_start) == []
        if store == "memory":  # so that the bounds were reached
            usage = await w.app.store._table.usage()
            assert usage is not None
            assert usage.evicted > 0
        w.app.store.new_one = {}  # type: ignore[attr-defined]
        new = containers_of(w.app).keys() - TABLE.keys()
        assert new == {"adapters.resilience.safe_store.SafeStore.new_one"}


MUTABLE = {
    *("dict", "list", "set", "bytearray", "deque", "OrderedDict", "defaultdict", "Counter"),
    *("WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "Queue"),
}
CHANGES = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop"),
    *("popitem", "popleft", "remove", "setdefault", "update", "put_nowait"),
}


def served() -> Iterator[Path]:
    """Return the files of the product that a running proxy uses."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0].removesuffix(".py") not in COMMANDS:
            yield path


def shared_containers(tree: ast.Module) -> set[str]:
    """Return the containers of a module and of its classes that some of its code changes."""
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    named = {
        target.id
        for body in bodies
        for node in body
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_mutable(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    return named & set(_changed(tree))


def _is_mutable(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        called = value.func
        return getattr(called, "id", getattr(called, "attr", "")) in MUTABLE
    displays = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
    return isinstance(value, displays)


def _changed(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield _name_of(node.value)
        elif isinstance(node, ast.AugAssign):
            yield _name_of(node.target)
        elif isinstance(node, ast.Attribute) and node.attr in CHANGES:
            yield _name_of(node.value)


def _name_of(node: ast.expr) -> str:
    """Return the name of a global, or of an attribute of a class or of `self`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@pytest.mark.parametrize(
    "source",
    [
        "SEEN = {}\ndef f(x):\n    SEEN[x] = 1",
        "SEEN: set[str] = set()\ndef f(x):\n    SEEN.add(x)",
        "class A:\n    SEEN = []\n    def f(self):\n        self.SEEN += [1]",
        "SEEN = collections.deque()\ndef f(x):\n    SEEN.append(x)",
    ],
)
def test_a_shared_container_is_found(source: str) -> None:
    """In each form that a module may have."""
    assert shared_containers(ast.parse(source)) == {"SEEN"}


@pytest.mark.parametrize("path", [*served()], ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_has_a_container_that_grows(path: Path) -> None:
    """Those of modules and classes are constants: nothing adds to them, so they need no bound."""
    assert shared_containers(ast.parse(path.read_text())) == set()


def test_every_cache_of_a_function_has_a_bound() -> None:
    """One without a limit has no arguments, so it has one entry."""
    found = 0
    for path in served():
        name = ".".join(("reasoning_replay", *path.relative_to(PACKAGE).with_suffix("").parts))
        source = path.read_text()
        if "@cache" not in source and "lru_cache" not in source:
            continue
        for function in vars(importlib.import_module(name)).values():
            if isinstance(function, functools._lru_cache_wrapper):
                most = function.cache_parameters()["maxsize"]
                assert (most or 0) <= 4096
                assert most or not inspect.signature(function).parameters
                found += 1
    assert found >= 8
