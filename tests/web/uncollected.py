"""
Start script: the program, with Python's cyclic collector switched off for good.

Its arguments are the command that would start the program with the collector.
"""

import gc
import sys
from unittest import mock

from reasoning_replay.__main__ import main

if __name__ == "__main__":
    sys.argv = sys.argv[sys.argv.index("reasoning_replay") :]
    with mock.patch.object(gc, "enable"):  # the program calls it once it has started
        sys.exit(main())
