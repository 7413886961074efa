"""Word list: words that make the text hard to read stay out of docs, docstrings and comments."""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# (pattern of a banned word, what to write)
BANNED = [
    (r"whom|whoever|whomever", "name the thing: the client, the caller, the upstream"),
    (r"nobody|somebody|anybody", "name the thing, or use the passive voice"),
    (r"he|him|his|she|her", "a program or a peer is 'it'"),
    (r"amid|amidst", "during, within"),
    (r"beside|besides", "next to, in parallel with; in addition, except"),
    (r"(?:of|with|by) (?:ours|theirs)", "our own; name the owner"),
    (r"what (?:came|comes)", "name it: the request, the bytes, the response"),
    (r"be it", "whether, even if"),
    (r"as a rule", "usually, or the number"),
    (r"ahead of", "before"),
    (r"behind", "after; behind only for a proxy or a gateway in front"),
    (r"(?:put|puts|putting) back", "inject"),
    (r"(?:give|gives|gave|given|giving) back", "inject, return"),
    (r"mend|mends|mended|mending", "repair, heal, fix"),
    (r"takes nothing", "does not read, does not accept"),
]
ALLOWED = re.compile(
    r"behind (?:an?|the|one|your|its|this|another|several) (?:\w+ ){0,2}"
    r"(?:proxy|proxies|gateway|load balancer|ingress|NAT|firewall)|go-ahead",
    re.IGNORECASE,
)
PATTERN = re.compile(
    "|".join(rf"(?P<w{number}>\b(?:{words})\b)" for number, (words, _) in enumerate(BANNED)),
    re.IGNORECASE,
)

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
PYTHON = [*ROOT.glob("proxy/**/*.py"), *ROOT.glob("tests/**/*.py")]
# Files that are checked as a whole.
TEXTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob(".github/**/*.*"),
    *(path for path in ROOT.glob("config/**/*") if path.is_file()),
    *(path for path in ROOT.glob("helm/**/*") if path.is_file()),
    *(path for path in ROOT.glob("examples/*") if path.is_file()),
    *(path for kind in ("html", "css", "js") for path in ROOT.glob(f"proxy/**/*.{kind}")),
    *(
        ROOT / name
        for name in (
            "Makefile",
            "Dockerfile",
            "pyproject.toml",
            ".ci/run",
            ".ci/lowest",
            ".ci/release",
        )
    ),
]


def prose(source: str, *, is_product: bool) -> Iterator[tuple[int, str]]:
    """
    Yield the line and the text of each docstring and each comment of a Python file.

    Args:
        source: The file.
        is_product: Yield all other strings as well: messages, help texts.
    """
    for node in ast.walk(ast.parse(source)):
        if is_product and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif not is_product and isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            yield node.body[0].lineno, ast.get_docstring(node, clean=False) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def found(texts: Iterator[tuple[int, str]]) -> list[str]:
    """Return one line for each banned word: its line number, the words around it, the advice."""
    faults = []
    for first, text in texts:
        cleared = ALLOWED.sub(lambda match: " " * len(match[0]), text)
        for match in PATTERN.finditer(cleared):
            line = first + text.count("\n", 0, match.start())
            around = " ".join(text[max(0, match.start() - 30) : match.end() + 20].split())
            assert match.lastgroup is not None
            advice = BANNED[int(match.lastgroup[1:])][1]
            faults.append(f"line {line}: … {around} …: write {advice}")
    return faults


def by_folder(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Return the files of each folder, of at most three levels."""
    folders: dict[str, list[Path]] = {}
    for path in paths:
        name = "/".join(path.relative_to(ROOT).parts[:-1][:3])
        folders.setdefault(name, []).append(path)
    return folders


@pytest.mark.parametrize(
    "paths", [pytest.param(paths, id=name) for name, paths in by_folder(PYTHON).items()]
)
def test_code_has_no_banned_word(paths: list[Path]) -> None:
    """Docstrings and comments, and in the product every other string."""
    faults = {
        path: found(prose(path.read_text(), is_product=path.is_relative_to(ROOT / "proxy")))
        for path in paths
        if path != Path(__file__)
    }
    assert {path: words for path, words in faults.items() if words} == {}


@pytest.mark.parametrize(
    "paths", [pytest.param(paths, id=name or ".") for name, paths in by_folder(TEXTS).items()]
)
def test_text_has_no_banned_word(paths: list[Path]) -> None:
    """Pages, examples, the chart and the build files, line by line."""
    faults = {path: found(iter([(1, path.read_text())])) for path in paths}
    assert {path: words for path, words in faults.items() if words} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Whoever reads too slowly loses what came amid the drain.", 3),
        ("The proxy runs behind a load balancer and behind your company gateway.", 0),
        ("It is sent behind its head.", 1),
        ("There, other, mental, herself, chisel: parts of words are no words.", 0),
    ],
)
def test_the_list_finds_words(text: str, count: int) -> None:
    """Whole words only, and not the one good sense of 'behind'."""
    assert len(found(iter([(1, text)]))) == count
