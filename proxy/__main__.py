"""Run as `python -m proxy`, for images and debuggers that have no script directory."""

import sys

from proxy.cli import main

if __name__ == "__main__":
    sys.exit(main())
