"""docs/healing.md explains every refusal that the proxy heals, and every repair."""

import json
import re
from types import ModuleType

import pytest
from reasoning_replay.core.dialects.anthropic.heal import diagnosis as anthropic
from reasoning_replay.core.dialects.chat.heal import diagnosis as chat
from reasoning_replay.core.dialects.gemini.heal import diagnosis as gemini
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind, diagnose
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.unknown_words import or_form

from tests.docs.page_tables import rows_of, section_of

PAGE = section_of("healing.md")
SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
KINDS = [kind for kind in RefusalKind if kind is not RefusalKind.OTHER]


@pytest.mark.parametrize("repair", Repair)
def test_every_repair_is_named(repair: Repair) -> None:
    """Each repair has a row in the table."""
    assert f"\n| `{repair.value}` |" in PAGE


def test_other_refusals_are_named() -> None:
    """The page also explains the diagnosis `other`, which has no section."""
    assert "## Any other refusal" in PAGE


@pytest.mark.parametrize("kind", KINDS)
def test_every_refusal_has_a_section(kind: RefusalKind) -> None:
    """Each value of `healed` is a heading, and the table at the top links to it."""
    assert kind in SECTIONS
    assert f"[{kind}](#{kind})" in PAGE
    for part in ("*Cause:*", "*The proxy*", "*You:*"):
        assert part in SECTIONS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_the_messages_of_a_section_have_its_diagnosis(kind: RefusalKind) -> None:
    """The page quotes messages of upstreams that the proxy recognises."""
    messages = re.search(r"```text\n(.*?)```", SECTIONS[kind], re.DOTALL)
    assert messages is not None
    for message in messages[1].splitlines():
        body = json.dumps({"error": {"message": message}}).encode()
        assert or_form(diagnose(400, body), 400, body).kind is kind, message


@pytest.mark.parametrize(
    ("page", "heading", "dialect"),
    [
        ("healing.md", "## Refusals of Chat Completions", chat),
        ("anthropic-messages.md", "## Refusals", anthropic),
        ("gemini.md", "## Refusals", gemini),
    ],
    ids=["chat", "messages", "gemini"],
)
def test_the_messages_of_other_apis_have_their_diagnosis(
    page: str, heading: str, dialect: ModuleType
) -> None:
    """Each table has each word of its API, with messages that the proxy recognises."""
    rows = {row[0].strip("`"): row[1] for row in rows_of(page, heading)}
    assert set(rows) == set(dialect.RefusalKind) - {dialect.RefusalKind.OTHER}
    for word, told in rows.items():
        messages = re.findall(r"(`+)(.+?)\1", told)
        assert messages
        for _, message in messages:
            body = json.dumps({"error": {"message": message.strip()}}).encode()
            assert or_form(dialect.diagnose(400, body), 400, body).kind == word, message


def test_every_section_is_a_refusal() -> None:
    """The page has no section for a diagnosis that does not exist."""
    words = {heading for heading in SECTIONS if re.fullmatch("[a-z_]+", heading)}

    assert words == set(KINDS)
