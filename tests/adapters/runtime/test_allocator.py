"""The allocator: large freed memory goes back to the system, smaller memory is reused."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="the C library is another one"
)
MIB = 1 << 20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if os.name == "posix" else 0
ROUNDS = 50
TUNED = "from reasoning_replay.adapters.runtime.allocator import tune_allocator\ntune_allocator()\n"
RESIDENT = f"""
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * {PAGE_BYTES}

"""
# Large and small allocations by turns; only the small ones stay.
BURST = f"""{RESIDENT}
large, small = [], []
for _ in range(40):
    large.append(bytes(bytearray({2 * MIB})))
    small.append([bytes(bytearray(3000)) for _ in range(20)])
held = resident()
large.clear()
print(held - resident())
"""
# Smaller ones, of which every fiftieth stays.
HOLES = f"""{RESIDENT}
from reasoning_replay.adapters.runtime.allocator import give_back

pieces = [bytes(bytearray(60_000)) for _ in range(2_000)]
few = pieces[::50]
pieces.clear()
held = resident()
give_back()
print(held - resident())
"""
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


def printed(program: str, **more: str) -> int:
    """Return the number that a program prints."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    environ |= {"PYTHONPATH": os.pathsep.join(sys.path)} | more
    done = subprocess.run(  # noqa: S603
        (sys.executable, "-c", program), check=True, capture_output=True, text=True, env=environ
    )
    return int(done.stdout)


def test_memory_between_other_objects_is_given_back() -> None:
    """What a burst of smaller pieces leaves is returned on request."""
    assert printed(TUNED + HOLES) >= 90 * MIB


def test_large_memory_is_returned() -> None:
    """A burst of large bodies leaves nothing, although smaller objects stay."""
    assert printed(TUNED + BURST) >= 79 * MIB


def test_memory_of_usual_requests_is_reused() -> None:
    """The process gets memory for exchanges of 300 KB from the system once, not for each one."""
    assert printed(TUNED + EXCHANGES) < 2 * ROUNDS < printed(EXCHANGES)


def test_the_environment_wins() -> None:
    """A variable of the operator stays in force."""
    kept = {"MALLOC_MMAP_THRESHOLD_": str(32 * MIB), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
    assert printed(TUNED + BURST, **kept) < 8 * MIB
