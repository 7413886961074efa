"""
Entry point of the script `reasoning-replay` and of `python -m reasoning_replay`.

It sets the SIGTERM handler before it imports most modules, so that no signal is lost.
"""

import gc
import os
import signal
import sys


def main() -> int:
    """Run the command of this process; return its exit code, 130 if Ctrl-C interrupted it."""
    try:
        return _main()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _main() -> int:
    # The first process of a container receives only signals that it handles. A SIGTERM during the
    # imports would be lost, and the container would continue to run.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    if sys.argv[1:2] == ["serve"] and hasattr(signal, "SIGHUP"):  # not on Windows
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # `serve` reloads at it, once it runs

    is_plain = sys.argv[1:] in (["health"], ["health", "--ready"])
    if is_plain and not os.environ.get("REPLAY_CONFIG"):  # a file may name another port
        from reasoning_replay.healthcheck import ADMIN_LISTEN, health  # noqa: PLC0415 (a tenth of the cost of `cli`)

        where = os.environ.get("REPLAY_ADMIN_LISTEN", ADMIN_LISTEN)
        return health(where, "/readyz" if "--ready" in sys.argv else "/livez")

    # Imports leave no garbage: collections would take a tenth of the start.
    gc.disable()
    try:
        from reasoning_replay.cli import main as run  # noqa: PLC0415 (as above)

        return run()
    finally:
        gc.enable()


if __name__ == "__main__":
    sys.exit(main())
