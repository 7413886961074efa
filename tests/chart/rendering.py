"""Rendering of the chart with Helm, and access to its manifests."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from reasoning_replay.settings.loader import ENV_PREFIX

CHART: Final = Path(__file__).parents[2] / "helm"
CI: Final = {path.name.removesuffix("-values.yaml"): path for path in CHART.glob("ci/*.yaml")}
# Kubernetes versions: minimum of Chart.yaml, first with sidecars, newest with a schema.
OLDEST, SIDECARS, NEWEST = "1.25", "1.29", "1.37"

Values = Path | Mapping[str, Any]
Manifest = dict[str, Any]


class Helm:
    """One chart, and the values that it has been rendered with."""

    def __init__(self, program: str, chart: Path, folder: Path) -> None:
        """Use this helm; values files are written to a folder."""
        self.program = program
        self._chart = chart
        self._folder = folder
        self._rendered: dict[str, list[Manifest]] = {}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run helm without the user's own configuration."""
        home = {f"HELM_{kind}_HOME": str(self._folder) for kind in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(  # noqa: S603 (our own words)
            [self.program, *arguments],
            env={"PATH": os.defpath} | home,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def template(
        self, values: Values, kube_version: str = NEWEST, *arguments: str, release: str = "r"
    ) -> subprocess.CompletedProcess[str]:
        """Render a release in the namespace `ns`; the result may be an error."""
        version = f"--kube-version={kube_version}"
        words = (
            str(self._chart),
            "--namespace=ns",
            "--values",
            str(self._written(values)),
            version,
        )
        return self.run("template", release, *words, *arguments)

    def lint(self, values: Values) -> subprocess.CompletedProcess[str]:
        """Run Helm's linter; warnings count as errors."""
        version = f"--kube-version={NEWEST}"
        return self.run(
            "lint", "--strict", str(self._chart), "--values", str(self._written(values)), version
        )

    def notes(self, values: Values) -> str:
        """Return the notes after an installation, which `template` omits otherwise."""
        chart = shutil.copytree(self._chart, self._folder / "noted", dirs_exist_ok=True)
        notes = (chart / "templates" / "NOTES.txt").read_text()
        told = (
            f'{{{{ define "told" }}}}{notes}{{{{ end }}}}\ntold: {{{{ include "told" . | quote }}}}'
        )
        (chart / "templates" / "told.yaml").write_text(told)
        (noted,) = (
            each
            for each in Helm(self.program, chart, self._folder).manifests(values)
            if "told" in each
        )
        return str(noted["told"])

    def manifests(self, values: Values, kube_version: str = NEWEST) -> list[Manifest]:
        """Render valid values."""
        key = f"{values} {kube_version}"
        if key not in self._rendered:
            done = self.template(values, kube_version)
            assert done.returncode == 0, done.stderr
            assert "<no value>" not in done.stdout
            self._rendered[key] = self.read(done.stdout)
        return self._rendered[key]

    def read(self, rendered: str) -> list[Manifest]:
        """Parse the output of `helm template`."""
        return load_all(rendered)

    def one(self, values: Values, kind: str, name: str = "r-reasoning-replay") -> Manifest:
        """Return the single manifest of a kind and name."""
        (found,) = [
            each
            for each in self.manifests(values)
            if (each["kind"], each["metadata"]["name"]) == (kind, name)
        ]
        return found

    def pod(self, values: Values) -> Manifest:
        """Return the spec of the gateway's pod."""
        spec: Manifest = self.one(values, "Deployment")["spec"]["template"]["spec"]
        return spec

    def _written(self, values: Values) -> Path:
        if isinstance(values, Path):
            return values
        path = self._folder / "values.yaml"
        path.write_text(yaml.safe_dump(dict(values)))
        return path


def pod_specs(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the spec of every pod in the manifests."""
    specs = []
    for manifest in manifests:
        if manifest["kind"] == "Pod":
            specs.append(manifest["spec"])
        elif manifest["kind"] == "Deployment":
            specs.append(manifest["spec"]["template"]["spec"])
    return specs


def sidecar(
    consumer: Helm, values: Mapping[str, Any] | None = None, *, classic: bool = False
) -> tuple[Manifest, Manifest]:
    """Return the spec of a pod, and the sidecar in it; a classic one is a plain container."""
    (pod,) = pod_specs(consumer.manifests({**(values or {}), "classic": classic}))
    return pod, (pod["containers"] if classic else pod["initContainers"])[0]


def env_of_container(container: Manifest, secret: str = "") -> dict[str, str]:
    """Return a container's REPLAY_ variables as its process has them; secrets have one value."""
    return {
        each["name"]: each.get("value", secret)
        for each in container["env"]
        if each["name"].startswith(ENV_PREFIX)
    }


class _Strict(yaml.SafeLoader):
    """YAML as Kubernetes reads it: a duplicate key in a mapping is an error."""


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    names = [loader.construct_object(key) for key, _ in node.value]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"{twice} stand twice{node.start_mark}"
    return loader.construct_mapping(node, deep=True)


_Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_all(text: str) -> list[Any]:
    """Return every document that is not empty."""
    return [each for each in yaml.load_all(text, _Strict) if each]
