"""The connections to the upstream. What they send is what they are given, and nothing besides."""

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Iterator

import aiohttp
from aiohttp import hdrs
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from multidict import CIMultiDict
from yarl import URL

from proxy.adapters.egress import Egress
from proxy.adapters.patience import SWITCHED, NotTaken, Patience, answers
from proxy.core.headers import Headers

__all__ = [
    "Body",
    "Upstream",
    "UpstreamError",
    "ending_with_connection",
    "left_over",
]

# Large enough for what real answers carry; a larger head is an error of the upstream's.
HEAD_MAX_BYTES = 64 * 1024
READ_BUFFER_BYTES = 64 * 1024
# So many connections in a row that are not silent: the upstream speaks no HTTP.
UNASKED_MAX = 1000

# A body of more than this is not written in one piece, which would hold up everybody else.
ONE_PIECE_BYTES = 1024 * 1024

Body = bytes | AsyncIterator[bytes] | None


class UpstreamError(Exception):
    """
    No answer could be had.

    Attributes:
        source: `connect`, `proxy` (between us and it) or `read` (the upstream's side), `timeout`.
        setting: Which one's time was up.
    """

    def __init__(self, source: str, reason: str, setting: str = "") -> None:
        """Say at which point it failed, and how."""
        super().__init__(reason)
        self.source = source
        self.setting = setting


class _Connector(aiohttp.TCPConnector):
    """A pool that gives out no connection on which something came that nobody asked for."""

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 (the signature is aiohttp's)
    ) -> Connection:
        """
        Return a connection that is silent: aiohttp looks at that only when it takes one back.

        What came since (a 408 before it is closed, what a broken answer left behind, or what was
        smuggled into it) would be read as the answer to the next request, whoever's that is.
        """
        for _ in range(UNASKED_MAX):
            connection = await super().connect(req, traces, timeout)
            if connection.protocol is None or not connection.protocol.should_close:
                return connection
            connection.close()
        raise aiohttp.ClientConnectionError("it talks without being asked")


class Upstream:
    """
    A pool of connections to wherever requests go.

    Attributes:
        via: Names the proxy on the way, for people; "" when there is none.
    """

    def __init__(self, patience: Patience, egress: Egress) -> None:
        """Open nothing yet; needs a running loop."""
        self._patience = patience
        self._egress = egress
        self.via = egress.via
        authorization = egress.proxy_authorization
        self._proxy_headers = {hdrs.PROXY_AUTHORIZATION: authorization} if authorization else {}
        self._timeout = aiohttp.ClientTimeout(
            total=None,
            connect=patience.connect_s,  # all of it, where sock_connect is for one address
            sock_connect=patience.connect_s,
            sock_read=patience.first_byte_s,  # until the head is there
        )
        self._connector = _Connector(limit=0, ssl=egress.tls)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            # A jar would send one tenant's cookies with the next one's request.
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            response_class=answers(patience.read_s),
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            timeout=self._timeout,
            read_bufsize=READ_BUFFER_BYTES,
            max_line_size=HEAD_MAX_BYTES,
            max_field_size=HEAD_MAX_BYTES,
            proxy=egress.proxy_url or None,
        )

    async def send(
        self, method: str, url: str, headers: Headers, body: Body
    ) -> aiohttp.ClientResponse:
        """
        Send a request and wait for the head of its answer; the caller releases it.

        Args:
            method: As the client wrote it.
            url: Sent as it stands: nothing in it is normalised.
            headers: End-to-end ones; `Content-Length` among them only with a streamed body.
            body: Bytes go out with their length; an iterator in chunks, unless a length is given.

        Raises:
            UpstreamError: There is no answer, or one that switches protocols where it may not.
        """
        given = _spelled_alike(headers)
        if self._proxy_headers and url.startswith("http:"):
            given.update(self._proxy_headers)  # that proxy reads the request itself
        with self._named_errors():
            response = await self._session.request(
                method,
                _as_it_stands(url),
                headers=given,
                data=_in_pieces(body),
                allow_redirects=False,
                proxy_headers=self._proxy_headers,
            )
        if response.status == SWITCHED and (
            response.connection is None or hdrs.UPGRADE not in given
        ):
            response.close()
            source = "read"
            raise UpstreamError(source, "it switched protocols, but not to one that was asked for")
        return response

    async def reach(self, url: str) -> None:
        """
        Connect as a request to that URL would, with TLS and through the proxy, and ask nothing.

        Raises:
            UpstreamError: That cannot be done.
        """
        request = aiohttp.ClientRequest(
            hdrs.METH_GET,
            URL(url),
            loop=asyncio.get_running_loop(),
            proxy=URL(self._egress.proxy_url) if self._egress.proxy_url else None,
            proxy_headers=CIMultiDict(self._proxy_headers),
        )
        with self._named_errors():
            (await self._connector.connect(request, [], self._timeout)).close()

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        patience = self._patience
        source = "timeout"
        try:
            yield
        except NotTaken as error:
            reason = f"it took nothing of the request for {patience.read_s:g} s"
            raise UpstreamError(source, reason, "read_timeout_s") from error
        except aiohttp.SocketTimeoutError as error:
            reason = f"no answer in the {patience.first_byte_s:g} s after the request"
            raise UpstreamError(source, reason, "first_byte_timeout_s") from error
        except TimeoutError as error:
            reason = f"no connection within {patience.connect_s:g} s"
            raise UpstreamError(source, reason, "connect_timeout_s") from error
        except aiohttp.ClientHttpProxyError as error:
            raise UpstreamError("proxy", f"it answered CONNECT with {error.status}") from error
        except aiohttp.ClientProxyConnectionError as error:
            raise UpstreamError("proxy", f"it cannot be reached: {_reason(error)}") from error
        except (aiohttp.ClientConnectorError, ssl.SSLError) as error:
            raise UpstreamError("connect", _reason(error)) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise UpstreamError("read", _in_short(error)) from error


def _as_it_stands(url: str) -> URL:
    """Return a URL that goes out as it is spelled, an empty query's `?` included."""
    if not url.endswith("?") or url.count("?") > 1:
        return URL(url, encoded=True)
    bare = URL(url[:-1], encoded=True)
    return URL.build(
        scheme=bare.scheme, authority=bare.raw_authority, path=bare.raw_path + "?", encoded=True
    )


def _in_pieces(body: Body) -> Body | io.BytesIO:
    """Return a large body as something that is written piece by piece, its length still told."""
    if isinstance(body, bytes) and len(body) > ONE_PIECE_BYTES:
        return io.BytesIO(body)
    return body


@contextlib.contextmanager
def ending_with_connection(response: aiohttp.ClientResponse) -> Iterator[None]:
    """
    Let whoever reads an answer's body know when its connection is gone.

    aiohttp 3.14 closes a connection whose chunks are malformed without telling the reader, who
    then waits for ever.
    """
    protocol = response.connection.protocol if response.connection is not None else None
    closed = protocol.closed if protocol is not None else None
    content = response.content

    def tell(ended: asyncio.Future[None]) -> None:
        if not ended.cancelled():
            ended.exception()  # seen, so that nobody warns of it
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the connection is gone"))

    if closed is None:
        yield
        return
    closed.add_done_callback(tell)
    try:
        yield
    finally:
        closed.remove_done_callback(tell)


def left_over(response: aiohttp.ClientResponse) -> bytes:
    """Return what had arrived of an answer's body before it broke off, and nobody has read yet."""
    # aiohttp's public methods give the break precedence over the bytes that came before it.
    return response.content._read_nowait(-1)  # noqa: SLF001


def _spelled_alike(headers: Headers) -> CIMultiDict[str]:
    """Spell a repeated name as it was first: aiohttp keeps one of those that differ in case."""
    first: dict[str, str] = {}
    return CIMultiDict((first.setdefault(name.lower(), name), value) for name, value in headers)


def _in_short(error: BaseException) -> str:
    """Say how an answer failed, without the bytes of it that aiohttp quotes."""
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
        return "it closed the connection"
    if isinstance(error, aiohttp.ClientResponseError | aiohttp.InvalidURL):
        return "what it sent is no HTTP, or its head is too long"
    return type(error).__name__


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
