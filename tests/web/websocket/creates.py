"""WebSocket requests for responses, and the events that answer them."""

from typing import Any

from tests.web.sockets import KEY, Peer, said
from tests.web.wire import Item, as_json, events
from tests.web.world import MODEL


def told(*items: Item, stream: str = "", rid: str = "resp_0c1d2e3f4a5b6071") -> list[bytes]:
    """Return the events of a response as text messages."""
    datas = [event.partition(b"data: ")[2].rstrip() for event in events(*items, rid=rid)]
    echo = b'{"stream_id":' + as_json(stream) + b"," if stream else b"{"
    return [said(echo + data[1:]) for data in datas]


def create(*items: Item, key: bytes = KEY, **more: object) -> bytes:
    """Return a `response.create` message."""
    return said({"type": "response.create", "model": MODEL, "input": items} | more, key=key)


def failed(message: str, status: int = 400, stream: str = "", param: str = "input") -> bytes:
    """Return an error event of the API."""
    fault = {"type": "invalid_request_error", "code": None, "message": message, "param": param}
    event = {"type": "error", "status": status, "error": fault}
    return said(event | ({"stream_id": stream} if stream else {}))


async def turn(client: Peer, upstream: Peer, request: bytes, answer: list[bytes]) -> dict[str, Any]:
    """Play one turn, and return the request that upstream received."""
    await client.send(request)
    seen = await upstream.event()
    await upstream.send(b"".join(answer))
    await client.gets(*answer)
    return seen
