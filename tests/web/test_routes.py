"""Routing: which request goes where, and that bodies of any size pass through."""

import asyncio
import sys
from hashlib import sha256

import pytest

from tests.patience import SOON_S
from tests.web.line import line_to, request
from tests.web.scripted import Script, scripted, send, swallow, wait
from tests.web.served import served
from tests.web.wire import ASK, CALL, RS, as_json, head, response, whole
from tests.web.world import MODEL, world

KEY = "Authorization: Bearer sk-a"
MIB = 1 << 20
BLOCK = bytes(range(256)) * 256
BLOCKS = 50 * MIB // len(BLOCK)
BIG = sha256(BLOCK * BLOCKS).hexdigest()


@pytest.mark.parametrize(
    ("target", "want"),
    [
        ("/v1/responses", "/api/v2/responses"),
        ("/v1/chat/completions?x=1", "/api/v2/chat/completions?x=1"),
        ("/v1", "/api/v2"),
        ("/v1/", "/api/v2/"),
        ("/v1?a=b", "/api/v2?a=b"),
        ("/v1beta/models", "/v1beta/models"),
        ("/v2/v1/models", "/v2/v1/models"),
        ("/", "/"),
        ("//evil.test/x", "//evil.test/x"),
        ("/openai/deployments/d/chat/completions?api-version=1", None),
        ("/openai/v1/models", None),
    ],
)
async def test_v1_is_the_upstream_url_and_all_else_its_origin(target: str, want: str) -> None:
    """The path `/v1` maps to the upstream URL, and all other paths to its origin."""
    async with world(base="/api/v2") as w:
        w.upstream.answers(whole(b"{}"))
        assert (await w.ask(request("POST", target, body=b"{}"))).status == 200
        assert w.upstream.received[0].target == (want or target)


@pytest.mark.parametrize(
    ("method", "target", "is_replayed"),
    [
        ("POST", "/v1/responses", True),
        ("POST", "/v1/responses?api-version=1&x=/y", True),
        ("POST", "/openai/responses?api-version=2025-04-01-preview", True),
        ("POST", "/v1/responses/input_tokens?x=1", True),
        ("POST", "/openai/deployments/d/chat/completions?api-version=1", True),
        ("POST", "/v1/completions?next=/responses", False),
        ("GET", "/v1/responses", False),
        ("GET", "/v1/responses/resp_1", False),
    ],
)
async def test_replay_applies_to_posts_to_the_paths_of_a_dialect(
    method: str, target: str, *, is_replayed: bool
) -> None:
    """Only replayed routes have the header that reports what the proxy did."""
    async with world() as w:
        w.upstream.answers(whole(b"{}"))
        got = await w.ask(request(method, target, KEY, body=b'{"input":"x"}'))
        assert (got.status, got.mark is not None) == (200, is_replayed)


async def test_azures_classic_path_is_replayed() -> None:
    """Azure's classic path is replayed, with its key in `api-key` and its version in the query."""
    target = "/openai/responses?api-version=2025-04-01-preview"
    async with world(base="/openai/v1") as w:
        w.upstream.answers(whole(as_json(response(RS, CALL))), whole(b"{}"))
        for history in ([ASK], [ASK, CALL]):
            body = as_json({"model": MODEL, "input": history})
            await w.ask(request("POST", target, "api-key: k", body=body))
        assert [received.target for received in w.upstream.received] == [target, target]
        assert w.sent()["input"] == [ASK, RS, CALL]


@pytest.mark.parametrize("method", ["DELETE", "OPTIONS", "PATCH", "PUT", "QUERY"])
@pytest.mark.parametrize("body", [None, b"", b"{ }"])
async def test_every_method_passes(method: str, body: bytes | None) -> None:
    """Any method passes, with a body, with an empty one, and with none."""
    async with world() as w:
        w.upstream.answers(whole(b'{"deleted":true}'))
        got = await w.ask(request(method, "/v1/files/file-1", KEY, body=body))
        (received,) = w.upstream.received
        assert got.body == b'{"deleted":true}'
        assert received.line == f"{method} /v1/files/file-1 HTTP/1.1"
        assert received.body == (body or b"")
        told = received.values("content-length")
        assert told == [str(len(body or b""))] or (told == [] and body is None)


async def test_an_upload_reaches_upstream_while_the_client_still_sends() -> None:
    """A body that the proxy does not read is forwarded while it arrives."""
    script = Script([swallow(3), send(whole(b"{}"))], reads_body=False)
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(request("POST", "/v1/files", KEY, "Content-Length: 6") + b"abc")
        await asyncio.wait_for(script.ended.wait(), SOON_S)
        assert script.swallowed == 3


async def test_upstream_may_answer_before_the_upload_ends() -> None:
    """An early refusal reaches the client at once."""
    script = Script([send(whole(b"{}", status="413 Too Large"))], reads_body=False)
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(request("POST", "/v1/files", KEY, "Content-Length: 6") + b"abc")
        assert (await line.head()).status == 413


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
async def test_an_upload_of_any_size_needs_little_memory() -> None:
    """An upstream that does not read blocks the client, and memory stays bounded."""
    size = BLOCKS * len(BLOCK)
    script = Script([wait(), swallow(size), send(whole(b"{}"))], reads_body=False)
    async with (
        scripted() as upstream,
        served(upstream_url=upstream.url + "/v1") as proxy,
    ):
        await proxy.started()
        upstream.plays(script)
        before = proxy.peak_bytes
        async with line_to(proxy.url) as line:
            await line.send(request("POST", "/v1/files", KEY, f"Content-Length: {size}"))

            async def push() -> None:
                for _ in range(BLOCKS):
                    await line.send(BLOCK)

            pushing = asyncio.ensure_future(push())
            await script.arrived.wait()
            await asyncio.wait([pushing], timeout=0.2)
            assert not pushing.done()

            script.go()
            await pushing
            assert (await line.head()).status == 200
        assert script.digest == BIG
        assert proxy.peak_bytes - before < 16 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("target", ["/v1/files/f/content", "/v1/responses/resp_1"])
async def test_a_download_of_any_size_needs_little_memory(target: str) -> None:
    """A client that does not read blocks upstream, and memory stays bounded."""
    size = BLOCKS * len(BLOCK)
    start = head("Content-Type: application/json", f"Content-Length: {size}")
    script = Script([send(start), *[send(BLOCK)] * BLOCKS])
    async with (
        scripted() as upstream,
        served(upstream_url=upstream.url + "/v1", inspect_max_bytes=MIB) as proxy,
    ):
        await proxy.started()
        upstream.plays(script)
        before = proxy.peak_bytes
        async with line_to(proxy.url) as line:
            await line.send(request("GET", target, KEY))
            assert (await line.head()).status == 200
            await asyncio.sleep(0.05)
            assert not script.ended.is_set()

            digest = sha256()
            while piece := await line.some():
                digest.update(piece)
        assert digest.hexdigest() == BIG
        assert proxy.peak_bytes - before < 16 * MIB
