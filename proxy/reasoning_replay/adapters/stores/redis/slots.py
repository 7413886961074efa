"""Slot table of a Redis Cluster: which node is the master of each slot."""

from collections.abc import Sequence
from typing import Any

from redis.crc import REDIS_CLUSTER_HASH_SLOTS as SLOTS
from redis.exceptions import InvalidResponse

Address = tuple[str, int]


class SlotTable:
    """
    Master of each slot, as one node told, with what redirections have told since.

    Attributes:
        nodes: All nodes of the Cluster, masters and replicas.
        is_whole: Whether every slot has a master.
    """

    def __init__(self, answer: Any, asked: Address) -> None:  # noqa: ANN401 - as a node answers
        """
        Read the reply to CLUSTER SLOTS.

        Args:
            answer: A list of first slot, last slot, master, replicas.
            asked: Address of the node that was asked.

        Raises:
            InvalidResponse: It is something else.
        """
        self._masters: list[Address | None] = [None] * SLOTS
        self.nodes: set[Address] = set()
        try:
            for first, last, *nodes in answer:
                places = [_address(node, asked) for node in nodes]
                self.nodes.update(places)
                self._masters[first : last + 1] = [places[0]] * (last + 1 - first)
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise InvalidResponse("not a table of slots") from error
        if len(self._masters) != SLOTS:
            raise InvalidResponse("not a table of slots")
        self.is_whole = None not in self._masters

    def master(self, slot: int) -> Address | None:
        """Return the master of a slot; None if it has none."""
        return self._masters[slot]

    def move(self, slot: int, to: Address) -> None:
        """Note the new master of a slot."""
        self._masters[slot] = to

    @property
    def masters(self) -> set[Address]:
        """All masters."""
        return {one for one in self._masters if one is not None}


def host_of(told: bytes | str | None, asked: str) -> str:
    """
    Return the host of a node; without one, it is the host that was asked.

    With `cluster-preferred-endpoint-type unknown-endpoint` a Cluster names only ports.
    """
    host = told.decode() if isinstance(told, bytes) else told
    return asked if host in (None, "", "?") else str(host)


def _address(node: Sequence[Any], asked: Address) -> Address:
    return host_of(node[0], asked[0]), int(node[1])
