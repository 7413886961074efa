"""Random JSON: values in every spelling that the grammar allows, each with its meaning."""

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st


class Written(NamedTuple):
    """One JSON value: its spelling, its meaning, and the spellings of its elements or members."""

    text: bytes
    value: Any
    parts: tuple[bytes, ...] = ()


NUMBERS = ["0", "-0", "7", "10", "1.0", "1.50", "1e2", "1E+2", "-0.0e-1", "12345678901234567890"]
WORDS = ["null", "true", "false"]

spaces = st.text(" \t\r\n", max_size=2).map(str.encode)
characters = st.characters(codec="utf-8") | st.sampled_from('"\\/[]{},: \n\x00\x7fé😀')


def _spelled(character: str, *, escape: bool) -> str:
    if escape:
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))
    plain = character if character == "\x7f" or character >= " " else ""
    return plain if plain and plain not in '"\\' else json.dumps(character)[1:-1]


def _string(given: list[tuple[str, bool]]) -> Written:
    text = "".join(_spelled(character, escape=escape) for character, escape in given)
    return Written(f'"{text}"'.encode(), "".join(character for character, _ in given))


strings = st.lists(st.tuples(characters, st.booleans()), max_size=6).map(_string)
scalars = strings | st.sampled_from([Written(t.encode(), json.loads(t)) for t in NUMBERS + WORDS])


def arrays(inner: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    """Return arrays with random spacing."""

    def written(elements: list[tuple[bytes, Written, bytes]], empty: bytes) -> Written:
        body = b",".join(before + value.text + after for before, value, after in elements) or empty
        return Written(
            b"[" + body + b"]",
            [value.value for _, value, _ in elements],
            tuple(value.text for _, value, _ in elements),
        )

    return st.builds(written, st.lists(st.tuples(spaces, inner, spaces), max_size=5), spaces)


def objects(inner: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    """Return objects with random spacing and without repeated keys."""
    member = st.tuples(spaces, strings, spaces, spaces, inner, spaces)

    def written(members: list[tuple[bytes, Written, bytes, bytes, Written, bytes]]) -> bytes:
        return b",".join(
            before + key.text + ahead + b":" + behind + value.text + after
            for before, key, ahead, behind, value, after in members
        )

    def built(
        members: list[tuple[bytes, Written, bytes, bytes, Written, bytes]], empty: bytes
    ) -> Written:
        return Written(
            b"{" + (written(members) or empty) + b"}",
            {key.value: value.value for _, key, _, _, value, _ in members},
            tuple(value.text for _, _, _, _, value, _ in members),
        )

    unique = st.lists(member, max_size=5, unique_by=lambda member: member[1].value)
    return st.builds(built, unique, spaces)


values = st.recursive(scalars, lambda inner: arrays(inner) | objects(inner), max_leaves=6)
