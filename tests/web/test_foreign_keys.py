"""Foreign keys: the key of another vendor is refused here, and sent nowhere."""

import json

import pytest
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.web.line import line_to, request

KEY = "sk-ant-hunter2"
# Nothing listens there, so that a request that is forwarded gets another error.
NOWHERE = {"upstream_proxy": "http://127.0.0.1:9", "upstream_url": "https://api.openai.com/v1"}


async def answer(target: str, **changed: object) -> tuple[int, str | None, dict[str, object]]:
    """Return status, header and body of the response to a request with the key of Anthropic."""
    given = {"listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0", "log_format": "json"}
    settings = Settings.model_validate(given | NOWHERE | changed)
    async with running(settings) as app, line_to(app.url) as line:
        got = await line.ask(request("POST", target, f"X-Api-Key: {KEY}", body=b"{}"))
    return got.status, got.mark, json.loads(got.body)


async def test_the_key_of_another_vendor_is_not_sent(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names both vendors and the way out, and neither it nor the log has the key."""
    status, mark, body = await answer("/v1/messages")
    assert (status, mark) == (400, "error=foreign_key")
    assert body["type"] == "error"  # the form of Anthropic's errors
    error = body["error"]
    assert isinstance(error, dict)
    assert (error["type"], error["code"]) == ("proxy_error", "foreign_key")
    for words in ("one of anthropic", "https://api.openai.com", "upstream_url", "not sent"):
        assert words in error["message"]
    logged = capsys.readouterr().out
    assert '"outcome":"foreign_key"' in logged
    assert "hunter2" not in logged + str(body)


async def test_every_path_is_guarded() -> None:
    """Any path would take the key along; other clients get the form of OpenAI's errors."""
    status, mark, body = await answer("/v1/embeddings")
    assert (status, mark) == (400, "error=foreign_key")
    assert set(body) == {"error"}


@pytest.mark.parametrize(
    "changed", [{"foreign_keys": "forward"}, {"mode": "off"}, {"mode": "shadow"}], ids=str
)
async def test_it_can_be_switched_off(changed: dict[str, object]) -> None:
    """The request is forwarded; the proxy on the way to the upstream is not there."""
    status, mark, _ = await answer("/v1/messages", **changed)
    assert (status, mark) == (502, "error=upstream_unreachable")
