"""Chat dialect: the Chat Completions API as an implementation of `Dialect`."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import NamedTuple

from reasoning_replay.core.dialects.base import (
    Caller,
    Cure,
    Decision,
    Origin,
    Question,
    RefusedBodies,
)
from reasoning_replay.core.dialects.chat.capture import ChatCapture
from reasoning_replay.core.dialects.chat.decision import ChatSettings, RequestPlanner
from reasoning_replay.core.dialects.chat.request import ChatRequest, ParsedMessages, read_request
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_request
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.turns import Context, Turn
from reasoning_replay.core.tenancy.scope import Account
from reasoning_replay.core.wire.digest import digest

__all__ = ["ChatDialect", "RefusalKind", "Unclassified"]

# Enough for the parsed messages of about twenty long conversations in flight.
PREFIXES_MAX_BYTES = 24 << 20
_UNKNOWN = Origin(context=Context(), model="")


class RefusalKind(StrEnum):
    """Classes of refusals."""

    OTHER = "other"


class Unclassified(NamedTuple):
    """A refusal that no cure is known for."""

    kind: RefusalKind = RefusalKind.OTHER
    is_understood: bool = False


class ChatDialect:
    """The Chat Completions dialect for one upstream."""

    name = "chat"

    def __init__(self, settings: ChatSettings, lock: AbstractContextManager[object]) -> None:
        """
        Create the state that all exchanges share.

        Args:
            settings: Plain values.
            lock: Lock of the prefix cache, which several threads use.
        """
        self._capture_max_bytes = settings.capture_max_bytes
        self._planner = RequestPlanner(settings)
        self._prefixes: PrefixCache[ParsedMessages] = PrefixCache(PREFIXES_MAX_BYTES, lock)

    # Requests

    def key_space(self, scope: bytes) -> bytes:
        """See `Dialect.key_space`."""
        return digest(self.name.encode(), scope)

    def ask(self, body: bytes, headers: Mapping[str, str], scope: bytes) -> Question[ChatRequest]:
        """See `Dialect.ask`."""
        request = read_request(body, headers, self._prefixes, scope)
        return Question(request, keys_of_request(request))

    def decide(
        self,
        caller: Caller,
        body: bytes,
        question: Question[ChatRequest],
        found: LookupResult | None,
        *,
        is_created: bool,  # noqa: ARG002 (every request creates a response)
    ) -> Decision:
        """See `Dialect.decide`."""
        return self._planner.decide(caller, body, question, found)

    # Responses

    def capture(self, origin: Origin | None) -> ChatCapture:
        """See `Dialect.capture`."""
        return ChatCapture(origin or _UNKNOWN, self._capture_max_bytes)

    def retrieved(self, path: str) -> str:  # noqa: ARG002 (no request fetches a completion)
        """See `Dialect.retrieved`."""
        return ""

    def origin_of(self, response_id: str, found: LookupResult) -> Origin | None:  # noqa: ARG002
        """See `Dialect.origin_of`."""
        return None

    # Refusals

    def is_refusal(self, status: int) -> bool:  # noqa: ARG002
        """See `Dialect.is_refusal`."""
        return False

    def is_failing_event(self, data: bytes) -> bool:  # noqa: ARG002
        """See `Dialect.is_failing_event`."""
        return False

    def is_refusing_event(self, data: bytes) -> bool:  # noqa: ARG002
        """See `Dialect.is_refusing_event`."""
        return False

    def diagnose(self, status: int, body: bytes) -> Unclassified:  # noqa: ARG002
        """See `Dialect.diagnose`."""
        return Unclassified()

    def ask_for_cure(
        self,
        bodies: RefusedBodies,
        refusal: Unclassified,  # noqa: ARG002
    ) -> Question[ChatRequest]:
        """See `Dialect.ask_for_cure`."""
        return Question(read_request(bodies.sent, {}), ())

    def cure(
        self,
        scope: bytes | None,  # noqa: ARG002
        bodies: RefusedBodies,  # noqa: ARG002
        question: Question[ChatRequest],  # noqa: ARG002
        refusal: Unclassified,  # noqa: ARG002
        found: LookupResult,  # noqa: ARG002
    ) -> Cure | None:
        """See `Dialect.cure`."""
        return None

    def learn(self, scope: bytes, refusal: Unclassified, cure: Cure) -> None:
        """See `Dialect.learn`."""

    def note_issued(self, account: Account, turn: Turn) -> None:
        """See `Dialect.note_issued`."""
