"""One request with its response: everything that is known of it while it is under way."""

from collections import Counter
from dataclasses import dataclass, field

from proxy.core.capture import Capture
from proxy.core.inject import Outcome

__all__ = ["Exchange", "Limits", "Route"]


class Route:
    """What an exchange is to us; also the label that it is counted under."""

    RESPONSES = "responses"  # POST …/responses: replay and capture
    RETRIEVE = "retrieve"  # GET …/responses/{id}: capture
    WEBSOCKET = "websocket"  # a whole tunnel, whatever is said in it
    CREATE = "create"  # one response.create of a WebSocket, and its answer: replay and capture
    OTHER = "other"  # passes through

    REPLAYED = frozenset({RESPONSES, CREATE})


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what is held in memory for one exchange, in bytes."""

    inspect_max_bytes: int
    capture_max_bytes: int


@dataclass(slots=True)
class Exchange:
    """
    State of one exchange; filled in phase by phase.

    Attributes:
        scope: Whose; None when nothing may be kept or injected.
        asked: One of `metrics.ASKED`, or "" on other routes.
        outcomes: What became of the reasoning of the request.
        edited: Whether the request goes out otherwise than it came.
        capture: Follows the answer; None when it is not captured.
        saved_keys: Keys of the turn that the store has been given already.
    """

    route: str
    started_s: float
    scope: bytes | None = None
    asked: str = ""
    captured: str = ""
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    edited: bool = False
    healed: str = ""
    capture: Capture | None = None
    saved_keys: set[bytes] = field(default_factory=set)
    captured_items: int = 0
    status: int = 0
    outcome: str = "client_gone"
    before_ms: float = 0.0
    first_byte_ms: float = 0.0
    sent_bytes: int = 0

    def forget(self) -> None:
        """Note that preparing the request failed: it goes out as it came."""
        self.asked, self.capture, self.edited = "failed", None, False
        self.outcomes.clear()

    def take_back(self) -> None:
        """Note that the edits were refused: the request went out as it came after all."""
        self.outcomes[Outcome.REFUSED] += self.outcomes.pop(Outcome.INJECTED, 0)
        self.outcomes.pop(Outcome.DEGRADED, None)
