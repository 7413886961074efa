"""Port owner: the program that listens on a port, as far as Linux tells an ordinary user."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["port_owner"]

PROC: Final = Path("/proc")
LISTENING: Final = "0A"


class _Listening(NamedTuple):
    """One listening socket of /proc/net/tcp; the address is in hex, of which zeros mean any."""

    address: str
    uid: int
    inode: str

    def takes_from(self, address: str) -> bool:
        """Return whether this socket keeps others from an address; "" is a name, and may be any."""
        return self.address == address or not (self.address.strip("0") and address.strip("0"))


def port_owner(host: str, port: int) -> str:
    """
    Return the program that listens there, such as `nginx (pid 812)`, else only its user.

    Returns:
        "" where the system does not tell: no Linux, or the program has just ended.

    Cost: a look at the open files of every process of this user; some milliseconds.
    """
    address = _in_hex(host)
    owners = [one for one in _listening(port) if one.takes_from(address)]
    for owner in owners:
        if pid := _pid_of(f"socket:[{owner.inode}]"):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                # Not its command line, which may hold a secret.
                return f"{(PROC / pid / 'comm').read_text().strip()} (pid {pid})"
    return f"a program of {_user(owners[0].uid)}" if owners else ""


def _listening(port: int) -> Iterator[_Listening]:
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (PROC / "net" / name).read_text().splitlines()[1:]:
                fields = line.split()
                address, _, at = fields[1].partition(":")
                if fields[3] == LISTENING and int(at, 16) == port:
                    yield _Listening(address, int(fields[7]), fields[9])


def _in_hex(host: str) -> str:
    """Return an address as /proc writes it: in words of 32 bits, little-endian; "" for a name."""
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except OSError:
        return ""
    words = (packed[n : n + 4][::-1] for n in range(0, len(packed), 4))
    return b"".join(words).hex().upper()


def _pid_of(opened: str) -> str:
    """Return the process that has this file open; "" if it is not one of this user."""
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or belongs to another user
            if any(str(file.readlink()) == opened for file in (process / "fd").iterdir()):
                return process.name
    return ""


def _user(uid: int) -> str:
    import pwd  # noqa: PLC0415 (not on Windows)

    with contextlib.suppress(KeyError):
        return f"user {pwd.getpwuid(uid).pw_name}"
    return f"user {uid}"
