"""docs/questions.md: each question leads to one section that exists and says something."""

import re

from tests.docs.page_tables import DOCS
from tests.docs.test_links import anchors, links

PAGE = DOCS / "questions.md"
QUESTION = re.compile(r"^(\d+)\. (.+\?) \[[^\]]+\]\(([^)#]+)#([\w-]+)\)$", re.MULTILINE)
QUESTIONS = QUESTION.findall(PAGE.read_text())
# A section with fewer words answers nothing.
WORDS_MIN = 20
# Words that users type: each is in a question.
TYPED: tuple[str, ...] = (
    "latency",
    "HTTP/2",
    "nginx",
    "roll back",
    "Redis version",
    "delete",
    "model",
    "save",
)
TYPED += ("Cursor", "CA", "install", "Docker", "Kubernetes", "404", "health check", "encrypt")


def section(text: str, anchor: str) -> str:
    """Return the text below the heading with an anchor, subsections included."""
    headings = list(re.finditer(r"^(#+) (.+?) *$", text, re.MULTILINE))
    for at, heading in enumerate(headings):
        if re.sub(r"[^\w\- ]", "", heading[2].lower()).replace(" ", "-") == anchor:
            ends = (one.start() for one in headings[at + 1 :] if len(one[1]) <= len(heading[1]))
            return text[heading.end() : next(ends, len(text))]
    raise AssertionError(f"there is no #{anchor}")


def test_there_are_fifty_in_order() -> None:
    """Every line that begins with a number is a question with one link."""
    lines = re.findall(r"^\d+\. ", PAGE.read_text(), re.MULTILINE)
    assert [int(number) for number, *_ in QUESTIONS] == list(range(1, len(lines) + 1))
    assert len(QUESTIONS) >= 50
    assert len({question for _, question, *_ in QUESTIONS}) == len(QUESTIONS)


def test_each_answer_exists() -> None:
    """The anchor is that of a heading, and the section below it has an answer's length."""
    for _, question, path, anchor in QUESTIONS:
        page = (DOCS / path).resolve()
        assert anchor in anchors(page), question
        assert len(section(page.read_text(), anchor).split()) >= WORDS_MIN, question


def test_the_words_of_users_are_there() -> None:
    """A search on the page finds them."""
    asked = " ".join(question for _, question, *_ in QUESTIONS)
    assert [word for word in TYPED if word not in asked] == []


def test_each_page_for_users_answers_a_question() -> None:
    """A page that answers none is in the way, or a question is missing."""
    answering = {target for _, target, _ in links(PAGE)}
    pages = set(DOCS.glob("*.md")) - {PAGE, DOCS / "README.md", DOCS / "contributing.md"}
    more = {DOCS / f"{name}.md" for name in ("anthropic-messages", "inspector")}
    assert pages - answering == more
