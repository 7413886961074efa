"""Inspector page: one HTML document, which sends requests to its own origin only."""

import base64
import hashlib
import re
from functools import cache
from importlib import resources

from aiohttp import web

# Scripts of the page, in the order in which they run.
_SCRIPTS = ("words", "view", "strip", "rows", "list", "conversation", "details", "charts", "stream")
_INLINE = re.compile(rb"<(style|script)>(.*?)</\1>", re.DOTALL)


def page() -> web.Response:
    """Return the page; it contains no data of the proxy, so it needs no access check."""
    body, headers = _read()
    return web.Response(body=body, headers=headers)


@cache
def _read() -> tuple[bytes, dict[str, str]]:
    assets = resources.files(__package__).joinpath("assets")
    style = assets.joinpath("page.css").read_bytes()
    script = b"".join(assets.joinpath(f"{name}.js").read_bytes() for name in _SCRIPTS)
    body = assets.joinpath("page.html").read_bytes()
    body = body.replace(b"<style></style>", b"<style>\n%b</style>" % style)
    body = body.replace(b"<script></script>", b"<script>\n%b</script>" % script)
    # Only the page's own script and style may run; injected ones have another hash.
    hashes = {
        kind.decode(): base64.b64encode(hashlib.sha256(text).digest()).decode()
        for kind, text in _INLINE.findall(body)
    }
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src 'sha256-{hashes['script']}'",
            f"style-src 'sha256-{hashes['style']}'",
            "img-src data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )
    return body, {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",
        "Vary": "Accept",
    }
