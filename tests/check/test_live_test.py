"""The live test runs two turns through a proxy in this process and judges the result."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from reasoning_replay import cli
from reasoning_replay.check import check, live_test
from reasoning_replay.check.live_test import of_proof
from reasoning_replay.check.upstream import NO_KEY, ApiKey
from reasoning_replay.core.dialects.registry import CHAT, DIALECTS, MESSAGES, RESPONSES
from reasoning_replay.settings.model import Settings
from reasoning_replay.wires import WIRES, Reply, Wire

from tests.check.reports import KEY, found, report
from tests.strict import Quirks, Refusal, StrictResponses
from tests.strict.chat import StrictChat
from tests.strict.messages import StrictMessages
from tests.strict.upstream import WRONG, Upstream

MINE = ApiKey("OPENAI_API_KEY", ("Authorization", f"Bearer {KEY}"))
MODEL = "gpt-5.4"


def served_by(api: StrictResponses | Upstream) -> tuple[str, str]:
    """Return the model of a strict API, and its dialect."""
    if isinstance(api, StrictChat):
        return api.model, CHAT
    if isinstance(api, StrictMessages):
        return api.model, MESSAGES
    return MODEL, RESPONSES


async def proven(
    settings: Settings, api: StrictResponses | Upstream, model: str = "", **changed: Any
) -> list[str]:
    """Return the findings of a live test against a strict API."""
    update = {"upstream_url": api.base_url, "store_budget_ms": 5000, **changed}
    own, dialect = served_by(api)
    here = settings.model_copy(update=update)
    return await found(of_proof(here, MINE, model or own, dialect))


# (a strict API, reasoning items of its answer with a call, how many of them are signed)
PROVEN: list[tuple[Callable[[], StrictResponses | Upstream], int, int]] = [
    (lambda: StrictResponses("one_call", "strict"), 1, 1),
    (lambda: StrictResponses("message", "strict"), 1, 1),
    (lambda: StrictResponses("parallel", "strict"), 1, 1),
    (lambda: StrictChat("deepseek"), 1, 0),
    (lambda: StrictChat("kimi"), 1, 0),
    (lambda: StrictChat("gemini"), 1, 1),
    (lambda: StrictChat("openrouter"), 2, 1),
    (lambda: StrictChat("groq"), 1, 0),
    (lambda: StrictChat("lenient"), 1, 0),
    (lambda: StrictMessages("manual", loop="one_call"), 1, 1),
    (lambda: StrictMessages("manual", loop="redacted"), 1, 1),
    (lambda: StrictMessages("manual", loop="text"), 1, 1),
    (lambda: StrictMessages("adaptive", loop="one_call"), 1, 1),
    (lambda: StrictMessages("bound", loop="one_call"), 1, 1),
    (lambda: StrictMessages("deepseek", loop="one_call"), 1, 0),
]


@pytest.mark.parametrize(("make", "emitted", "signed"), PROVEN)
async def test_injected_reasoning_is_accepted(
    settings: Settings,
    make: Callable[[], StrictResponses | Upstream],
    emitted: int,
    signed: int,
) -> None:
    """A strict API of each vendor accepts the reasoning that is injected, and lacks none."""
    async with make() as api:
        more = {"upstream_profile": api.profile} if isinstance(api, StrictMessages) else {}
        first, second = await proven(settings, api, **more)
    told = f"emitted {emitted} reasoning item(s), {signed} of them encrypted or signed"
    assert first == f"ok: {served_by(api)[0]} {told}"
    assert second == f"ok: the second turn was accepted with {emitted} injected item(s)"
    if isinstance(api, Upstream):
        assert api.found("whole")
        assert not api.found("missing", *WRONG)


async def test_settings_that_would_be_in_the_way_are_not(settings: Settings) -> None:
    """The live test uses the memory store, free ports and mode on, whatever the settings are."""
    async with StrictResponses() as api:
        lines = await proven(
            settings,
            api,
            mode="off",
            store_url="redis://:hunter2@nowhere",
            reuse_port=True,
            listen="203.0.113.1:1",
            scope_from="header:x-tenant",
        )
    assert [line.partition(":")[0] for line in lines] == ["ok", "ok"]


ANOTHER_FORM = "had the status 200, but no answer of a model"
NEEDS_RESPONSES = (
    f"Function tools with reasoning_effort are not supported for {MODEL} in /v1/chat/completions. "
    "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
)
# (dialect, status and body of the first answer, what is told of it); a message may quote the key
FAULTS: list[tuple[str, int, Any, str]] = [
    (CHAT, 401, {"error": {"code": "invalid_api_key", "message": f"Wrong key: {KEY}"}}, "was refused with 401, invalid_api_key: may"),  # noqa: E501
    (CHAT, 200, {"error": {"code": 502, "message": f"Provider returned error {KEY}"}}, "had the status 200, 502, but no answer of "),  # noqa: E501
    (CHAT, 400, {"error": {"message": NEEDS_RESPONSES}}, "It reasons with tools on /responses only: --dialect responses proves that"),  # noqa: E501
    (CHAT, 200, {"choices": []}, ANOTHER_FORM),
    (CHAT, 200, {"choices": [{}]}, ANOTHER_FORM),
    (CHAT, 200, {"choices": "none"}, ANOTHER_FORM),
    (CHAT, 200, [1], ANOTHER_FORM),
    (MESSAGES, 200, {"content": []}, ANOTHER_FORM),
    (MESSAGES, 200, {"content": [{}]}, ANOTHER_FORM),
    (MESSAGES, 200, {"content": "none"}, ANOTHER_FORM),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "status", "body", "words"), FAULTS)
async def test_a_first_turn_without_an_answer_is_a_problem(
    settings: Settings, dialect: str, status: int, body: Any, words: str
) -> None:
    """It is told by names alone; a body of another form is no crash."""
    async with StrictChat("lenient") if dialect == CHAT else StrictMessages() as api:
        api.refuse_next(Refusal(status, body=body))
        (line,) = await proven(settings, api)
    assert line.startswith("problem: the first turn ")
    assert words in line


@pytest.mark.parametrize("dialect", [RESPONSES, CHAT])
async def test_a_model_without_reasoning_proves_nothing(settings: Settings, dialect: str) -> None:
    """An answer without reasoning, or with an empty one, is a warning and no problem."""
    silent = StrictResponses() if dialect == RESPONSES else StrictChat("deepseek", loop="plain")
    async with silent as api:
        first, second = await proven(settings, api, "gpt-4.1", upstream_profile="deepseek")
    assert re.match(r"warning: \S+ emitted no reasoning", first)
    assert second == "ok: the second turn was accepted as well"


async def test_a_second_turn_that_is_refused_is_a_problem(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused second turn is a problem without healing and a warning with it."""
    async with StrictResponses() as api:
        went_on = live_test._went_on

        def moved(wire: Wire, reply: Reply) -> list[dict[str, Any]]:
            api.behaviour.quirks = Quirks(account="b")
            return went_on(wire, reply)

        monkeypatch.setattr(live_test, "_went_on", moved)
        _, line = await proven(settings, api, heal="off")
        assert line.startswith("problem: the second turn was refused with 40")
        api.behaviour.quirks = Quirks()
        _, line = await proven(settings, api)
    assert line.startswith("warning: the second turn was accepted only after it was healed (")


async def test_without_a_key_nothing_is_proven(settings: Settings) -> None:
    """Without a key there is no tenant to capture for, so the live test is a problem."""
    assert await found(of_proof(settings, NO_KEY, MODEL)) == [
        "problem: no key, so no turn was run: set OPENAI_API_KEY"
    ]


async def test_a_server_that_asks_for_no_key_is_proven_without(settings: Settings) -> None:
    """A server that needs no key is tested without one; its reasoning is plain text."""
    aloud = Quirks(keeps_nothing=True, thinks_aloud=True, takes_blobs=False)
    async with StrictResponses(quirks=aloud) as api:
        update = {"upstream_url": api.base_url, "upstream_profile": "vllm"}
        lines = await found(of_proof(settings.model_copy(update=update), NO_KEY, MODEL))
    assert lines == [
        f"ok: {MODEL} emitted 1 reasoning item(s), 0 of them encrypted or signed",
        "ok: the second turn was accepted with 1 injected item(s)",
    ]


async def test_an_upstream_that_does_not_answer_is_a_problem(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn without a response is a problem after TURN_TIMEOUT_S."""
    monkeypatch.setattr(live_test, "TURN_TIMEOUT_S", 0.2)
    lines = await found(of_proof(settings, MINE, MODEL))
    assert lines == ["problem: no response within 0.2 s"]


# --- Chat Completions ---


def test_each_dialect_can_be_proven() -> None:
    """Each dialect of the proxy has its conversation, and its word for the flag."""
    assert [*WIRES] == [entry.name for entry in DIALECTS] == [*cli.NAMES]


async def test_the_proof_sends_what_a_client_of_the_api_sends(settings: Settings) -> None:
    """The client keeps only the members that the API declares, so the proxy adds the others."""
    async with StrictChat("kimi") as api:
        await proven(settings, api)
    (_, kept, result) = api.judged[-1].messages
    assert kept.keys() == {"role", "content", "tool_calls", "reasoning_content"}
    assert kept["tool_calls"][0].keys() == {"id", "type", "function"}
    assert result["tool_call_id"] == kept["tool_calls"][0]["id"]


async def test_a_profile_that_leaves_it_out_is_a_problem(settings: Settings) -> None:
    """Reasoning that was emitted and not injected is a problem, although it was accepted."""
    async with StrictChat("lenient") as api:
        _, second = await proven(settings, api, upstream_profile="mistral")
    assert second.startswith("problem: the second turn was accepted, but nothing was injected (")


async def test_a_path_that_is_not_served_names_the_other_dialect(settings: Settings) -> None:
    """On a 404, the way out names the flag for the other API of the upstream."""
    async with StrictChat("lenient") as api:
        here = settings.model_copy(update={"upstream_url": api.base_url})
        (line,) = await found(of_proof(here, MINE, MODEL))
    assert line == (
        "problem: the first turn was refused with 404, invalid_request_error: "
        f"may this key use the model {MODEL}? "
        "Is /responses served there? --dialect chat proves /chat/completions, "
        "--dialect messages proves /messages, "
        "--dialect gemini proves /models/{model}:generateContent"
    )


async def test_the_check_proves_the_dialect_that_is_asked_for(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check --prove MODEL --dialect chat` runs its turns on Chat Completions."""
    async with StrictChat("gemini") as api:
        here = settings.model_copy(update={"upstream_url": api.base_url})
        model = api.model
        assert await check(here, {"OPENAI_API_KEY": KEY}, model, CHAT) == 0
    assert [line[:2] for line in report(capsys, "proof")] == ["ok", "ok"]


# --- Anthropic Messages ---


async def test_messages_need_the_key_of_their_own_vendor(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """On an upstream that is not known, the key is Anthropic's, in the header of its API."""
    async with StrictMessages() as api:
        here = settings.model_copy(update={"upstream_url": api.base_url})
        model = api.model
        assert await check(here, {"OPENAI_API_KEY": KEY}, model, MESSAGES) == 1
        assert report(capsys, "proof") == [
            "problem: no key, so no turn was run: set ANTHROPIC_API_KEY"
        ]
        assert await check(here, {"ANTHROPIC_API_KEY": KEY}, model, MESSAGES) == 0
    assert [line[:2] for line in report(capsys, "proof")] == ["ok", "ok"]
    headers = {("x-api-key", KEY), ("anthropic-version", "2023-06-01")}
    assert all(headers <= {*one.received.headers} for one in api.judged)
