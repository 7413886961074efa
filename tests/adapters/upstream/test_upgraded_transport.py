"""Who takes nothing of what is written is given up; who takes a little is not."""

import asyncio
from typing import cast

import pytest
from reasoning_replay.adapters.upstream.response import UpstreamResponse
from reasoning_replay.adapters.upstream.upgraded_transport import End


class Transport(asyncio.Transport):
    """Takes only what a test lets it take."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0
        self.end: End | None = None
        self.is_aborted = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Keep whom to tell."""
        self.end = cast("End", protocol)

    def is_closing(self) -> bool:
        """As far as writers know."""
        return self.is_aborted

    def get_write_buffer_size(self) -> int:
        """Nothing of which is seen by the end."""
        return self.left

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it, and let writers wait."""
        assert self.end is not None
        self.left += len(data)
        self.end.pause_writing()

    def takes(self, size: int) -> None:
        """Write off so much."""
        assert self.end is not None
        self.left -= size
        if not self.left:
            self.end.resume_writing()

    def close(self) -> None:
        """Wait for what is left."""

    def abort(self) -> None:
        """Break off."""
        assert self.end is not None
        self.is_aborted = True
        self.end.connection_lost(None)


class Former:
    """What was there before."""

    def resume_reading(self) -> None:
        """Be told."""

    def abandon(self, response: UpstreamResponse) -> None:
        """Be told."""

    def hand_over(self) -> tuple[asyncio.Transport | None, bytes]:
        """Be asked."""
        return None, b""

    def connection_lost(self, exc: BaseException | None) -> None:
        """Be told."""


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> Transport:
    """Give one that is looked after every few moments."""
    monkeypatch.setattr("reasoning_replay.adapters.upstream.upgraded_transport.STALLED_S", 0.05)
    monkeypatch.setattr("reasoning_replay.adapters.upstream.upgraded_transport.LEFT_OVER_S", 0.05)
    return Transport()


def end_of(transport: Transport) -> End:
    """Take it over."""
    return End(transport, Former())


async def test_who_takes_nothing_is_given_up(transport: Transport) -> None:
    """Or a writer would wait for ever, while its own side may have left unseen."""
    end = end_of(transport)
    with pytest.raises(ConnectionResetError):
        await end.write(b"x" * 100)
    assert transport.is_aborted
    assert end.ended.is_set()


async def test_who_takes_a_little_is_waited_for(transport: Transport) -> None:
    """However long it takes in all."""
    end = end_of(transport)
    writing = asyncio.ensure_future(end.write(b"x" * 10))
    for _ in range(10):
        await asyncio.sleep(0.02)
        transport.takes(1)
    await writing
    assert not transport.is_aborted


async def test_what_is_left_over_is_not_kept_for_ever(transport: Transport) -> None:
    """Closed is closed, once nobody takes the rest."""
    end = end_of(transport)
    end.put(b"x" * 10)
    end.close()
    for _ in range(6):
        await asyncio.sleep(0.02)
        transport.takes(1)
    assert not transport.is_aborted
    await asyncio.sleep(0.2)
    assert transport.is_aborted


async def test_what_is_left_over_may_be_taken(transport: Transport) -> None:
    """Then the transport closes by itself."""
    end = end_of(transport)
    end.put(b"x")
    end.close()
    transport.takes(1)
    await asyncio.sleep(0.15)
    assert not transport.is_aborted


async def test_a_connection_that_is_gone_already_is_lost() -> None:
    """There is nothing to take over."""
    end = End(None, Former())
    assert end.ended.is_set()
    assert await end.read() == b""
    end.close()
    with pytest.raises(ConnectionResetError):
        end.put(b"x")
