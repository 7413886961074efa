"""Totals of the inspector: sums of the metrics, read as Prometheus scrapes them."""

import re
from collections import defaultdict
from typing import Final

__all__ = ["read_totals"]

# Metric -> the label that its series are split by; "": all series are added up.
_SHOWN: Final = {
    "requests_total": "result",
    "items_total": "outcome",
    "heals_total": "result",
    "captured_items_total": "",
    "captured_bytes_total": "",
    "injected_bytes_total": "",
    "tokens_total": "kind",
    "exchanges_total": "",
    "in_flight": "",
    "store_up": "",
}
_BREAKERS: Final = "store_breakers"
_SAMPLE = re.compile(r"^reasoning_replay_(\w+?)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Numbers = dict[str, float]


def read_totals(exposition: bytes) -> dict[str, object]:
    """
    Return the numbers of an exposition by metric, without those that the inspector does not show.

    A metric that is split by a label is a mapping of label values to numbers, without zeros.
    `breakers` maps each store operation to the states of its circuit breaker, with 1 for the
    current state.
    """
    sums: dict[str, float] = defaultdict(float)
    parts: dict[str, Numbers] = defaultdict(dict)
    breakers: dict[str, Numbers] = defaultdict(dict)
    for name, labels, written in _SAMPLE.findall(exposition.decode()):
        if name == _BREAKERS:
            given = dict(_LABEL.findall(labels))
            breakers[given.get("operation", "")][given.get("state", "")] = float(written)
        elif name in _SHOWN and (value := float(written)):
            word = dict(_LABEL.findall(labels)).get(_SHOWN[name]) if _SHOWN[name] else None
            if word is None:
                sums[name] += value
            else:
                parts[name][word] = parts[name].get(word, 0) + value
    empty: dict[str, object] = {name: {} if label else 0 for name, label in _SHOWN.items()}
    return {**empty, **sums, **parts, "breakers": breakers}
