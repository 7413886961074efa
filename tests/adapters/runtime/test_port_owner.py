"""An operator is told which program has a port, without root and without guessing."""

import os
import socket
import sys
from pathlib import Path

import pytest
from reasoning_replay.adapters.runtime import port_owner as module
from reasoning_replay.adapters.runtime.port_owner import port_owner

PORT = 8080
LISTEN, ESTABLISHED = "0A", "01"

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="sockets are read from /proc")


def row(address: str, *, state: str = LISTEN, uid: int = 0, inode: int = 77) -> str:
    """Return one line of /proc/net/tcp."""
    return f"  0: {address}:{PORT:04X} 00000000:0000 {state} 0:0 00:0 0 {uid} 0 {inode} 1 0 100 0"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc with tables of sockets, which a test fills."""
    (tmp_path / "net").mkdir()
    for name in ("tcp", "tcp6"):
        (tmp_path / "net" / name).write_text("  sl  local_address ...\n")
    monkeypatch.setattr(module, "PROC", tmp_path)
    return tmp_path


def add(proc: Path, line: str, name: str = "tcp") -> None:
    """Add a socket."""
    with (proc / "net" / name).open("a") as file:
        file.write(line + "\n")


@on_linux
@pytest.mark.parametrize(
    ("bound", "asked"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104 (only in this test)
        ("127.0.0.1", "0.0.0.0"),  # noqa: S104
        ("127.0.0.1", "localhost"),
        ("::1", "::1"),
        ("::1", "::"),
    ],
)
def test_a_program_of_this_user_is_named(bound: str, asked: str) -> None:
    """By its name and its process id, also where one of the two addresses is every interface."""
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with socket.create_server((bound, 0), family=family) as here:
        name = Path("/proc/self/comm").read_text().strip()
        assert port_owner(asked, here.getsockname()[1]) == f"{name} (pid {os.getpid()})"


@on_linux
def test_a_program_on_another_address_is_not_named() -> None:
    """Both may listen there, so it is not the reason."""
    with socket.create_server(("127.0.0.2", 0)) as other:
        assert port_owner("127.0.0.1", other.getsockname()[1]) == ""


@pytest.mark.parametrize(("uid", "want"), [(0, "user root"), (4_000_000, "user 4000000")])
def test_of_a_program_of_another_user_only_the_user_is_known(
    proc: Path, uid: int, want: str
) -> None:
    """Its open files cannot be read without root."""
    add(proc, row("0100007F", uid=uid))

    assert port_owner("127.0.0.1", PORT) == f"a program of {want}"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        pytest.param(row("0100007F", state=ESTABLISHED), "tcp", id="a-connection"),
        pytest.param(row("0200007F"), "tcp", id="another-address"),
        pytest.param(row("00000000000000000000000001000000"), "tcp6", id="ipv6-loopback"),
    ],
)
def test_other_sockets_are_not_the_reason(proc: Path, line: str, name: str) -> None:
    """Only a listening socket of this address, or of every interface."""
    add(proc, line, name)

    assert port_owner("127.0.0.1", PORT) == ""


def test_a_program_that_just_ended_is_not_named(proc: Path) -> None:
    """Its folder may go between two reads."""
    add(proc, row("00000000"))
    files = proc / "12" / "fd"
    files.mkdir(parents=True)
    (files / "3").symlink_to("socket:[77]")

    assert port_owner("127.0.0.1", PORT) == "a program of user root"


def test_without_proc_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On macOS, and in a container that hides it."""
    monkeypatch.setattr(module, "PROC", tmp_path / "none")

    assert port_owner("127.0.0.1", PORT) == ""
