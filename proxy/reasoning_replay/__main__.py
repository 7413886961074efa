"""
The process of a command, run by the script `reasoning-replay` or as `python -m reasoning_replay`.

What it imports itself is little, so that a signal finds somebody from the first moment on.
"""

import gc
import os
import signal
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command that the process was started with; return its exit code."""
    # The first process of a container gets no signal that it has not asked for: one that came
    # while all the rest is brought in would be lost, and the container would serve on.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))

    if sys.argv[1:] in (["health"], ["health", "--ready"]):
        from reasoning_replay.healthcheck import ADMIN_LISTEN, health  # noqa: PLC0415 (a tenth of what `cli` costs)

        where = os.environ.get("REPLAY_ADMIN_LISTEN", ADMIN_LISTEN)
        return health(where, "/readyz" if "--ready" in sys.argv else "/livez")

    # Nothing of what is brought in is garbage: to look for some takes a tenth of the start.
    gc.disable()
    try:
        from reasoning_replay.cli import main as run  # noqa: PLC0415 (as above)

        return run()
    finally:
        gc.enable()


if __name__ == "__main__":
    sys.exit(main())
