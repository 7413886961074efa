"""Build: the version of the program that runs, which has its commit between releases."""

from functools import cache
from importlib import metadata
from pathlib import Path

from reasoning_replay import __version__

_PACKAGE = Path(__file__).parent


@cache
def build_version() -> str:
    """
    Return the version of the wheel that runs, such as `1.2.3` or `1.2.3+g1a2b3c4d5`.

    It is `1.2.3+source` if the sources run themselves: they may be of any commit.
    """
    try:
        wheel = metadata.distribution("reasoning-replay")
    except metadata.PackageNotFoundError:
        return f"{__version__}+source"
    is_wheel = Path(str(wheel.locate_file(_PACKAGE.name))) == _PACKAGE
    return wheel.version if is_wheel else f"{__version__}+source"
