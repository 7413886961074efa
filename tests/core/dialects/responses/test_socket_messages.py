"""Heads of WebSocket messages: read from any JSON object; odd values count as absent."""

import pytest
from reasoning_replay.core.dialects.responses.socket_messages import may_be_request, read_message

# (message, stream, its response id, id of the previous response, status)
READ = [
    pytest.param(b'{"response":{"id":"r"}}', "", "r", "", 0, id="a-response"),
    pytest.param(
        b'{"stream_id":"a","response":{"id":"r","previous_response_id":"q"}}',
        "a",
        "r",
        "q",
        0,
        id="a-continuation",
    ),
    pytest.param(b'{"previous_response_id":"q"}', "", "", "q", 0, id="a-request"),
    pytest.param(b'{"response":null,"previous_response_id":"q"}', "", "", "q", 0, id="null"),
    pytest.param(b'{"response":[1]}', "", "", "", 0, id="an-array"),
    pytest.param(b'{"response":"r"}', "", "", "", 0, id="a-string"),
    pytest.param(b'{"response": 7 }', "", "", "", 0, id="a-number"),
    pytest.param(b'{"response":{"id":7}}', "", "", "", 0, id="an-odd-id"),
    pytest.param(b'{"status":400}', "", "", "", 400, id="a-status"),
    pytest.param(b'{"status":-400}', "", "", "", 0, id="a-negative-status"),
    pytest.param(b'{"status":"400"}', "", "", "", 0, id="a-status-in-text"),
    pytest.param(b'{"status":%b}' % (b"1" * 5000), "", "", "", 0, id="a-huge-status"),
]


@pytest.mark.parametrize(("said", "stream", "response", "previous", "status"), READ)
def test_odd_values_are_ignored(
    said: bytes, stream: str, response: str, previous: str, status: int
) -> None:
    """An odd message must not stop the reading of later messages on its connection."""
    message = read_message(said)

    assert message is not None
    assert (message.stream, message.response_id) == (stream, response)
    assert (message.previous, message.http_status) == (previous, status)


@pytest.mark.parametrize("said", [b"", b"[]", b"{", b'{"a":\xff', b"[" * 5000])
def test_a_value_that_is_not_an_object_is_no_message(said: bytes) -> None:
    """Some upstreams send pings and plain text."""
    assert read_message(said) is None


@pytest.mark.parametrize(
    ("said", "kind", "may_be"),
    [
        (b'{"type":"response.create","response":{}}', "response.create", True),
        (b'{"type":"response\\u002ecreate"}', "response.create", True),
        (b'{"type":"session.update"}', "session.update", False),
        (b'{"type":7}', "", False),
        (b"{}", "", False),
    ],
)
def test_a_request_is_found_by_a_cheap_search(said: bytes, kind: str, *, may_be: bool) -> None:
    """The search may be wrong about other messages, but it never misses a request."""
    message = read_message(said)

    assert message is not None
    assert message.kind == kind
    assert may_be_request(said) is may_be
