"""What was freed is used again, and not fetched from the system anew."""

import platform
import subprocess
import sys

import pytest

ROUNDS = 50
# As an exchange does: what came, what goes out, and that behind a head. Prints faults.
EXCHANGES = f"""
import resource
from reasoning_replay.adapters.runtime.malloc import keep_freed

def exchanges():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({ROUNDS}):
        held = [bytes(bytearray(300_000)), bytes(bytearray(400_000)), bytes(bytearray(400_000))]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

exchanges()
usual = exchanges()
kept = keep_freed()
exchanges()
print(int(kept), usual, exchanges())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is another one")
def test_what_large_requests_leave_is_kept_for_the_next_ones() -> None:
    """Pages are fetched from the system once, and not with each exchange."""
    told = subprocess.run(  # noqa: S603
        (sys.executable, "-c", EXCHANGES), check=True, capture_output=True, text=True
    )

    kept, usual, faults = map(int, told.stdout.split())
    assert kept
    assert faults < 2 * ROUNDS < usual
