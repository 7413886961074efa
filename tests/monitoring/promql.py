"""Minimal PromQL reader: finds the series and labels that a valid expression names."""

import re
from dataclasses import dataclass

_LISTS = "by|without|on|ignoring|group_left|group_right"
# A keyword with its list of labels.
_CLAUSE = re.compile(rf"\b(?:{_LISTS})\s*\(([^)]*)\)")
_KEYWORD = re.compile(rf"{_LISTS}|and|or|unless|bool|offset|inf|nan")
# A text, a range, or a name that is no function, with its conditions.
_NAME = re.compile(
    r"""
    "[^"]*" | \[[^\]]*\]
    | (?<![\w.:]) (?P<name>[a-zA-Z_:][\w:]*)
      (?: \s*\{ (?P<conditions>(?:"[^"]*"|[^"}])*) \} | (?![\w:]|\s*\() )
    """,
    re.VERBOSE,
)
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition, such as `outcome=~"injected|present"`."""

    label: str
    sign: str
    value: str

    @property
    def alternatives(self) -> list[str]:
        """The values that it accepts; each is a regular expression if the sign has a tilde."""
        return self.value.split("|") if "~" in self.sign else [self.value]


@dataclass(frozen=True, slots=True)
class Selector:
    """A series name with its conditions."""

    name: str
    matchers: tuple[Matcher, ...] = ()


def selectors_of(expr: str) -> list[Selector]:
    """Return every selector of an expression, in order."""
    return [
        Selector(one["name"], tuple(Matcher(*m) for m in _MATCHER.findall(one["conditions"] or "")))
        for one in _NAME.finditer(_CLAUSE.sub("", expr))
        if one["name"] and not _KEYWORD.fullmatch(one["name"])
    ]


def labels_of(expr: str) -> set[str]:
    """Return every label in the grouping and joining clauses of an expression."""
    return {label for clause in _CLAUSE.findall(expr) for label in re.findall(r"\w+", clause)}
