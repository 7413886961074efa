"""Cache diagnosis, through the app: who is asked, what is told of it, and what a refusal does."""

import json
from typing import Any

import pytest

from tests.web.messages import exchanges as messages
from tests.web.sockets import tunnelled
from tests.web.websocket.creates import create, told, turn
from tests.web.wire import ASK, CALL, LOST, NEXT, RESULT, RS, as_json, error, response, whole
from tests.web.world import World, world

NAME = "prompt_cache_options"
MODEL = "gpt-5.6"
ON = {"cache_diagnosis": "on", "upstream_profile": "openai"}
BEFORE = response(RS, CALL)["id"]
MISS = {
    "type": "cache_miss",
    "reason": "input_changed",
    "cache_missed_tokens": 900,
    "comparison_reusable_tokens": 100,
}
REFUSED = error(f"Unknown parameter: '{NAME}'.", NAME)


async def asked(w: World, *turns: list[Any], **more: Any) -> list[Any]:
    """Request a response to each history; return the members that upstream saw."""
    before = len(w.upstream.received)
    w.upstream.otherwise = whole(as_json(response(RS, CALL)))
    for items in turns:
        await w.turn(*items, **({"model": MODEL} | more))
    return [w.sent(n).get(NAME) for n in range(before, len(w.upstream.received))]


async def test_a_request_names_the_response_that_it_continues() -> None:
    """By the long way and the short one; the first request of a conversation names none."""
    async with world(**ON) as w:
        named = {"comparison_response_id": BEFORE}
        longer = [*LOST, CALL, RESULT]
        assert await asked(w, [ASK], LOST, longer, [*longer, NEXT]) == [None, named, named, named]
        body = w.upstream.received[-1].body
        added = b',"prompt_cache_options":{"comparison_response_id":"%b"}}' % BEFORE.encode()
        assert body.endswith(added)


@pytest.mark.parametrize(
    ("more", "sent"),
    [
        pytest.param({"cache_diagnosis": "off"}, {}, id="off"),
        pytest.param({"upstream_profile": "azure"}, {}, id="another-upstream"),
        pytest.param({"mode": "shadow"}, {}, id="shadow"),
        pytest.param({}, {"model": "gpt-5.4"}, id="an-older-model"),
        pytest.param({}, {"model": "a-deployment"}, id="an-unknown-model"),
        pytest.param({}, {NAME: {"ttl": "12h"}}, id="sent-by-the-client"),
        pytest.param({}, {"background": True}, id="read-elsewhere"),
    ],
)
async def test_nobody_else_is_asked(more: dict[str, str], sent: dict[str, Any]) -> None:
    """The request has what the client sent."""
    async with world(**(ON | more)) as w:
        assert await asked(w, [ASK], LOST, **sent) == [sent.get(NAME)] * 2


@pytest.mark.parametrize(
    ("answer", "result", "reason"),
    [
        (MISS, "miss", "input_changed"),
        (MISS | {"reason": "moon_changed"}, "miss", "other"),
        ({"type": "cache_hit"}, "hit", ""),
        ({"type": "comparison_response_not_found"}, "not_found", ""),
        ({"type": "unavailable"}, "unavailable", ""),
        (None, "none", ""),
        ({"type": 5}, "none", ""),
        ("hit", "none", ""),
    ],
)
async def test_what_upstream_tells_is_counted(answer: Any, result: str, reason: str) -> None:
    """It passes unchanged; a request without a diagnosis is no hit."""
    async with world(**ON) as w:
        await asked(w, [ASK])
        said = response(RS, CALL) | ({"prompt_cache_diagnostics": answer} if answer else {})
        w.upstream.answers(whole(as_json(said)))
        got = await w.turn(*LOST, model=MODEL)
        assert got.body == as_json(said)
        assert w.counted("cache_diagnoses_total", dialect="responses", result=result) == 1
        assert w.counted("cache_diagnoses_total") == 1
        missed = w.counted("cache_missed_tokens_total", reason=reason, request="injected")
        assert missed == (900 if reason else 0)
        shown = json.loads(w.app.recorder.recent()[-1])["exchange"]["cache"]
        assert (shown["cache"], shown.get("cache_reason", "")) == (result, reason)


async def test_a_refused_member_is_left_out_from_then_on() -> None:
    """The retry has all else, and no tenant's request has it after that; both members may go."""
    async with world(**ON, prompt_cache_key="conversation") as w:
        await asked(w, [ASK])
        w.upstream.answers(REFUSED)
        got = await w.turn(*LOST, model=MODEL)
        assert (got.status, got.mark) == (200, "injected=1, healed=cache_diagnosis")
        assert [NAME in w.sent(n) for n in (-2, -1)] == [True, False]
        assert ["prompt_cache_key" in w.sent(n) for n in (-2, -1)] == [True, True]
        assert w.sent()["input"] == [ASK, RS, CALL, RESULT]
        assert await asked(w, [*LOST, CALL, RESULT]) == [None]
        assert w.counted("cache_diagnoses_total") == 0


async def test_words_that_nobody_knows_do_not_fail_the_request() -> None:
    """The client's own bytes are the last attempt."""
    async with world(**ON) as w:
        await asked(w, [ASK])
        w.upstream.answers(error("The moon is not full.", None), error("Nor is it now.", None))
        assert (await w.turn(*LOST, model=MODEL)).status == 200
        assert NAME not in w.sent()


async def test_a_websocket_is_asked_too() -> None:
    """Each `response.create` of a conversation."""
    async with world(**ON) as w, tunnelled(w) as (client, upstream):
        asks = [create(ASK, model=MODEL), create(*LOST, model=MODEL)]
        seen = [await turn(client, upstream, one, told(RS, CALL)) for one in asks]
        assert [NAME in one for one in seen] == [False, True]


async def test_messages_opt_in_with_null() -> None:
    """Anthropic compares only requests that carry the member."""
    async with world(cache_diagnosis="on", upstream_profile="anthropic") as w:
        first = messages.answer(messages.THOUGHT, messages.CALL)
        w.upstream.answers(first, messages.answer(messages.TEXT, number=2))
        await messages.send(w, messages.ASK)
        await messages.send(w, *messages.LOST)
        before = w.sent(0)["diagnostics"], w.sent(1)["diagnostics"]
        assert before[0] == {"previous_message_id": None}
        assert before[1]["previous_message_id"].startswith("msg_")
        w.upstream.answers(error("diagnostics: Extra inputs are not permitted", None))
        w.upstream.otherwise = messages.answer(messages.TEXT, number=3)
        assert (await messages.send(w, *messages.LOST)).status == 200
        assert "diagnostics" not in w.sent()
