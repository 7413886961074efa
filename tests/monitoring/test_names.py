"""Dashboard and alerts use only metrics that exist, and use all of them."""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import pytest
from prometheus_client.parser import text_string_to_metric_families
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.web.pipeline.admission import AdmissionControl

from tests.monitoring.files import ALERTS, RECORDED, RULES, queries
from tests.monitoring.promql import Selector, labels_of, selectors_of
from tests.web.line import line_to, request
from tests.web.scripted import Script, close, send, wait
from tests.web.wire import ASK, CALL, as_json, whole
from tests.web.world import World, world

# Labels and series that Prometheus itself adds.
TARGET = {"job", "instance", "namespace", "pod"}
CHOSEN = {"dialect", "upstream"}  # by a variable of the dashboard: any value
OF_PROMETHEUS = {"up", "ALERTS"}
# Our metrics that neither uses, each with a reason.
UNUSED = {
    "reasoning_replay_local_evicted_unsaved": "it follows a store that fails, which has an alert",
    "reasoning_replay_item_forms": "it explains a word of the header, and calls for no action",
    "process_start_time_seconds": "the restarts of a replica show in its other panels",
    "process_virtual_memory_bytes": "it comes with the resident memory, which is what runs out",
}
GET = request("GET", "/v1/files", "Authorization: Bearer sk-a")

ASKED = queries() | {rule.get("alert") or rule["record"]: rule["expr"] for rule in RULES}


@dataclass
class Scraped:
    """
    The metrics in the scrapes of several proxies.

    Attributes:
        labels: For each sample name, the labels and their values.
        families: Names of the metric families.
    """

    labels: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    families: set[str] = field(default_factory=set)

    def take(self, text: str) -> Self:
        """Add one scrape."""
        for family in text_string_to_metric_families(text):
            self.families.add(family.name)
            for sample in family.samples:
                labels = self.labels.setdefault(sample.name, {})
                for label, value in sample.labels.items():
                    labels.setdefault(label, set()).add(value)
        return self

    def values(self, name: str, label: str) -> set[str]:
        """Return the values of a label, including those of metrics with a superset of them."""
        own = self.labels[name][label]
        others = (labels.get(label, set()) for labels in self.labels.values())
        return own.union(*(words for words in others if words > own))


@pytest.fixture(scope="module")
def scraped() -> Scraped:
    """Scrape proxies that served and failed, since some series start with their first event."""
    found = Scraped()
    asyncio.run(unlucky(found))
    return found


async def unlucky(found: Scraped) -> None:
    """Scrape one proxy that served, and others with one of the proxy's own errors each."""
    async with world(name="openai", metrics_models="gpt-5") as w:
        answer = {"id": "resp_1", "status": "completed", "output": [CALL]}
        w.upstream.plays(Script([send(whole(as_json(answer)))]))
        await w.turn(ASK)
        await w.turn(ASK, CALL)
        found.take((await w.ask_admin("/metrics")).body.decode())
    async with world(upstream_url="http://127.0.0.1:9/v1") as w:
        await ended(w, "upstream_unreachable", found)
    async with world(first_byte_timeout_s=0.05) as w:
        w.upstream.plays(Script([wait()]))
        await ended(w, "upstream_timeout", found)
    async with world() as w:
        w.upstream.plays(Script([close()]))
        await ended(w, "upstream_failed", found)
    async with world(max_exchanges=1) as w, line_to(w.app.url) as other:
        script = Script([wait()])
        w.upstream.plays(script)
        await other.send(GET)
        await script.arrived.wait()
        await ended(w, "too_many_exchanges", found)
    async with world(max_connections=1) as w, line_to(w.app.url):
        await ended(w, "too_many_connections", found)
    with buggy():
        async with world() as w:
            await ended(w, "proxy_failed", found)


async def ended(w: World, outcome: str, found: Scraped) -> None:
    """Send a request that ends with this error, and scrape."""
    answer = await w.turn(ASK)
    assert answer.mark == f"error={outcome}"
    found.take((await w.ask_admin("/metrics")).body.decode())


@contextlib.contextmanager
def buggy() -> Iterator[None]:
    """Make every exchange fail with a bug."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AdmissionControl, "acquire", fail)
        yield


def ours(expr: str) -> list[Selector]:
    """Return the selectors of an expression for the proxy's own metrics."""
    return [one for one in selectors_of(expr) if one.name not in OF_PROMETHEUS | RECORDED]


@pytest.mark.parametrize("expr", ASKED.values(), ids=ASKED)
def test_every_name_label_and_value_is_in_a_scrape(expr: str, scraped: Scraped) -> None:
    """Every metric, label and value of an expression exists: otherwise the panel stays empty."""
    matchers = [matcher for one in selectors_of(expr) for matcher in one.matchers]
    assert len(matchers) == len(re.findall(r'\w+\s*[=!]=?~?\s*"', expr))  # none is overlooked
    selectors = ours(expr)
    for selector in selectors:
        assert selector.name in scraped.labels
        for matcher in selector.matchers:
            assert matcher.label in scraped.labels[selector.name].keys() | TARGET
            if matcher.label not in TARGET | CHOSEN:
                known = scraped.values(selector.name, matcher.label)
                assert set(matcher.alternatives) <= known, matcher
    labels = {label for one in selectors for label in scraped.labels[one.name]}
    if selectors:
        assert labels_of(expr) <= labels | TARGET


def test_alerts_that_were_recorded_are_recorded() -> None:
    """The alerts use all recording rules, and no others."""
    named = {one.name for rule in ALERTS.values() for one in selectors_of(rule["expr"])}
    assert {name for name in named if ":" in name} == RECORDED


def test_every_metric_of_ours_is_shown_or_stands_on_the_list(scraped: Scraped) -> None:
    """Every metric is used by a panel or an alert, or is listed in UNUSED."""
    named = {one.name for expr in ASKED.values() for one in ours(expr)}
    unshown = {
        family for family in scraped.families if not any(name.startswith(family) for name in named)
    }
    assert unshown == set(UNUSED)


def test_an_alert_on_one_event_has_its_series_from_the_start() -> None:
    """`increase` misses the event with which a series appears, and here it is the only one."""
    one_event = re.compile(r'sum by \([^)]*\) \(increase\((\w+)\{(\w+)="(\w+)"\}\[\w+\]\)\) > 0')
    found = [match for rule in ALERTS.values() if (match := one_event.fullmatch(rule["expr"]))]
    idle = Scraped().take(Metrics().exposition().decode())
    assert [one[3] for one in found if one[3] not in idle.labels[one[1]][one[2]]] == []
    assert found
