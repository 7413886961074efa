"""Foreign keys: only a key that a known host certainly refuses is one."""

import pytest
from reasoning_replay.core.dialects.foreign_keys import ForeignKeys

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"


@pytest.mark.parametrize(
    ("upstream_url", "headers", "issuer"),
    [
        pytest.param(OPENAI, {"x-api-key": "sk-ant-a"}, "anthropic", id="anthropic-to-openai"),
        pytest.param(OPENAI, {"authorization": "Bearer sk-ant-a"}, "anthropic", id="as-a-bearer"),
        pytest.param(OPENAI, {"authorization": "sk-or-v1-a"}, "openrouter", id="without-a-scheme"),
        pytest.param(ANTHROPIC, {"x-api-key": "sk-proj-a"}, "openai", id="openai-to-anthropic"),
        pytest.param("https://api.deepseek.com/v1", {"authorization": "Bearer sk-ant-a"}, "anthropic", id="host-without-a-prefix"),  # noqa: E501
        pytest.param(OPENAI, {"authorization": "Bearer xai-a", "x-api-key": "sk-ant-a"}, "xai", id="all-foreign"),  # noqa: E501
        pytest.param(OPENAI, {"authorization": "Bearer sk-proj-a"}, "", id="its-own"),
        pytest.param(OPENAI, {"authorization": "Bearer sk-a"}, "", id="of-anybody"),
        pytest.param(OPENAI, {"authorization": "Bearer eyJ.a.b"}, "", id="token"),
        pytest.param(OPENAI, {}, "", id="no-key"),
        pytest.param(OPENAI, {"authorization": "Bearer sk-a", "x-api-key": "sk-ant-a"}, "", id="one-may-fit"),  # noqa: E501
        pytest.param("https://ai-gateway.vercel.sh/v1", {"authorization": "Bearer sk-ant-oat01-a"}, "", id="gateway-that-passes-keys-on"),  # noqa: E501
        pytest.param("https://openrouter.ai/api/v1", {"authorization": "Bearer sk-ant-a"}, "", id="another-gateway"),  # noqa: E501
        pytest.param("https://gateway.example/v1", {"x-api-key": "sk-ant-a"}, "", id="unknown-host"),  # noqa: E501
        pytest.param("http://127.0.0.1:11434/v1", {"x-api-key": "sk-ant-a"}, "", id="local-server"),
    ],
)  # fmt: skip
def test_the_issuer_of_a_foreign_key(
    upstream_url: str, headers: dict[str, str], issuer: str
) -> None:
    """A key is foreign if no credential of its request may be one of the host's own."""
    assert ForeignKeys(upstream_url).issuer_of(headers) == issuer
