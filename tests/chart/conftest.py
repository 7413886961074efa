"""The chart, rendered: each set of values once for all tests of a worker."""

import shutil
from pathlib import Path

import pytest

from tests.chart.rendering import CHART, Helm
from tests.programs import require

CONSUMER = Path(__file__).parent / "consumer"


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The chart itself."""
    return Helm(require("helm"), CHART, tmp_path_factory.mktemp("values"))


@pytest.fixture(scope="session")
def consumer(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """A chart that depends on it by its relative path, with what it depends on fetched."""
    root = tmp_path_factory.mktemp("consumer")
    shutil.copytree(CHART, root / "helm")
    chart = shutil.copytree(CONSUMER, root / "tests" / "chart" / "consumer")
    using = Helm(helm.program, chart, tmp_path_factory.mktemp("values"))
    using.run("dependency", "update", str(chart)).check_returncode()
    return using
