"""Minimal PromQL reader: finds the series and labels that an expression names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Matcher", "Selector", "labels_of", "selectors_of"]

_TOKEN = re.compile(
    r"""
    (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<range>\[[^\]]*\])
    | (?P<number>[0-9][0-9a-zA-Z.]*)
    | (?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)
    | (?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^<>=(){},@])
    | (?P<space>\s+)
    """,
    re.VERBOSE,
)
# Keywords that are followed by a list of labels in parentheses.
_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = _LISTS | {"and", "or", "unless", "bool", "offset", "inf", "nan"}


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
    """Return every selector of an expression, in order; ValueError if it cannot be parsed."""
    tokens = list(_tokens(expr))
    found = []
    at = 0
    while at < len(tokens):
        kind, token = tokens[at]
        follows = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        at += 1
        if kind != "word":
            continue
        if token in _LISTS and follows == "(":
            at += 2 + len(list(_until(tokens, at + 1, ")")))
        elif token not in _WORDS and follows == "{":
            inside = list(_until(tokens, at + 1, "}"))
            found.append(Selector(token, tuple(_matchers(inside))))
            at += 1 + len(inside)
        elif token not in _WORDS and follows != "(" and not _is_aggregation(tokens, at):
            found.append(Selector(token))
    return found


def labels_of(expr: str) -> set[str]:
    """Return every label in the grouping and joining clauses of an expression."""
    tokens = list(_tokens(expr))
    return {
        word
        for at, (_, token) in enumerate(tokens)
        if token in _LISTS and tokens[at + 1][1] == "("
        for kind, word in _until(tokens, at + 1, ")")
        if kind == "word"
    }


def _tokens(expr: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(expr):
        match = _TOKEN.match(expr, at)
        if match is None:
            raise ValueError(f"{expr[at:]!r} of {expr!r} cannot be read")
        at = match.end()
        if match.lastgroup not in ("space", "range"):
            yield match.lastgroup or "", match[0]


def _until(tokens: list[tuple[str, str]], at: int, end: str) -> Iterator[tuple[str, str]]:
    for token in tokens[at:]:
        if token[1] == end:
            return
        yield token
    raise ValueError(f"there is no {end}")


def _matchers(tokens: list[tuple[str, str]]) -> Iterator[Matcher]:
    words = [token for _, token in tokens if token != ","]
    for label, sign, value in zip(*[iter(words)] * 3, strict=True):
        yield Matcher(label, sign, value[1:-1])


def _is_aggregation(tokens: list[tuple[str, str]], at: int) -> bool:
    return at < len(tokens) and tokens[at][1] in ("by", "without")
