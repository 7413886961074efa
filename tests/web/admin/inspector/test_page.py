"""Inspector page: served to browsers, with no more permission than it needs."""

import base64
import hashlib
import json
import re

from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.web.admin.inspector.page import page

from tests.web.line import line_to, request
from tests.web.world import World, world

HTML = "Accept: text/html,application/xhtml+xml,*/*;q=0.8"


async def asked(w: World, target: str, *headers: str) -> tuple[int, dict[str, str], bytes]:
    """Request a path of the admin port."""
    async with line_to(w.app.admin_url) as line:
        got = await line.ask(request("GET", target, *headers))
    return got.status, {name.lower(): value for name, value in got.head.headers}, got.body


async def test_browsers_get_the_page_and_other_clients_the_paths() -> None:
    """Browsers get the page, which has no data and needs no token; other clients get the paths."""
    async with world(admin_token="secret") as w:
        status, headers, body = await asked(w, "/", HTML)
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert body.startswith(b"<!doctype html>")
        for accept in ("Accept: */*", "Accept: application/json"):
            status, headers, body = await asked(w, "/", accept)
            assert (status, headers["vary"]) == (200, "Accept")
            assert json.loads(body) == {
                "paths": [
                    *("/", "/livez", "/readyz", "/metrics", "/conversations"),
                    *("/conversations/count", "DELETE /conversations/{id}"),
                    *("POST /scopes", "DELETE /scopes/{scope}", "/inspector/events"),
                    "/inspector/exchanges",
                ]
            }


async def test_only_the_code_of_the_page_runs() -> None:
    """By its hash; it connects to its own origin only, and no other page may frame it."""
    async with world() as w:
        _, headers, body = await asked(w, "/", HTML)
    policy = dict(
        part.partition(" ")[::2] for part in headers["content-security-policy"].split("; ")
    )
    for tag in ("script", "style"):
        (inside,) = re.findall(rb"<%s>(.*?)</%s>" % (tag.encode(), tag.encode()), body, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside).digest()).decode()
        assert policy.pop(f"{tag}-src") == f"'sha256-{digest}'"
    assert policy == {
        "default-src": "'none'",
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_the_page_is_small_and_loads_nothing() -> None:
    """The page is small, has no external address, and no event handler in its markup."""
    body = page().body
    assert isinstance(body, bytes)
    text = body.decode()
    assert len(text) < 81_000
    assert not re.findall(r"(?:src|href)=\"(?!data:)", text)
    assert not re.findall(r"<[^>]*\son\w+=", text)
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)\w", text)
    for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert unsafe not in text


def test_the_page_explains_each_outcome() -> None:
    """The ones that a reader may ask about: all but those that are right."""
    body = page().body
    assert isinstance(body, bytes)
    for outcome in set(Outcome) - {Outcome.INJECTED, Outcome.PRESENT}:
        assert f'  {outcome}: "'.encode() in body
