"""Live test: two turns with a real model, through a proxy in this process that must inject."""

import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import aiohttp

from reasoning_replay.check.local import Finding
from reasoning_replay.check.upstream import NOT_SERVED, ApiKey
from reasoning_replay.core.dialects.error_texts import error_names
from reasoning_replay.core.dialects.path_faults import PathFault, base_path
from reasoning_replay.core.dialects.registry import RESPONSES
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running
from reasoning_replay.web.errors import MARK
from reasoning_replay.web.wiring import profile
from reasoning_replay.wires import WIRES, Item, Reply, Wire

TURN_TIMEOUT_S: Final = 120.0
ANY_PORT: Final = "127.0.0.1:0"
NO_REPLY: Final = Reply([], [], [], [])

RESULT: Final = "a gold ring"
FUNCTION: Final[Item] = {
    "name": "look_into",
    "description": "Tells what is in a box.",
    "parameters": {
        "type": "object",
        "properties": {"box": {"type": "string"}},
        "required": ["box"],
        "additionalProperties": False,
    },
}
QUESTION: Final = (
    "I have a red, a green and a blue box. The key is neither in the first by alphabet "
    "nor in the last. Look into the box that has it, and tell me what is inside."
)
THANKS: Final = "Thank you. Which box was that again?"


class TurnResult(NamedTuple):
    """
    The result of one turn.

    Attributes:
        reply: NO_REPLY if the response is an error, or has another form.
        mark: The proxy's header; "" if it is missing.
        error: Name of the error in the response; "" if it has none.
    """

    status: int
    reply: Reply
    mark: str
    error: str

    @property
    def is_answer(self) -> bool:
        """Whether the model answered; an error may have a status of success."""
        return self.status == HTTPStatus.OK and bool(self.reply.kept)

    def refused(self) -> str:
        """Return how the turn was refused, by names alone: a message may quote the key."""
        name = f", {self.error}" if self.error else ""
        if self.status == HTTPStatus.OK:
            return f"had the status 200{name}, but no answer of a model"
        return f"was refused with {self.status}{name}"


async def of_proof(
    settings: Settings, key: ApiKey, model: str, dialect: str = RESPONSES
) -> AsyncIterator[Finding]:
    """
    Run two turns, drop the reasoning between them, and report whether the injection was accepted.

    Cost: two requests upstream, a few hundred tokens. Captures stay in this process.
    """
    known = profile(settings, dialect)
    if not key.name and known.wants_key:
        remedy = f": set {known.key_names[0]}" if known.key_names else ""
        yield Finding("problem", f"no key, so no turn was run{remedy}")
        return
    wire = WIRES[dialect]
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
            base = base_path(settings.upstream_url, dialect)
            url = app.url + base + wire.path_of(model)
            first = await _turn(session, url, wire, model, [wire.says(QUESTION)])
            yield _of_first(first, model, wire)
            if first.is_answer:
                second = await _turn(session, url, wire, model, _went_on(wire, first.reply))
                yield _of_second(second, first.reply)
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
        reason = f"no response within {TURN_TIMEOUT_S:g} s"
        words = reason if isinstance(error, TimeoutError) else f"it failed: {type(error).__name__}"
        yield Finding("problem", words)


async def _turn(
    session: aiohttp.ClientSession, url: str, wire: Wire, model: str, history: list[Item]
) -> TurnResult:
    body = {**wire.request(model, history, FUNCTION), **wire.stateless}
    request = session.post(url, json=body, headers=wire.headers, allow_redirects=False)
    async with request as response:
        mark = response.headers.get(MARK, "")
        raw = await response.read()
    names = error_names(raw)
    return TurnResult(response.status, _reply(wire, raw), mark, names.code or names.type)


def _reply(wire: Wire, raw: bytes) -> Reply:
    try:
        read: Any = json.loads(raw)
        return wire.read(read)
    except (AttributeError, LookupError, TypeError, ValueError):
        return NO_REPLY


def _went_on(wire: Wire, reply: Reply) -> list[Item]:
    """Return the history of a client that keeps all of an answer except reasoning."""
    results = wire.results(reply.calls, RESULT)
    return [wire.says(QUESTION), *reply.kept, *(results or [wire.says(THANKS)])]


def _of_first(turn: TurnResult, model: str, wire: Wire) -> Finding:
    if not turn.is_answer:
        words = f"the first turn {turn.refused()}: may this key use the model {model}?"
        if f"wrong_path={PathFault.NEEDS_RESPONSES}" in turn.mark:
            words += " It reasons with tools on /responses only: --dialect responses proves that"
        elif turn.status in NOT_SERVED:
            others = [
                f"--dialect {name} proves {other.path}"
                for name, other in WIRES.items()
                if other is not wire
            ]
            words += f" Is {wire.path} served there? {', '.join(others)}"
        return Finding("problem", words)
    sealed = turn.reply.sealed
    if not sealed:
        words = f"{model} emitted no reasoning, so there is nothing to inject; try another model"
        return Finding("warning", words)
    words = f"{model} emitted {len(sealed)} reasoning item(s), {sum(sealed)} of them encrypted"
    return Finding("ok", f"{words} or signed")


def _of_second(turn: TurnResult, before: Reply) -> Finding:
    if not turn.is_answer:
        words = f"the second turn {turn.refused()}: is upstream_profile right?"
        return Finding("problem", f"{words} docs/upstreams.md helps to find out")
    told = dict(part.strip().partition("=")[::2] for part in turn.mark.split(","))
    if "healed" in told:
        words = f"the second turn was accepted only after it was healed ({turn.mark})"
        return Finding("warning", f"{words}: is upstream_profile right?")
    if not before.sealed:
        return Finding("ok", "the second turn was accepted as well")
    if told.get("injected", "0") == "0":
        words = (
            f"the second turn was accepted, but nothing was injected ({turn.mark or 'no header'})"
        )
        return Finding("problem", words)
    words = f"the second turn was accepted with {told['injected']} injected item(s)"
    return Finding("ok", words)
