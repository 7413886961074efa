"""Minutes: sums of the exchanges of the last hour for the inspector's charts, minute by minute."""

from collections import deque
from typing import Final

from reasoning_replay.core.dialects.registry import CAPTURED_ROUTES, REPLAYED_ROUTES
from reasoning_replay.core.dialects.states import RequestKind
from reasoning_replay.core.history.plan import LACKING, Outcome
from reasoning_replay.web.exchange import Exchange

MINUTES: Final = 60
MINUTE_MS: Final = 60_000
# Position of each sum in a minute; the first is the minute's number since the epoch.
_REQUESTS, _INJECTED, _LACKED, _INPUT, _CACHED, _OVERHEAD = 1, 2, 3, 4, 5, 6
# Of the requests into which reasoning was injected, and of those in which it is lacking.
_INPUT_OF = {RequestKind.INJECTED: 7, RequestKind.LACKING: 9}
_SIZE = 11


class Minutes:
    """
    The sums of the last MINUTES minutes in which requests on replayed routes ended.

    A minute is a list: its number since the epoch, requests, injected items, items that are
    lacking, input tokens, cached ones among them, the time that the proxy added in ms, and input
    tokens with the cached ones of the two kinds of requests in `_INPUT_OF`.
    """

    def __init__(self) -> None:
        """Start without sums."""
        self._minutes: deque[list[float]] = deque(maxlen=MINUTES)

    def add(self, exchange: Exchange, epoch_ms: int) -> None:
        """Add a finished exchange."""
        if exchange.route not in REPLAYED_ROUTES:
            return
        now = epoch_ms // MINUTE_MS
        if not self._minutes or self._minutes[-1][0] != now:
            self._minutes.append([now, *([0] * (_SIZE - 1))])
        sums, times, request = self._minutes[-1], exchange.times, exchange.request
        sums[_REQUESTS] += 1
        sums[_OVERHEAD] += times.before_ms + times.between_ms + times.after_ms
        for outcome, count in request.outcomes.items():
            if outcome is Outcome.INJECTED:
                sums[_INJECTED] += count
            elif outcome in LACKING:
                sums[_LACKED] += count
        capture = exchange.response.capture
        usage = capture.usage if capture is not None else None
        if usage is not None and usage.input_tokens and exchange.route in CAPTURED_ROUTES:
            sums[_INPUT] += usage.input_tokens
            sums[_CACHED] += usage.cached_tokens or 0
            if at := _INPUT_OF.get(request.kind):
                sums[at] += usage.input_tokens
                sums[at + 1] += usage.cached_tokens or 0

    def newest(self, count: int) -> list[list[float]]:
        """Return the sums of up to `count` minutes, oldest first."""
        return [[*sums] for sums in self._minutes][-count:]
