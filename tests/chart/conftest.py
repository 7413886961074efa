"""Fixtures of the chart: each set of values is rendered once for all tests of a worker."""

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate.utils
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
    """A chart that depends on ours by its relative path, with its dependencies fetched."""
    root = tmp_path_factory.mktemp("consumer")
    shutil.copytree(CHART, root / "helm")
    chart = shutil.copytree(CONSUMER, root / "tests" / "chart" / "consumer")
    using = Helm(helm.program, chart, tmp_path_factory.mktemp("values"))
    using.run("dependency", "update", str(chart)).check_returncode()
    return using


@pytest.fixture(autouse=True, scope="session")
def _schemas_are_read_once() -> Iterator[None]:
    """Cache the schemas: the library reads a megabyte of JSON for each manifest."""
    with pytest.MonkeyPatch.context() as patch:
        read = functools.cache(kubernetes_validate.utils.schema_contents)
        patch.setattr(kubernetes_validate.utils, "schema_contents", read)
        yield
