"""
Raw cases: requests and responses, byte for byte, and the few that the proxy treats in its own way.

Each row is played straight and through the proxy. A row that differs names the row of the table in
docs/security.md that says so.
"""

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["TABLES", "Case"]

OK = b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\nok"
SIZED = b"Content-Length: 3\r\n\r\nabc"
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
LARGE = b"x" * (5 << 20)


class Case(NamedTuple):
    """
    One exchange.

    Attributes:
        request: Bytes of the client.
        answer: Bytes of the upstream.
        row: First cell of the row in the table of deviations; "" if nothing differs.
        refused: Status of the proxy's own answer in place of the upstream's; 0: none.
        loses: Header fields that the other side does not get, as lines in lower case.
        gains: Header fields that the upstream gets in addition, likewise.
        ends: Whether the upstream closes after its answer.
    """

    request: bytes
    answer: bytes = OK
    row: str = ""
    refused: int = 0
    loses: tuple[bytes, ...] = ()
    gains: tuple[bytes, ...] = ()
    ends: bool = False


def get(
    *fields: bytes, target: bytes = b"/v1/models", method: bytes = b"GET", version: bytes = b"1.1"
) -> bytes:
    """Return a request without a body."""
    line = b"%b %b HTTP/%b" % (method, target, version)
    return b"\r\n".join([line, b"Host: x", *fields, b"", b""])


def post(rest: bytes, *fields: bytes, method: bytes = b"POST") -> bytes:
    """Return a request; `rest` has its framing and its body."""
    return get(*fields, target=b"/v1/files", method=method)[:-2] + rest


def said(*fields: bytes, status: bytes = b"200 OK", body: bytes = b"ok") -> bytes:
    """Return a response with its length."""
    return said_raw(*fields, b"Content-Length: %d" % len(body), status=status) + body


def said_raw(*fields: bytes, status: bytes = b"200 OK") -> bytes:
    """Return the head of a response."""
    return b"\r\n".join([b"HTTP/1.1 " + status, *fields, b"", b""])


# --- requests ---

_METHODS = b"GET HEAD OPTIONS DELETE POST PUT PATCH TRACE PROPFIND REPORT SEARCH PURGE M-SEARCH"
_BODIES = {
    "none": b"\r\n",
    "length-0": b"Content-Length: 0\r\n\r\n",
    "length": SIZED,
    "chunked": CHUNKS,
    "chunked-empty": b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked-byte-by-byte": b"Transfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"1\r\n%c\r\n" % byte for byte in b"abc")
    + b"0\r\n\r\n",
}
METHODS = {
    f"{method.decode()}-{name}": Case(
        post(rest, method=method),
        row="Length of 0" if name == "none" and method in b"POST PUT PATCH".split() else "",
        gains=(b"content-length: 0",)
        if name == "none" and method in b"POST PUT PATCH".split()
        else (),
    )
    for method in _METHODS.split()
    for name, rest in _BODIES.items()
}
BODIES = {
    "5-MB": Case(post(b"Content-Length: %d\r\n\r\n" % len(LARGE) + LARGE)),
    "5-MB-chunked": Case(
        post(b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(LARGE), LARGE))
    ),
    "gzip": Case(post(SIZED, b"Content-Encoding: gzip")),
    "multipart": Case(post(SIZED, b'Content-Type: multipart/form-data; boundary="a b"')),
    "type-without-a-body": Case(post(b"\r\n", b"Content-Type: application/json", method=b"DELETE")),
    "length-with-zeros": Case(post(b"Content-Length: 003\r\n\r\nabc")),
    "chunk-extension": Case(
        post(b'Transfer-Encoding: chunked\r\n\r\n3;a=b;c="d"\r\nabc\r\n0\r\n\r\n'),
        row="Chunk extensions, trailers",
    ),
    "trailer": Case(
        post(b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: 1\r\n\r\n"),
        row="Chunk extensions, trailers",
    ),
    "chunked-in-capitals": Case(post(CHUNKS.replace(b"chunked", b"CHUNKED"))),
    "unknown-expectation": Case(post(SIZED, b"Expect: x"), row="`Expect`", loses=(b"expect: x",)),
}
_TARGETS = (
    b"/v1/models/ /v1//models /v1/models// /v1/a%2Fb /v1/a%3Ab /v1/a%00 /v1/a%zz /v1/%c3%a9 "
    b"/v1/./a /v1/../a /v1/a/.. /v1/a\\b /v1/[a] /v1/'a' /v1/\"a\" /v1/<a> /v1/{a} /v1/a|b /v1/a^b "
    b"/v1/`a` /v1/@a /v1/a@b:1 /v1/a;b=c /v1/a,b /v1/a=b /v1/~a /v1/%7Ea /v1/a+b /v1/$a /v1/a! "
    b"/v1/a? /v1/a?? /v1/a?b=c&b=d /v1/a?b=%20+c /v1/a?/../ /v1/a?b[]=1 /v1?a=b /v1 / /a /a/b?c "
    b"/v1beta/a /v10/a //a /v1/a:b /v1/a?b=%7E+%20[]|{}&&=&; /v1/a~b/:c/@d/$&'()*+,;= /v1/a?b%e9 "
    b"/a/./b/../c//d/ /v1/a?b?c=/d"
)
TARGETS = {target.decode(): Case(get(target=target)) for target in _TARGETS.split()} | {
    "30-kB": Case(get(target=b"/v1/a?" + b"q" * 30_000)),
    "raw-utf-8": Case(get(target=b"/v1/\xc3\xa9"), row="Target", refused=400),
    "fragment": Case(get(target=b"/v1/a#b"), row="Target", refused=400),
    "absolute": Case(get(target=b"http://x/v1/a"), row="Target", refused=400),
    "asterisk": Case(get(target=b"*", method=b"OPTIONS"), row="Target", refused=400),
    "authority": Case(get(target=b"x:443", method=b"CONNECT"), row="Target", refused=400),
}
_FIELDS = (
    b"X: y",
    b"x-lower: Y",
    b"X-UPPER: y",
    b"X:",
    b"X:y",
    b"X: a  b",
    b"X: \xc3\xa9",
    b"X: \xe9",
    b"X: \x80\xff",
    b"X: a\tb",
    b"X: " + b"y" * 30_000,
    b"X_Y: z",
    b"X.Y: z",
    b"!#$%&'*+-.^_`|~: z",
    b"1: 2",
    b"Cookie: a=b; c=d",
    b"Cookie: a=b\r\nCookie: c=d",
    b"X: 1\r\nY: 2\r\nX: 3",
    b"X: 1\r\nx: 2",
    b"Accept: */*",
    b"Accept-Encoding: gzip, br",
    b"User-Agent: a/1 (b)",
    b"Authorization: Basic YTpi",
    b"Authorization: Bearer sk-a",
    b"Content-Type: application/json",
    b"Via: 1.1 a",
    b"Forwarded: for=1.2.3.4",
    b"X-Forwarded-For: 1.2.3.4",
    b"Range: bytes=0-1",
    b'If-None-Match: "a", W/"b"',
    b"If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT",
    b'If-Range: "a"',
    b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    b"Origin: https://a.example",
    b"Max-Forwards: 3",
    b"Cache-Control: no-cache",
    b"Pragma: no-cache",
    b"Date: Sat, 01 Jan 2000 00:00:00 GMT",
    b"From: a@b.example",
    b"HTTP2-Settings: AAMAAABk",
    b"X-Request-ID: a",
    b"OpenAI-Organization: o",
)
REQUEST_HEADERS = {field[:40].decode("latin-1"): Case(get(field)) for field in _FIELDS} | {
    "100-fields": Case(get(*(b"X-%d: y" % number for number in range(100)))),
    "130-fields": Case(
        get(*(b"X-%d: y" % number for number in range(130))), row="Size of a head", refused=431
    ),
    "70-kB": Case(get(b"X: " + b"y" * 70_000), row="Size of a head", refused=431),
    "hop-by-hop": Case(
        get(b"Connection: X, keep-alive", b"X: y", b"Keep-Alive: 5", b"TE: gzip", b"Y: z"),
        row="Hop-by-hop headers",
        loses=(b"connection: x, keep-alive", b"x: y", b"keep-alive: 5", b"te: gzip"),
    ),
    "proxy-authorization": Case(
        get(b"Proxy-Authorization: Basic YTpi", b"Proxy-Connection: keep-alive"),
        row="Hop-by-hop headers",
        loses=(b"proxy-authorization: basic ytpi", b"proxy-connection: keep-alive"),
    ),
    "upgrade": Case(
        get(b"Connection: Upgrade", b"Upgrade: h2c"),
        row="Hop-by-hop headers",
        loses=(b"connection: upgrade", b"upgrade: h2c"),
    ),
}
REFUSED = {
    "coding-gzip": Case(
        post(CHUNKS.replace(b"chunked", b"gzip, chunked")), row="Transfer coding", refused=501
    ),
    "coding-empty-element": Case(
        post(CHUNKS.replace(b"chunked", b", chunked")), row="Transfer coding", refused=501
    ),
    "length-and-coding": Case(
        post(b"Content-Length: 3\r\n" + CHUNKS), row="Two framings", refused=400
    ),
    "length-twice": Case(post(b"Content-Length: 3\r\n" + SIZED), row="Two framings", refused=400),
    "length-list": Case(post(b"Content-Length: 3, 3\r\n\r\nabc"), row="Two framings", refused=400),
    "folded": Case(get(b"A: b\r\n c"), row="Folded headers", refused=400),
    "bare-lf": Case(get().replace(b"\r\n", b"\n"), row="Line ends", refused=400),
    "nul": Case(get(b"A: b\0"), row="Line ends", refused=400),
    "two-hosts": Case(get(b"Host: y"), row="Line ends", refused=400),
    "space-before-colon": Case(get(b"A : b"), row="Line ends", refused=400),
    "version-2.0": Case(get(version=b"2.0"), row="Version", refused=505),
    "version-1.2": Case(get(version=b"1.2"), row="Version", refused=505),
    "method-BREW": Case(get(method=b"BREW"), row="Method", refused=501),
    "method-post": Case(get(method=b"post"), row="Method", refused=501),
    "method-QUERYX": Case(get(method=b"QUERYX"), row="Method", refused=501),
}

# --- responses ---

_STATUSES = (
    b"200 OK,200 ,200 Everything is fine,200 caf\xc3\xa9,200 caf\xe9,201 Created,202 Accepted,"
    b"203 N,205 R,206 P,207 M,226 I,299 X,300 M,301 M,302 F,303 S,307 T,308 P,400 B,401 U,402 P,"
    b"403 F,404 N,405 M,408 T,409 C,410 G,413 L,415 U,418 T,421 M,422 U,425 E,426 U,429 T,431 L,"
    b"451 U,499 C,500 I,501 N,502 B,503 S,504 G,505 V,507 I,511 N,520 U,529 O,599 N,600 X,999 Z"
)
STATUSES = {
    status.decode("latin-1"): Case(get(), said(b"Location: /a?b=%7E", status=status))
    for status in _STATUSES.split(b",")
} | {
    "long-reason": Case(get(), said(status=b"200 " + b"r" * 5000)),
    "no-space": Case(get(), said(status=b"200"), row="Reason phrase"),
    "204": Case(get(), said_raw(b"A: b", status=b"204 No Content")),
    "204-length": Case(
        get(),
        said_raw(b"Content-Length: 0", status=b"204 No Content"),
        row="Length of a 204",
        loses=(b"content-length: 0",),
    ),
    "304": Case(get(), said_raw(b"ETag: a", status=b"304 Not Modified")),
    "304-length": Case(get(), said_raw(b"Content-Length: 9", status=b"304 Not Modified")),
    "102": Case(get(), said_raw(b"A: b", status=b"102 Processing") + OK),
    "103": Case(get(), said_raw(b"Link: </a>; rel=preload", status=b"103 Early Hints") + OK),
    "103-twice": Case(get(), said_raw(b"Link: </a>", status=b"103 Early Hints") * 2 + OK),
    "100": Case(get(), said_raw(status=b"100 Continue") + OK, row="`100 Continue`"),
    "000": Case(get(), said(status=b"000 X"), row="Status", refused=502),
    "099": Case(get(), said(status=b"099 X"), row="Status", refused=502),
    "150-with-a-body": Case(get(), said(status=b"150 X") + OK, row="Status", refused=502),
    "101": Case(
        get(),
        said_raw(b"Connection: upgrade", b"Upgrade: x", status=b"101 S"),
        row="Status",
        refused=502,
    ),
}
_ANSWERED = (
    b"X: y",
    b"x-lower: Y",
    b"X-UPPER: y",
    b"X:",
    b"X:y",
    b"X: a  b",
    b"X: \xc3\xa9",
    b"X: \xe9",
    b"X: \x80\xff",
    b"X_Y: z",
    b"Set-Cookie: a=b\r\nset-cookie: c=d; Path=/",
    b"X: 1\r\nY: 2\r\nX: 3",
    b"Content-Type: application/json",
    b"Content-Encoding: gzip",
    b"Content-Range: bytes 0-1/9",
    b"Accept-Ranges: bytes",
    b"Vary: *",
    b'ETag: W/"a"',
    b"Server: a",
    b"Date: Sat, 01 Jan 2000 00:00:00 GMT",
    b"Via: 1.1 a",
    b"Retry-After: 5",
    b"retry-after-ms: 5",
    b"WWW-Authenticate: Bearer",
    b"Access-Control-Allow-Origin: *",
    b"x-request-id: req_1",
    b"X: " + b"y" * 60_000,
)
RESPONSE_HEADERS = {
    field[:40].decode("latin-1"): Case(get(), said(field)) for field in _ANSWERED
} | {
    "130-fields": Case(get(), said(*(b"X-%d: y" % number for number in range(130)))),
    "70-kB": Case(get(), said(b"X: " + b"y" * 70_000), row="Size of a head", refused=502),
    "hop-by-hop": Case(
        get(),
        said(b"Connection: X", b"X: y", b"Keep-Alive: timeout=5", b"Proxy-Authenticate: a"),
        row="Hop-by-hop headers",
        loses=(b"connection: x", b"x: y", b"keep-alive: timeout=5", b"proxy-authenticate: a"),
    ),
    "folded": Case(get(), said(b"A: b\r\n c"), row="Folded headers", refused=502),
    "nul": Case(get(), said(b"A: b\0"), row="Line ends", refused=502),
}
_CHUNKED = said_raw(b"A: b", b"Transfer-Encoding: chunked")
FRAMINGS = {
    "length-0": Case(get(), said(body=b"")),
    "length": Case(get(), said(body=bytes(range(256)))),
    "length-5-MB": Case(get(), said(body=LARGE)),
    "chunked": Case(get(), _CHUNKED + b"3\r\nabc\r\n0\r\n\r\n"),
    "chunked-empty": Case(get(), _CHUNKED + b"0\r\n\r\n"),
    "chunked-several": Case(get(), _CHUNKED + b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"),
    "stream-odd": Case(get(), _CHUNKED + b"a\r\n\xef\xbb\xbfdata:\r\r\r\n2\r\n\xff\n\r\n0\r\n\r\n"),
    "chunk-extension": Case(
        get(), _CHUNKED + b"3;a=b\r\nabc\r\n0\r\n\r\n", row="Chunk extensions, trailers"
    ),
    "trailer": Case(
        get(), _CHUNKED + b"3\r\nabc\r\n0\r\nT: 1\r\n\r\n", row="Chunk extensions, trailers"
    ),
    "to-its-end": Case(get(), said_raw(b"A: b") + b"abc", ends=True),
    "identity": Case(get(), said_raw(b"Transfer-Encoding: identity") + b"abc", ends=True),
    "identity-and-length": Case(
        get(), said(b"Transfer-Encoding: identity"), row="Length next to a transfer coding"
    ),
    "chunked-and-length": Case(
        get(),
        said_raw(b"Transfer-Encoding: chunked", b"Content-Length: 9") + b"3\r\nabc\r\n0\r\n\r\n",
        row="Length next to a transfer coding",
        loses=(b"content-length: 9",),
    ),
    "coding-gzip": Case(
        get(), said_raw(b"Transfer-Encoding: gzip"), row="Transfer coding", refused=502, ends=True
    ),
    "length-twice": Case(get(), said(b"Content-Length: 2"), row="Two framings", refused=502),
    "length-list": Case(
        get(), said_raw(b"Content-Length: 2, 2") + b"ok", row="Two framings", refused=502
    ),
    "cut-in-length": Case(get(), said_raw(b"Content-Length: 9") + b"abc", ends=True),
    "cut-in-chunk": Case(get(), _CHUNKED + b"9\r\nabc", ends=True),
    "cut-before-the-last-chunk": Case(get(), _CHUNKED + b"3\r\nabc\r\n", ends=True),
    "head-length": Case(get(method=b"HEAD"), said_raw(b"Content-Length: 9")),
    "head-none": Case(get(method=b"HEAD"), said_raw(b"A: b")),
    "version-1.0": Case(get(), OK.replace(b"/1.1", b"/1.0", 1), row="Version"),
    "version-1.2": Case(get(), OK.replace(b"/1.1", b"/1.2", 1), row="Version"),
    "version-2.0": Case(get(), OK.replace(b"/1.1", b"/2.0", 1), row="Version", refused=502),
    "for-1.0": Case(get(version=b"1.0"), OK, row="Version"),
    "for-1.0-kept": Case(
        get(b"Connection: keep-alive", version=b"1.0"),
        OK,
        row="Version",
        loses=(b"connection: keep-alive",),
    ),
    "nothing": Case(get(), b"", row="Status", refused=502, ends=True),
    "garbage": Case(get(), b"\x00\x01\r\n\r\n", row="Status", refused=502, ends=True),
}

TABLES: Mapping[str, Mapping[str, Case]] = {
    "methods": METHODS,
    "bodies": BODIES,
    "targets": TARGETS,
    "request-headers": REQUEST_HEADERS,
    "refused": REFUSED,
    "statuses": STATUSES,
    "response-headers": RESPONSE_HEADERS,
    "framings": FRAMINGS,
}
