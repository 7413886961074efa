"""Vendors: the version in the base path of an API."""

import pytest
from reasoning_replay.core.dialects.vendors import version_in


@pytest.mark.parametrize(
    ("url", "version"),
    [
        ("https://generativelanguage.googleapis.com/v1beta", "/v1beta"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "/v1beta"),
        ("https://api.openai.com/v1", "/v1"),
        ("https://aiplatform.googleapis.com/v1/projects/p/publishers/google", ""),
        ("https://gateway.example/gemini/v1beta", ""),
        ("https://gateway.example/video1", ""),
        ("https://gateway.example", ""),
    ],
)
def test_a_base_path_may_be_a_version_and_nothing_else(url: str, version: str) -> None:
    """Google's own clients name the version, so theirs can take its place."""
    assert version_in(url) == version
