"""
Strict API: the APIs of the vendors on loopback, as strict about reasoning as they are.

It answers from a script, remembers what it emitted, refuses what the vendors refuse, in their
words, and judges the reasoning in each request. `demo`, the playground and the tests use it. It
shares no code with the proxy, so that it can judge it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from reasoning_replay.strict_api.chat import Chat
from reasoning_replay.strict_api.dialect import Dialect, Exchange, Item
from reasoning_replay.strict_api.gemini import Gemini
from reasoning_replay.strict_api.messages import Messages
from reasoning_replay.strict_api.responses import Responses
from reasoning_replay.strict_api.scenarios import QUESTIONS, SCENARIOS, Script
from reasoning_replay.strict_api.server import StrictApi

__all__ = [
    "DIALECTS",
    "QUESTIONS",
    "SCENARIOS",
    "Exchange",
    "Item",
    "Script",
    "StrictApi",
]

# A new dialect is one entry.
DIALECTS: Final[Mapping[str, type[Dialect]]] = MappingProxyType(
    {one.name: one for one in (Responses, Chat, Messages, Gemini)}
)
