"""One worker, as its parent sees it: heard, probed, told, and ended when it hangs."""

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from typing import Final

from reasoning_replay.web.processes.ipc import LINE_MAX, Message, messages, written

__all__ = ["PROBES_MAX", "PROBE_S", "Child", "Seen"]

# One that has left so many probes in a row without an answer is ended: it would never again serve.
PROBE_S: Final = 5.0
PROBES_MAX: Final = 6
# How long a deletion waits for a worker: one that does not answer by then is about to be ended.
DROPS_S: Final = 5.0

# Told what has passed in a worker.
Seen = Callable[[Sequence[object]], None]


class Child:
    """
    A process that has been started.

    Attributes:
        url: Where it serves; "" before it does.
        failure: Why it cannot, in its own words.
    """

    def __init__(
        self, number: int, process: BaseProcess, line: socket.socket, on_seen: Seen
    ) -> None:
        """
        Hear nothing yet.

        Args:
            number: Its own, from 1.
            process: It.
            line: Our end of the socket.
            on_seen: Told what passes in it.
        """
        self.number = number
        self._on_seen = on_seen
        self.pid = process.pid
        self.url = self.failure = ""
        self._process = process
        self._line = line
        self._writer: asyncio.StreamWriter | None = None
        self._probes = 0  # asked
        self._answered = 0
        self._awaited: dict[int, asyncio.Future[None]] = {}

    async def follow(
        self, heard: Callable[[], None], probe_s: float, is_watched: Callable[[], bool]
    ) -> int:
        """Listen to it until it has ended, and end it when it hangs; return its exit code."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        reader, self._writer = await asyncio.open_connection(sock=self._line, limit=LINE_MAX)
        if is_watched():
            self.tell({"watch": True})  # it was said before this one could hear
        loop.add_reader(self._process.sentinel, ended.set)
        probing = asyncio.create_task(self._probe(probe_s))
        try:
            async for message in messages(reader):
                self._hear(message)
                heard()
            await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
            probing.cancel()
            for done in self._awaited.values():
                done.cancel()  # what it had is gone with it
            self._writer.close()
        self._process.join()
        code = self._process.exitcode
        self._process.close()
        return -signal.SIGKILL if code is None else code

    def tell(self, message: Message) -> None:
        """Say something, if it still listens."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(written(message))

    async def drop(self, scope: bytes, conversation: bytes) -> None:
        """Let it keep no copy of a conversation, and wait until it has none."""
        self.tell({"drop": [scope.hex(), conversation.hex()]})
        number = self._ask()
        done = asyncio.get_running_loop().create_future()
        self._awaited[number] = done
        try:
            await asyncio.wait([done], timeout=DROPS_S)
        finally:
            del self._awaited[number]

    def _ask(self) -> int:
        self._probes += 1
        self.tell({"probe": self._probes})
        return self._probes

    def _hear(self, message: Message) -> None:
        match message:
            case {"serving": str(url)}:
                self.url = url
            case {"failed": str(reason)}:
                self.failure = reason
            case {"seen": list(passed)}:
                self._on_seen(passed)
            case {"alive": int(number)}:
                self._answered = number
                if number in self._awaited and not self._awaited[number].done():
                    self._awaited[number].set_result(None)

    async def _probe(self, probe_s: float) -> None:
        unanswered = 0
        while unanswered < PROBES_MAX:
            last = self._ask() if self.url else 0  # before it serves, it may well need its time
            await asyncio.sleep(probe_s)
            unanswered = unanswered + 1 if self._answered < last else 0
        self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
