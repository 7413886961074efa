"""
What is done to a request on a replayed route, and learned from its answer.

Ask, recall, decide, splice: the two awaits in here are the store's, the rest is core.
What goes wrong in here is counted, and the request goes out as it came.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from proxy.adapters.guarded_store import GuardedStore
from proxy.core import spans
from proxy.core.capture import Capture, Origin
from proxy.core.identity import Recognised, recognise
from proxy.core.include import include_edit
from proxy.core.inject import Anchors, Outcome, Plan, Policy, plan
from proxy.core.keys import (
    RESPONSE,
    Asked,
    Recalled,
    key_of_response,
    keys_of_request,
    keys_of_turn,
)
from proxy.core.models import family, is_known_not_to_reason
from proxy.core.request import Request, read_request
from proxy.core.scope import scope_of
from proxy.core.spans import Unspliceable
from proxy.core.turns import Context, Turn, turn_id
from proxy.web.exchange import Exchange, Route

__all__ = ["Prepared", "Replay", "ReplaySettings", "route_of"]

_RETRIEVED = re.compile(r"/responses/([^/?]+)$")
# How long a model that refused `include` is not asked for it again, and of how many we remember it.
REFUSAL_REMEMBERED_S = 3600.0
REFUSALS_REMEMBERED = 1024


def route_of(method: str, path: str) -> str:
    """Return which route a request is on; `path` comes without its query."""
    if method == "POST" and path.endswith("/responses"):
        return Route.RESPONSES
    if method == "GET" and _RETRIEVED.search(path):
        return Route.RETRIEVE
    return Route.OTHER


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """The settings that matter here, as plain values; units as in `proxy.settings`."""

    upstream_url: str
    scope_secret: str
    is_shadow: bool
    anchors: Anchors
    include: str
    frame_max_bytes: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """
    A request as it shall go out.

    Attributes:
        original: The very bytes that came.
        body: The same object, unless something is edited.
        without_include: The body less our `include`; None when we added none.
        model: As asked for.
    """

    original: bytes
    body: bytes
    without_include: bytes | None = None
    model: str = ""


class Replay:
    """Prepares requests and captures answers, for one upstream."""

    def __init__(
        self,
        settings: ReplaySettings,
        store: GuardedStore,
        clock: Callable[[], float],
        epoch_ms: Callable[[], int],
    ) -> None:
        """
        Keep what is shared by all exchanges.

        Args:
            settings: Plain values.
            store: Guarded, so that it cannot raise.
            clock: Seconds, never going backwards.
            epoch_ms: Milliseconds since the epoch, to order turns by.
        """
        self._settings = settings
        self._store = store
        self._clock = clock
        self._epoch_ms = epoch_ms
        self._policy = Policy(settings.anchors)
        self.is_shadow = settings.is_shadow
        self._refused: OrderedDict[tuple[bytes, str], float] = OrderedDict()

    def identify(self, exchange: Exchange, headers: Mapping[str, str]) -> None:
        """Find out whose exchange it is."""
        settings = self._settings
        exchange.scope = scope_of(headers, settings.upstream_url, settings.scope_secret)

    async def prepare(
        self, exchange: Exchange, body: bytes, headers: Mapping[str, str]
    ) -> Prepared:
        """
        Decide what a request lacks, and splice it in.

        Args:
            exchange: Its scope is known; outcomes and capture are filled in.
            body: Whole, and not encoded.
            headers: The request's.
        """
        if exchange.scope is None:
            exchange.asked = "no_scope"
            return Prepared(body, body)
        try:
            request = read_request(body, headers)
        except Unspliceable:
            exchange.asked = "unreadable"
            return Prepared(body, body)
        asked = keys_of_request(request)
        recalled = await self._store.recall(exchange.scope, asked) if asked else Recalled()
        recognised = recognise(request, recalled or Recalled())
        parent = self._parent(request, recognised, recalled or Recalled())
        origin = Origin(
            context=request.context(),
            model=request.model,
            conversation=parent.conversation if parent is not None else b"",
            parent=parent.id if parent is not None else b"",
            stores=request.stores,
        )
        exchange.capture = Capture(origin, self._settings.frame_max_bytes)
        if request.is_stateful:
            exchange.asked = "stateful"
            return Prepared(body, body, model=request.model)
        exchange.asked = "planned" if recalled is not None else "store_failed"
        decided = plan(request, recognised, self._policy) if recalled is not None else Plan()
        exchange.outcomes.update(decided.outcomes)
        if self.is_shadow:
            return Prepared(body, body, model=request.model)
        # Upstream says that it keeps nothing (zero data retention), and a blob was missing already.
        keeps_nothing = parent is not None and not parent.is_stored
        lacks_blob = keeps_nothing and Outcome.GUARDED_FORM in decided.outcomes
        wants = self._wants_include(exchange.scope, request, lacks_blob=lacks_blob)
        include = include_edit(request) if wants else None
        bare = decided.apply(body)
        if include is None:
            exchange.edited = bool(decided.edits)
            return Prepared(body, bare, model=request.model)
        exchange.edited = True
        whole = spans.apply(body, [*decided.edits, include])
        return Prepared(body, whole, without_include=bare, model=request.model)

    async def prepare_retrieval(self, exchange: Exchange, path: str) -> None:
        """Capture the answer to `GET …/responses/{id}` as the turn that its request began."""
        found = _RETRIEVED.search(path)
        if exchange.scope is None or found is None:
            return
        response_id = found.group(1)
        asked = [Asked(RESPONSE, [key_of_response(response_id)])]
        recalled = await self._store.recall(exchange.scope, asked) or Recalled()
        this = turn_id(response_id)
        begun = next((turn for turn in recalled.turns if turn.id == this), None)
        if begun is None:
            origin = Origin(context=Context(), model="")
        elif any(item.run for item in begun.items):
            return  # captured when it was made, with blobs: what is retrieved has none
        else:
            origin = Origin(
                context=begun.context,
                model=begun.models[0] if begun.models else "",
                conversation=begun.conversation,
                parent=begun.parent,
                stores=begun.is_stored,
            )
        exchange.capture = Capture(origin, self._settings.frame_max_bytes)

    def follow(self, exchange: Exchange, origin: Origin | None) -> None:
        """Capture an answer that no request is known of; `origin` is what it comes behind."""
        begun = origin or Origin(context=Context(), model="")
        exchange.capture = Capture(begun, self._settings.frame_max_bytes)

    async def save(self, exchange: Exchange) -> None:
        """Save what the answer has brought so far, if there is anything new."""
        capture = exchange.capture
        if capture is None or exchange.scope is None or not capture.dirty:
            return
        snapshot = capture.snapshot(self._epoch_ms())
        if snapshot.turn is None:
            exchange.captured = exchange.captured or "nothing"
            return
        keys = keys_of_turn(snapshot.turn, snapshot.response_id)
        new = [key for key in keys if key not in exchange.saved_keys]
        if await self._store.save(exchange.scope, snapshot.turn, new):
            exchange.saved_keys.update(new)
            exchange.captured = "saved"
            exchange.captured_items = capture.reasoning_items
        else:
            exchange.captured = "store_failed"

    def remember_refusal(self, exchange: Exchange, model: str) -> None:
        """Do not ask a model that refused `include` for it again, for a while."""
        if exchange.scope is None:
            return
        self._refused[exchange.scope, family(model)] = self._clock() + REFUSAL_REMEMBERED_S
        while len(self._refused) > REFUSALS_REMEMBERED:
            self._refused.popitem(last=False)

    def _wants_include(self, scope: bytes, request: Request, *, lacks_blob: bool) -> bool:
        """Ask for blobs where an item may have to go back to an upstream that knows no id of it."""
        if request.is_background or is_known_not_to_reason(request.model):
            return False
        match self._settings.include:
            case "never":
                return False
            case "auto" if request.stores and not lacks_blob:
                return False
        until = self._refused.get((scope, family(request.model)))
        return until is None or until <= self._clock()

    @staticmethod
    def _parent(request: Request, recognised: Recognised, recalled: Recalled) -> Turn | None:
        if previous := request.text("previous_response_id"):
            this = turn_id(previous)
            return next((turn for turn in recalled.turns if turn.id == this), None)
        return recognised.newest()
