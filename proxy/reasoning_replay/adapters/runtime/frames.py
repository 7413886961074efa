"""Frames of exceptions: what they hold is freed where an exception is kept by what they hold."""

import traceback


def clear_frames(error: BaseException) -> None:
    """
    Delete the local variables of the ended frames of an exception, and of those that led to it.

    An exception holds the frames that it has passed. A future, a task or a stream that keeps the
    exception may be held by one of them. Then only the cyclic collector, which may not run for
    minutes, would free what these frames hold: bodies, and all that was made of them.
    """
    one: BaseException | None = error
    while one is not None:
        traceback.clear_frames(one.__traceback__)
        one = one.__context__
