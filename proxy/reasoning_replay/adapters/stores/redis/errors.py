"""Redis errors: the exceptions that are failures of the store, and their messages."""

import re

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - redis-py's
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    SlotNotCoveredError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from reasoning_replay.adapters.stores.base import StoreError

FAILURES = (RedisError, RedisClusterException, OSError, TimeoutError)
_WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (AuthenticationError, "it refuses the user or the password"),
    (NoPermissionError, "its ACL does not allow this user to do that"),
    (ReadOnlyError, "it is a replica, which accepts no writes"),
    (OutOfMemoryError, "it is full, and its eviction policy makes no room"),
    (BusyLoadingError, "it is still loading its data"),
    (ClusterDownError, "the Cluster is down, or a part of it"),
    (SlotNotCoveredError, "some slots of the Cluster have no node"),
    (RedisClusterException, "no node of the Cluster can be used"),
    (RedisTimeoutError, "it did not answer in time"),
    (TimeoutError, "it did not answer in time"),
    (ConnectionError, "it cannot be reached"),
    (OSError, "it cannot be reached"),
)


def store_error(error: Exception) -> StoreError:
    """Return a StoreError without the stored values, keys and passwords that an error may quote."""
    while isinstance(error, RedisClusterException):  # it wraps another error
        told = error.__cause__ or error.__context__
        if not isinstance(told, FAILURES):
            break
        error = told
    name = type(error).__name__
    if type(error) is ResponseError:  # not its subclasses, which concern the whole store
        code = re.match(r"[A-Z]+\b", str(error))
        reason = f"it refused a command ({code[0] if code else 'ERR'})"
        return StoreError(f"{name}: {reason}", is_local=code is not None and code[0] == "WRONGTYPE")
    words = next((words for kind, words in _WORDS if isinstance(error, kind)), "it failed")
    # These quote an address and the system's message about it, such as a certificate error.
    cause = f": {error}"[:300] if isinstance(error, ConnectionError | NoPermissionError) else ""
    return StoreError(f"{name}: {words}{cause}")
