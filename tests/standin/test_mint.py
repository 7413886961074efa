"""Ids: unique, repeatable, and in the real format."""

import re

from tests.standin.mint import Ids, Mint, lineage_of


def test_ids_have_a_prefix_and_48_digits() -> None:
    """An id consists of the lineage, a constant, unix time and a random tail."""
    item_id = Ids(Mint(b"x"), "0123456789abcdef", 0x6918F300).item("rs")

    assert re.fullmatch(r"rs_0123456789abcdef006918f300[0-9a-f]{22}", item_id)
    assert len(item_id) <= 64
    assert lineage_of(item_id) == "0123456789abcdef"


def test_ids_are_unique_and_repeatable() -> None:
    """The same seed gives the same ids in the same order, none of them twice."""

    def some() -> list[str]:
        ids = Ids(Mint(b"x"), "0" * 16, 0)
        return [ids.item("fc") for _ in range(50)] + [ids.call() for _ in range(50)]

    assert some() == some()
    assert len(set(some())) == 100
