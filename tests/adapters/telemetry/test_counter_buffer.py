"""What is counted by way of a tally is what prometheus_client would have counted itself."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from reasoning_replay.adapters.telemetry.counter_buffer import Tally

BOUNDS = (0.125, 0.25, 0.5, 1.0)  # of which sums are exact in any order


class Counted:
    """One of each kind."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.tally = Tally(self.registry)
        self.plain = Counter("plain", "-", registry=self.registry)
        self.named = Counter("named", "-", ["name"], registry=self.registry)
        self.level = Gauge("level", "-", registry=self.registry)
        self.long = Histogram("long", "-", buckets=BOUNDS, registry=self.registry)
        self.each = Histogram("each", "-", ["name"], buckets=BOUNDS, registry=self.registry)

    def exposition(self) -> list[bytes]:
        """Return what is told of it, but when."""
        lines = generate_latest(self.registry).splitlines()
        return [line for line in lines if b"_created" not in line]


names = st.sampled_from(["a", "b"])
seconds = st.sampled_from([*BOUNDS, 0.0, 0.1875, 0.75, 2.0, 1024.0])
steps = st.lists(st.tuples(names, st.integers(0, 3), seconds, st.booleans()))


@given(steps=steps)
def test_a_tally_counts_as_prometheus_does(steps: list[tuple[str, int, float, bool]]) -> None:
    """However often somebody looks in between."""
    ours, theirs = Counted(), Counted()
    for name, by, took_s, looks in steps:
        ours.tally.count(ours.plain)
        theirs.plain.inc()
        ours.tally.count(ours.named, name, by=by)
        theirs.named.labels(name).inc(by)
        ours.tally.level(ours.level, by)
        theirs.level.set(by)
        ours.tally.time(ours.long, took_s)
        theirs.long.observe(took_s)
        ours.tally.time(ours.each, took_s, name)
        theirs.each.labels(name).observe(took_s)
        if looks:
            assert ours.exposition() == theirs.exposition()
    assert ours.exposition() == theirs.exposition()


def test_what_could_not_be_put_away_is_put_away_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost of what a full folder does not take, and nothing is counted twice."""
    counted = Counted()
    for name in ("a", "b", "c"):
        counted.tally.count(counted.named, name)
    counted.tally.level(counted.level, 5)
    counted.named.labels("b")
    inc = Counter.inc
    full = counted.named.labels("b")

    def fails(counter: Counter, by: float) -> None:
        if counter is full:
            raise OSError(errno.ENOSPC, "full")
        inc(counter, by)

    monkeypatch.setattr(Counter, "inc", fails)
    with pytest.raises(OSError, match="full"):
        counted.tally.flush()
    monkeypatch.undo()
    want = {b'named_total{name="%b"} 1.0' % name for name in (b"a", b"b", b"c")} | {b"level 5.0"}
    assert want <= set(counted.exposition())
