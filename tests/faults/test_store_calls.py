"""
Failing store calls: whichever call fails, and however, the client gets the same bytes.

One conversation has three turns, after a fetched response. Each of its calls to the store fails
once, alone, and once together with all later calls. Upstream then gets either the client's own
request or the correct one, never anything else.
"""

import asyncio
from typing import Any

import pytest
from reasoning_replay.adapters.resilience import safe_store
from reasoning_replay.adapters.stores.base import (
    StoredConversation,
    StoreError,
    StoreResult,
)
from reasoning_replay.core.dialects.registry import scopes_of
from reasoning_replay.web import wiring

from tests.faults.faulty import Failing, Faulty, after_all, gives, hangs, raises
from tests.faults.stage import Stage, staged
from tests.web.line import Answer, Line, line_to, request
from tests.web.wire import (
    ASK,
    CALL,
    MESSAGE,
    NEXT,
    RESULT,
    RS,
    RS_2,
    as_json,
    events,
    response,
    stream,
    whole,
)
from tests.web.world import MODEL, eventually, post

FAILINGS: dict[str, Failing] = {
    "a bug": raises(RuntimeError("bug")),
    "a KeyError": raises(KeyError(b"\xff")),
    "a system's error": raises(OSError(28, "No space left on device")),
    "a store's error": raises(StoreError("away")),
    "a store's error of one key": raises(StoreError("wrong type", is_local=True)),
    "a timeout": raises(TimeoutError()),
    "no memory": raises(MemoryError()),
    "a RecursionError": raises(RecursionError()),
    "StopAsyncIteration": raises(StopAsyncIteration()),
    "an ExceptionGroup": raises(ExceptionGroup("many", [ValueError(), OSError()])),
    "cancelled": raises(asyncio.CancelledError()),
    "an error after the call": after_all(ConnectionResetError()),
    "nothing": gives(None),
    "a number": gives(7),
    "a list": gives([b"\xff", None]),
    "no conversations": gives(StoreResult(None, None)),  # type: ignore[arg-type] # garbage
    "invalid conversations": gives(StoreResult([b"x", {}, 5])),  # type: ignore[list-item] # garbage
    "invalid records": gives(StoreResult([StoredConversation(b"c", 1, {b"x": 5})])),  # type: ignore[dict-item] # garbage
    "copies that are not held": gives(StoreResult([StoredConversation(b"c", 1, None)])),
    "invalid places": gives(StoreResult((), {"x", None})),  # type: ignore[arg-type] # garbage
}
HANGS = hangs()
TIMES: dict[str, Any] = {"store_budget_ms": 20}

# Response that is fetched before the conversation; it is part of another one.
FETCHED = whole(
    as_json(
        response(RS | {"id": "rs_stores"}, CALL | {"id": "fc_stores", "call_id": "call_stores"})
    )
)
ANSWERS = [
    whole(as_json(response(RS, CALL, rid="resp_stores_000000001"))),
    stream(events(RS_2, MESSAGE, rid="resp_stores_000000002")),
    whole(as_json(response(MESSAGE, rid="resp_stores_000000003"))),
]
TURNS = [[ASK], [ASK, CALL, RESULT], [ASK, CALL, RESULT, MESSAGE, NEXT]]
# Requests that upstream may get: as sent, or with the dropped reasoning. Later reasoning may be
# injected without earlier reasoning that was not saved.
ASKED: list[list[list[Any]]] = [
    [[ASK]],
    [[ASK, CALL, RESULT], [ASK, RS, CALL, RESULT]],
    [
        [ASK, CALL, RESULT, MESSAGE, NEXT],
        [ASK, RS, CALL, RESULT, MESSAGE, NEXT],
        [ASK, CALL, RESULT, RS_2, MESSAGE, NEXT],
        [ASK, RS, CALL, RESULT, RS_2, MESSAGE, NEXT],
    ],
]


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """End hanging store operations soon."""
    monkeypatch.setattr(wiring, "STORE_TIMEOUT_S", 0.1)


async def converse(stage: Stage, tenant: str) -> list[tuple[int, list[tuple[str, str]], bytes]]:
    """Run the conversation; return what the client sees, without `x-reasoning-replay`."""
    seen = []
    key = f"Authorization: Bearer {tenant}"

    async def asks(line: Line, data: bytes, answer: bytes) -> None:
        await eventually(lambda: stage.w.counted("in_flight") == 0)
        stage.door.answers(answer)
        got: Answer = await line.ask(data)
        headers = [pair for pair in got.head.headers if pair[0] != "x-reasoning-replay"]
        seen.append((got.status, headers, got.body))

    async with line_to(stage.w.app.url) as line:
        await asks(line, request("GET", "/v1/responses/resp_0c1d2e3f4a5b6071", key), FETCHED)
        for turn, answer, allowed in zip(TURNS, ANSWERS, ASKED, strict=True):
            body = {"model": MODEL, "input": turn, "store": False}
            await asks(line, post(body, key), answer)
            assert stage.w.sent()["input"] in allowed
    return seen


async def well(stage: Stage, faulty: Faulty) -> tuple[Any, int]:
    """Run it with a working store; return what the client sees, and the number of store calls."""
    faulty.fails(None, lambda _: False)
    seen = await converse(stage, "sk-well")
    assert stage.w.sent()["input"] == ASKED[-1][-1]
    # The fetch looks up and saves; the first turn lacks nothing, and the last has nothing to save.
    assert faulty.calls["recall"] == len(TURNS)
    assert faulty.calls["save"] >= len(TURNS)
    return seen, faulty.calls.total()


def put_in(stage: Stage, *, is_embedded: bool) -> Faulty:
    """Replace the stage's store with a faulty one."""
    inner = stage.w.app.store.inner
    faulty = Faulty(inner, is_embedded=is_embedded)
    stage.w.app.store.inner = faulty
    return faulty


@pytest.mark.parametrize("is_embedded", [False, True])
@pytest.mark.parametrize("failing", FAILINGS.values(), ids=FAILINGS)
async def test_one_call_fails(failing: Failing, *, is_embedded: bool) -> None:
    """One failed call changes no response, and the next conversation is injected completely."""
    async with staged() as stage:
        faulty = put_in(stage, is_embedded=is_embedded)
        want, calls = await well(stage, faulty)
        for number in range(calls):
            faulty.fails(failing, number.__eq__)
            assert await converse(stage, f"sk-{number}") == want
            assert faulty.struck == 1
        faulty.fails(None, lambda _: False)
        assert await converse(stage, "sk-afterwards") == want
        assert stage.w.sent()["input"] == ASKED[-1][-1]
        await stage.is_as_before()


@pytest.mark.usefixtures("short_timeout")
async def test_one_call_hangs() -> None:
    """One call that hangs longer than its budget and its timeout changes no response."""
    async with staged(**TIMES) as stage:
        faulty = put_in(stage, is_embedded=False)
        want, calls = await well(stage, faulty)
        for number in range(calls):
            faulty.fails(HANGS, number.__eq__)
            assert await converse(stage, f"sk-{number}") == want
            assert faulty.struck == 1
            faulty.fails(None, lambda _: False)  # a success in between keeps the breaker closed
            assert await converse(stage, f"sk-{number}-again") == want
        await stage.is_as_before()


@pytest.mark.usefixtures("short_timeout")
@pytest.mark.parametrize("is_cached", [False, True])
@pytest.mark.parametrize("failing", [FAILINGS["a bug"], HANGS], ids=["a bug", "hangs"])
async def test_all_calls_fail_from_one_on(failing: Failing, *, is_cached: bool) -> None:
    """If all later calls fail, no response changes, and local copies are still injected."""
    cache = {} if is_cached else {"recent_max_bytes": 0}
    async with staged(**TIMES) as stage:
        want, calls = await well(stage, put_in(stage, is_embedded=False))
    for number in range(calls):
        async with staged(learns=False, **TIMES, **cache) as stage:
            faulty = put_in(stage, is_embedded=False)
            faulty.fails(failing, number.__le__)
            assert await converse(stage, "sk-b") == want
            assert faulty.struck
            assert not is_cached or stage.w.sent()["input"] == ASKED[-1][-1]


QUESTIONS = [
    ("GET", "/conversations", "survey"),
    ("GET", "/conversations/count", "survey"),
    ("DELETE", f"/scopes/{'0' * 32}", "survey"),
    ("DELETE", f"/conversations/{'0' * 32}:{'0' * 32}", "forget"),
    ("GET", "/readyz", "check"),
]
OF_LOOKUPS = ("invalid records", "copies that are not held")
OF_OPERATORS = [name for name in FAILINGS if name not in ("cancelled", *OF_LOOKUPS)]
GARBAGE = OF_OPERATORS[-6:]


@pytest.mark.usefixtures("short_timeout")
@pytest.mark.parametrize("name", [*OF_OPERATORS, "hangs"])
async def test_a_call_for_an_operator_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator gets the error, while the proxy stays ready and clients see nothing."""
    monkeypatch.setattr(safe_store, "OPERATOR_WAITS_S", 0.05)
    async with staged(**TIMES) as stage:
        faulty = put_in(stage, is_embedded=False)
        want, _ = await well(stage, faulty)
        for method, target, operation in QUESTIONS:
            faulty.fails(FAILINGS.get(name, HANGS), lambda _: True)
            async with line_to(stage.w.app.admin_url) as line:
                got = await line.ask(request(method, target).replace(b"proxy.test", b"localhost"))
            # A conversation that is not in one key space of the tenant is looked for in the next.
            spaces = len(scopes_of(b"")) if (operation, name) == ("forget", "nothing") else 1
            assert faulty.calls[operation] == faulty.struck == spaces
            if operation == "check":
                assert got.status == 200
            elif name not in GARBAGE:
                assert got.status in (400, 503)
            else:
                assert got.status in (200, 404, 500, 503)
            faulty.fails(None, lambda _: False)
            assert await converse(stage, f"sk-{method}-{target}") == want
        await stage.is_as_before()
