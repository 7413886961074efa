"""Inspector page: one HTML file, which sends requests to its own origin only."""

import base64
import hashlib
import re
from functools import cache
from importlib import resources

from aiohttp import web

__all__ = ["page"]

_INLINE = re.compile(rb"<(style|script)>(.*?)</\1>", re.DOTALL)


def page() -> web.Response:
    """Return the page; it contains no data of the proxy, so it needs no access check."""
    body, headers = _read()
    return web.Response(body=body, headers=headers)


@cache
def _read() -> tuple[bytes, dict[str, str]]:
    body = resources.files(__package__).joinpath("page.html").read_bytes()
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
