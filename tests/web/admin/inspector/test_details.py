"""Details of an exchange: ids, tokens, times, the names of an error and the changes of a cure."""

import gzip

import pytest

from tests.web.admin.inspector.watching import watched
from tests.web.sockets import tunnelled
from tests.web.usages import PLAIN, SAID
from tests.web.websocket.creates import create, failed, turn
from tests.web.wire import (
    ASK,
    CALL,
    END,
    PAIRING,
    RESULT,
    RS,
    as_json,
    chunk,
    error,
    events,
    response,
    stream_head,
    whole,
)

LIMIT = {"error": {"message": "secret", "code": "rate_limit_exceeded", "type": "tokens"}}
NAMES = ("rate_limit_exceeded", "tokens")


async def test_an_exchange_has_its_ids_tokens_and_times() -> None:
    """The request id is that of the log."""
    async with watched() as (w, page):
        w.upstream.answers(
            whole(
                PLAIN.partition(b"\r\n\r\n")[2],
                "Content-Type: application/json",
                "x-request-id: req_7",
            )
        )
        got = await w.turn(ASK)
        one = await page.ended(1)
        assert one["request_id"] == got.head.request_id
        assert (one["upstream_request_id"], one["method"]) == ("req_7", "POST")
        assert one["tokens"] == {
            "input_tokens": SAID["input_tokens"],
            "cached_tokens": 768,
            "output_tokens": SAID["output_tokens"],
            "reasoning_tokens": 64,
        }
        assert one["before_ms"] > 0
        assert (len(one["scope"]), len(one["conversation"]), len(one["turn"])) == (32, 32, 12)
        assert (one["error_code"], one["error_type"]) == ("", "")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(whole(as_json(LIMIT), status="429 Too Many Requests"), id="plain"),
        pytest.param(whole(as_json(LIMIT), status="400 Bad Request"), id="diagnosed"),
        pytest.param(
            whole(
                gzip.compress(as_json(LIMIT)),
                "Content-Type: application/json",
                "Content-Encoding: gzip",
                status="500 Error",
            ),
            id="encoded",
        ),
        pytest.param(
            stream_head()
            + chunk(b"event: error\ndata: %b\n\n" % as_json({"type": "error"} | LIMIT))
            + END,
            id="first-event",
        ),
        pytest.param(
            stream_head()
            + chunk(events(RS)[0])
            + chunk(b"data: %b\n\n" % as_json({"type": "error"} | LIMIT))
            + END,
            id="later-event",
        ),
        pytest.param(
            stream_head()
            + chunk(events(RS)[0])
            + chunk(
                b"data: %b\n\n"
                % as_json(
                    {
                        "type": "response.failed",
                        "response": {"id": "resp_1", "status": "failed"} | LIMIT,
                    }
                )
            )
            + END,
            id="failed",
        ),
    ],
)
async def test_the_error_of_the_upstream_is_named(answer: bytes) -> None:
    """Its code and type are shown, and never its message."""
    async with watched() as (w, page):
        w.upstream.answers(answer)
        await w.turn(ASK)
        one = await page.ended(1)
        assert (one["error_code"], one["error_type"]) == NAMES
        assert b"secret" not in as_json(page.lines)


@pytest.mark.parametrize(
    "answer",
    [
        whole(b'{"error":{"code":"%b"}}' % (b"x" * 99), status="500 Error"),
        whole(as_json(LIMIT) + b" " * 20_000, status="500 Error"),
        whole(b"broken", "Content-Encoding: gzip", status="500 Error"),
        whole(as_json(LIMIT), "Content-Encoding: unknown", status="500 Error"),
    ],
)
async def test_an_error_that_cannot_be_read_has_no_name(answer: bytes) -> None:
    """It reaches the client all the same."""
    async with watched() as (w, page):
        w.upstream.answers(answer)
        assert (await w.turn(ASK)).status == 500
        one = await page.ended(1)
        assert (one["error_code"], one["error_type"]) == ("", "")


async def test_a_healed_request_names_its_refusal() -> None:
    """The size is that of the accepted request."""
    async with watched(heal="on") as (w, page):
        w.upstream.answers(
            whole(as_json(response(RS, CALL))),
            error(PAIRING.replace("without its required 'reasoning'", "without its required 'x'")),
            whole(as_json(response(rid="resp_2"))),
        )
        await w.turn(ASK)
        await w.turn(ASK, CALL, RESULT)
        one = await page.ended(2)
        assert one["status"] == 200
        assert one["healed"]
        _, refused, accepted = w.upstream.received
        assert one["upstream_bytes"] == len(accepted.body) < len(refused.body)
        assert one["error_type"] == "invalid_request_error"


async def test_the_error_of_a_message_on_a_websocket_is_named() -> None:
    """It is shown with its request."""
    async with watched() as (w, page):
        async with tunnelled(w) as (client, upstream):
            seen = await turn(client, upstream, create(ASK), [failed("secret", 429)])
        one = await page.ended(1)
        assert one["upstream_bytes"] == len(as_json(seen))
        assert (one["route"], one["error_type"]) == ("create", "invalid_request_error")
