"""
Rules: which requests a mode refuses, and which blocks it leaves out without an error.

`judged` is the only entry point. Pure: its inputs are a mode, a request and its findings.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from tests.standin.common.judging import Finding, Message
from tests.standin.common.server import ApiRefusal, Ruling
from tests.standin.messages import refusals
from tests.standin.messages.blocks import (
    Block,
    Prefix,
    blocks_of,
    is_reasoning,
    last_question,
    prefixes,
)
from tests.standin.messages.model import thinks
from tests.standin.messages.modes import Mode
from tests.standin.messages.seals import Flaw, Sealed, Sealer

__all__ = ["DROPS_BLOCKS", "Case", "judged"]

DROPS_BLOCKS = "thinking-binding-controls-2026-08-01"
"""The value of `anthropic-beta` that allows a request to have such blocks left out."""
_BOUND: frozenset[Flaw] = frozenset({"system", "tools", "messages", "thinking"})
_UNREADABLE: frozenset[Flaw] = frozenset({"model", "account"})
_NOT_ITS_OWN = frozenset({"wrong", "missing", "foreign"})


class Case(Struct, frozen=True, kw_only=True):
    """
    A request, and what is known of it.

    Attributes:
        findings: What was found in it (judging.py).
        caller: Digest of the credential.
        unknown: Indices of assistant messages that were not emitted here.
        betas: Its header `anthropic-beta`.
    """

    mode: Mode
    body: Message
    findings: Sequence[Finding]
    caller: str
    sealer: Sealer
    unknown: frozenset[int] = frozenset()
    betas: str = ""

    @property
    def messages(self) -> Sequence[Message]:
        """Its messages."""
        messages: Sequence[Message] = self.body["messages"]
        return messages

    @property
    def thinks(self) -> bool:
        """Whether thinking is on."""
        return thinks(self.body, unasked=self.mode.thinks_unasked)

    @property
    def drops_blocks(self) -> bool:
        """Whether blocks of another history are to be left out, not refused."""
        binding = (self.body.get("thinking") or {}).get("block_binding") or {}
        is_asked = binding.get("prefix_mismatch_behavior") == "drop_block"
        return is_asked and DROPS_BLOCKS in self.betas

    def reasoning(self) -> Iterator[tuple[int, int, Block, Prefix]]:
        """Yield each block of reasoning, with its message, its index there, and its prefix."""
        for index, (message, before) in enumerate(
            zip(self.messages, prefixes(self.body), strict=False)
        ):
            if message.get("role") == "assistant":
                for at, block in enumerate(blocks_of(message)):
                    if is_reasoning(block):
                        yield index, at, block, before[at]

    def loop(self) -> list[tuple[int, list[Block]]]:
        """Return the assistant messages since the last question, with their index."""
        start = last_question(self.messages) + 1
        return [
            (index, blocks_of(message))
            for index, message in enumerate(self.messages)
            if index >= start and message.get("role") == "assistant"
        ]

    def states(self, index: int) -> set[str]:
        """Return the states of the findings of a message."""
        return {one.state for one in self.findings if one.index == index}


def judged(case: Case) -> Ruling:
    """Judge a request."""
    left_out: list[dict[str, Any]] = []
    rule = _deepseek(case) if not case.mode.is_signed else _anthropic(case, left_out)
    refusal = next(rule, None)
    return Ruling(refusal, () if refusal else tuple(left_out))


def _deepseek(case: Case) -> Iterator[ApiRefusal]:
    """With tools and thinking, each message of the round has its reasoning, signed or not."""
    if case.thinks and case.body.get("tools"):
        for index, blocks in case.loop():
            is_due = "missing" in case.states(index) or index in case.unknown
            if is_due and not any(map(is_reasoning, blocks)):
                yield refusals.deepseek_missing()
    for one in case.findings:
        if one.state == "wrong":
            yield refusals.never_emitted(one.index, one.path)


def _anthropic(case: Case, left_out: list[dict[str, Any]]) -> Iterator[ApiRefusal]:
    """Signatures first; then the current loop, if thinking is on."""
    if case.thinks:
        yield from _signatures(case, left_out)
        yield from _current_loop(case)


def _signatures(case: Case, left_out: list[dict[str, Any]]) -> Iterator[ApiRefusal]:
    mode = case.mode
    for index, at, block, prefix in case.reasoning():
        kind = str(block["type"])
        if kind == "thinking" and "signature" not in block:
            yield refusals.unsigned(index, at)
        if mode.name == "manual" and kind == "thinking" and not str(block["thinking"]).strip():
            yield refusals.blank(index, at)
        sealed = Sealed("", str(case.body.get("model")), case.caller, prefix)
        flaws = set(case.sealer.flaws(block, sealed)) - (frozenset() if mode.is_bound else _BOUND)
        if not flaws:
            continue
        is_lost = mode.is_bound and bool(flaws & _UNREADABLE)
        if "damaged" in flaws or (flaws & _UNREADABLE and not is_lost):
            yield refusals.invalid_signature(index, at, kind)
        elif is_lost or case.drops_blocks:
            reason = "unreadable" if is_lost else "prefix_mismatch"
            path = f"messages.{index}.content.{at}"
            left_out.append({"type": "thinking_dropped", "path": path, "reason": reason})
        else:
            yield refusals.bound_elsewhere(index, at, kind, [*flaws])


def _current_loop(case: Case) -> Iterator[ApiRefusal]:
    """
    Manual thinking starts each message of the loop with its reasoning, if it had any.

    In every mode, the latest message has all its reasoning, as it was emitted, or none.
    """
    loop, found = case.loop(), case.findings
    for index, blocks in loop if case.mode.name == "manual" else ():
        starts = bool(blocks) and is_reasoning(blocks[0])
        is_first_unknown = index == loop[0][0] and index in case.unknown
        if not starts and (Finding(index, "content.0.0", "missing") in found or is_first_unknown):
            kind = str(blocks[0]["type"]) if blocks else "text"
            yield refusals.missing(index, kind)
    for index, blocks in loop[-1:]:
        at = next((at for at, block in enumerate(blocks) if is_reasoning(block)), None)
        if at is not None and case.states(index) & _NOT_ITS_OWN:
            yield refusals.modified(index, at)
