"""
Health check: one request that tests whether the proxy on this host is live, for exec probes.

It runs every few seconds, so it imports very little. It does not load the settings: it needs one
address.
"""

import contextlib
import socket
import time
from typing import Final

from reasoning_replay.settings.urls import authority, dialled, host_and_port

ADMIN_LISTEN: Final = "127.0.0.1:9090"
"""The default of the setting `admin_listen`."""

DEADLINE_S: Final = 2.0
STORE_OK: Final = '"store": "ok"'
LINE_MAX_BYTES: Final = 16 * 1024
ABOUT_MAX_BYTES: Final = 120


def health(admin_listen: str, path: str = "/livez", *, is_strict: bool = False) -> int:
    """
    Send one GET to the admin port, never through a proxy that the environment names.

    If the setting means every interface, the request goes to loopback.

    Args:
        admin_listen: The setting.
        path: `/livez` or `/readyz`.
        is_strict: Whether `/readyz` must also say that the store is used.

    Returns:
        The exit code: 0 for status 200, else 1. Never 2, which Docker reserves. One printed line
        gives the reason, and what runs there by its own words.

    Cost: one connection; about DEADLINE_S at most, also if the response never ends.
    """
    try:
        host, port = host_and_port(admin_listen)
    except ValueError as error:
        print(f"admin_listen: {error}")
        return 1
    if port == 0:
        print("admin_listen has port 0, so its real port is not known: set a fixed port")
        return 1
    place = f"{admin_listen}{path}"
    try:
        status, about = _asked(dialled(host), port, path)
    except OSError as error:
        print(f"{place}: {error.strerror or 'no response'}")
        return 1
    print(f"{place}: {status or 'the response is not HTTP'} {about}".rstrip())
    return int(status != "200" or (is_strict and STORE_OK not in about))


def _asked(host: str, port: int, path: str) -> tuple[str, str]:
    """
    Return the status and the first line of the response; "" twice if the response is not HTTP.

    Raises:
        OSError: No response began within DEADLINE_S.
    """
    until = time.monotonic() + DEADLINE_S
    with (
        socket.create_connection((host, port), DEADLINE_S) as connection,
        connection.makefile("rb") as answer,
    ):
        place = authority(host, port)
        request = f"GET {path} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode())
        version, _, rest = answer.readline(LINE_MAX_BYTES).partition(b" ")
        if not version.startswith(b"HTTP/1."):
            return "", ""
        about = b""
        with contextlib.suppress(OSError):  # the status is known
            while time.monotonic() < until and answer.readline(LINE_MAX_BYTES).strip():  # a header
                connection.settimeout(max(0.001, until - time.monotonic()))
            about = answer.readline(ABOUT_MAX_BYTES)
    said = filter(str.isprintable, about.decode("ascii", "replace"))
    return rest[:3].decode("ascii", "replace"), "".join(said)
