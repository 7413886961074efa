"""Ports that nobody answers on."""

import socket
from collections.abc import Iterator

import pytest
from reasoning_replay.settings.model import Settings


@pytest.fixture
def closed_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def settings(silent_port: int) -> Settings:
    """Settings whose upstream can be reached, and whose ports are free."""
    return Settings(
        upstream_url=f"http://127.0.0.1:{silent_port}/v1",
        upstream_profile="generic",
        listen="127.0.0.1:0",
        admin_listen="127.0.0.1:0",
    )
