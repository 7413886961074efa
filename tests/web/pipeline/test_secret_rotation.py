"""A new `scope_secret` hides nothing while the old one is named after it."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.web.line import line_to, request
from tests.web.wire import ASK, CALL, LOST, MESSAGE, NEXT, RS, as_json, response, whole
from tests.web.world import World, world

OLD, NEW = "of last year" * 3, "of this year" * 3
BOTH = f"{NEW},{OLD}"
RS2 = RS | {"id": "rs_" + "2" * 48, "encrypted_content": "gAAAA2" * 9}
SAID = MESSAGE | {"id": "msg_" + "2" * 48}
OPERATOR = "the operators' own token"
OTHER = {"role": "user", "content": "Something else"}


def answering(w: World, *items: Mapping[str, object], number: int) -> None:
    """Let the upstream of all proxies respond with these items."""
    told = response(*items) | {"id": f"resp_{number:048}"}
    w.upstream.answers(whole(as_json(told)))


async def operated(w: World, method: str, path: str, body: bytes = b"") -> Any:
    """Return what the admin port answers."""
    async with line_to(w.app.admin_url) as line:
        login = f"Authorization: Bearer {OPERATOR}"
        return json.loads((await line.ask(request(method, path, login, body=body))).body)


async def stored(w: World) -> tuple[int, int]:
    """Return how many conversations and scopes the store has."""
    counted = await operated(w, "GET", "/conversations/count")
    return counted["conversations"], counted["scopes"]


@pytest.fixture
def shared(tmp_path: Any) -> dict[str, Any]:
    """Settings of all proxies of a test."""
    return {
        "store_url": f"sqlite://{tmp_path}/replay.db",
        "scope_secret": OLD,
        "admin_token": OPERATOR,
    }


@pytest.mark.parametrize(
    ("secrets", "marks"),
    [
        pytest.param(BOTH, ["injected=1", "injected=2"], id="new-and-old"),
        pytest.param(f"{OLD},{NEW}", ["injected=1", "injected=2"], id="all-learn-it-first"),
        pytest.param(
            NEW,
            ["injected=0, lacking=1, missed=1", "injected=1, lacking=1, missed=1"],
            id="only-the-new",
        ),
    ],
)
async def test_a_conversation_stays_where_it_began(
    shared: dict[str, Any], secrets: str, marks: list[str]
) -> None:
    """Under the old secret, also what is new of it; without that secret it is not found."""
    async with world(**shared) as w:
        answering(w, RS, CALL, number=1)
        await w.turn(ASK)
        there = shared | {"upstream_url": f"{w.upstream.url}/v1", "scope_secret": secrets}
        async with world(**there) as replica:
            answering(w, RS2, SAID, number=2)
            first = await replica.turn(*LOST)
            answering(w, SAID, number=3)
            second = await replica.turn(*LOST, SAID, NEXT)
            assert [first.mark, second.mark] == marks
            assert await stored(replica) == ((1, 1) if OLD in secrets else (2, 2))
        if OLD in secrets:  # the replicas that know only that find it as well
            answering(w, SAID, number=4)
            assert (await w.turn(*LOST, SAID, NEXT)).mark == "injected=2"


async def test_what_is_known_is_not_decided_again(shared: dict[str, Any]) -> None:
    """The short way is as short as without a rotation, in the scope of the old secret."""
    ways: list[tuple[float, tuple[int, int]]] = []
    long = {"role": "user", "content": "x" * 3000}
    for secret in (OLD, BOTH):
        store = {"store_url": f"{shared['store_url']}.{len(ways)}"}
        async with world(**shared | store) as w:
            answering(w, RS, CALL, number=1)
            await w.turn(long, ASK)
            there = {"upstream_url": f"{w.upstream.url}/v1", "scope_secret": secret}
            async with world(**shared | store | there) as replica:
                for number in range(2, 6):
                    answering(w, SAID | {"id": f"msg_{number:048}"}, number=number)
                    await replica.turn(long, *LOST, *[SAID, NEXT] * (number - 2))
                short = replica.counted("decisions_total", way="short")
                ways.append((short, await stored(replica)))
    assert ways[0] == ways[1]
    assert ways[0][0] >= 2


async def test_a_new_conversation_has_the_new_secret(shared: dict[str, Any]) -> None:
    """Also one that begins with the same words; the end of the rotation hides the other one."""
    async with world(**shared) as w:
        answering(w, RS, CALL, number=1)
        await w.turn(ASK)
        url = {"upstream_url": f"{w.upstream.url}/v1"}
        renamed = CALL | {"id": "fc_" + "3" * 48, "call_id": "call_" + "z9Y8x7W6v5U4t3S2r1Q0p9O8"}
        result = {"type": "function_call_output", "call_id": renamed["call_id"], "output": "7"}
        async with world(**shared | url | {"scope_secret": BOTH}) as replica:
            answering(w, RS2, renamed, number=2)
            await replica.turn(ASK)
            assert await stored(replica) == (2, 2)
            answering(w, SAID, number=3)
            assert (await replica.turn(ASK, renamed, result)).mark == "injected=1"
        async with world(**shared | url | {"scope_secret": NEW}) as replica:
            answering(w, SAID, SAID, number=4)
            assert (await replica.turn(ASK, renamed, result)).mark == "injected=1"
            answering(w, SAID, number=5)
            assert (await replica.turn(*LOST)).mark == "injected=0, lacking=1, missed=1"


async def test_both_scopes_are_told_and_deleted(shared: dict[str, Any]) -> None:
    """What an operator finds of a tenant is all of it, and the next turn finds nothing."""
    async with world(**shared) as w:
        answering(w, RS, CALL, number=1)
        await w.turn(ASK)
        there = shared | {"upstream_url": f"{w.upstream.url}/v1", "scope_secret": BOTH}
        async with world(**there) as replica:
            answering(w, RS2, SAID, number=2)
            await replica.turn(OTHER)
            told = await operated(replica, "POST", "/scopes", b"Authorization: Bearer sk-a")
            scopes = told["scopes"]
            assert [one.get("secret", "") for one in scopes] == ["", "old"]
            for one in scopes:
                gone = await operated(replica, "DELETE", f"/scopes/{one['scope']}")
                assert gone == {"forgotten": 1, "complete": True}
            answering(w, SAID, number=3)
            assert (await replica.turn(*LOST)).mark == "injected=0, lacking=1, missed=1"
