"""Each dialect through the proxy: captured, injected, healed, and kept apart from the others."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from reasoning_replay.core.dialects.registry import (
    CHAT,
    GEMINI,
    MESSAGES,
    RESPONSES,
    route_of,
    scope_in,
)

from tests.web.chat import completions
from tests.web.gemini import exchanges as gemini
from tests.web.line import Answer, line_to, request
from tests.web.messages import exchanges
from tests.web.wire import (
    ASK,
    CALL,
    LOST,
    RESULT,
    RS,
    as_json,
    chunk,
    events,
    response,
    stream,
    stream_head,
    whole,
)
from tests.web.world import Logged, World, logged, world

Json = dict[str, Any]

DONE = whole(b"{}")
BLOCKS = (exchanges.THOUGHT, exchanges.TEXT, exchanges.CALL)


class Api(NamedTuple):
    """
    One API: a history that lacks its reasoning, and the responses that it follows.

    Attributes:
        member: Member of the body that has the history.
        send: Sends a history, with more members of the body.
        refusal: Error of a request that has the reasoning.
        size: Size of the reasoning in bytes.
        tokens: Counts of the response by kind.
    """

    name: str
    path: str
    member: str
    send: Callable[..., Awaitable[Answer]]
    lost: list[Json]
    whole: list[Json]
    plain: bytes
    streamed: bytes
    refusal: Json
    diagnosis: str
    size: int
    tokens: dict[str, int]

    @property
    def route(self) -> str:
        """Route of its path."""
        return route_of("POST", self.path)


APIS = [
    Api(
        CHAT,
        completions.CHAT,
        "messages",
        completions.chat,
        completions.LOST,
        completions.WHOLE,
        completions.answer(**completions.THOUGHT),
        completions.streamed(
            {"role": "assistant", "content": None, "reasoning_content": "I must "},
            {"reasoning_content": "look it up."},
            {"tool_calls": [completions.CALL | {"index": 0}]},
        ),
        completions.UNSUPPORTED,
        "field",
        len(as_json(completions.THOUGHT)) - 2,
        {"input": 11, "output": 7},
    ),
    Api(
        MESSAGES,
        exchanges.PATH,
        "messages",
        exchanges.send,
        exchanges.LOST,
        exchanges.WHOLE,
        exchanges.answer(*BLOCKS),
        exchanges.streamed(*BLOCKS),
        {"type": "error"}
        | {"error": {"type": "invalid_request_error", "message": exchanges.INVALID}},
        "blob",
        len(as_json(exchanges.THOUGHT)),
        {"cached": 4, "output": 9},
    ),
    Api(
        RESPONSES,
        "/v1/responses",
        "input",
        World.turn,
        LOST,
        [ASK, RS, CALL, RESULT],
        whole(as_json(response(RS, CALL, usage={"input_tokens": 11, "output_tokens": 7}))),
        stream(events(RS, CALL)),
        {"error": {"message": "The encrypted content could not be verified.", "param": "input"}},
        "blob",
        len(as_json(RS)),
        {"input": 11, "output": 7},
    ),
    Api(
        GEMINI,
        gemini.PATH,
        "contents",
        gemini.send,
        gemini.LOST,
        gemini.WHOLE,
        gemini.answer(gemini.SIGNED),
        gemini.streamed(gemini.SIGNED),
        {"error": {"code": 400, "message": "Corrupted thought signature.", "status": "INVALID"}},
        "blob",
        len(as_json({"thoughtSignature": gemini.SIGNED["thoughtSignature"]})) - 2,
        {"input": 11, "output": 7},
    ),
]
of_each_api = pytest.mark.parametrize("api", APIS, ids=[api.name for api in APIS])
# Responses has cures of its own, in pipeline/test_refused.py: it knows items by their ids.
OTHERS = [api for api in APIS if api.name != RESPONSES]
of_others = pytest.mark.parametrize("api", OTHERS, ids=[api.name for api in OTHERS])


@of_each_api
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_dropped_reasoning_is_injected(api: Api, is_streamed: bool, capsys: Logged) -> None:
    """The next request has it again; the header, the metrics and the log say so."""
    async with world() as w:
        w.upstream.answers(api.streamed if is_streamed else api.plain, DONE)
        got = await api.send(w, api.lost[0], stream=is_streamed)
        assert got.mark == "injected=0"
        first = logged(capsys, "exchange")[-1]
        assert (await api.send(w, *api.lost)).mark == "injected=1"
        assert w.sent()[api.member] == api.whole
        counts = {
            "requests": 2,
            "items": 1,
            "captures": 2,
            "captured_items": 1,
            "captured_bytes": api.size,
            "injected_bytes": api.size,
        }
        for name, count in counts.items():
            assert w.counted(f"{name}_total", dialect=api.name) == count
            assert w.counted(f"{name}_total") == count
        assert w.counted("captures_total", dialect=api.name, result="saved") == 1
        assert w.counted("exchanges_total", route=api.route, outcome="ok") == 2
        if api.name in {MESSAGES, GEMINI} or not is_streamed:  # the other streams have no usage
            for kind, count in api.tokens.items():
                assert w.counted("tokens_total", dialect=api.name, kind=kind) == count
    assert (first["route"], first["dialect"]) == (api.route, api.name)
    assert (first["captured_items"], first["captured_bytes"]) == (1, api.size)


@of_each_api
@pytest.mark.parametrize(("mode", "mark"), [("shadow", "injected=1, shadow"), ("off", None)])
async def test_other_modes_change_no_request(api: Api, mode: str, mark: str | None) -> None:
    """In shadow mode the decision is counted; `off` adds no header either."""
    async with world(mode=mode) as w:
        w.upstream.answers(api.plain, DONE)
        await api.send(w, api.lost[0])
        assert (await api.send(w, *api.lost)).mark == mark
        assert w.sent()[api.member] == api.lost
        assert w.counted("injected_bytes_total", dialect=api.name) == 0
        assert w.counted("requests_total", result="off") == (2 if mode == "off" else 0)
        assert w.counted("captures_total", result="saved") == (mode == "shadow")


@of_each_api
@pytest.mark.parametrize("other", ["x-api-key: sk-b", "api-key: sk-a", ""])
async def test_no_tenant_gets_the_reasoning_of_another(api: Api, other: str) -> None:
    """A turn belongs to one key in one header; without a key nothing is captured or injected."""
    body = as_json({"model": "m", api.member: api.lost})
    async with world() as w:
        w.upstream.answers(api.plain, DONE, DONE)
        await api.send(w, api.lost[0])
        got = await w.ask(request("POST", api.path, *([other] if other else []), body=body))
        assert got.mark == (
            "injected=0, lacking=1, missed=1" if other else "injected=0, asked=no_scope"
        )
        assert (await api.send(w, *api.lost)).mark == "injected=1"


@pytest.mark.parametrize(
    ("api", "path", "other", "more"),
    [
        pytest.param(
            APIS[1], exchanges.VERTEX, ("sonnet-4-6", "opus-4-5"), {"model": None}, id=MESSAGES
        ),
        pytest.param(APIS[3], gemini.CLOUD, ("3-flash", "2.5-pro"), {}, id=GEMINI),
    ],
)
async def test_the_path_names_the_model_in_a_cloud(
    api: Api, path: str, other: tuple[str, str], more: Json
) -> None:
    """The model of a turn is that of the path, and another model gets nothing of it."""
    more = more | {"key": "Authorization: Bearer ya29.token"}
    async with world() as w:
        w.upstream.answers(api.plain, DONE, DONE)
        await api.send(w, api.lost[0], path=path, **more)
        assert (await api.send(w, *api.lost, path=path, **more)).mark == "injected=1"
        assert w.sent()[api.member] == api.whole
        got = await api.send(w, *api.lost, path=path.replace(*other), **more)
        assert got.mark == "injected=0, lacking=1, guarded_model=1"
        assert w.counted("exchanges_total", route=api.route, outcome="ok") == 3


async def test_each_dialect_has_its_own_conversations() -> None:
    """The same words in another API do not find the turn, although the tenant is the same."""
    words = {"role": "assistant", "content": "It is seven degrees in Oslo, and rather cloudy."}
    more: Json = {"model": "gpt-5.4"}
    bearer: Json = more | {"key": "Authorization: Bearer sk-a"}
    choice = {"index": 0, "message": words | completions.THOUGHT, "finish_reason": "stop"}
    text = {"type": "text", "text": words["content"]}
    async with world() as w:
        completion = {"id": "resp_1", "model": "gpt-5.4", "choices": [choice]}
        w.upstream.answers(whole(as_json(completion)), DONE, DONE)
        await completions.chat(w, completions.ASK, **more)
        for got in (
            await w.turn(completions.ASK, {"type": "message"} | words, completions.ASK),
            await exchanges.send(w, completions.ASK, words, completions.ASK, **bearer),
        ):
            assert (got.mark or "").startswith("injected=0, lacking=1, missed=1")
        message = exchanges.answer(exchanges.THOUGHT, text, reason="end_turn", model="gpt-5.4")
        w.upstream.answers(message, DONE, DONE)
        await exchanges.send(w, completions.ASK, **bearer)
        assert (
            await completions.chat(w, completions.ASK, words, completions.ASK, **more)
        ).mark == "injected=1"
        assert (
            await exchanges.send(w, completions.ASK, words, completions.ASK, **bearer)
        ).mark == "injected=1"


async def test_the_scope_of_the_log_deletes_the_conversations_of_all_dialects(
    capsys: Logged,
) -> None:
    """It is the tenant's in each dialect."""
    async with world() as w:
        w.upstream.answers(APIS[0].plain, whole(as_json(response(RS, CALL))))
        await completions.chat(w, *LOST[:1])
        scope = logged(capsys, "exchange")[-1]["scope"]
        await w.turn(LOST[0])
        assert logged(capsys, "exchange")[-1]["scope"] == scope
        kept = (await w.app.store.survey(None, "", 10)).conversations
        tenant = bytes.fromhex(scope)
        assert {one.scope for one in kept} == {tenant, scope_in(CHAT, tenant)}
        async with line_to(w.app.admin_url) as line:
            asked = f"DELETE /scopes/{scope} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            assert (await line.ask(asked.encode())).status == 200
        assert (await w.app.store.survey(None, "", 10)).conversations == []


# --- refusals ---


def refusals(body: Json) -> list[bytes]:
    """Return a refusal by its status, inside a success, and as the first event of a stream."""
    event = b"event: error\ndata: " + as_json(body) + b"\n\n"
    pieces = (b": x\n\n", event, b"")
    return [
        whole(as_json(body), status="400 Bad Request"),
        whole(b"\n\n   " + as_json(body)),
        stream_head() + b"".join(map(chunk, pieces)),
    ]


@of_others
@pytest.mark.parametrize("form", [0, 2], ids=["status", "first-event"])
async def test_refused_reasoning_is_taken_back(api: Api, form: int) -> None:
    """The client's own bytes are accepted; the next request is right at the first attempt."""
    async with world() as w:
        w.upstream.answers(api.plain, refusals(api.refusal)[form], DONE, DONE)
        await api.send(w, api.lost[0])
        got = await api.send(w, *api.lost)
        want = f"injected=0, lacking=1, refused=1, healed={api.diagnosis}"
        assert (got.status, got.body, got.mark) == (200, b"{}", want)
        assert (w.sent(1)[api.member], w.sent()[api.member]) == (api.whole, api.lost)
        heals: Json = {"dialect": api.name, "diagnosis": api.diagnosis}
        assert w.counted("heals_total", **heals, result="cured") == 1
        assert "healed" not in ((await api.send(w, *api.lost)).mark or "")
        assert (w.sent()[api.member], len(w.upstream.received)) == (api.lost, 4)


@of_others
async def test_a_second_refusal_reaches_the_client(api: Api) -> None:
    """The second attempt was its own request, so it sees the error of that."""
    other = whole(b'{"error":"other"}', status="400 Bad Request")
    async with world() as w:
        w.upstream.answers(api.plain, refusals(api.refusal)[0], other)
        await api.send(w, api.lost[0])
        got = await api.send(w, *api.lost)
        assert (got.status, got.body) == (400, b'{"error":"other"}')
        heals: Json = {"dialect": api.name, "diagnosis": api.diagnosis}
        assert w.counted("heals_total", **heals, result="refused") == 1


@of_each_api
@pytest.mark.parametrize("form", [0, 1], ids=["status", "success"])
async def test_healing_off_passes_every_refusal_on(api: Api, form: int) -> None:
    """There is one attempt, and a success that begins as an error is not held."""
    refused = refusals(api.refusal)[form]
    async with world(heal="off") as w:
        w.upstream.answers(api.plain, refused)
        await api.send(w, api.lost[0])
        assert refused.endswith(b"\r\n\r\n" + (await api.send(w, *api.lost)).body)
        assert len(w.upstream.received) == 2


DEMANDS = refusals(completions.PASSED_BACK)


@pytest.mark.parametrize("refused", DEMANDS)
async def test_reasoning_that_a_setting_left_out_is_injected_if_it_is_demanded(
    refused: bytes,
) -> None:
    """Now, and from the start in the next request; a success may be a refusal."""
    late = [*completions.LOST, {"role": "assistant", "content": "7 degrees."}, completions.ASK]
    async with world(chat_rounds="current") as w:
        w.upstream.answers(APIS[0].plain, refused, DONE, DONE)
        await completions.chat(w, completions.ASK)
        got = await completions.chat(w, *late)
        assert got.mark == "injected=1, lacking=1, missed=1, healed=lacks_reasoning"
        assert (w.sent(1)["messages"], w.sent()["messages"][:3]) == (late, completions.WHOLE)
        assert ((await completions.chat(w, *late)).mark or "").startswith("injected=1")
        assert len(w.upstream.received) == 4


async def test_a_completion_that_is_no_error_is_not_changed() -> None:
    """A completion that says `error` is a completion."""
    body = completions.streamed({"role": "assistant", "content": '{"error": 1}'}, finish="stop")
    plain = b'  {"choices": [], "error": null, "id": "chatcmpl-2"}'
    async with world() as w:
        w.upstream.answers(body, whole(plain))
        assert b'{\\"error\\": 1}' in (await completions.chat(w, completions.ASK, stream=True)).body
        assert (await completions.chat(w, completions.ASK)).body == plain


async def test_a_filler_is_opt_in_and_remembered() -> None:
    """A history that began elsewhere passes without reasoning, and is counted as degraded."""
    filled = completions.SAID | {"reasoning_content": ""}
    async with world(chat_fill="on") as w:
        w.upstream.answers(refusals(completions.PASSED_BACK)[0], DONE, DONE)
        got = await completions.chat(w, *completions.LOST)
        assert got.mark == "injected=0, lacking=1, missed=1, degraded=1, healed=lacks_reasoning"
        got = await completions.chat(w, *completions.LOST)
        assert got.mark == "injected=0, lacking=1, missed=1, degraded=1"
        assert w.sent()["messages"] == [completions.ASK, filled, completions.RESULT]
        assert len(w.upstream.received) == 3
