"""Arriving messages: each is counted from its first frame until it is relayed."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import pairwise
from unittest.mock import AsyncMock, Mock

import pytest
from aiohttp import web
from aiohttp.client_proto import ResponseHandler
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.adapters.runtime import fair_semaphore
from reasoning_replay.web import memory_budget
from reasoning_replay.web.memory_budget import MemoryBudget, MemoryLease
from reasoning_replay.web.websocket import arriving as arriving_messages
from reasoning_replay.web.websocket.arriving import (
    COPIES,
    COUNTED_BYTES,
    INFLATES_MAX,
    ArrivingMessages,
)

from tests.patience import SOON_S
from tests.web.sockets import (
    BINARY,
    CONTINUED,
    KEY,
    PING,
    TEXT,
    UPGRADE,
    Peer,
    close,
    frame,
    tunnelled,
)
from tests.web.websocket.creates import create
from tests.web.wire import ASK
from tests.web.world import eventually, world

MOST = 1 << 20
LONG = 4 * COUNTED_BYTES


def arriving(budget: MemoryBudget, *, is_upstream: bool = False) -> tuple[ArrivingMessages, Mock]:
    """Return the messages of one peer, and its transport."""
    transport = Mock(**{"is_closing.return_value": False})
    transport.get_protocol.return_value = Mock(_reading_paused=False, _message_tail=b"", _tail=b"")
    transport.get_extra_info.return_value = None
    lease = MemoryLease(budget)
    return ArrivingMessages(transport, lease, MOST, is_upstream=is_upstream), transport


def passed(transport: Mock) -> bytes:
    """Return what aiohttp has got."""
    calls = transport.get_protocol().data_received.call_args_list
    return b"".join(call.args[0] for call in calls)


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


async def test_private_api() -> None:
    """What is used of aiohttp beyond its documented interface is there."""
    loop = asyncio.get_running_loop()
    near = web.RequestHandler(web.Server(AsyncMock()), loop=loop)
    far = ResponseHandler(loop)
    assert near._message_tail == far._tail == b""
    for protocol in (near, far):
        assert protocol._reading_paused is False


async def test_no_byte_of_a_message_passes_before_it_has_room() -> None:
    """A message after it waits, too: each one of a chunk is counted."""
    budget = MemoryBudget(COPIES * LONG * 4)
    holder = MemoryLease(budget)
    assert holder.reserve(budget.units)
    messages, transport = arriving(budget)
    data = frame(TEXT, b"x" * LONG)
    short = frame(TEXT, b"short")
    messages.data_received(short + data + data[:1000])
    transport.pause_reading.reset_mock()
    messages.data_received(data[1000:2000])
    assert transport.pause_reading.called, "aiohttp had resumed it"
    assert passed(transport) == short + data[:10]
    holder.resize(0)
    await eventually(lambda: transport.resume_reading.called)
    assert passed(transport) == short + data + data[:2000]
    assert budget.used == 2 * COPIES * LONG
    messages.end()
    assert budget.used == 0


async def test_while_the_room_stays_taken_one_message_at_a_time_goes_over_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next one follows when the first is relayed; a process that is full stops no client."""
    monkeypatch.setattr(memory_budget, "WAIT_S", 0.01)
    budget = MemoryBudget(COPIES * LONG)
    holder = MemoryLease(budget)
    assert holder.reserve(budget.units)
    peers = [arriving(budget) for _ in range(3)]
    data = frame(TEXT, b"x" * LONG)
    for messages, _ in peers:
        messages.data_received(data)

    def done() -> list[ArrivingMessages]:
        return [messages for messages, transport in peers if passed(transport) == data]

    for count in (1, 2, 3):  # in any order
        await eventually(partial(lambda count: len(done()) == count, count))
        assert budget.used == 2 * budget.units
        for messages in done():
            messages.relayed()
    assert budget.used == budget.units


async def test_more_waiting_messages_than_the_budget_admits_do_not_stop_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message that may not even wait asks again later."""
    monkeypatch.setattr(fair_semaphore, "WAITING_MAX", 0)
    budget = MemoryBudget(COPIES * LONG)
    assert MemoryLease(budget).reserve(budget.units)
    peers = [arriving(budget) for _ in range(2)]
    for messages, _ in peers:
        messages.data_received(frame(TEXT, b"x" * LONG))
    for _ in range(10):
        await asyncio.sleep(0)
    assert budget.is_contended
    assert budget.used == 2 * budget.units
    for messages, _ in peers:
        messages.end()
    await eventually(lambda: not budget.is_contended)
    assert budget.used == budget.units


async def test_messages_of_upstreams_do_not_wait_for_those_of_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They go over the budget, too, as many as make up a largest one, and one more."""
    monkeypatch.setattr(arriving_messages, "STUCK_S", 0.01)
    monkeypatch.setattr(memory_budget, "WAIT_S", 0.01)
    budget = MemoryBudget(COPIES * LONG)
    assert MemoryLease(budget).reserve(budget.units)
    data = frame(TEXT, b"x" * LONG)
    clients = [arriving(budget) for _ in range(3)]
    for messages, _ in clients:
        messages.data_received(data)
    await eventually(lambda: budget.used == 2 * budget.units)
    upstreams = [arriving(budget, is_upstream=True) for _ in range(5)]
    for messages, _ in upstreams:
        messages.data_received(data)
    await eventually(lambda: budget.used == 2 * budget.units + COPIES * MOST)
    assert sum(passed(transport) == data for _, transport in clients) == 1
    assert sum(passed(transport) == data for _, transport in upstreams) == MOST // LONG
    for messages, _ in clients + upstreams:
        messages.end()
    assert budget.used == budget.units


async def test_a_message_over_the_budget_does_not_wait_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It gives nothing back while more than the budget is held: all others wait for it."""
    for name in ("QUIET_S", "STUCK_S"):
        monkeypatch.setattr(arriving_messages, name, 0.01)
    budget = MemoryBudget(COPIES * LONG)
    holder = MemoryLease(budget)
    assert holder.reserve(budget.units)
    data = frame(TEXT, b"x" * LONG, final=False) + frame(CONTINUED, b"x" * LONG)
    peers = [arriving(budget) for _ in range(2)]
    for messages, _ in peers:
        messages.data_received(data[:1010])
    await eventually(lambda: budget.used == budget.units + COPIES * MOST)
    over, transport = next(one for one in peers if len(passed(one[1])) == 1010)
    await asyncio.sleep(0.03)
    over._give_back()
    over.data_received(data[1010:])
    assert passed(transport) == data
    over.relayed()
    holder.release(budget.units)
    other = next(one for one in peers if one[0] is not over)
    await eventually(lambda: len(passed(other[1])) == 1010)
    for messages, _ in peers:
        messages.end()
    assert budget.used == 0


@pytest.mark.parametrize("is_dripping", [False, True])
async def test_a_slow_message_gives_back_what_has_not_arrived(
    monkeypatch: pytest.MonkeyPatch, *, is_dripping: bool
) -> None:
    """Only while others wait; it asks for room again when more of it arrives."""
    monkeypatch.setattr(arriving_messages, "QUIET_S", SOON_S if is_dripping else 0.02)
    monkeypatch.setattr(arriving_messages, "COMPLETE_S", 0.02 if is_dripping else SOON_S)
    budget = MemoryBudget(COPIES * LONG * 3 // 2)
    data = frame(TEXT, b"x" * LONG)
    slow, _ = arriving(budget)
    slow.data_received(data[:1010])
    for _ in range(3):
        slow._give_back()
        await asyncio.sleep(0.03)
    assert budget.used == COPIES * LONG
    other, transport = arriving(budget)
    other.data_received(data)
    await asyncio.sleep(0)
    slow._give_back()
    await eventually(lambda: passed(transport) == data)
    assert budget.used == COPIES * (1000 + LONG)
    other.relayed()
    slow.data_received(data[1010:2000])
    assert budget.used == COPIES * LONG
    for messages in (slow, other):
        messages.end()


async def test_the_end_frees_everything() -> None:
    """Also while a message waits, and aiohttp is told of the end."""
    budget = MemoryBudget(COPIES * LONG)
    holder = MemoryLease(budget)
    assert holder.reserve(1)
    messages, transport = arriving(budget)
    messages.data_received(frame(TEXT, b"x" * LONG))
    await asyncio.sleep(0)
    messages.connection_lost(None)
    holder.release(1)
    await eventually(lambda: not (budget.is_contended or budget.used))
    messages.data_received(frame(TEXT, b"x" * LONG))
    assert budget.used == 0
    assert not transport.resume_reading.called
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
    messages.received(200_000)
    assert budget.used == COPIES * 200_000


async def test_a_bomb_in_one_chunk_waits_for_its_room() -> None:
    """Aiohttp would decompress it at once."""
    budget = MemoryBudget(COPIES * MOST)
    holder = MemoryLease(budget)
    assert holder.reserve(budget.units)
    messages, transport = arriving(budget)
    data = bytearray(frame(TEXT, zlib.compress(b"x" * 600_000)))
    data[0] |= 0x40
    messages.data_received(bytes(data))
    assert len(passed(transport)) < 10
    holder.resize(0)
    await eventually(lambda: passed(transport) == data)
    messages.end()


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


async def test_messages_in_fragments_do_not_wait_for_one_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each holds some of the room and lacks the rest, and all arrive, with their pings."""
    monkeypatch.setattr(arriving_messages, "STUCK_S", 0.05)
    part = b"x" * 300_000
    async with world(inspect_total_max_bytes=2_000_000) as w:
        begun = asyncio.Barrier(4)

        async def talk() -> None:
            async with tunnelled(w) as (client, upstream):
                await client.send(frame(TEXT, part, final=False, key=KEY))
                await client.send(frame(PING, b"ping", key=KEY))
                await upstream.gets(frame(PING, b"ping"))
                await begun.wait()
                await client.send(frame(CONTINUED, part, final=False, key=KEY))
                await client.send(frame(CONTINUED, part, key=KEY))
                await upstream.gets(frame(TEXT, 3 * part))

        await asyncio.gather(*(talk() for _ in range(4)))
        await eventually(lambda: w.counted("memory_budget_used_bytes") == 0)


async def test_a_tenant_does_not_wait_for_the_turn_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The handshake names the tenant: one key's messages that wait do not hold up another's."""
    monkeypatch.setattr(memory_budget, "WAIT_S", 1000.0)
    other = [header.replace("sk-a", "sk-b") for header in UPGRADE]
    begun, waits, theirs = (
        frame(TEXT, b"x" * size, key=KEY) for size in (900_000, 1_200_000, 600_000)
    )
    async with (
        world(inspect_total_max_bytes=4_000_000) as w,
        tunnelled(w) as (first, _),
        tunnelled(w) as (second, _),
        tunnelled(w, *other) as (client, upstream),
    ):
        await first.send(begun[:-1])
        await eventually(lambda: w.app.handler.budget.used > 0)
        await second.send(waits[:1000])
        await eventually(lambda: w.app.handler.budget.is_contended)
        await client.send(theirs)
        await upstream.gets(frame(TEXT, b"x" * 600_000))
        assert w.app.handler.budget.is_contended


async def test_requests_that_hold_all_room_stop_no_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An upstream may take minutes to answer them; both directions go on."""
    monkeypatch.setattr(arriving_messages, "STUCK_S", 0.05)
    monkeypatch.setattr(memory_budget, "WAIT_S", 0.05)
    long = create(ASK | {"content": "x" * 400_000})
    answer = frame(TEXT, b'{"type":"x","x":"%b"}' % (b"x" * 400_000))
    async with world(inspect_total_max_bytes=2_000_000) as w, tunnelled(w) as (client, upstream):
        holder = MemoryLease(w.app.handler.budget)
        assert holder.reserve(2_000_000)
        await client.send(long)
        await upstream.gets(long)
        await upstream.send(answer)
        await client.gets(answer)
        await eventually(lambda: holder.budget.used == holder.budget.units)


@pytest.mark.parametrize("cut", [1, 7, 1000])
async def test_bytes_behind_the_handshake_are_counted(cut: int) -> None:
    """Of both sides: the first message may begin in the same packet, and end in another."""
    # Payload that looks like headers of long frames.
    payload = b"\x01\x7f\x00\x00\x00\x00\x7f\xff\xff\xff" * 1000
    masked, plain = frame(BINARY, payload, key=KEY), frame(BINARY, payload)
    async with (
        world(inspect_total_max_bytes=2_000_000) as w,
        tunnelled(w, early=masked[:cut], greeting=plain[:cut]) as (client, upstream),
    ):
        await client.send(masked[cut:])
        await upstream.gets(plain)
        await upstream.send(plain[cut:])
        await client.gets(plain)
        long = frame(BINARY, b"x" * 400_000)
        await upstream.send(long[:200_000])
        await eventually(lambda: w.counted("memory_budget_used_bytes") == COPIES * 400_000)
        await upstream.send(long[200_000:])
        await client.gets(long)
        await eventually(lambda: w.counted("memory_budget_used_bytes") == 0)


ENDS: dict[str, Callable[[Peer, bytes], Awaitable[None]]] = {}


def end(act: Callable[[Peer, bytes], Awaitable[None]]) -> Callable[[Peer, bytes], Awaitable[None]]:
    """Register one way to end in the middle of a message; the key is that of the side."""
    ENDS[act.__name__] = act
    return act


@end
async def reset(peer: Peer, key: bytes) -> None:
    """Reset the connection."""
    await peer.send(frame(TEXT, b"x" * 400_000, key=key)[:300_000])
    peer.reset()


@end
async def leave(peer: Peer, key: bytes) -> None:
    """Close the connection without a close frame, between two fragments."""
    await peer.send(frame(TEXT, b"x" * 400_000, key=key, final=False) + frame(PING, key=key))
    peer.leave()


@end
async def say_goodbye(peer: Peer, key: bytes) -> None:
    """Send a close frame between two fragments."""
    await peer.send(frame(TEXT, b"x" * 400_000, key=key, final=False))
    await peer.send(close(1000, b"done", key=key))


@end
async def break_the_protocol(peer: Peer, key: bytes) -> None:
    """Begin another message between two fragments."""
    await peer.send(frame(TEXT, b"x" * 400_000, key=key, final=False))
    await peer.send(frame(TEXT, b"x" * 400_000, key=key))


@pytest.mark.parametrize("way", ENDS)
@pytest.mark.parametrize("is_upstream", [False, True], ids=["client", "upstream"])
async def test_a_side_that_ends_within_a_message_holds_nothing(
    way: str, *, is_upstream: bool
) -> None:
    """The budget is free again, whichever side ends and how."""
    async with world(inspect_total_max_bytes=2_000_000) as w:
        async with tunnelled(w) as ends:
            await ENDS[way](ends[is_upstream], b"" if is_upstream else KEY)
            assert await ended(ends[not is_upstream])
        await eventually(lambda: w.counted("memory_budget_used_bytes") == 0)


async def ended(peer: Peer) -> bool:
    """Read until the connection ends."""
    while await peer.exactly(1):
        pass
    return True


async def test_compressed_messages_are_counted_in_both_directions() -> None:
    """For the worst case while they arrive, and not longer than they are relayed."""
    pack = zlib.compressobj(wbits=-15)
    text = b"x" * 900_000
    packed = (pack.compress(text) + pack.flush(zlib.Z_SYNC_FLUSH)).removesuffix(b"\0\0\xff\xff")
    async with (
        world(inspect_total_max_bytes=64_000_000) as w,
        tunnelled(w, agreed=["Sec-WebSocket-Extensions: permessage-deflate"]) as (near, far),
    ):
        for source, sink, key in ((near, far, KEY), (far, near, b"")):
            data = bytearray(frame(TEXT, packed, key=key))
            data[0] |= 0x40
            await source.send(bytes(data[:-1]))
            await eventually(
                lambda: w.counted("memory_budget_used_bytes") == INFLATES_MAX * len(packed)
            )
            await source.send(bytes(data[-1:]))
            first, payload = await sink.frame()
            assert first == 0x80 | 0x40 | TEXT
            assert zlib.decompressobj(-15).decompress(payload + b"\0\0\xff\xff") == text
            await eventually(lambda: w.counted("memory_budget_used_bytes") == 0)
