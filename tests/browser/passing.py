"""Exchanges that are recorded without a request, and their rows on the page."""

import json
from typing import Any

from playwright.async_api import Locator, Page
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.item_summary import ItemSummary, summarise
from reasoning_replay.core.history.plan import PlanNote, forms_of, outcomes_of
from reasoning_replay.web.exchange import Exchange, Times

from tests.browser.stage import Stage
from tests.web.reports import describe

LOST_CALL = {
    "type": "function_call",
    "id": "fc_never_seen",
    "call_id": "call_Zk3mQ9xT7bLw2RsV",
    "name": "get_weather",
    "arguments": "{}",
}


def rows(page: Page) -> Locator:
    """Return the visible exchanges, newest first."""
    return page.locator("#rows > li:visible")


def strip(items: list[dict[str, Any]], *notes: PlanNote) -> ItemSummary:
    """Return the item summary of a request with these items."""
    body = json.dumps({"model": "m", "input": items}).encode()
    return summarise(read_request(body, {}), notes)


def record(on: Stage, items: list[dict[str, Any]], *notes: PlanNote, **fields: Any) -> None:
    """Record an exchange without sending a request."""
    exchange = Exchange(Route.RESPONSES, Times(on.app.recorder._clock()))
    exchange.status, exchange.outcome, exchange.request.state = 200, "ok", "planned"
    exchange.request.summary = strip(items, *notes)
    exchange.request.outcomes.update(outcomes_of(notes))
    exchange.request.forms.update(forms_of(notes))
    describe(exchange, **fields)
    exchange.tenant = exchange.scope  # equal in the Responses API
    exchange.times.total_ms = 100.0
    on.app.recorder.end(exchange)
