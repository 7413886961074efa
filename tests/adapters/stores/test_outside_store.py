"""The contract of stores judges a store that is in no folder of this project."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

# As a project writes it that has installed the package; `dictionary.py` imports nothing else.
TESTS = """
import pytest
from reasoning_replay.adapters.stores.contract import (
    KeepingContract, ListingContract, SharingContract, StoreContract, StoreUnderTest
)
from dictionary import DictStore


class Base:
    kind = DictStore

    @pytest.fixture
    async def tested(self):
        now, opened = [1000.0], {}

        async def passes(seconds):
            now[0] += seconds

        def opens(bounds):
            if bounds not in opened:
                opened[bounds] = self.kind(bounds, lambda: now[0])
            return opened[bounds]

        yield StoreUnderTest(opens, passes)


class TestGood(Base, StoreContract):
    pass


class ExpiresNever(DictStore):
    def _expire(self):
        pass


class FindsAcrossScopes(DictStore):
    async def look_up(self, scope, lookups, held):
        found = [await super(FindsAcrossScopes, self).look_up(one, lookups, held)
                 for one in self._index or [scope]]
        return max(found, key=lambda one: len(one.conversations))


class RepeatsVersions(DictStore):
    async def save(self, *given, **named):
        change = await super().save(*given, **named)
        return change._replace(after=1)


class UndoesDeletions(DictStore):
    async def forget(self, scope, conversation, *, is_final=False):
        return await super().forget(scope, conversation)


class KeepsEverything(DictStore):
    def __init__(self, bounds, clock):
        super().__init__(bounds.__class__(bounds.ttl_s, 10_000, 1 << 30), clock)


class DropsKeys(DictStore):
    async def save(self, name, records, keys, *given, **named):
        return await super().save(name, records, [*keys][:1], *given, **named)


class ListsOnePage(DictStore):
    async def survey(self, *given):
        return (await super().survey(*given)).__class__([])


for part, kinds in (
    (KeepingContract, (ExpiresNever, FindsAcrossScopes, KeepsEverything, DropsKeys)),
    (ListingContract, (ListsOnePage,)),
    (SharingContract, (RepeatsVersions, UndoesDeletions)),
):
    for kind in kinds:
        name = "Test" + kind.__name__
        globals()[name] = type(name, (Base, part), {"kind": kind})
"""
BROKEN = (
    *("ExpiresNever", "FindsAcrossScopes", "RepeatsVersions", "UndoesDeletions"),
    *("KeepsEverything", "DropsKeys", "ListsOnePage"),
)


def test_a_store_outside_this_project_is_judged(tmp_path: Path) -> None:
    """A good one passes, and each broken one fails, in a folder with nothing of this project."""
    shutil.copy(Path(__file__).with_name("dictionary.py"), tmp_path)
    (tmp_path / "test_mine.py").write_text(TESTS)
    words = [
        "-m",
        "pytest",
        "-q",
        "--tb=no",
        "-rf",
        "-o",
        "asyncio_mode=auto",
        "-p",
        "no:cacheprovider",
    ]
    ran = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, *words, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    failed = re.findall(r"^FAILED test_mine.py::Test(\w+)::", ran.stdout, re.MULTILINE)
    assert set(failed) == set(BROKEN), ran.stdout
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed, ran.stdout
    assert int(passed[1]) > 50
