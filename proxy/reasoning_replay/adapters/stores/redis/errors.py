"""Redis errors: what an operation on a Redis raises, and what people are told about it."""

import re

from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterCrossSlotError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - redis-py's
    InvalidResponse,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    SlotNotCoveredError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from reasoning_replay.adapters.stores.base import StoreError


class SilentError(RedisTimeoutError):
    """A server did not answer in time; the message names it."""


FAILURES = (RedisError, SlotNotCoveredError, OSError, TimeoutError)
_WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (AuthenticationError, "it refuses the user or the password"),
    (NoPermissionError, "its ACL does not allow this user to do that"),
    (ReadOnlyError, "it is a replica, which accepts no writes"),
    (MasterDownError, "it is a replica that has lost its master"),
    (OutOfMemoryError, "it is full, and its eviction policy makes no room"),
    (BusyLoadingError, "it is still loading its data"),
    (ClusterDownError, "the Cluster is down, or a part of it"),
    (SlotNotCoveredError, "some slots of the Cluster have no node"),
    (ClusterCrossSlotError, "it is a node of a Cluster, and other nodes have a part of the data"),
    (AskError, "it is a node of a Cluster, and other nodes have a part of the data"),
    (InvalidResponse, "it does not answer as a Redis does"),
    (RedisTimeoutError, "it did not answer in time"),
    (TimeoutError, "it did not answer in time"),
    (ConnectionError, "it cannot be reached"),
    (OSError, "it cannot be reached"),
)
# These quote an address and the system's message about it, such as a certificate error.
_QUOTED = (ConnectionError, NoPermissionError, SilentError)
# Refusals of a server that is not, or no longer, the one that clients should use.
_DEMOTED = frozenset({"READONLY", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS"})


def closed_error() -> ConnectionError:
    """Return the error of an operation on a store that is closed."""
    return ConnectionError("the store is closed")


def code_of(error: ResponseError) -> str:
    """Return the code of an error reply, such as WRONGTYPE, or its first word if that is one."""
    if error.status_code not in {None, "ERR"}:
        return str(error.status_code)
    code = re.match(r"[A-Z]+\b", str(error))
    return code[0] if code else "ERR"


def shows_demotion(result: object) -> bool:
    """Return whether a result means that another server may be the master by now."""
    return isinstance(result, ResponseError) and code_of(result) in _DEMOTED


def store_error(error: Exception) -> StoreError:
    """Return a StoreError without the stored values, keys and passwords that an error may quote."""
    name = type(error).__name__
    if type(error) is ResponseError:  # not its subclasses, which concern the whole store
        code = code_of(error)
        return StoreError(f"{name}: {_refusal(str(error), code)}", is_local=code == "WRONGTYPE")
    words = next((words for kind, words in _WORDS if isinstance(error, kind)), "it failed")
    cause = f": {error}"[:300] if isinstance(error, _QUOTED) else ""
    return StoreError(f"{name}: {words}{cause}")


def _refusal(text: str, code: str) -> str:
    if "cluster support disabled" in text:
        return "it is not a node of a Cluster"
    if unknown := re.search(r"unknown command [`']([A-Za-z|]{1,20})['`]", text):
        return f"it does not know the command {unknown[1].upper()}"
    return f"it refused a command ({code})"
