"""Valid settings that are probably a mistake get a warning with the way out."""

from typing import Any

import pytest
from pydantic import SecretStr
from reasoning_replay.check.local import of_clients, of_settings
from reasoning_replay.core.dialects.registry import REPLAYED_PATHS
from reasoning_replay.settings.model import Settings
from reasoning_replay.web import wiring

from tests.certificates import certificates
from tests.check.reports import found

LONG = SecretStr("hunter2" * 3)
SHARED = {
    "store_url": "unix:///nowhere",
    "scope_secret": LONG,
    "encryption_keys": SecretStr("a:hunter2"),
}


async def warned(settings: Settings, **changed: object) -> list[str]:
    """Return the findings except the first, which says that the settings are valid."""
    first, *rest = await found(of_settings(settings.model_copy(update=changed)))
    assert first.startswith("ok: valid: mode ")
    return rest


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"upstream_profile": "azure", "upstream_url": "http://localhost/openai/v1"}, id="profile"),  # noqa: E501
        pytest.param({"upstream_profile": "auto", "upstream_url": "https://api.openai.com/v1"}, id="known-by-the-host"),  # noqa: E501
        pytest.param({"upstream_profile": "auto", "upstream_url": "https://chatgpt.com/backend-api/codex"}, id="chatgpt"),  # noqa: E501
        pytest.param({"upstream_profile": "auto", "upstream_url": "https://api.anthropic.com/v1"}, id="anthropic"),  # noqa: E501
        pytest.param({"upstream_profile": "auto", "upstream_url": "https://api.deepseek.com/anthropic/v1"}, id="other-base-of-another-api"),  # noqa: E501
        pytest.param(SHARED, id="shared-store"),
        pytest.param({"admin_listen": "0.0.0.0:0", "admin_token": LONG}, id="open-with-a-token"),
        pytest.param({"upstream_url": "https://gateway.example/anything"}, id="generic-by-name"),
        pytest.param({"scope_from": "claims:tid+oid"}, id="claims"),
    ],
)  # fmt: skip
async def test_what_is_well_is_not_warned_of(settings: Settings, changed: dict[str, Any]) -> None:
    """Reasonable settings give one line and no warning."""
    assert await warned(settings, **changed) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"mode": "off"}, ["mode is off: nothing is captured"], id="off"),
        pytest.param({"mode": "shadow"}, ["mode is shadow: no request is changed"], id="shadow"),
        pytest.param({"upstream_profile": "auto"}, ["host 127.0.0.1", "profile generic", "set upstream_profile to vllm"], id="unknown-host"),  # noqa: E501
        pytest.param({"upstream_profile": "vllm", "upstream_url": "https://api.openai.com/v1"}, ["upstream_profile is vllm", "known as openai", "set it to auto"], id="wrong-profile"),  # noqa: E501
        pytest.param({"upstream_profile": "auto", "upstream_url": "https://api.openai.com"}, ['has the path "/"', 'of openai is at "/v1"'], id="no-version"),  # noqa: E501
        pytest.param({"upstream_profile": "auto", "upstream_url": "https://api.anthropic.com"}, ['of anthropic is at "/v1"'], id="anthropic-without-v1"),  # noqa: E501
        pytest.param({"upstream_url": "https://gateway.example/v1/messages"}, ['ends in "/messages"', "remove that"], id="messages"),  # noqa: E501
        pytest.param({"upstream_profile": "auto", "upstream_url": "https://x.openai.azure.com/openai"}, ['of azure is at "/openai/v1"'], id="azure-without-v1"),  # noqa: E501
        pytest.param({"upstream_profile": "auto", "upstream_url": "https://openrouter.ai/v1"}, ['of openrouter is at "/api/v1"'], id="openrouter-without-api"),  # noqa: E501
        pytest.param({"upstream_url": "https://gateway.example/v1/chat/completions"}, ['ends in "/chat/completions"', "remove that"], id="another-api"),  # noqa: E501
        pytest.param({"upstream_url": "https://gateway.example"}, ["upstream_url has no path"], id="no-path"),  # noqa: E501
        pytest.param({**SHARED, "scope_secret": SecretStr("")}, ["scope_secret is empty", "REPLAY_SCOPE_SECRET"], id="no-scope-secret"),  # noqa: E501
        pytest.param({**SHARED, "encryption_keys": SecretStr("")}, ["encryption_keys is empty"], id="not-encrypted"),  # noqa: E501
        pytest.param({"admin_listen": "0.0.0.0:9090"}, ["admin_listen 0.0.0.0:9090 is open", "admin_token is empty"], id="open-admin-port"),  # noqa: E501
        pytest.param({"upstream_url": "http://gateway.example/v1"}, ["in clear text"], id="no-tls"),
        pytest.param({"store_password": SecretStr("hunter2")}, ["store_url is memory://", "REPLAY_STORE_URL missing?"], id="password-without-redis"),  # noqa: E501
        pytest.param({"upstream_profile": "auto", "upstream_url": "https://api.deepseek.com", "prompt_cache_key": "conversation"}, ["prompt_cache_key has no effect: deepseek", "set upstream_profile"], id="no-cache-key"),  # noqa: E501
        pytest.param({"upstream_profile": "auto", "upstream_url": "https://api.deepseek.com", "cache_diagnosis": "on"}, ["cache_diagnosis has no effect: deepseek"], id="no-cache-diagnosis"),  # noqa: E501
        pytest.param({"store_max_bytes": 1000}, ["store_max_bytes 1kB is less than one conversation", "raise it"], id="no-memory"),  # noqa: E501
        pytest.param({"scope_from": "claims:tid"}, ["all users of one directory share", "claims:tid+oid"], id="claims-of-all"),  # noqa: E501
        pytest.param({"admin_token": SecretStr("hunter2")}, ["admin_token has fewer than 16 characters", "openssl"], id="short-token"),  # noqa: E501
        pytest.param({**SHARED, "scope_secret": SecretStr("hunter2")}, ["scope_secret has fewer than 16"], id="short-secret"),  # noqa: E501
        pytest.param({"inspect_total_max_bytes": 1000}, ["inspect_max_bytes 64MiB is more than", "raise that"], id="no-room"),  # noqa: E501
        pytest.param({"drain_s": 3.0}, ["drain_grace_s 5s is part of drain_s 3s", "raise drain_s"], id="no-drain"),  # noqa: E501
        pytest.param({"read_timeout_s": 20.0}, ["read_timeout_s 20s is short"], id="impatient"),
    ],
)  # fmt: skip
async def test_what_surprises_is_warned_of(
    settings: Settings, changed: dict[str, Any], words: list[str]
) -> None:
    """A probable mistake gives one warning, which names the setting."""
    (line,) = await warned(settings, **changed)
    assert line.startswith("warning: ")
    assert "hunter2" not in line
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"listen": "127.0.0.1:8080"}, ("http://127.0.0.1:8080", ""), id="default"),
        pytest.param({"listen": "[::1]:8080"}, ("http://[::1]:8080", ""), id="ipv6"),
        pytest.param({"listen": "127.0.0.1:0"}, ("http://127.0.0.1:<port>", ""), id="any-port"),
        pytest.param({"listen": "0.0.0.0:80"}, ("http://127.0.0.1:80", " (or the name of this machine)"), id="every-interface"),  # noqa: E501
        pytest.param({"tls_cert_file": "c.pem"}, ("https://127.0.0.1:<port>", ""), id="tls"),
    ],
)  # fmt: skip
async def test_clients_are_told_their_base_url(
    settings: Settings, changed: dict[str, Any], words: tuple[str, str]
) -> None:
    """One line for each sort of client has its base URL, and the paths with reasoning."""
    url, more = words
    openai, anthropic, google, _ = await found(of_clients(settings.model_copy(update=changed)))
    assert openai.startswith(f"ok: OPENAI_BASE_URL={url}/v1{more} for POST …/responses, ")
    assert anthropic.startswith(f"ok: ANTHROPIC_BASE_URL={url}{more} for POST …/messages, ")
    assert google.startswith(f"ok: GOOGLE_GEMINI_BASE_URL={url}{more} for POST …/models/")
    assert all(path in openai + anthropic + google for path in REPLAYED_PATHS)


@pytest.mark.parametrize(
    ("upstream_url", "absent", "remedy"),
    [
        ("https://api.openai.com/v1", "ANTHROPIC_BASE_URL", "api.openai.com has no Messages API: for that, name another upstream in `upstreams`, with the url https://api.anthropic.com/v1"),  # noqa: E501
        ("https://api.anthropic.com/v1", "POST …/responses", "api.anthropic.com has no Responses API: for that, name another upstream in `upstreams`, with the url https://api.openai.com/v1"),  # noqa: E501
        ("https://api.deepseek.com", "POST …/messages", "another path: set ANTHROPIC_BASE_URL to http://<this proxy>/anthropic"),  # noqa: E501
        ("https://api.minimax.io/anthropic/v1", "POST …/chat", "another path: set upstream_url to https://api.minimax.io/v1"),
    ],
)  # fmt: skip
async def test_an_api_that_the_upstream_lacks_is_named(
    settings: Settings, upstream_url: str, absent: str, remedy: str
) -> None:
    """No base URL is offered for it; one line says what to run instead."""
    changed = settings.model_copy(update={"upstream_url": upstream_url})
    lines = await found(of_clients(changed))
    assert not any(absent in line for line in lines)
    assert any(remedy in line for line in lines)


async def test_too_few_open_files_are_told(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of open files below max_connections gives a warning."""
    monkeypatch.setattr(wiring, "raise_file_limit", lambda: 1024)
    (line,) = await warned(settings)
    assert line.startswith("warning: max_connections is 4096, but only 416 are possible")
    assert "raise ulimit -n" in line


async def test_a_certificate_without_its_key_is_a_problem(settings: Settings) -> None:
    """A certificate with the key of another certificate is a problem."""
    with certificates() as one, certificates() as other:
        pair = {"tls_cert_file": str(one.server_pem), "tls_key_file": str(other.server_pem)}
        (line,) = await warned(settings, **pair)
    assert line.startswith("problem: ")
