"""Ports without a server, and with a server that never responds."""

import socket
from collections.abc import Iterator

import pytest
from reasoning_replay.settings.model import Settings


@pytest.fixture
def closed_port() -> int:
    """A port of this machine on which no server listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never sends a byte."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def settings(silent_port: int) -> Settings:
    """Settings with a reachable upstream and free ports."""
    return Settings(
        upstream_url=f"http://127.0.0.1:{silent_port}/v1",
        upstream_profile="generic",
        listen="127.0.0.1:0",
        admin_listen="127.0.0.1:0",
    )
