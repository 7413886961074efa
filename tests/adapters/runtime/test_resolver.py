"""The resolver: look-ups that hang take few threads, and the last addresses are used meanwhile."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reasoning_replay.adapters.runtime.blocking import AT_ONCE, BlockingCalls
from reasoning_replay.adapters.runtime.resolver import NAMES_MAX, Resolver
from reasoning_replay.adapters.stores.redis.connect import Credentials

from tests.patience import SOON_S

NAME = "store.test"


class NameServer:
    """
    What the system's resolver knows, in place of it.

    Attributes:
        addresses: Addresses of the next answer.
        error: Number of the error that it answers with instead, or 0.
        answers: While it is cleared, look-ups hang.
        asked: Names in the order of the look-ups.
        most: Most look-ups at once.
    """

    def __init__(self) -> None:
        self.addresses = ["192.0.2.1"]
        self.error = 0
        self.answers = threading.Event()
        self.answers.set()
        self.asked: list[str] = []
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()

    def __call__(self, host: str, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        """Look up a name, as `socket.getaddrinfo`."""
        with self._lock:
            self.asked.append(host)
            self._now += 1
            self.most = max(self.most, self._now)
        assert self.answers.wait(SOON_S)
        with self._lock:
            self._now -= 1
        if self.error:
            raise socket.gaierror(self.error, "as the test says")
        return [(0, 0, 0, "", (address, 0)) for address in self.addresses]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    """Yield the name server; at the end, nothing hangs any more."""
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server)
    yield server
    server.answers.set()


@pytest.mark.parametrize("host", ["192.0.2.7", "::1", "fe80::1%1"])
async def test_an_address_is_not_looked_up(names: NameServer, host: str) -> None:
    """An address is returned as it is."""
    assert await Resolver().addresses(host) == [host]
    assert names.asked == []


async def test_a_prompt_answer_is_believed(names: NameServer) -> None:
    """The next connection follows a name that leads elsewhere, or nowhere."""
    resolver = Resolver()
    assert await resolver.addresses(NAME) == ["192.0.2.1"]
    names.addresses = ["192.0.2.2", "192.0.2.3"]
    assert await resolver.addresses(NAME) == ["192.0.2.2", "192.0.2.3"]
    names.error = socket.EAI_NONAME
    with pytest.raises(socket.gaierror):
        await resolver.addresses(NAME)


async def test_the_last_addresses_are_used_while_a_look_up_hangs(names: NameServer) -> None:
    """Nothing waits for a look-up that hangs, and its late answer is used from then on."""
    resolver = Resolver()
    await resolver.addresses(NAME)
    names.answers.clear()
    names.addresses = ["192.0.2.2"]
    for _ in range(50):
        assert await resolver.addresses(NAME) == ["192.0.2.1"]
    assert names.asked == [NAME] * 2  # all share one look-up
    names.answers.set()
    async with asyncio.timeout(SOON_S):
        while await resolver.addresses(NAME) != ["192.0.2.2"]:  # noqa: ASYNC110 - a thread
            await asyncio.sleep(0.001)


async def test_a_name_server_that_fails_does_not_change_the_addresses(names: NameServer) -> None:
    """To be told to ask again later is no answer; a name that was never known is an error."""
    resolver = Resolver()
    await resolver.addresses(NAME)
    names.error = socket.EAI_AGAIN
    assert await resolver.addresses(NAME) == ["192.0.2.1"]
    with pytest.raises(socket.gaierror):
        await resolver.addresses("other.test")


async def test_an_unknown_name_that_hangs_takes_one_thread(names: NameServer) -> None:
    """Its callers wait as long as they like, and share one look-up."""
    resolver = Resolver()
    names.answers.clear()
    for _ in range(20):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await resolver.addresses(NAME)
    waiting = asyncio.ensure_future(resolver.addresses(NAME))
    await asyncio.sleep(0)
    names.answers.set()
    assert await asyncio.wait_for(waiting, SOON_S) == ["192.0.2.1"]
    assert names.asked == [NAME]


async def test_the_number_of_threads_is_bounded(names: NameServer) -> None:
    """Many names at once are looked up a few at a time, and none is lost."""
    resolver = Resolver()
    names.answers.clear()
    wanted = [asyncio.ensure_future(resolver.addresses(f"n{n}.test")) for n in range(3 * AT_ONCE)]
    async with asyncio.timeout(SOON_S):
        while len(names.asked) < AT_ONCE:  # noqa: ASYNC110 - threads
            await asyncio.sleep(0.001)
    assert len(names.asked) == AT_ONCE
    names.answers.set()
    assert await asyncio.gather(*wanted) == [["192.0.2.1"]] * 3 * AT_ONCE
    assert names.most <= AT_ONCE


async def test_the_number_of_known_names_is_bounded(names: NameServer) -> None:
    """The names that were answered least recently are forgotten."""
    resolver = Resolver()
    for n in range(NAMES_MAX + 3):
        await resolver.addresses(f"n{n}.test")
    assert len(names.asked) == NAMES_MAX + 3
    assert len(resolver._last) == NAMES_MAX


async def test_calls_that_hang_do_not_hold_up_the_others() -> None:
    """A call that hangs has a thread of its own; an error reaches each of its callers."""
    calls, goes_on = BlockingCalls(), threading.Event()
    hanging = asyncio.ensure_future(calls.run("hangs", lambda: goes_on.wait(SOON_S)))
    assert await calls.run("other", threading.get_ident) != threading.get_ident()
    results = await asyncio.gather(
        *(calls.run("fails", lambda: 1 // 0) for _ in range(3)), return_exceptions=True
    )
    assert [type(one) for one in results] == [ZeroDivisionError] * 3
    goes_on.set()
    assert await hanging


async def test_a_password_file_that_hangs_takes_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All logins share one read of the file, which leaves the event loop's own threads alone."""
    file, goes_on, reads = tmp_path / "password", threading.Event(), 0
    file.write_text("secret\n")
    read = Path.read_text

    def hang(path: Path, *given: Any) -> str:
        nonlocal reads
        reads += 1
        assert goes_on.wait(SOON_S)
        return read(path, *given)

    monkeypatch.setattr(Path, "read_text", hang)
    who = Credentials("app", "", str(file))
    logins = [asyncio.ensure_future(who.get_credentials_async()) for _ in range(64)]
    assert await asyncio.to_thread(lambda: "free") == "free"
    goes_on.set()
    assert set(await asyncio.gather(*logins)) == {("app", "secret")}
    assert reads == 1
