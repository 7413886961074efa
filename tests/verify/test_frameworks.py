"""The newest frameworks for Gemini keep all reasoning, as `verify` finds, straight and through."""

from pathlib import Path

import pytest

from tests.docs.client_table import KEEPERS
from tests.fast_lane import slow
from tests.image.installing import environment, pip
from tests.verify.conftest import Verified


@slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("client", "packages"),
    [
        ("langchain_gemini.py", ["langchain", "langchain-google-genai"]),
        ("pydantic_ai_gemini.py", ["pydantic-ai-slim[google]"]),
    ],
)
def test_a_framework_for_gemini(
    verified: Verified, tmp_path: Path, client: str, packages: list[str]
) -> None:
    """Two questions with tool calls; without a package index the test skips."""
    python = environment(tmp_path) / "bin" / "python"
    pip("--python", python, "install", *packages)
    code, printed, _ = verified("--through-proxy", "--", python, KEEPERS / client)
    assert code == 0
    assert printed.count("Whole: reasoning came back each of 15 times") == 2
