"""
Packets vanish: a NAT forgets silent connections, and peers die without a word.

The cases run at once in a process in a network namespace of its own. They skip where the system
does not allow one.
"""

import asyncio
import json
import os
import sys
from typing import Any

import pytest

from tests.patience import LONG_S
from tests.programs import ends_with_tests, require

LOST = "no longer answers"
FINE = [200, "2"]


async def run(*words: str) -> tuple[int, str, str]:
    """Run the module in a new namespace; return its exit code and what it wrote."""
    private = [require("unshare"), "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    process = await asyncio.create_subprocess_exec(
        *ends_with_tests(),
        *private,
        *(sys.executable, "-m", "tests.faults.lossy_network", *words),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), LONG_S)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """Return the results of all cases, by name."""
    require("iptables")
    require("iptables", "ip")
    code, _, why = asyncio.run(run("--build"))
    if code:
        pytest.skip(f"no network namespace with a tracker of connections: {why.strip()[-200:]}")
    code, out, err = asyncio.run(run())
    assert code == 0, err
    assert '"bug"' not in err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
class TestLossyNetwork:
    """One test for each case of the module."""

    def test_the_tracker_forgets(self, results: dict[str, Any]) -> None:
        """Without keep-alive, an answer after the silence is lost: so these tests can fail."""
        assert results["control"] is False

    @pytest.mark.parametrize("case", ["json_answer", "egress_proxy"])
    def test_an_answer_after_a_long_silence(self, case: str, results: dict[str, Any]) -> None:
        """It arrives on every leg, also for a client without keep-alive."""
        assert results[case] == [200, "{}"]

    def test_a_stream_with_long_silences(self, results: dict[str, Any]) -> None:
        """All events arrive."""
        assert results["stream"] == [200, "".join(f"data: {n}\n\n" for n in range(3))]

    def test_a_websocket_with_long_silences(self, results: dict[str, Any]) -> None:
        """Messages arrive both ways."""
        assert results["websocket"] is True

    @pytest.mark.parametrize(
        ("case", "first"), [("pooled_post", "1"), ("lost_before_the_head", "")]
    )
    def test_a_lost_upstream(self, case: str, first: str, results: dict[str, Any]) -> None:
        """
        A request on a lost connection is a 502 that says so, and the next one works.

        Once nothing acknowledges the request, and once keep-alive finds out.
        """
        *before, lost, after = results[case]
        assert before == ([[200, first]] if first else [])
        assert lost[:2] == [502, "upstream_failed"]
        assert LOST in lost[2]
        assert after == FINE

    def test_a_lost_upstream_and_a_get(self, results: dict[str, Any]) -> None:
        """A request that may be repeated is sent again, on a new connection."""
        assert results["pooled_get"] == [[200, "1"], FINE, FINE]

    def test_a_lost_upstream_within_a_stream(self, results: dict[str, Any]) -> None:
        """The client's stream is cut off: it must not look complete."""
        assert results["lost_within_a_stream"] == ["data: 1\n\n", False]

    @pytest.mark.parametrize("case", ["lost_websocket", "lost_client"])
    def test_the_other_side_ends(self, case: str, results: dict[str, Any]) -> None:
        """A lost upstream ends the client's WebSocket; a lost client cancels the upstream."""
        assert results[case] is True
