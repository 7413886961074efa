"""A store whose name hangs in DNS: no request fails, and the store is used at its last address."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import SOON_S
from tests.programs import ends_with_tests, require

ROOT = Path(__file__).parents[2]
APART = ("--user", "--map-root-user", "--mount", "--net")


@pytest.mark.parametrize("kind", ["TCP", "TLS", "Sentinel", "Cluster"])
def test_a_name_that_hangs_in_dns_is_not_noticed(kind: str) -> None:
    """With the system's resolver under uvloop, in bursts of requests that all need connections."""
    unshare = require("unshare")
    require("redis", "redis-server")
    if subprocess.run([unshare, *APART, "true"], capture_output=True, check=False).returncode:  # noqa: S603
        pytest.skip("namespaces are not allowed here")
    words = [sys.executable, "-m", "tests.faults.hanging_name", kind]
    done = subprocess.run(  # noqa: S603 - ourselves
        [*ends_with_tests(), unshare, *APART, *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'proxy'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=2 * SOON_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
