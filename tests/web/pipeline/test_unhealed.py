"""Refusals that reach the client: what the header and the log say about them."""

import json

from tests.web.wire import ASK, CALL, RS, as_json, error, response, whole
from tests.web.world import MODEL, Logged, World, logged, world

AGENT = "Encrypted function output content could not be decrypted or decoded."
UNANSWERED = f"No tool output found for function call {CALL['call_id']}."
BODY = as_json({"model": MODEL, "input": [ASK, RS, CALL, ASK], "store": False})
OK = whole(as_json(response(RS, CALL)))


async def test_what_nothing_can_cure_is_named(capsys: Logged) -> None:
    """The client gets its refusal after one attempt, and an operator reads whose blob it is."""
    async with world(log_level="info") as w:
        w.upstream.answers(error(AGENT))
        got = await w.post(BODY)
        assert (got.status, len(w.upstream.received)) == (400, 1)
        assert got.mark == "injected=0, unhealed=blob;of=agent"
    [line] = logged(capsys, "exchange")
    assert line["unhealed"] == "blob;of=agent"
    assert "account" in line["hint"]


async def test_the_log_names_the_setting_for_unanswered_calls(capsys: Logged) -> None:
    """By default a call without an output is the client's to answer."""
    async with world(log_level="info") as w:
        w.upstream.answers(error(UNANSWERED))
        got = await w.post(BODY)
        assert (got.status, len(w.upstream.received)) == (400, 1)
    [line] = logged(capsys, "exchange")
    assert "drop_unanswered: on" in line["hint"]


async def test_unanswered_calls_are_left_out_if_that_is_set() -> None:
    """The retry has neither the call nor its reasoning."""
    async with world(drop_unanswered="on") as w:
        w.upstream.answers(error(UNANSWERED), OK)
        got = await w.post(BODY)
        assert (got.status, got.mark) == (200, "injected=0, healed=lacks_output")
        assert sent(w) == [ASK, ASK]


def sent(w: World) -> object:
    """Return the input of the newest request at the upstream."""
    return json.loads(w.upstream.received[-1].body)["input"]
