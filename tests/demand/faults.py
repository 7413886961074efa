"""Faults: for each diagnosis, the bytes of a request that upstream refuses, and of the refusal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.web.scripted import Script, close, cut, send
from tests.web.wire import (
    ASK,
    CALL,
    MESSAGE,
    NEXT,
    PAIRING,
    RESULT,
    RS,
    as_json,
    chunk,
    error,
    events,
    response,
    stream,
    stream_head,
    whole,
)
from tests.web.world import MODEL

HOLLOW = {name: value for name, value in RS.items() if name != "encrypted_content"}
REWORDED = MESSAGE | {"content": [{"type": "output_text", "text": "Rain.", "annotations": []}]}
INCLUDE = ["reasoning.encrypted_content"]
OK = whole(as_json(response(MESSAGE)))
OPENED = stream(events(MESSAGE))


@dataclass(frozen=True, slots=True)
class Fault:
    """
    One request that upstream refuses and that can be healed.

    Attributes:
        diagnosis: Its diagnosis in the proxy.
        items: The `input`.
        message: The error message of upstream.
        param: The parameter that the error names.
        status: The status line of the refusal.
        more: Members of the request in addition to model and input.
    """

    diagnosis: str
    items: tuple[Mapping[str, Any], ...]
    message: str
    param: str | None = "input"
    status: str = "400 Bad Request"
    more: Mapping[str, Any] | None = None

    @property
    def body(self) -> bytes:
        """The request body."""
        return as_json({"model": MODEL, "input": self.items} | dict(self.more or {}))

    @property
    def refusal(self) -> bytes:
        """The response that refuses the request."""
        return error(self.message, self.param, self.status)


FAULTS = (
    Fault("lacks_reasoning", (ASK, CALL, RESULT), PAIRING),
    Fault(
        "lacks_follower",
        (ASK, RS, NEXT),
        f"Item '{RS['id']}' of type 'reasoning' was provided without its required following item.",
    ),
    Fault(
        "duplicate",
        (ASK, MESSAGE, NEXT, REWORDED, NEXT),
        f"Duplicate item found with id {MESSAGE['id']}. Remove duplicate items from your input"
        " and try again.",
    ),
    Fault(
        "not_found",
        (ASK, HOLLOW, CALL, RESULT),
        f"Item with id '{RS['id']}' not found. Items are not persisted when `store` is set to"
        " false. Try again with `store` set to true, or remove this item from your input.",
        status="404 Not Found",
    ),
    Fault(
        "blob",
        (ASK, RS, CALL, RESULT),
        "The encrypted content gAAA...ob== could not be verified.",
        None,
    ),
    Fault(
        "include",
        (ASK,),
        "Encrypted content is not supported with this model.",
        "include",
        more={"include": INCLUDE, "model": "acme-plain"},
    ),
    Fault(
        "no_reasoning_model",
        (ASK, RS, CALL, RESULT),
        "Reasoning input items can only be provided to a reasoning or computer use model. Remove"
        " reasoning items from your input and try again.",
        more={"model": "acme-plain"},
    ),
    Fault(
        "lacks_text",
        (
            ASK,
            HOLLOW | {"content": [{"type": "reasoning_text", "text": "Rain?"}]},
            CALL,
            NEXT,
            RESULT,
        ),
        "The `reasoning_text` in the thinking mode must be passed back to the API.",
        None,
    ),
    Fault(
        "bad_id",
        (ASK, CALL | {"id": "call_1"}, RESULT),
        "Invalid 'input[1].id': 'call_1'. Expected an ID that begins with 'fc'.",
        "input[1].id",
    ),
    Fault(
        "lacks_output",
        (ASK, CALL, NEXT, RESULT),
        f"No tool output found for function call {CALL['call_id']}.",
    ),
    Fault(
        "lacks_call",
        (ASK, RESULT, CALL),
        f"No tool call found for function call output with call_id {CALL['call_id']}.",
    ),
    Fault(
        "field",
        (ASK, RS | {"status": "completed"}, CALL, RESULT),
        "Unknown parameter: 'input[1].status'.",
        "input[1].status",
    ),
)


def in_stream(fault: Fault, kind: str = "error") -> bytes:
    """Return the same refusal as the first event of a stream, in one of its three forms."""
    body = {"type": "invalid_request_error", "message": fault.message, "param": fault.param}
    told: dict[str, tuple[str, Mapping[str, object]]] = {
        "error": ("error", {"error": body | {"code": None}}),
        "flat": ("error", body | {"type": "error", "code": None}),
        "failed": (
            "response.failed",
            {"response": response(status="failed", error={"code": "x", "message": fault.message})},
        ),
    }
    name, data = told[kind]
    event = as_json({"sequence_number": 0} | dict(data) | {"type": name})
    return stream([b"event: %s\ndata: %s\n\n" % (name.encode(), event)])


_OVERLOADED = b'event: error\ndata: {"type":"error","error":{"message":"Overloaded."}}\n\n'

WORSE = (
    pytest.param(lambda: Script([send(error("Something else."))]), id="400"),
    pytest.param(lambda: Script([send(error("No.", None, "401 Unauthorized"))]), id="401"),
    pytest.param(lambda: Script([send(error("Gone.", None, "404 Not Found"))]), id="404"),
    pytest.param(lambda: Script([send(error("Slow.", None, "429 Too Many"))]), id="429"),
    pytest.param(lambda: Script([send(error("Oops.", None, "500 Oops"))]), id="500"),
    pytest.param(lambda: Script([send(whole(b"", status="502 Bad Gateway"))]), id="502"),
    pytest.param(lambda: Script([close()]), id="closed"),
    pytest.param(lambda: Script([cut()]), id="reset"),
    pytest.param(lambda: Script([send(b"HTTP/1.1 200 O"), cut()]), id="half-a-head"),
    pytest.param(lambda: Script([send(stream([_OVERLOADED]))]), id="error-opens-stream"),
    pytest.param(
        lambda: Script([send(stream_head() + chunk(_OVERLOADED)), cut()]), id="cut-stream"
    ),
)
"""Responses to a second attempt that are no better than the first refusal."""


def curable() -> list[Any]:
    """Return every fault as a parameter set, named by its diagnosis."""
    return [pytest.param(fault, id=fault.diagnosis) for fault in FAULTS]
