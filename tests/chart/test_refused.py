"""Contradictory values are refused before the installation, with a way out."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from reasoning_replay.settings.loader import SECRET_NAMES

from tests.chart.rendering import OLDEST, Helm, load_all

(CASES,) = load_all(Path(__file__).with_name("refused.yaml").read_text())


def assert_refused(done: subprocess.CompletedProcess[str], words: list[str]) -> None:
    """Fail unless the message has these words; it never has a secret."""
    assert done.returncode != 0
    assert [word for word in words if word not in done.stderr] == []
    assert [word for word in ("secret@", "=secret", "hunter2") if word in done.stderr] == []


@pytest.mark.parametrize("case", CASES["gateway"].values(), ids=CASES["gateway"])
def test_what_cannot_work_is_refused(helm: Helm, case: list[Any]) -> None:
    """The message has the value, the numbers and the way out."""
    values, *words = case

    assert_refused(helm.template(values), words)


@pytest.mark.parametrize("case", CASES["sidecar"].values(), ids=CASES["sidecar"])
def test_a_sidecar_that_cannot_work_is_refused(consumer: Helm, case: list[Any]) -> None:
    """The sidecar's values are checked like the gateway's."""
    values, *words = case

    assert_refused(consumer.template(values), words)


def test_a_kubernetes_without_sidecars_has_the_gateway_and_the_classic_one(
    helm: Helm, consumer: Helm
) -> None:
    """The native sidecar alone is refused, and the message names the other one."""
    words = ["1.28 has no sidecar containers", "reasoning-replay.sidecarClassic"]

    assert_refused(consumer.template({}, "1.28"), words)
    assert consumer.template({"classic": True}, OLDEST).returncode == 0
    assert helm.template({}, OLDEST).returncode == 0


@pytest.mark.parametrize(
    "name", sorted(SECRET_NAMES - {"store_url", "upstream_proxy", "upstreams"})
)
def test_a_secret_has_no_place_in_values(helm: Helm, name: str) -> None:
    """A secret in values is refused: values go to a repository, and to Helm's own Secret."""
    words = [f"config.{name}: a secret must not be in values", f"secrets.keys.{name}"]

    assert_refused(helm.template({"config": {name: "hunter2"}}), words)


@pytest.mark.parametrize("values", CASES["taken"].values(), ids=CASES["taken"])
def test_what_can_work_is_not_refused(helm: Helm, values: dict[str, Any]) -> None:
    """Values at the exact limits are accepted."""
    done = helm.template(values)

    assert done.returncode == 0, done.stderr
