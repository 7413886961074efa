"""
Stored conversations on the admin port: counted, listed by id and size, deleted, and never read.

    GET    /conversations?scope=&cursor=&limit=    one page, and the cursor of the next
    GET    /conversations/count?scope=             their number
    DELETE /conversations/{scope:conversation}     delete one
    POST   /scopes                                 the scopes of a tenant's key or header lines
    DELETE /scopes/{scope}                         delete all of one scope

A scope in a request stands for all key spaces of its tenant, one for each dialect.
"""

import asyncio
import contextlib
import hmac
import ipaddress
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import hdrs, web

from reasoning_replay.adapters.resilience.safe_store import SafeStore
from reasoning_replay.adapters.stores.base import BadCursor, ConversationInfo, Page, StoreError
from reasoning_replay.core.dialects.registry import scopes_of
from reasoning_replay.core.tenancy.scope import Scoping
from reasoning_replay.core.tenancy.tenant_lines import scopes_in
from reasoning_replay.web.errors import ErrorResponse, ProxyError, as_response

PAGE: Final = 100
PAGE_MAX: Final = 1000
# Time limit for a walk over all pages; the response says whether the walk is complete.
WALK_S: Final = 20.0
_SCOPE = re.compile(r"[0-9a-f]{32}")
_NTH_SPACE = re.compile(r"([1-9])~")
_ID = re.compile(r"([0-9a-f]{32}):([0-9a-f]{32})")

_NO_TOKEN = ErrorResponse(
    403,
    "no_admin_token",
    "Stored conversations and the inspector are disabled: other machines can reach the admin port, "
    "and admin_token is not set. Set it, or set admin_listen to 127.0.0.1:9090.",
)
_BAD_TOKEN = ErrorResponse(
    401,
    "bad_admin_token",
    "The admin token is missing or wrong. Send Authorization: Bearer <admin_token>.",
)
_BAD_HOST = ErrorResponse(
    403,
    "bad_host",
    "The Host header does not name this port. Use its IP address or localhost, or set admin_token.",
)

Json = dict[str, object]


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """Access rule for stored conversations and the inspector."""

    def __init__(self, token: str, host: str) -> None:
        """
        Trust who sends the token, or without one, who is on this machine.

        Args:
            token: Token of the operators; "": none.
            host: Address that the admin port listens on.
        """
        self._token = token.encode()
        self._host = host

    def use(self, token: str) -> None:
        """Replace the token."""
        self._token = token.encode()

    @property
    def is_off(self) -> bool:
        """Whether all access is refused."""
        return not self._token and not is_loopback(self._host)

    def check(self, request: web.Request) -> None:
        """
        Check that a request comes from an operator.

        Raises:
            ProxyError: Access is off, the token is wrong, or the host is not this machine's.
        """
        if self.is_off:
            raise ProxyError(_NO_TOKEN)
        if self._token:
            scheme, _, shown = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
            given = shown.strip().encode("utf-8", "surrogateescape")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given, self._token):
                raise ProxyError(_BAD_TOKEN)
        elif not self._is_named_here(request.headers.get(hdrs.HOST, "")):
            # DNS rebinding: a web page in a browser on this machine can reach loopback by a host
            # name that resolves to it. The Host header reveals that name. With a token, this check
            # is not needed, because the page does not have the token.
            raise ProxyError(_BAD_HOST)

    def _is_named_here(self, host: str) -> bool:
        name = re.sub(r":\d*$", "", host).strip("[]").lower()
        if name in ("localhost", self._host.lower()):
            return True
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)
            return True
        return False


@dataclass(frozen=True, slots=True)
class Conversations:
    """
    Handlers of the requests about stored conversations.

    Attributes:
        scopings: The rule of each upstream, by its name; "" if it is the only one.
    """

    store: SafeStore
    access: Access
    scopings: Mapping[str, Scoping]

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes for the admin port."""
        one = "/conversations/{id}"
        return [
            web.get("/conversations", self._answering(self._list), allow_head=False),
            web.get("/conversations/count", self._answering(self._count), allow_head=False),
            web.delete(one, self._answering(self._forget)),
            web.post("/scopes", self._answering(self._scopes)),
            web.delete("/scopes/{scope}", self._answering(self._forget_scope)),
        ]

    def _answering(
        self, answer: Callable[[web.Request], Awaitable[Json]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                self.access.check(request)
                return web.json_response(await answer(request))
            except ProxyError as error:
                return refused(error.fault)
            except StoreError as error:
                return refused(_fault_of(error))

        return handle

    async def _list(self, request: web.Request) -> Json:
        limit = request.query.get("limit", str(PAGE))
        if not re.fullmatch(r"[1-9]\d{0,3}", limit) or int(limit) > PAGE_MAX:
            raise ProxyError(_bad("bad_limit", f"limit must be a number from 1 to {PAGE_MAX}."))
        page = await self._page(_scope_asked(request), request.query.get("cursor", ""), int(limit))
        return {
            "conversations": [_in_numbers(kept) for kept in page.conversations],
            "next": page.next_cursor or None,
        }

    async def _count(self, request: web.Request) -> Json:
        scopes: set[bytes] = set()
        count = 0
        is_complete = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WALK_S):
                async for kept in self._all(_scope_asked(request)):
                    scopes.add(kept.scope)
                    count += 1
                is_complete = True
        return {"conversations": count, "scopes": len(scopes), "complete": is_complete}

    async def _forget(self, request: web.Request) -> Json:
        match = _ID.fullmatch(request.match_info["id"])
        if match is None:
            raise ProxyError(
                _bad("bad_id", "The id must be scope:conversation, 32 hex digits each.")
            )
        scope, conversation = map(bytes.fromhex, match.groups())
        for space in scopes_of(scope):
            if await self.store.forget(space, conversation):
                break
        else:
            raise ProxyError(
                ErrorResponse(
                    404,
                    "not_kept",
                    "This conversation is not stored. What a replica has yet to save is dropped.",
                )
            )
        return {"forgotten": True}

    async def _scopes(self, request: web.Request) -> Json:
        """Return the scopes of a tenant; a body is in no log, as an address may be."""
        text = (await request.read()).decode("utf-8", "surrogateescape")
        try:
            found = scopes_in(text, self.scopings)
        except ValueError as error:
            raise ProxyError(_bad("bad_tenant", f"The body names no tenant: {error}.")) from None
        return {
            "scopes": [
                {"scope": one.scope.hex(), "header": one.header}
                | ({"upstream": one.upstream} if one.upstream else {})
                | ({"secret": "old"} if one.is_former else {})
                for one in found
            ]
        }

    async def _forget_scope(self, request: web.Request) -> Json:
        """
        Mark the scope, then delete until a walk finds no conversation.

        A deletion may shift the pages that follow. A store that is full may take the mark only
        once something is deleted.
        """
        scope = _scope_of(request.match_info["scope"])
        count = 0
        is_complete = False
        marked: set[bytes] = set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WALK_S):
                while not is_complete:
                    before, fault = count, None
                    for space in scopes_of(scope):
                        if space in marked:
                            continue
                        try:
                            count += await self.store.forget_scope(space)
                        except StoreError as error:
                            fault = error
                        else:
                            marked.add(space)
                    async for kept in self._all(scope):
                        count += await self.store.forget(kept.scope, kept.conversation)
                    is_complete = count == before and fault is None
                    if fault is not None and count == before:
                        raise fault
        return {"forgotten": count, "complete": is_complete}

    async def _all(self, scope: bytes | None) -> AsyncIterator[ConversationInfo]:
        cursor = ""
        while True:
            page = await self._page(scope, cursor, PAGE_MAX)
            for kept in page.conversations:
                yield kept
            cursor = page.next_cursor
            if not cursor:
                return
            await asyncio.sleep(0)  # a store that never waits would block all other tasks

    async def _page(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """
        Return one page of the key spaces of a scope, one space after the other.

        In every space but the first, the cursor has the number of the space in front.
        """
        if scope is None:
            return await self.store.survey(None, cursor, limit)
        spaces = scopes_of(scope)
        found = _NTH_SPACE.match(cursor)
        nth = int(found[1]) if found is not None else 0
        if nth >= len(spaces):
            raise BadCursor
        page = await self.store.survey(spaces[nth], cursor[found.end() if found else 0 :], limit)
        if page.next_cursor:
            return page if not nth else Page(page.conversations, f"{nth}~{page.next_cursor}")
        return Page(page.conversations, f"{nth + 1}~" if nth + 1 < len(spaces) else "")


def refused(fault: ErrorResponse) -> web.Response:
    """Return an error of the admin port as a response; a 401 names the scheme `Bearer`."""
    response = as_response(fault)
    if response.status == web.HTTPUnauthorized.status_code:
        response.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    return response


def _in_numbers(kept: ConversationInfo) -> Json:
    return {
        "id": f"{kept.scope.hex()}:{kept.conversation.hex()}",
        "turns": kept.turns,
        "bytes": kept.turn_bytes,
        "expires_in_s": kept.expires_in_s,
    } | ({"damaged": True} if kept.is_damaged else {})


def _scope_asked(request: web.Request) -> bytes | None:
    written = request.query.get("scope", "")
    return _scope_of(written) if written else None


def _scope_of(written: str) -> bytes:
    if not _SCOPE.fullmatch(written):
        raise ProxyError(_bad("bad_scope", "The scope must be 32 hex digits, as in the log."))
    return bytes.fromhex(written)


def _bad(code: str, message: str) -> ErrorResponse:
    return ErrorResponse(400, code, message)


def _fault_of(error: StoreError) -> ErrorResponse:
    if isinstance(error, BadCursor):
        return _bad("not_understood", f"The store rejected the request: {error}.")
    told = f"The store failed: {error}. Try again once it works."
    return ErrorResponse(503, "store_failed", told, 1)
