"""TCP sockets: keep-alive on the connections of a listening socket."""

import socket

import pytest
from reasoning_replay.adapters.runtime.tcp import keep_alive, keep_alive_options


def test_every_system_of_the_project_has_an_option_for_the_idle_time() -> None:
    """Without it, the system's two hours would apply."""
    assert len(keep_alive_options()) == 3


@pytest.mark.parametrize("is_accepted", [False, True])
def test_keep_alive_is_on(*, is_accepted: bool) -> None:
    """A socket has the options, and a connection that it accepts has them too."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        keep_alive(listening)
        with (
            socket.create_connection(listening.getsockname()),
            listening.accept()[0] as accepted,
        ):
            one = accepted if is_accepted else listening
            assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            for option, value in keep_alive_options().items():
                assert one.getsockopt(socket.IPPROTO_TCP, option) == value


def test_a_socket_that_cannot_have_it_is_left_alone() -> None:
    """A closed socket, or one without TCP, raises nothing."""
    closed = socket.socket()
    closed.close()
    keep_alive(closed)
    if hasattr(socket, "AF_UNIX"):
        with socket.socket(socket.AF_UNIX) as unix:
            keep_alive(unix)
