"""
Rules for reasoning as plain text: it must be sent with the calls it led to, before them.

The rule of DeepSeek's own Responses API, as reported. It is stateless: nothing is looked up, and
ids pair nothing. Calls of one run share the reasoning before the first.
"""

from collections.abc import Iterator, Sequence

from tests.standin import refusals
from tests.standin.ledger import Ledger
from tests.standin.pairing import Seen
from tests.standin.refusals import Refusal

__all__ = ["faults"]

MESSAGE_PREFIX = "msg_"


def faults(seen: Sequence[Seen], caller: str, ledger: Ledger) -> Iterator[Refusal]:
    """
    Yield the faults of the reasoning before calls, and of the ids of messages.

    A call that is known to have been emitted without reasoning needs none.
    """
    is_led_to = False
    for one in seen:
        if one.kind == "reasoning":
            is_led_to = _has_text(one)
        elif one.kind == "message":
            if one.id and not one.id.startswith(MESSAGE_PREFIX):
                yield refusals.bad_message_id()
            is_led_to = is_led_to and one.by_model
        elif one.by_model:
            if not is_led_to and _was_led_to(one, caller, ledger):
                yield refusals.missing_text()
        else:
            is_led_to = False


def _has_text(one: Seen) -> bool:
    content = one.item.content
    parts = content if isinstance(content, list) else []
    return any(part.type == "reasoning_text" and part.text for part in parts)


def _was_led_to(one: Seen, caller: str, ledger: Ledger) -> bool:
    emitted = ledger.by_call(one.item.call_id or "", caller)
    return not emitted or any(item.required for item in emitted)
