"""
Resolver of the store's host names, apart from the threads in which the upstream's are resolved.

A name that is answered promptly is followed at the next connection, as after a failover to a server
of the same name. While its look-up hangs, connections are made to the addresses that it had last.
"""

import asyncio
import ipaddress
import socket
from collections import OrderedDict
from collections.abc import Sequence

from reasoning_replay.adapters.runtime.blocking import BlockingCalls

# A look-up that takes longer is not waited for if the last addresses are known.
PATIENCE_S = 0.1
# Most names whose addresses are kept; a Cluster may announce a name for each of its nodes.
NAMES_MAX = 1024


class Resolver:
    """Resolver for one event loop, with at most one look-up of a name at a time."""

    def __init__(self) -> None:
        self._calls = BlockingCalls()
        self._last: OrderedDict[str, Sequence[str]] = OrderedDict()  # by last answer

    async def addresses(self, host: str) -> Sequence[str]:
        """
        Return the addresses of a host, at least one; for an address, itself.

        Raises:
            OSError: The name has no address, or cannot be resolved and never was before.
        """
        if _is_address(host):
            return [host]
        looking, began_s = self._calls.begin(host, lambda: _look_up(host))
        looking.add_done_callback(lambda task: self._note(host, task))
        if host in self._last:
            waited_s = asyncio.get_running_loop().time() - began_s
            await asyncio.wait([looking], timeout=max(0.0, PATIENCE_S - waited_s))
            if not looking.done():
                return self._last[host]
        try:
            return await asyncio.shield(looking)
        except socket.gaierror as error:
            # The name server did not answer the resolver of the system, or said to ask again.
            if error.errno == socket.EAI_AGAIN and host in self._last:
                return self._last[host]
            raise

    def _note(self, host: str, task: "asyncio.Task[Sequence[str]]") -> None:
        if task.cancelled() or task.exception() is not None:
            return
        self._last[host] = task.result()
        self._last.move_to_end(host)
        if len(self._last) > NAMES_MAX:
            self._last.popitem(last=False)


def _look_up(host: str) -> Sequence[str]:
    """Resolve a name; this may hang for as long as the system's resolver waits."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    if not found:
        raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
    return list(dict.fromkeys(_shown(address) for *_, address in found))


def _shown(address: Sequence[object]) -> str:
    """Return an address as text; one of a single link has the number of its interface."""
    zone = address[3] if len(address) > 3 else 0  # noqa: PLR2004 - as of AF_INET6
    return f"{address[0]}%{zone}" if zone else str(address[0])


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
