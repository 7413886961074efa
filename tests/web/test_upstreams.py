"""Several upstreams in one process: each request reaches the one that it names, and no other."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import App, running
from reasoning_replay.web.wiring import base_urls, scoping

from tests.patience import LONG_S
from tests.web.line import Answer, line_to, request
from tests.web.scripted import Script, Upstream, scripted, send, wait
from tests.web.sockets import UPGRADE, tunnelled
from tests.web.websocket.creates import create, told, turn
from tests.web.wire import (
    ASK,
    CALL,
    END,
    RESULT,
    RS,
    as_json,
    chunk,
    response,
    stream_head,
    whole,
)
from tests.web.world import Logged, World, eventually, logged, post

HOST = "claude.example.com"
HOSTS = {"openai": "api.openai.com", "claude": "api.anthropic.com"}
URL = "https://api.openai.com/v1"
ANSWER = whole(as_json(response(RS, CALL)))


class Two(World):
    """
    One proxy in front of two upstreams, `a` and `b`; the second one also has a host.

    Attributes:
        other: The second upstream.
    """

    def __init__(self, app: App, upstream: Upstream, other: Upstream) -> None:
        super().__init__(app, upstream)
        self.other = other

    async def ask_of(self, name: str, *items: dict[str, object], key: str = "sk-a") -> Answer:
        """Request a response of one upstream to this history."""
        headers = f"Authorization: Bearer {key}", "Content-Type: application/json"
        sent = post({"model": "gpt-5.4", "input": items}, *headers)
        return await self.ask(sent.replace(b"/v1/", f"/{name}/v1/".encode(), 1))


@contextlib.asynccontextmanager
async def two(
    b: str = "", a_more: dict[str, str] | None = None, **settings: Any
) -> AsyncIterator[Two]:
    """Run all three; `b` is another URL of that upstream, `a_more` settings of the first one."""
    async with scripted() as one, scripted() as other:
        upstreams = {
            "a": {"url": f"{one.url}/v1"} | (a_more or {}),
            "b": {"url": b or f"{other.url}/v9", "hosts": HOST},
        }
        given = {"listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0", "log_format": "json"}
        async with running(Settings(upstreams=upstreams, **(given | settings))) as app:
            yield Two(app, one, other)


async def operated(w: World, sent: bytes) -> dict[str, Any]:
    """Return what the admin port answers to an operator on this machine."""
    async with line_to(w.app.admin_url) as line:
        answer = await line.ask(sent.replace(b"proxy.test", b"127.0.0.1", 1))
    told: dict[str, Any] = json.loads(answer.body)
    return told


@pytest.mark.parametrize(
    ("target", "host", "want"),
    [
        pytest.param("/a/v1/models", "", ("a", "/v1/models"), id="path"),
        pytest.param("/b/v1/models?x=/a/", "", ("b", "/v9/models?x=/a/"), id="other-path"),
        pytest.param("/b/v1beta/m:x%2F//..", "", ("b", "/v1beta/m:x%2F//.."), id="unmapped-path"),
        pytest.param("/a", "", ("a", "/"), id="only-name"),
        pytest.param("/a?b=c", "", ("a", "/?b=c"), id="only-name-with-query"),
        pytest.param("/a/a/v1", "", ("a", "/a/v1"), id="name-once"),
        pytest.param("/v1/models", HOST, ("b", "/v9/models"), id="host"),
        pytest.param("/a/models", f"{HOST.upper()}.:8080", ("b", "/a/models"), id="host-wins"),
        pytest.param("/a/v1/models", f"x.{HOST}", ("a", "/v1/models"), id="another-host"),
        pytest.param("/v1/models", "", None, id="no-name"),
        pytest.param("/A/v1/models", "", None, id="upper-case"),
        pytest.param("/ab/v1/models", "", None, id="longer-name"),
        pytest.param("/%61/v1/models", "", None, id="encoded-name"),
        pytest.param("//a/v1/models", "", None, id="double-slash"),
        pytest.param("/x/../a/v1/models", "", None, id="dots"),
    ],
)
async def test_the_first_segment_or_the_host_chooses(
    target: str, host: str, want: tuple[str, str] | None
) -> None:
    """The rest of a path is mapped as with one upstream; any other gets a 404 with the names."""
    async with two() as w:
        w.upstream.otherwise = w.other.otherwise = whole(b"{}")
        sent = request("GET", target, "Authorization: Bearer sk-a")
        if host:
            sent = sent.replace(b"Host: proxy.test", f"Host: {host}".encode(), 1)
        answer = await w.ask(sent)
        got = [("a", one.target) for one in w.upstream.received]
        got += [("b", one.target) for one in w.other.received]

    assert got == ([want] if want else [])
    assert answer.status == (200 if want else 404)
    if want is None:
        assert answer.mark == "error=unknown_upstream"
        assert b"a, b. Add it" in answer.body


async def test_each_upstream_has_its_own_conversations_and_metrics() -> None:
    """What one emitted is injected there alone, also for the same key and the same history."""
    async with two() as w:
        w.upstream.answers(ANSWER, ANSWER)
        w.other.answers(ANSWER)
        await w.ask_of("a", ASK)
        await w.ask_of("b", ASK, CALL, RESULT)
        mark = (await w.ask_of("a", ASK, CALL, RESULT)).mark
        counted = {
            name: w.counted("items_total", upstream=name, outcome="injected") for name in "ab"
        }
        text = (await w.ask_admin("/metrics")).body.decode()

        assert mark == "injected=1"
        assert counted == {"a": 1, "b": 0}
        assert w.counted("exchanges_total", upstream="b") == 1
        assert 'reasoning_replay_captures_total{dialect="responses",result="saved",up' in text


async def test_a_websocket_is_of_its_upstream() -> None:
    """Its handshake goes to the path without the name, and its requests have the label."""
    async with two() as w, tunnelled(w, *UPGRADE, target="/a/v1/responses") as (client, upstream):
        await turn(client, upstream, create(ASK), told(RS, CALL))
        assert w.upstream.received[0].target == "/v1/responses"
        assert w.counted("exchanges_total", route="create", upstream="a") == 1


@pytest.mark.parametrize("name", ["a", "elsewhere"])
def test_a_scope_belongs_to_the_url(name: str) -> None:
    """A move from `upstream_url` to `upstreams`, or to another name, loses nothing."""
    headers = {"Authorization": "Bearer sk-a"}
    alone = Settings(upstream_url=URL)
    (named,) = Settings(upstreams={name: {"url": f"{URL}/"}}).by_upstream.values()

    assert scoping(named).of(headers) == scoping(alone).of(headers)


async def test_the_scopes_of_a_key_have_the_names() -> None:
    """An operator finds what is stored for a customer at each upstream."""
    async with two() as w:
        w.other.answers(ANSWER)
        await w.ask_of("b", ASK)
        told = await operated(w, request("POST", "/scopes", body=b"Authorization: Bearer sk-a"))
        stored = {}
        for one in told["scopes"]:
            counting = request("GET", f"/conversations/count?scope={one['scope']}")
            stored[one["upstream"]] = (await operated(w, counting))["conversations"]

    assert stored == {"a": 0, "b": 1}


async def test_one_that_is_down_leaves_the_others_alone() -> None:
    """Its requests get a 502; a stream of the other one goes on, and ends in the drain."""
    async with two(b="http://127.0.0.1:9/v1") as w, line_to(w.app.url) as line:
        script = Script([send(stream_head() + chunk(b"data: 1\n\n")), wait(), send(END)])
        w.upstream.plays(script)
        await line.send(request("GET", "/a/v1/files", "Authorization: Bearer sk-a"))
        await line.head()
        down = await w.ask_of("b", ASK)
        stopping = asyncio.ensure_future(w.app.stop(drain_s=LONG_S))
        await eventually(lambda: w.app.handler.is_leaving)
        script.go()

        assert down.mark == "error=upstream_unreachable"
        assert b"http://127.0.0.1:9 could not be reached" in down.body
        assert await line.some() == b"data: 1\n\n"
        assert await line.some() == b""
        await stopping


async def test_one_upstream_may_have_settings_of_its_own() -> None:
    """The rest holds for all: in shadow mode one of them counts, and changes no request."""
    async with two(a_more={"mode": "shadow"}) as w:
        for upstream, name in ((w.upstream, "a"), (w.other, "b")):
            upstream.answers(ANSWER, ANSWER)
            await w.ask_of(name, ASK)
            await w.ask_of(name, ASK, CALL, RESULT)

        assert RS not in w.sent()["input"]
        assert RS in json.loads(w.other.received[-1].body)["input"]


@pytest.mark.parametrize(
    ("key", "want"),
    [("sk-ant-api03-x", "foreign_key"), ("sk-proj-x", "upstream_unreachable")],
)
async def test_keys_stay_apart(key: str, want: str) -> None:
    """The key of one vendor never goes to the other one."""
    given = {"url": URL, "proxy": "http://127.0.0.1:9"}
    async with two(a_more=given) as w:
        assert (await w.ask_of("a", ASK, key=key)).mark == f"error={want}"


async def test_a_path_advice_has_the_name(capsys: Logged) -> None:
    """The base URL in the log is the one of the upstream."""
    async with two() as w:
        w.upstream.answers(whole(b"{}", status="404 Not Found"))
        await w.ask(request("POST", "/a/responses", "Authorization: Bearer sk-a", body=b"{}"))
    (told,) = logged(capsys, "wrong_path")

    assert told["hint"].startswith("upstreams.a: the base URL of the client lacks /v1")


def test_the_base_urls_have_the_names() -> None:
    """`serve` and `check` tell them; an API that an upstream lacks has none there."""
    named = {name: {"url": f"https://{host}/v1"} for name, host in HOSTS.items()}

    assert [*base_urls("http://h:1", Settings(upstreams=named))] == [
        "OPENAI_BASE_URL=http://h:1/openai/v1",
        "OPENAI_BASE_URL=http://h:1/claude/v1",
        "ANTHROPIC_BASE_URL=http://h:1/claude",
    ]
