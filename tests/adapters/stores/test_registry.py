"""A kind of store is one folder and one line in the registry; a page says what else it touches."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from reasoning_replay.adapters.stores.address import Advice, Opening, StoreAddress
from reasoning_replay.adapters.stores.base import Bounds
from reasoning_replay.adapters.stores.registry import KINDS, read_store_url, sentence
from reasoning_replay.check.store import of_store
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.doubtful_settings import doubts
from reasoning_replay.web.wiring import bare_store
from typing_extensions import override

from tests.adapters.stores.dictionary import DictStore
from tests.check.reports import found
from tests.docs.page_tables import DOCS

ROOT = DOCS.parent


@dataclass(frozen=True)
class ShelfAddress(StoreAddress):
    """Address of a kind of store that only this test has."""

    title = "a shelf"
    schemes = ("shelf",)
    examples = ("shelf://row",)
    settings = frozenset({"store_password"})

    row: str

    @classmethod
    @override
    def read(cls, scheme: str, rest: str) -> "ShelfAddress":
        if not rest:
            raise ValueError("names no row; use shelf://row")
        return cls(rest)

    @override
    def open(self, opening: Opening) -> DictStore:
        return DictStore(opening.bounds, lambda: 0.0, opening.codec)

    @override
    def advice(self, fault: str, *, has_worked: bool = False) -> Advice:
        return Advice(f"look at row {self.row}", is_lasting=True)

    @override
    def doubts(self) -> Iterator[str]:
        yield f"row {self.row} is high up"


async def test_a_new_kind_needs_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings, doubts, advice, the check and the server take what its address says."""
    with pytest.raises(ValueError, match="unknown scheme"):
        Settings(store_url="shelf://9")
    monkeypatch.setattr("reasoning_replay.adapters.stores.registry.KINDS", [*KINDS, ShelfAddress])
    monkeypatch.setattr("reasoning_replay.web.doubtful_settings.KINDS", [*KINDS, ShelfAddress])
    with pytest.raises(ValueError, match=re.escape("names no row; use shelf://row")):
        Settings(store_url="shelf://")
    with pytest.raises(ValueError, match=re.escape("redis+cluster:// or shelf://row")):
        Settings(store_url="shelf")
    settings = Settings.model_validate({"store_url": "shelf://9", "store_password": "x"})

    told = list(doubts(settings))
    assert "row 9 is high up" in told
    assert not any("store_password" in one for one in told)
    other = Settings.model_validate({"store_url": "memory://", "store_password": "x"})
    assert any("store_password is for Redis or a shelf" in one for one in doubts(other))
    assert sentence("shelf://9", "it fell.") == "it fell; look at row 9"
    assert isinstance(bare_store(settings), DictStore)
    lines = await found(of_store(settings, {}))
    assert lines[0] == "ok: shelf://9 can be reached"
    assert lines[1].startswith("ok: a test turn was saved, and found in ")


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_has_a_scheme_of_its_kind(kind: type[StoreAddress]) -> None:
    """A message suggests only what can be read, once the path or the host is filled in."""
    assert {one.partition("://")[0] for one in kind.examples} <= set(kind.schemes)
    assert set(kind.settings) <= set(Settings.model_fields)
    assert sum(kind.schemes[0] in other.schemes for other in KINDS) == 1


def test_a_kind_without_a_store_leaves_all_to_the_table() -> None:
    """`is_table` and `open` say the same."""
    for url in ("memory://", "sqlite:///a.db", "redis://h"):
        address = read_store_url(url)
        assert address.is_table == (address.open(Opening(Bounds(1, 1, 1), 1.0, 1)) is None)


def test_the_page_lists_what_a_new_store_touches() -> None:
    """It names each file that names every kind of store, but for those that are generated."""
    page = (DOCS / "internals" / "design.md").read_text()
    (paragraph,) = re.findall(r"^\*\*A new store touches\*\* (.*)$", page, re.MULTILINE)
    listed = set(re.findall(r"`([\w/]+\.(?:py|md|tpl))`", paragraph))
    every = ("memory:", "sqlite:", "redis")
    generated = {"docs/configuration.md"}
    places = [*DOCS.rglob("*.md"), *(ROOT / "helm").rglob("*.tpl"), *(ROOT / "proxy").rglob("*.py")]
    naming = {
        str(path.relative_to(ROOT)).removeprefix("proxy/reasoning_replay/")
        for path in places
        if all(word in path.read_text() for word in every)
    }
    assert listed == (naming | {"adapters/stores/registry.py"}) - generated
