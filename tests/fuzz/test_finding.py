"""Faults that are planted are found: what finds nothing in a sound product could also be blind."""

import itertools
import random
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses import placement
from reasoning_replay.core.dialects.responses.heal import diagnosis, repair
from reasoning_replay.core.history import turns
from reasoning_replay.core.tenancy.scope import Scoping
from reasoning_replay.core.wire import json_spans, sse
from reasoning_replay.web.websocket.session import ResponseStreams

from tests.fuzz.inputs import HEAD_BYTES, cut, read, write
from tests.fuzz.mutation import mutated
from tests.fuzz.seeds import answers, documents
from tests.fuzz.targets import TARGETS
from tests.fuzz.trees import Style, parse, spell
from tests.fuzz.work import SUPERLINEAR, Pump, growth, pumped

INPUTS = 1000
_APPLY = json_spans.apply


def _loses_a_byte(body: bytes, edits: Any) -> bytes:
    given = list(edits)
    return _APPLY(body, [edit._replace(new=edit.new[:-1]) for edit in given]) if given else body


async def _lost(*_: object) -> bytes:
    return b""


# (the target that has to find it, what is replaced, by what)
FAULTS: list[Any] = [
    pytest.param("conversation", json_spans, "apply", _loses_a_byte, id="a-byte-lost"),
    pytest.param(
        "conversation", placement, "replayed", lambda *_: {}, id="put-in-beside-the-clients"
    ),
    pytest.param("conversation", repair, "_less_dangling", lambda _: [], id="words-left-out"),
    pytest.param("sse", sse, "_END", re.compile(rb"\n\n|\r\n\r\n|\r\r"), id="ends-not-mixed"),
    pytest.param("refusal", diagnosis, "_decoded", msgspec.json.decode, id="a-refusal-raises"),
    pytest.param("replay", Scoping, "of", lambda *_: bytes(16), id="one-scope-for-two"),
    pytest.param("response_streams", ResponseStreams, "_refuse", _lost, id="a-refusal-lost"),
    pytest.param("scope", Scoping, "of", lambda *_: bytes(16), id="one-scope-for-all"),
    pytest.param("rows", turns, "_DAMAGED", (), id="a-damaged-row-raises"),
]


@pytest.mark.parametrize(("name", "where", "what", "fault"), FAULTS)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, where: object, what: str, fault: object
) -> None:
    """By its target, within a few thousand inputs; without it, the same inputs find nothing."""
    target = TARGETS[name]
    seeds = list(target.seeds())
    found: bytes | None = None
    with monkeypatch.context() as planted:
        planted.setattr(where, what, fault)
        for n in range(INPUTS):
            data = mutated(seeds[n % len(seeds)], n, 1 << 16)
            try:
                target.check(data)
            except Exception:  # noqa: BLE001 (whatever a fault does, it is found)
                found = data
                break
    assert found is not None
    target.check(found)


@pytest.mark.parametrize(("power", "is_found"), [(1.0, False), (1.2, False), (2.0, True)])
def test_growth_tells_what_is_linear(power: float, is_found: bool) -> None:
    """Counted here, not timed: n, n to the 1.2 as with caches that overflow, n squared."""
    cost = [0.0]

    def work(data: bytes) -> None:
        cost[0] += (len(data) / 1000) ** power

    found = growth(work, Pump(b"[", b"1,", after=b"1]"), clock=lambda: cost[0])
    assert (found >= SUPERLINEAR) is is_found


@given(st.integers(0, 1 << 32), st.integers(100, 5000))
@settings(max_examples=50, deadline=None)
def test_a_pump_repeats_a_part(seed: int, size: int) -> None:
    """Once it is the input itself; grown, it is about as long as it should be."""
    data = write([b'{"input":[{"id":"a"},{"id":"b"}]}'])
    pump = pumped(data, random.Random(seed))  # noqa: S311
    assert data in (pump.before + pump.middle + pump.after, pump.before + pump.after)
    assert size // 2 <= len(pump.of(size + 100)) <= size + 300


SEEDS: list[Callable[[], Any]] = [answers, documents]


@pytest.mark.parametrize("seeds", SEEDS)
def test_a_tree_is_spelled_as_it_was_read(seeds: Callable[[], Any]) -> None:
    """In any style it is the same tree again."""
    dice = random.Random(0)  # noqa: S311
    for document in itertools.islice(seeds(), 8):
        tree = parse(document)
        for style in (Style(), Style(" \n"), Style("", 1.0)):
            assert parse(spell(tree, style, dice)) == tree


@given(st.binary(max_size=80), st.integers(0, 1 << 32))
@settings(max_examples=50, deadline=None)
def test_a_mutation_is_one_of_its_seed(data: bytes, seed: int) -> None:
    """The same seed changes the same bytes the same way, within bounds; cuts lose nothing."""
    changed = mutated(data, seed, 100)
    assert changed == mutated(data, seed, 100)
    assert HEAD_BYTES <= len(changed) <= 100
    dice, stream = read(data)
    assert b"".join(cut(dice, stream)) == stream
