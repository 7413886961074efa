"""Gemini through the proxy: captured, injected, healed, and kept apart."""

import base64
import json
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from google.genai import Client
from google.genai.types import HttpOptions
from openai import AsyncOpenAI
from reasoning_replay.settings.loader import load

from tests.web.gemini.exchanges import (
    ASK,
    BARE,
    CALL,
    CLOUD,
    KEY,
    LOST,
    MODEL,
    PATH,
    RESULT,
    SIGNED,
    TEXT,
    WHOLE,
    Json,
    answer,
    contents,
    listed,
    refusal,
    send,
    streamed,
)
from tests.web.line import request
from tests.web.wire import as_json, whole
from tests.web.world import world

DONE = whole(b"{}")
ROOT = Path(__file__).parents[2]
SECRET = KEY.partition(" ")[2]
MISSING = "Function call is missing a thought_signature in functionCall parts."
STREAM = PATH.replace(":generate", ":streamGenerate")


@pytest.mark.parametrize("form", [answer, streamed, listed])
async def test_a_dropped_signature_is_injected(form: object) -> None:
    """From JSON, from a stream, and from a stream that is one JSON array; the client sees each."""
    assert callable(form)
    first, second = form(SIGNED), form(TEXT, BARE)
    path = PATH if form is answer else STREAM + ("?alt=sse" if form is streamed else "")
    async with world(base="/v1beta") as w:
        w.upstream.answers(first, second, DONE)
        got = await send(w, ASK, path=path)
        assert (got.status, got.mark) == (200, "injected=0")
        assert SIGNED["thoughtSignature"].encode() in got.body
        assert (await send(w, *LOST, path=path)).mark == "injected=1"
        assert contents(w) == WHOLE
        said = {"role": "model", "parts": [TEXT]}
        assert (await send(w, *LOST, said, ASK, path=path)).mark == "injected=2"
        assert contents(w) == [*WHOLE, {"role": "model", "parts": [TEXT, BARE]}, ASK]
        assert w.upstream.received[-1].target == path
        assert w.counted("exchanges_total", route="generate_content", outcome="ok") == 3
        assert w.counted("items_total", dialect="gemini", outcome="injected") == 3
        assert w.counted("tokens_total", dialect="gemini", kind="output") == 14


BEARER = "Authorization: Bearer sk-a"
V1 = PATH.replace("v1beta", "v1")


# (path of upstream_url, request, credential, target)
@pytest.mark.parametrize(
    ("base", "path", "key", "target"),
    [
        ("/v1beta/openai", PATH, KEY, PATH),
        ("/v1beta/openai", PATH.replace("v1beta", "v1alpha"), KEY, PATH.replace("beta", "alpha")),
        ("/v1beta/openai", V1, KEY, V1),
        ("/v1beta/openai", V1, BEARER, V1),
        ("/v1beta/openai", CLOUD, BEARER, CLOUD),
        ("/v1beta/openai", "/v1/interactions", BEARER, "/v1/interactions"),
        ("/v1beta/openai", "/v1/files", KEY, "/v1/files"),
        ("/v1beta/openai", "/v1/files", BEARER, "/v1beta/openai/files"),
        ("/v1beta/openai", "/v1/chat/completions", BEARER, "/v1beta/openai/chat/completions"),
        ("/v1beta/openai", "/v1/chat/completions", KEY, "/v1beta/openai/chat/completions"),
        ("/v1beta/openai", "/v1/openai/models", BEARER, "/v1/openai/models"),
        ("/v1beta/openai", "/v1beta/openai/models", BEARER, "/v1beta/openai/models"),
        ("/v1beta", "/v1/openai/models", BEARER, "/v1beta/openai/models"),
        ("/v1beta", V1 + "?alt=json", KEY, V1 + "?alt=json"),
        ("/v1beta", "/v1/chat/completions", BEARER, "/v1beta/chat/completions"),
        ("/v1", V1, KEY, V1),
        ("/v1", PATH, KEY, PATH),
        # A base path that says more than a version is the place of one API.
        ("/v1/projects/p/publishers/google", V1, KEY, "/v1/projects/p/publishers/google" + V1[3:]),
        ("/gemini/v1beta", V1, KEY, "/gemini/v1beta" + V1[3:]),
        ("", V1, KEY, V1[3:]),
    ],
)
async def test_a_client_that_names_the_version_gets_that_one(
    base: str, path: str, key: str, target: str
) -> None:
    """For others, `/v1` stands for the upstream's URL: one proxy serves both APIs."""
    async with world(base=base) as w:
        w.upstream.answers(DONE)
        await send(w, ASK, path=path, key=key)
        assert w.upstream.received[-1].target == target


CONFIGURED = urlsplit(load({}, {}, ROOT / "config/gemini.yaml").upstream_url).path


@pytest.mark.parametrize("base", ["/v1beta", CONFIGURED])
@pytest.mark.parametrize("version", ["", "v1", "v1beta", "v1alpha"])
async def test_googles_sdk_reaches_the_version_that_it_names(base: str, version: str) -> None:
    """By default or by `http_options`, with the forms of upstream_url that have documentation."""
    async with world(base=base) as w:
        w.upstream.answers(answer(TEXT), whole(b'{"models":[]}'), DONE)
        async with aiohttp.ClientSession() as session:
            options = HttpOptions(base_url=w.app.url, aiohttp_client=session)
            options.api_version = version or None
            client = Client(api_key=SECRET, http_options=options)
            await client.aio.models.generate_content(model=MODEL, contents="Hello")
            await client.aio.models.list()
            await client.aio.interactions.create(model=MODEL, input="Hello")
            await client.aio.aclose()
            client.close()
        named = version or "v1"
        assert [one.target.partition("?")[0] for one in w.upstream.received] == [
            f"/{named}/models/{MODEL}:generateContent",
            f"/{named}/models",
            f"/{named}/interactions",
        ]


@pytest.mark.parametrize("version", ["v1", "v1beta"])
async def test_one_configuration_serves_both_apis_on_both_versions(version: str) -> None:
    """OpenAI's SDK has `/v1`, or the path that Google documents, of either version."""
    async with world(base=CONFIGURED) as w, aiohttp.ClientSession() as session:
        w.upstream.answers(*[whole(b'{"choices":[]}')] * 2, answer(TEXT))
        for path in ("/v1", f"/{version}/openai"):
            client = AsyncOpenAI(api_key=SECRET, base_url=w.app.url + path, max_retries=0)
            async with client:
                await client.chat.completions.create(model=MODEL, messages=[])
        options = HttpOptions(base_url=w.app.url, aiohttp_client=session, api_version=version)
        google = Client(api_key=SECRET, http_options=options)
        await google.aio.models.generate_content(model=MODEL, contents="Hello")
        await google.aio.aclose()
        google.close()
        assert [one.target for one in w.upstream.received] == [
            "/v1beta/openai/chat/completions",
            f"/{version}/openai/chat/completions",
            f"/{version}/models/{MODEL}:generateContent",
        ]
        assert w.counted("exchanges_total", route="chat", outcome="ok") == 2


async def test_interactions_pass_through() -> None:
    """Bytes and all, without a header: their history has another form."""
    body = b'{"model" : "gemini-3-pro-preview", "store" : false, "input" : []}'
    async with world(base="/v1beta") as w:
        w.upstream.answers(whole(b'{"steps":[]}'))
        got = await w.ask(request("POST", "/v1beta/interactions", KEY, body=body))
        assert (got.status, got.body, got.mark) == (200, b'{"steps":[]}', None)
        assert w.upstream.received[-1].body == body
        assert w.counted("exchanges_total", route="interactions", outcome="ok") == 1
        assert w.counted("items_total") == w.counted("captures_total") == 0


async def test_the_key_is_the_tenant_wherever_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """A key of the query is that of the header; another one is another tenant; none is logged."""
    async with world() as w:
        w.upstream.answers(answer(SIGNED), *[DONE] * 4)
        await send(w, ASK, path=f"{PATH}?alt=json&key={SECRET}", key="")
        assert w.upstream.received[-1].target.endswith(f"?alt=json&key={SECRET}")
        assert (await send(w, *LOST)).mark == "injected=1"
        for path, key in ((f"{PATH}?key=other", ""), (PATH, f"Authorization: Bearer {SECRET}")):
            assert (
                await send(w, *LOST, path=path, key=key)
            ).mark == "injected=0, lacking=1, missed=1"
        got = await send(w, *LOST, path=f"{PATH}?alt=json", key="")
        assert got.mark == "injected=0, asked=no_scope"
        shown = (await w.ask_admin("/metrics")).body
    assert SECRET.encode() not in shown
    assert SECRET not in capsys.readouterr().out


async def test_tenants_share_their_limit_by_key() -> None:
    """The limit of a tenant counts the key of the query as well."""
    async with world(tenant_max_exchanges=1) as w:
        w.upstream.answers(DONE)
        assert (await send(w, ASK, path=f"{PATH}?key=k", key="")).status == 200


async def test_another_api_does_not_read_the_query() -> None:
    """There, a parameter of this name is no key."""
    async with world() as w:
        w.upstream.answers(DONE)
        got = await send(w, ASK, path="/v1/chat/completions?key=k", key="", messages=[])
        assert got.mark == "injected=0, asked=no_scope"


async def test_responses_that_the_sdk_joins_get_their_signatures() -> None:
    """The API ended the first one (CONTINUATION), and the SDK asked for the rest by itself."""
    token = base64.b64encode(b"the rest").decode()
    other = {"functionCall": {"name": "get_weather", "args": {"city": "Rome"}}}
    signed = other | {"thoughtSignature": "EnUKcwgBEm8BDDnW"}
    cut = json.loads(answer(SIGNED).partition(b"\r\n\r\n")[2])
    cut["candidates"][0] |= {"finishReason": "CONTINUATION", "continuationToken": token}
    async with world(base="/v1beta") as w, aiohttp.ClientSession() as session:
        w.upstream.answers(whole(as_json(cut)), answer(signed), DONE)
        options = HttpOptions(base_url=w.app.url, aiohttp_client=session)
        client = Client(api_key=SECRET, http_options=options)
        got = await client.aio.models.generate_content(
            model=MODEL, contents=ASK["parts"][0]["text"], config={"automatic_continuation": True}
        )
        await client.aio.aclose()
        client.close()
        assert w.sent()["continuationToken"] == token
        assert len((got.candidates or [])[0].content.parts) == 2  # type: ignore[union-attr, arg-type]
        lost = [ASK, {"role": "model", "parts": [CALL, other]}, RESULT]
        assert (await send(w, *lost)).mark == "injected=2"
        assert contents(w)[1]["parts"] == [SIGNED, signed]


async def test_a_count_of_tokens_has_the_same_input() -> None:
    """Also inside `generateContentRequest`; its response is no turn."""
    count = PATH.replace(":generateContent", ":countTokens")
    inner = {"model": f"models/{MODEL}", "contents": LOST}
    async with world() as w:
        w.upstream.answers(answer(SIGNED), whole(b'{"totalTokens":31}'), DONE)
        await send(w, ASK)
        assert (await send(w, *LOST, path=count)).mark == "injected=1"
        assert contents(w) == WHOLE
        body: Json = {"generateContentRequest": inner}
        await send(w, path=count, **body)
        assert w.sent() == {"contents": [], "generateContentRequest": inner | {"contents": WHOLE}}
        assert w.counted("exchanges_total", route="gemini_count_tokens", outcome="ok") == 2
        assert w.counted("captures_total", dialect="gemini") == 1


REFUSALS = [
    pytest.param(refusal(MISSING), id="status"),
    pytest.param(
        whole(
            as_json({"candidates": [{"content": {}, "finishReason": "MISSING_THOUGHT_SIGNATURE"}]})
        ),
        id="success",
    ),
]


@pytest.mark.parametrize("refused", REFUSALS)
async def test_a_signature_that_is_demanded_is_injected_although_two_may_be_meant(
    refused: bytes,
) -> None:
    """The answer was generated twice: the first one counts once the API refuses to go without."""
    newer = CALL | {"thoughtSignature": "EnUKcwgBEm8BDDnW"}
    async with world() as w:
        w.upstream.answers(answer(SIGNED), answer(newer), refused, DONE)
        await send(w, ASK)
        await send(w, ASK)
        got = await send(w, *LOST)
        assert (got.status, got.body) == (200, b"{}")
        assert (got.mark or "").startswith("injected=1")
        assert (got.mark or "").endswith("healed=lacks_reasoning")
        assert contents(w, 2) == LOST
        assert contents(w) == WHOLE


async def test_a_missing_model_is_no_wrong_path() -> None:
    """The version in the path is the client's own."""
    missing = whole(b'{"error":{"code":404}}', status="404 Not Found")
    async with world() as w:
        w.upstream.answers(missing, missing)
        assert "wrong_path" not in ((await send(w, ASK)).mark or "")
        got = await send(w, ASK, path="/v1" + PATH)
        assert "wrong_path=double_v1" in (got.mark or "")
