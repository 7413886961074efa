"""Rules of Messages that a client which only drops or damages reasoning never meets."""

from collections.abc import Awaitable, Callable

import pytest

from tests.standin.messages import MessagesStandIn, ModeName
from tests.standin.messages.client import RAIN, SNOW, Message, ask, error, step, without

Start = Callable[..., Awaitable[MessagesStandIn]]
Change = Callable[[list[Message]], list[Message]]

MARK = {"cache_control": {"type": "ephemeral"}}
OFF: Message = {"thinking": {"type": "disabled"}}
NOT_FIRST = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
MODIFIED = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot"
INVALID = "Invalid `signature` in `thinking` block"


def picked(*at: int) -> Change:
    """Send these blocks of the first answer, in this order."""
    return lambda history: [
        history[0],
        {**history[1], "content": [history[1]["content"][n] for n in at]},
        *history[2:],
    ]


def marked(history: list[Message]) -> list[Message]:
    """Add cache marks, write a text as a block, and change the order of members."""
    asked = {"role": "user", "content": [{"text": RAIN["content"], "type": "text"} | MARK]}
    thought, call = history[1]["content"]
    blocks = [thought, dict(reversed((call | MARK).items()))]
    return [asked, {**history[1], "content": blocks}, *history[2:]]


# (mode, loop, the history that is sent, other members, the text of the refusal; "": accepted)
CASES: list[tuple[ModeName, str, Change, Message, str]] = [
    ("manual", "one_call", without, {}, f"{NOT_FIRST} `tool_use`."),
    ("manual", "preamble", without, {}, f"{NOT_FIRST} `text`."),
    ("manual", "one_call", lambda h: [*without(h), SNOW], {}, ""),
    ("manual", "one_call", without, OFF, ""),
    ("manual", "text", lambda h: h, OFF, "messages.1: When thinking is disabled, an `assistant`"),
    ("manual", "interleaved", picked(0, 1, 3), {}, MODIFIED),
    ("manual", "interleaved", picked(0, 2, 1, 3), {}, MODIFIED),
    ("adaptive", "interleaved", picked(0, 1, 3), {}, MODIFIED),
    ("adaptive", "one_call", without, {}, ""),
    ("adaptive", "one_call", lambda h: h, {"model": "claude-opus-4-8"}, INVALID),
    ("adaptive", "one_call", lambda h: h, {"key": "sk-ant-two"}, INVALID),
    ("bound", "interleaved", picked(0, 1, 3), {}, MODIFIED),
    ("bound", "interleaved", picked(0, 2, 1, 3), {}, INVALID),
    ("bound", "one_call", marked, {}, ""),
    ("deepseek", "one_call", without, {}, "The `content[].thinking` in the thinking mode must be"),
    ("deepseek", "one_call", lambda h: [*without(h), SNOW], {}, ""),
    ("deepseek", "one_call", without, OFF, ""),
]


@pytest.mark.parametrize(("mode", "loop", "change", "more", "words"), CASES)
async def test_a_history_is_refused_or_accepted(
    start: Start, *, mode: ModeName, loop: str, change: Change, more: Message, words: str
) -> None:
    """A step is played, changed and sent again."""
    standin = await start(mode, loop=loop)
    history = change(await step(standin, RAIN))

    if words:
        assert words in await error(standin, *history, **more)
    else:
        assert (await ask(standin, *history, **more))[0] == 200
