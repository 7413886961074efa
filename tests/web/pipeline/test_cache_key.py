"""Cache keys, through the app: the same in all of a conversation, taken out after a refusal."""

import re
from typing import Any

import pytest

from tests.web.chat import completions
from tests.web.sockets import tunnelled
from tests.web.websocket.creates import create, told, turn
from tests.web.wire import ASK, CALL, LOST, NEXT, RESULT, RS, as_json, error, response, whole
from tests.web.world import World, world

NAME = "prompt_cache_key"
ON = {NAME: "conversation", "upstream_profile": "openai"}
OK = whole(b'{"ok":true}')
REFUSED = error("Unknown parameter: 'prompt_cache_key'.", NAME)
OTHER = {"role": "user", "content": "Something else"}


async def keys_of(w: World, *turns: list[Any], **more: Any) -> list[Any]:
    """Request a response to each history; return the keys that upstream saw."""
    before = len(w.upstream.received)
    w.upstream.otherwise = whole(as_json(response(RS, CALL)))
    for items in turns:
        await w.turn(*items, **more)
    return [w.sent(n).get(NAME) for n in range(before, len(w.upstream.received))]


async def test_a_conversation_has_one_key() -> None:
    """Also if its head is cut off, with what is known and without; another one has another."""
    async with world(**ON) as w:
        keys = await keys_of(w, [ASK], LOST, [*LOST, CALL, RESULT], [CALL, RESULT, NEXT])
        assert re.fullmatch("[0-9a-f]{32}", keys[0])
        assert len(set(keys)) == 1
        (other,) = await keys_of(w, [OTHER])
        assert other not in (None, keys[0])


async def test_replicas_agree_and_tenants_differ() -> None:
    """Nothing is stored when it is first sent: it comes from the tenant and the first message."""
    async with world(**ON, scope_secret="s" * 32) as w:
        await keys_of(w, [ASK])
        await w.post({"model": "gpt-5.4", "input": [ASK]}, "Authorization: Bearer sk-other")
        for secret in ("s" * 32, "t" * 32):
            there = ON | {"upstream_url": f"{w.upstream.url}/v1", "scope_secret": secret}
            async with world(**there) as replica:
                await replica.turn(ASK)
        ours, others, same, foreign = (w.sent(n)[NAME] for n in range(4))
        assert same == ours
        assert len({ours, others, foreign}) == 3


async def test_only_the_member_is_added() -> None:
    """The bytes before and after it are the client's, and its place is the end."""
    body = b'{ "model":"gpt-5.4",\n "input": "hi", "n": 1.0e5 \n} '
    async with world(**ON) as w:
        w.upstream.answers(OK)
        await w.post(body)
        sent = w.upstream.received[0].body
        added = re.search(rb',"prompt_cache_key":"[0-9a-f]{32}"', sent)
        assert added is not None
        assert sent.replace(added[0], b"") == body
        assert sent.endswith(added[0] + b"} ")


@pytest.mark.parametrize(
    ("more", "sent"),
    [
        pytest.param({}, {NAME: "mine"}, id="sent-by-the-client"),
        pytest.param({NAME: "off"}, {}, id="off"),
        pytest.param({"upstream_profile": "vllm"}, {}, id="unknown-there"),
        pytest.param({}, {"previous_response_id": "resp_unknown"}, id="unknown-conversation"),
    ],
)
async def test_nothing_is_added_otherwise(more: dict[str, str], sent: dict[str, Any]) -> None:
    """The request goes out as it came."""
    async with world(**(ON | more)) as w:
        assert await keys_of(w, [ASK], **sent) == [sent.get(NAME)]
        assert (NAME in w.sent()) == (NAME in sent)


async def test_a_conversation_that_upstream_holds_keeps_its_key() -> None:
    """A request that only names the response before it gets the key of that."""
    async with world(**ON) as w:
        (first,) = await keys_of(w, [ASK])
        told = {"previous_response_id": response(RS, CALL)["id"]}
        assert await keys_of(w, [RESULT], **told) == [first]


async def test_a_websocket_has_it_too() -> None:
    """Each `response.create` of a conversation."""
    async with world(**ON) as w, tunnelled(w) as (client, upstream):
        seen = [await turn(client, upstream, create(*of), told(RS, CALL)) for of in ([ASK], LOST)]
        assert seen[0][NAME] == seen[1][NAME]


async def test_a_refused_key_is_left_out_from_then_on() -> None:
    """The retry has all else that was injected, and no tenant's request has a key after it."""
    async with world(**ON) as w:
        await keys_of(w, [ASK])
        w.upstream.answers(REFUSED, OK, OK)
        got = await w.turn(*LOST)
        assert (got.status, got.mark) == (200, "injected=1, healed=cache_key")
        assert [NAME in w.sent(n) for n in (-2, -1)] == [True, False]
        assert w.sent()["input"] == [ASK, RS, CALL, RESULT]
        await w.post({"model": "gpt-5.4", "input": [OTHER]}, "Authorization: Bearer sk-other")
        assert NAME not in w.sent()
        assert w.counted("heals_total", diagnosis="cache_key", result="cured") == 1


async def test_chat_completions_have_it_too() -> None:
    """Where the vendor's API knows it, also without a profile of that API."""
    async with world(**ON) as w:
        w.upstream.otherwise = completions.answer()
        await completions.chat(w, completions.ASK)
        await completions.chat(w, *completions.LOST)
        first, second = w.sent(0)[NAME], w.sent(1)[NAME]
        assert first == second
        w.upstream.answers(error(f"Unrecognized request argument supplied: {NAME}", None))
        await completions.chat(w, *completions.LOST)
        assert NAME not in w.sent()
