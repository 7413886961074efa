"""Live test: two turns with a real model, through a proxy in this process that must inject."""

import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import aiohttp

from reasoning_replay.check.report import Finding
from reasoning_replay.check.upstream import ApiKey
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running
from reasoning_replay.web.errors import MARK
from reasoning_replay.web.wiring import profile

__all__ = ["of_proof"]

TURN_TIMEOUT_S: Final = 120.0
ANY_PORT: Final = "127.0.0.1:0"
CALLS: Final = ("function_call",)

Item = dict[str, Any]

QUESTION: Final[Item] = {
    "role": "user",
    "content": "I have a red, a green and a blue box. The key is neither in the first by alphabet "
    "nor in the last. Look into the box that has it, and tell me what is inside.",
}
TOOL: Final[Item] = {
    "type": "function",
    "name": "look_into",
    "description": "Tells what is in a box.",
    "parameters": {
        "type": "object",
        "properties": {"box": {"type": "string"}},
        "required": ["box"],
        "additionalProperties": False,
    },
    "strict": True,
}
THANKS: Final[Item] = {"role": "user", "content": "Thank you. Which box was that again?"}


class TurnResult(NamedTuple):
    """The result of one turn."""

    status: int
    output: list[Item]
    mark: str
    code: str


async def of_proof(settings: Settings, key: ApiKey, model: str) -> AsyncIterator[Finding]:
    """
    Run two turns, drop the reasoning between them, and report whether the injection was accepted.

    Cost: two requests upstream, a few hundred tokens. Captures stay in this process.
    """
    if not key.name and profile(settings).wants_key:
        yield Finding("problem", "proof", "no key, so no turn was run; see the upstream line above")
        return
    # Without a credential nothing is captured, even if the upstream needs none.
    header = key.header if key.name else ("Authorization", "Bearer none")
    changed: dict[str, object] = {
        "listen": ANY_PORT,
        "admin_listen": ANY_PORT,
        "tls_cert_file": "",
        "tls_key_file": "",
        "store_url": "memory://",
        "reuse_port": False,
        "mode": "on",
        "scope_from": "credential",
        "log_level": "error",
    }
    timeout = aiohttp.ClientTimeout(total=TURN_TIMEOUT_S)
    try:
        async with (
            running(settings.model_copy(update=changed)) as app,
            aiohttp.ClientSession(timeout=timeout, headers=[header]) as session,
        ):
            url = f"{app.url}/v1/responses"
            first = await _turn(session, url, model, [QUESTION])
            yield _of_first(first, model)
            if first.status == HTTPStatus.OK:
                second = await _turn(session, url, model, _went_on(first.output))
                yield _of_second(second, first.output)
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
        reason = f"no response within {TURN_TIMEOUT_S:g} s"
        words = reason if isinstance(error, TimeoutError) else f"it failed: {type(error).__name__}"
        yield Finding("problem", "proof", words)


async def _turn(
    session: aiohttp.ClientSession, url: str, model: str, items: list[Item]
) -> TurnResult:
    body: Item = {"model": model, "input": items, "tools": [TOOL], "store": False}
    async with session.post(url, json=body, allow_redirects=False) as response:
        mark = response.headers.get(MARK, "")
        text = await response.text()
    try:
        read = json.loads(text)
    except ValueError:
        read = {}
    read = read if isinstance(read, dict) else {}
    error = read.get("error")
    code = error.get("code") or error.get("type") if isinstance(error, dict) else ""
    output = read.get("output")
    return TurnResult(
        response.status, output if isinstance(output, list) else [], mark, str(code or "")
    )


def _went_on(output: list[Item]) -> list[Item]:
    """Return the history of a client that keeps all output items except reasoning."""
    kept = [item for item in output if item.get("type") != "reasoning"]
    answers = [
        {"type": "function_call_output", "call_id": item.get("call_id"), "output": "a gold ring"}
        for item in kept
        if item.get("type") in CALLS
    ]
    return [QUESTION, *kept, *(answers or [THANKS])]


def _reasoning(output: list[Item]) -> list[Item]:
    return [item for item in output if item.get("type") == "reasoning"]


def _refused(answer: TurnResult) -> str:
    code = f", {answer.code}" if answer.code.isprintable() and len(answer.code) < 80 else ""  # noqa: PLR2004 (a word)
    return f"was refused with {answer.status}{code}"


def _of_first(answer: TurnResult, model: str) -> Finding:
    if answer.status != HTTPStatus.OK:
        words = f"the first turn {_refused(answer)}: may this key use the model {model}?"
        return Finding("problem", "proof", words)
    reasoning = _reasoning(answer.output)
    sealed = sum(bool(item.get("encrypted_content")) for item in reasoning)
    if not reasoning:
        words = f"{model} emitted no reasoning, so there is nothing to inject; try another model"
        return Finding("warning", "proof", words)
    words = f"{model} emitted {len(reasoning)} reasoning item(s), {sealed} of them encrypted"
    return Finding("ok", "proof", words)


def _of_second(answer: TurnResult, before: list[Item]) -> Finding:
    if answer.status != HTTPStatus.OK:
        return Finding("problem", "proof", f"the second turn {_refused(answer)}")
    told = dict(part.strip().partition("=")[::2] for part in answer.mark.split(","))
    if "healed" in told:
        words = f"the second turn was accepted only after it was healed ({answer.mark})"
        return Finding("warning", "proof", f"{words}: is upstream_profile right?")
    if not _reasoning(before):
        return Finding("ok", "proof", "the second turn was accepted as well")
    if not told.get("injected"):
        words = (
            f"the second turn was accepted, but nothing was injected ({answer.mark or 'no header'})"
        )
        return Finding("problem", "proof", words)
    words = f"the second turn was accepted with {told['injected']} injected item(s)"
    return Finding("ok", "proof", words)
