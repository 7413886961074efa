"""The image's environment: glibc keeps freed memory for the next large request."""

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.image.dockerfile import instructions

DOCKERFILE = (Path(__file__).parents[2] / "Dockerfile").read_text()
ROUNDS = 50
# The allocations of an exchange: the request, the edited request, the request with a head.
EXCHANGES = f"""
import resource

def exchanges():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({ROUNDS}):
        held = [bytes(bytearray(300_000)), bytes(bytearray(400_000)), bytes(bytearray(400_000))]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

exchanges()
print(exchanges())
"""


def faults(environ: dict[str, str]) -> int:
    """Return the page faults of ROUNDS exchanges in a process with this environment."""
    done = subprocess.run(  # noqa: S603
        (sys.executable, "-c", EXCHANGES), check=True, capture_output=True, text=True, env=environ
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is another one")
def test_memory_of_large_requests_is_reused() -> None:
    """The process gets memory from the system once, not for each exchange."""
    pairs = [
        pair.partition("=")
        for step in instructions(DOCKERFILE)
        if step.word == "ENV"
        for pair in shlex.split(step.text)
    ]
    kept = {name: value for name, _, value in pairs if name.startswith("MALLOC_")}
    usual = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}

    assert faults(usual | kept) < 2 * ROUNDS < faults(usual)
