"""Planted faults: every target finds the fault made for it, so it is not blind."""

import itertools
import random
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reasoning_replay.core.dialects import error_texts
from reasoning_replay.core.dialects.responses import placement
from reasoning_replay.core.dialects.responses.heal import repair
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


# (the target that must find it, the object, the replaced attribute, the replacement)
FAULTS: list[Any] = [
    pytest.param("conversation", json_spans, "apply", _loses_a_byte, id="byte-lost"),
    pytest.param("conversation", placement, "replayed", lambda *_: {}, id="injected-again"),
    pytest.param("conversation", repair, "_less_dangling", lambda _: [], id="user-text-lost"),
    pytest.param("sse", sse, "_END", re.compile(rb"\n\n|\r\n\r\n|\r\r"), id="no-mixed-line-ends"),
    pytest.param("refusal", error_texts, "decoded", msgspec.json.decode, id="refusal-raises"),
    pytest.param("replay", Scoping, "of", lambda *_: bytes(16), id="one-scope-for-two"),
    pytest.param("response_streams", ResponseStreams, "_refuse", _lost, id="refusal-lost"),
    pytest.param("scope", Scoping, "of", lambda *_: bytes(16), id="one-scope-for-all"),
    pytest.param("rows", turns, "_DAMAGED", (), id="damaged-row-raises"),
]


@pytest.mark.parametrize(("name", "where", "what", "fault"), FAULTS)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, where: object, what: str, fault: object
) -> None:
    """The target finds the fault within a thousand inputs; without the fault the input passes."""
    target = TARGETS[name]
    seeds = list(target.seeds())
    found: bytes | None = None
    with monkeypatch.context() as planted:
        planted.setattr(where, what, fault)
        for n in range(INPUTS):
            data = mutated(seeds[n % len(seeds)], n, 1 << 16)
            try:
                target.check(data)
            except Exception:  # noqa: BLE001 (a fault may raise any error)
                found = data
                break
    assert found is not None
    target.check(found)


@pytest.mark.parametrize(("power", "is_found"), [(1.0, False), (1.2, False), (2.0, True)])
def test_growth_separates_linear_from_quadratic_cost(power: float, is_found: bool) -> None:
    """Linear cost passes, also n to the 1.2 as with overflowing caches; n squared does not."""
    cost = [0.0]

    def work(data: bytes) -> None:
        cost[0] += (len(data) / 1000) ** power

    found = growth(work, Pump(b"[", b"1,", after=b"1]"), clock=lambda: cost[0])
    assert (found >= SUPERLINEAR) is is_found


@given(st.integers(0, 1 << 32), st.integers(100, 5000))
@settings(max_examples=50, deadline=None)
def test_a_pump_repeats_a_part(seed: int, size: int) -> None:
    """With one repetition it is the input itself; grown, it has about the requested size."""
    data = write([b'{"input":[{"id":"a"},{"id":"b"}]}'])
    pump = pumped(data, random.Random(seed))  # noqa: S311
    assert data in (pump.before + pump.middle + pump.after, pump.before + pump.after)
    assert size // 2 <= len(pump.of(size + 100)) <= size + 300


SEEDS: list[Callable[[], Any]] = [answers, documents]


@pytest.mark.parametrize("seeds", SEEDS)
def test_a_tree_survives_writing_and_parsing(seeds: Callable[[], Any]) -> None:
    """A tree that is written in any style is parsed to the same tree."""
    dice = random.Random(0)  # noqa: S311
    for document in itertools.islice(seeds(), 8):
        tree = parse(document)
        for style in (Style(), Style(" \n"), Style("", 1.0)):
            assert parse(spell(tree, style, dice)) == tree


@given(st.binary(max_size=80), st.integers(0, 1 << 32))
@settings(max_examples=50, deadline=None)
def test_a_mutation_depends_on_its_seed_only(data: bytes, seed: int) -> None:
    """The same seed makes the same change, within the size limit; joined cuts are the stream."""
    changed = mutated(data, seed, 100)
    assert changed == mutated(data, seed, 100)
    assert HEAD_BYTES <= len(changed) <= 100
    dice, stream = read(data)
    assert b"".join(cut(dice, stream)) == stream
