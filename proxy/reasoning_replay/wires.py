"""Wires: what a request and an answer look like to a client, by dialect."""

from reasoning_replay.core.dialects.client_wire import MODEL, Item, Reply, Wire
from reasoning_replay.core.dialects.registry import DIALECTS

__all__ = ["MODEL", "WIRES", "Item", "Reply", "Wire"]

WIRES = {entry.name: entry.client for entry in DIALECTS}
