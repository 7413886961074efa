"""
Known states, attacked through the proxy: the same bytes are sent upstream as with nothing known.

A story is a list of acts of clients that share a tenant, or not. It is played twice, on stores of
its own: as it is, and with nothing known for any decision. Both runs must look the same from
outside: the bytes that upstream received, what the clients got, and what is stored.
That it holds for every dialect, for random clients, and for any bytes, is shown without a proxy, by
the tests of the core.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from reasoning_replay.core.dialects.base import Begun
from reasoning_replay.core.dialects.engine import Engine

from tests.core.world import drawn
from tests.fast_lane import each_value, slow
from tests.redis_server import RedisServer
from tests.web.pipeline.acts import Act, act
from tests.web.pipeline.stage import Seen, stage
from tests.web.scripted import Upstream, scripted


def _never(*_: Any, **__: Any) -> Begun:
    return Begun()


async def run(
    upstream: Upstream, kind: str, redis: str, story: Sequence[Act], **more: Any
) -> tuple[list[Seen], list[tuple[int, int]], dict[str, float]]:
    """Play a story, then let each client ask once more, of fresh replicas and in other forms."""
    async with stage(upstream, kind, redis, **more) as s:
        for one in story:
            await one(s)
        for app in s.apps:
            s.note_ways(app)
        ways = dict(s.ways)
        stored = await s.conversations()
        for replica in range(len(s.apps) if len(s.apps) > 1 else 0):
            await s.start(replica)
        for client in list(s.clients):
            for has_ids in (client.has_ids, not client.has_ids):
                probe = client.fork()
                probe.has_ids = has_ids
                await s.exchange(probe, 0, "text")
        return s.seen, stored, ways


async def compare(kind: str, redis: str, story: Sequence[Act], **more: Any) -> dict[str, float]:
    """Play a story both ways; return the decisions by way of the first run."""
    async with scripted() as upstream:
        seen, stored, ways = await run(upstream, kind, redis, story, **more)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Engine, "begun", _never)
            other, kept, none = await run(upstream, kind, redis, story, **more)
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

# The conversation with fewer turns is the one that the client began: its next turns are in the one
# that it took in. Client 2 still has the first one alone.
MERGED: Final[dict[str, list[Act]]] = {
    "neither": [],
    "deleted": [act("delete", 0, 0)],
    "deleted at the other": [act("delete", 1, 0)],
    "the newest": [act("delete", 1, 1)],
    "deleted after an outage": [act("fail", "recall"), *asks(1, 0), act("delete", 1, 0)],
    "refused": [act("refuse", 0, 1), act("ask", 2, 1), act("accept")],
    "continued at the other": [act("ask", 1, 1), act("ask", 0, 1)],
}

STORIES: Final[dict[str, list[Act]]] = {
    "grows": asks(6),
    "texts": asks(6, kind="text"),
    "parallel calls": asks(5, kind="calls"),
    "same": asks(6, kind="same"),
    "ids dropped later": [*GROWS, act("have", 0, "has_ids", False), *asks(3)],
    "forks": [*GROWS, act("fork", 0), *asks(3, 0), *asks(3, 1)],
    "forks beside": [*GROWS, act("fork", 0), *[act("ask", n % 2, n // 2) for n in range(8)]],
    "forks without ids": [act("have", 0, "has_ids", False), *asks(2), act("fork", 0), *[act("ask", n % 2, n // 2, "same") for n in range(8)]],  # noqa: E501
    "a third fork steals": [*asks(2), act("fork", 0), *asks(2, 0), *asks(2, 1), act("steal", 0, 1), *asks(3, 0), *asks(2, 1)],  # noqa: E501
    "responses lost": [*asks(2), act("lose", 0), *asks(2), act("lose", 0, 1), act("lose", 0), *asks(3)],  # noqa: E501
    "same responses lost": [act("lose", 0, 0, "same"), act("ask", 0, 0, "same"), act("lose", 0, 1, "same"), *asks(4, kind="same")],  # noqa: E501
    "other tenant": [*GROWS, act("stranger", 0), *asks(2), act("stranger", 0, 1), act("stranger", 0), *asks(2)],  # noqa: E501
    "history taken to another tenant": [*GROWS, act("fork", 0, "b"), *[act("ask", n % 2, n // 2) for n in range(8)]],  # noqa: E501
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
    **{f"one of two that were merged is {what}": [act("fork", 0), *asks(3, 0), *asks(3, 1), act("fork", 0), act("take", 0, 1), *asks(3, 0), *acts, *asks(3, 0)] for what, acts in MERGED.items()},  # noqa: E501
    "restarted": [*GROWS, act("restart", 0), *asks(3), act("restart", 1), *asks(3)],
    "edited first": [*GROWS, act("remove", 0, 0), *asks(3)],
    "edited between": [*GROWS, act("swap", 0, 1), *asks(2), act("double", 0, 1), *asks(2), act("remove", 0, 2), *asks(2)],  # noqa: E501
    "spelled otherwise": [*GROWS, act("have", 0, "comma", " , "), *asks(2), act("have", 0, "has_thoughts", True), *asks(2)],  # noqa: E501
    **{f"a message with {name}": [*asks(2), act("add", 0, -1, raw), *asks(2), act("add", 0, 1, raw), *asks(2)] for name, raw in RAW.items()},  # noqa: E501
    "back and on": [*asks(5), act("back", 0, 2), *asks(4)],
    "back and on again": [*asks(3), act("fork", 0), act("back", 0, 1), *asks(2), act("back", 0, 3), *asks(3), *asks(2, 1)],  # noqa: E501
    "window": [*asks(4), act("cut", 0, 2), *asks(2), act("cut", 0, 1), *asks(3)],
    "model changes": [*GROWS, act("say", 0, "model", "other"), *asks(2), act("say", 0, "model", None), *asks(3)],  # noqa: E501
    "counted": [act("count", 0), act("ask", 0), act("count", 0), act("ask", 0), act("count", 0, 1), act("count", 0), *asks(4), act("count", 0)],  # noqa: E501
    "counted after a fork": [*GROWS, act("fork", 0), act("count", 1), *asks(2, 0), act("count", 1), *asks(2, 1), act("count", 0)],  # noqa: E501
    "streamed and not": [act("ask", 0), act("say", 0, "stream", True), *asks(3), act("say", 0, "stream", None), *asks(2)],  # noqa: E501
    "history first": [act("have", 0, "is_first", False), *asks(5)],
    "BOM": [act("have", 0, "before", b"\xef\xbb\xbf"), *asks(3), act("have", 0, "before", b""), *asks(3)],  # noqa: E501
    "store changes": [act("say", 0, "store", False), *asks(3), act("say", 0, "store", True), *asks(2), act("say", 0, "store", None), *asks(3)],  # noqa: E501
    "include changes": [act("say", 0, "store", False), *asks(3), act("say", 0, "include", ["reasoning.encrypted_content"]), *asks(2), act("say", 0, "include", []), *asks(2)],  # noqa: E501
    "becomes stateful": [*GROWS, act("say", 0, "previous_response_id", f"resp_{drawn('a4')}"), *asks(2), act("say", 0, "previous_response_id", None), *asks(2)],  # noqa: E501
    **{f"{name} changes": [act("head", 0, name, "s1"), *GROWS, act("head", 0, name, "s2"), *asks(3)] for name in ("session_id", "x-session-id", "session-id")},  # noqa: E501
    "sessions of forks": [act("fork", 0), act("head", 0, "session_id", "k0"), act("head", 1, "session_id", "k1"), *[act("ask", n % 2, n % 3, "same") for n in range(8)]],  # noqa: E501
    "sessions change on equal bytes": [act("head", 0, "session_id", "k0"), act("fork", 0), *asks(3, 0, kind="same"), act("head", 1, "session_id", "k1"), *asks(3, 1, kind="same"), act("head", 0, "session_id", "k1"), *asks(2, 0), act("head", 1, "session_id", "k0"), *asks(2, 1)],  # noqa: E501
}  # fmt: skip

CERTAIN: Final = (
    "grows",
    "parallel calls",
    "forks",
    "counted",
    "history first",
    "one of two that were merged is neither",
)


@pytest.fixture(scope="module")
def address(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Return the address of the shared Redis, if a store needs it."""

    def of(kind: str) -> str:
        if kind != "redis":
            return ""
        server: RedisServer = request.getfixturevalue("shared_redis")
        return server.url

    return of


@each_value(story=[*STORIES], kind=["memory", "sqlite", "redis"])
async def test_both_ways_look_the_same(
    story: str, kind: str, address: Callable[[str], str]
) -> None:
    """Upstream, the clients and the store see no difference."""
    ways = await compare(kind, address(kind), STORIES[story])
    if story in CERTAIN:
        assert ways["short"] >= sum(ways.values()) / (3 if kind == "memory" else 6)


@slow
@pytest.mark.parametrize(
    "more",
    [
        {"conversation_max_bytes": 16_384},
        {"local_max_bytes": 0},
        {"include": "always"},
        {"include": "never"},
        {"mode": "shadow"},
        {"heal": "off"},
        {"repairs": "none"},
    ],
    ids=str,
)
async def test_both_ways_look_the_same_with_other_settings(more: dict[str, Any]) -> None:
    """So they do if a conversation is trimmed, or no copy is kept."""
    story = [*GROWS, act("refuse", 0, 1), act("ask", 0), act("accept"), act("fork", 0)]
    story += [act("ask", n % 2, 0, KINDS[n % 4]) for n in range(60)]
    await compare("memory", "", story, **more)
