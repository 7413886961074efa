"""Minutes: the sums that the charts show, for one hour at most."""

from typing import Any

from reasoning_replay.core.dialects.captures import UNKNOWN_ORIGIN
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.dialects.usages import Usage
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.web.admin.inspector.minutes import MINUTES, Minutes
from reasoning_replay.web.exchange import Exchange, Times

from tests.web.reports import describe

MINUTE_MS = 60_000


def exchange(route: Route = Route.RESPONSES, usage: Usage | None = None, **more: Any) -> Exchange:
    """Return a finished exchange."""
    made = Exchange(route, Times(0.0))
    capture = ResponsesCapture(UNKNOWN_ORIGIN, 1000)
    capture.usage = usage
    describe(made, capture=capture, **more)
    return made


def test_a_minute_sums_what_its_exchanges_did() -> None:
    """Replayed reasoning is neither injected nor lacking; tokens also add up for both of these."""
    minutes = Minutes()
    outcomes = dict.fromkeys(Outcome, 1) | {Outcome.INJECTED: 5}
    usage = Usage(input_tokens=100, cached_tokens=60)
    given = exchange(outcomes=outcomes, injected_bytes=9, before_ms=1.5, usage=usage)
    minutes.add(given, 7 * MINUTE_MS)
    lost = exchange(outcomes={Outcome.MISSED: 0, Outcome.REFUSED: 1}, usage=Usage(10, 1))
    minutes.add(lost, 7 * MINUTE_MS)
    minutes.add(exchange(between_ms=2.0, after_ms=0.5, usage=Usage(100)), 7 * MINUTE_MS + 1)
    minutes.add(exchange(usage=Usage()), 8 * MINUTE_MS)
    lacking = len(Outcome) - 2 + 1
    last = [8, 1, *[0] * 9]
    assert minutes.newest(9) == [[7, 3, 5, lacking, 210, 61, 4.0, 100, 60, 10, 1], last]
    assert minutes.newest(1) == [last]


def test_only_requests_on_replayed_routes_count() -> None:
    """The tokens of a retrieved or compacted response are not counted."""
    minutes = Minutes()
    for route in (Route.OTHER, Route.WEBSOCKET, Route.RETRIEVE):
        minutes.add(exchange(route, usage=Usage(9, 9)), 0)
    assert minutes.newest(MINUTES) == []
    minutes.add(exchange(Route.COMPACT, usage=Usage(9, 9)), 0)
    assert minutes.newest(MINUTES) == [[0, 1, *[0] * 9]]


def test_an_hour_is_kept() -> None:
    """The oldest minutes are dropped."""
    minutes = Minutes()
    for minute in range(2 * MINUTES):
        minutes.add(exchange(), minute * MINUTE_MS)
    kept = minutes.newest(2 * MINUTES)
    assert [sums[0] for sums in kept] == [*range(MINUTES, 2 * MINUTES)]
