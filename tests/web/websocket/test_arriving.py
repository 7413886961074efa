"""Arriving messages: each is counted from its first frame until it is relayed."""

import asyncio
import zlib
from collections.abc import Sequence
from itertools import pairwise
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.web.memory_budget import MemoryBudget, MemoryLease
from reasoning_replay.web.websocket.arriving import (
    COPIES,
    COUNTED_BYTES,
    INFLATES_MAX,
    ArrivingMessages,
)

from tests.web.sockets import BINARY, CONTINUED, KEY, PING, TEXT, frame, tunnelled
from tests.web.websocket.creates import create, told, turn
from tests.web.wire import ASK, MESSAGE, RS
from tests.web.world import eventually, world

MOST = 1 << 20
LONG = 4 * COUNTED_BYTES


def arriving(budget: MemoryBudget) -> tuple[ArrivingMessages, Mock]:
    """Return the messages of one peer, and its transport."""
    transport = Mock(**{"is_closing.return_value": False})
    transport.get_protocol.return_value = Mock(_reading_paused=False)
    return ArrivingMessages(transport, MemoryLease(budget), MOST), transport


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Cut bytes at these places."""
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(ends)]


FRAGMENTS = st.lists(st.sampled_from([0, 1, 125, 126, 70_000, 150_000]), min_size=1, max_size=4)


@given(
    sizes=st.lists(FRAGMENTS, max_size=3),
    cuts=st.lists(st.integers(0, 1 << 30), max_size=12),
    masked=st.booleans(),
    pings=st.booleans(),
)
async def test_every_cut_counts_the_same(
    sizes: list[list[int]], cuts: list[int], *, masked: bool, pings: bool
) -> None:
    """Frames, fragments and control frames are told apart, wherever the network cuts them."""
    key = KEY if masked else b""
    data, expected = b"", []
    for parts in sizes:
        for n, size in enumerate(parts):
            opcode = TEXT if not n else CONTINUED
            data += frame(opcode, b"x" * size, final=n == len(parts) - 1, key=key)
            data += frame(PING, b"ping", key=key) if pings else b""
        whole = COPIES * sum(parts)
        expected.append(whole if whole > COPIES * COUNTED_BYTES else 0)
    budget = MemoryBudget(64 * MOST)
    messages, _ = arriving(budget)
    for piece in pieces(data, cuts):
        messages.data_received(piece)
    assert budget.used == sum(expected)
    for n, _size in enumerate(expected):
        messages.relayed()
        assert budget.used == sum(expected[n + 1 :])


async def test_a_message_waits_for_room_and_others_of_its_peer_with_it() -> None:
    """The transport is paused until there is room; what aiohttp resumes is paused again."""
    budget = MemoryBudget(COPIES * LONG * 3 // 2)
    first, _ = arriving(budget)
    second, transport = arriving(budget)
    data = frame(BINARY, b"x" * LONG)
    first.data_received(data[:1000])
    second.data_received(data[:1000])
    await asyncio.sleep(0)
    assert transport.pause_reading.called
    transport.pause_reading.reset_mock()
    second.data_received(data[1000:2000])
    assert transport.pause_reading.called
    assert not transport.resume_reading.called
    first.data_received(data[1000:])
    first.relayed()
    await eventually(lambda: transport.resume_reading.called)
    assert budget.used == COPIES * LONG
    second.data_received(data[2000:])
    second.relayed()
    assert budget.used == 0


async def test_a_message_that_is_relayed_before_it_had_room_takes_none() -> None:
    """What aiohttp had already read may be relayed while the rest waits."""
    budget = MemoryBudget(COPIES * LONG)
    holder = MemoryLease(budget)
    assert holder.reserve(budget.units)
    messages, transport = arriving(budget)
    messages.data_received(frame(TEXT, b"x" * LONG))
    await asyncio.sleep(0)
    messages.relayed()
    holder.resize(0)
    await eventually(lambda: transport.resume_reading.called)
    assert budget.used == 0


async def test_the_end_frees_everything() -> None:
    """Also while a message waits, and aiohttp is told of the end."""
    budget = MemoryBudget(COPIES * LONG)
    messages, transport = arriving(budget)
    for _ in range(2):
        messages.data_received(frame(TEXT, b"x" * LONG))
    await asyncio.sleep(0)
    messages.connection_lost(None)
    await eventually(lambda: transport.resume_reading.called)
    assert budget.used == 0
    transport.get_protocol().connection_lost.assert_called_once_with(None)


async def test_a_compressed_message_is_counted_for_the_worst_case() -> None:
    """Its real size counts once it is known."""
    budget = MemoryBudget(64 * MOST)
    messages, _ = arriving(budget)
    packed = zlib.compress(b"x" * 600_000)
    data = bytearray(frame(TEXT, packed))
    data[0] |= 0x40
    messages.data_received(bytes(data))
    assert budget.used == min(COPIES * MOST, INFLATES_MAX * len(packed)) > 0
    messages.taken(200_000)
    assert budget.used == COPIES * 200_000


async def test_a_slow_peer_must_yield_only_to_others() -> None:
    """A peer that sends an eighth in time, or that has to wait itself, may go on."""
    budget = MemoryBudget(COPIES * LONG)
    data = frame(TEXT, b"x" * LONG)
    messages, _ = arriving(budget)
    messages.data_received(data[:1000])
    assert not messages.must_yield(0.0)
    waiting, _ = arriving(budget)
    waiting.data_received(data[:1000])
    await asyncio.sleep(0)
    assert not messages.must_yield(1000.0)
    messages.data_received(data[1000 : 1000 + LONG // 8])
    assert not messages.must_yield(0.0)
    messages.data_received(data[1000 + LONG // 8 : 1000 + LONG // 4 - 1])
    assert messages.must_yield(0.0)
    assert not waiting.must_yield(0.0)
    waiting.end()


@pytest.mark.parametrize("ends", [1, 1000, 200_000, -1])
async def test_a_client_that_breaks_off_anywhere_holds_nothing(ends: int) -> None:
    """The budget is free again, and another client's message has room at once."""
    long = create(ASK | {"content": "x" * 400_000})
    async with world(inspect_total_max_bytes=2_000_000) as w:
        async with tunnelled(w) as (client, _):
            await client.send(long[:ends])
            await eventually(lambda: w.counted("memory_budget_used_bytes") > 0 or ends == 1)
        await eventually(lambda: w.counted("memory_budget_used_bytes") == 0)
        async with tunnelled(w) as (client, upstream):
            await turn(client, upstream, long, told(RS, MESSAGE))
            await eventually(lambda: w.counted("memory_budget_used_bytes") < 400_000)


async def test_more_than_the_budget_arrives_in_turn() -> None:
    """Fragmented or not, every message arrives unchanged, and is decided on."""
    long = create(ASK | {"content": "x" * 400_000})
    size = len(long)
    async with world(inspect_total_max_bytes=2_000_000) as w:

        async def talk(n: int) -> None:
            async with tunnelled(w) as (client, upstream):
                await client.send(long[: size // 2])
                await asyncio.sleep(0.01 * (n % 3))
                await client.send(long[size // 2 :])
                await upstream.gets(long)

        await asyncio.gather(*(talk(n) for n in range(12)))
        assert w.counted("requests_total", result="busy") == 0
        await eventually(lambda: w.counted("memory_budget_used_bytes") == 0)
