"""Exchanges on the socket: what is recorded, who the caller is, and how bodies are decoded."""

import gzip
import json
import zlib

import aiohttp
import pytest

from tests.standin import StandIn

HEADERS = {"Authorization": "Bearer sk-a", "Content-Type": "application/json"}
BODY = json.dumps({"model": "gpt-5.4", "input": "hi"}).encode()


async def test_a_request_is_recorded_as_it_arrived() -> None:
    """The record has the method, the path with its query, the bytes, the headers and the status."""
    async with StandIn() as standin, aiohttp.ClientSession() as session:
        url = f"{standin.base_url}/responses?a=%7E"
        async with session.post(url, data=b" " + BODY, headers=HEADERS) as response:
            await response.read()

        (received,) = standin.received
    assert (received.method, received.body) == ("POST", b" " + BODY)
    assert received.path.startswith("/v1/responses?a=")
    assert ("Authorization", "Bearer sk-a") in received.headers
    assert received.json == json.loads(BODY)
    assert (received.status, received.finished) == (200, True)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        pytest.param("gzip", gzip.compress(BODY, mtime=0), id="gzip"),
        pytest.param("deflate", zlib.compress(BODY), id="deflate"),
    ],
)
async def test_an_encoded_body_is_read_and_kept_as_sent(encoding: str, body: bytes) -> None:
    """The record holds the encoded bytes; the rules judge the decoded body."""
    async with StandIn() as standin, aiohttp.ClientSession() as session:
        headers = HEADERS | {"Content-Encoding": encoding}
        async with session.post(
            f"{standin.base_url}/responses", data=body, headers=headers
        ) as response:
            assert response.status == 200

        (received,) = standin.received
    assert received.body == body
    assert received.json == json.loads(BODY)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        pytest.param("identity", b"{", id="cut-off"),
        pytest.param("identity", b"[]", id="not-an-object"),
        pytest.param("identity", b'{"model":"m","tools":7}', id="tools"),
        pytest.param("identity", b'{"model":"m","input":[{"type":5}]}', id="type"),
        pytest.param("gzip", BODY, id="not-gzip"),
        pytest.param("gzip", gzip.compress(BODY, mtime=0)[:-9], id="cut-off-gzip"),
        pytest.param("br", BODY, id="unknown-encoding"),
    ],
)
async def test_an_unreadable_body_is_refused(encoding: str, body: bytes) -> None:
    """A body that is not JSON, not a request or in an unknown encoding is refused with 400."""
    async with StandIn() as standin, aiohttp.ClientSession() as session:
        headers = HEADERS | {"Content-Encoding": encoding}
        async with session.post(
            f"{standin.base_url}/responses", data=body, headers=headers
        ) as response:
            error = (await response.json())["error"]

    assert response.status == 400
    assert error["message"].startswith("We could not parse the JSON body of your request.")


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer "}, {"Authorization": "Basic x"}]
)
async def test_a_request_without_credential_is_refused(headers: dict[str, str]) -> None:
    """A request without a credential gets a 401 with the error of a wrong key."""
    async with StandIn() as standin, aiohttp.ClientSession() as session:
        async with session.get(f"{standin.base_url}/models", headers=headers) as response:
            error = (await response.json())["error"]

        assert standin.received[0].status == 401
    assert (response.status, error["code"]) == (401, "invalid_api_key")


# (the headers that identify the caller of a second request, whether it is the first caller)
CALLERS: list[tuple[dict[str, str], bool]] = [
    ({"Authorization": "Bearer sk-a"}, True),
    ({"authorization": "bearer sk-a"}, True),
    ({"api-key": "sk-a"}, True),
    ({"Authorization": "Bearer sk-b"}, False),
    ({"Authorization": "Bearer sk-a", "OpenAI-Organization": "org-2"}, False),
]


@pytest.mark.parametrize(("headers", "same"), CALLERS)
async def test_the_caller_is_credential_and_organization(
    *, headers: dict[str, str], same: bool
) -> None:
    """A stored response is found only by its own caller."""
    async with StandIn() as standin, aiohttp.ClientSession() as session:
        url = f"{standin.base_url}/responses"
        async with session.post(url, data=BODY, headers=HEADERS) as response:
            stored = (await response.json())["id"]
        async with session.get(f"{url}/{stored}", headers=headers) as response:
            assert response.status == (200 if same else 404)
