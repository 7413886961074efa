"""
What becomes of a request, once it is known what the store holds for it: no await in here.

Much of it may run in a thread, beside the loop, so nothing in here changes what others look at.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from reasoning_replay.core.dialects.responses.capture import Origin
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import (
    Repair,
    Repairs,
    has_an_id_twice,
    repair,
)
from reasoning_replay.core.dialects.responses.include import include_edit
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import Policy, Profile
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.item_summary import ItemSummary, summarise
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching import match_items, parent_of
from reasoning_replay.core.history.model_names import family, is_known_not_to_reason
from reasoning_replay.core.history.plan import Anchors, Outcome, Plan, PlanNote
from reasoning_replay.core.tenancy.scope import Account, Scoping
from reasoning_replay.core.wire import json_spans
from reasoning_replay.web.pipeline.refusal_memory import RefusalMemory

__all__ = ["Decision", "ReplaySettings", "RequestPlanner", "Whose"]

_NOTHING: Mapping[Any, int] = MappingProxyType({})
_NOTHING_HELD = LookupResult()


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """The settings that matter here, as plain values; units as in `settings`."""

    scoping: Scoping
    is_shadow: bool
    anchors: Anchors
    profile: Profile
    include: str
    heals: bool
    repairs: Collection[Repair]
    frame_max_bytes: int
    store_budget_s: float


class Whose(NamedTuple):
    """Whose request it is, and whom blobs are issued to, as far as it says."""

    scope: bytes
    account: Account


class Decision(NamedTuple):
    """What became of a request, as `Exchange` has it; its body is the same object if not edited."""

    asked: str
    origin: Origin
    body: bytes
    repairs: Mapping[Repair, int] = _NOTHING
    outcomes: Mapping[Outcome, int] = _NOTHING
    injected_bytes: int = 0
    strip: ItemSummary | None = None


class RequestPlanner:
    """Decides on requests, for one upstream."""

    def __init__(self, settings: ReplaySettings, learned: RefusalMemory) -> None:
        """Keep what is shared by all requests; what is learned is looked at, and never changed."""
        self._settings = settings
        self._learned = learned
        self._is_shadow = settings.is_shadow
        self.policy = Policy(settings.anchors, settings.profile)

    def decide(
        self,
        whose: Whose,
        body: bytes,
        request: Request,
        found: LookupResult | None,
        *,
        is_created: bool,
    ) -> Decision:
        """Decide what a request lacks by what is held for it (None: nobody said), and splice it."""
        recalled = found or _NOTHING_HELD
        if recalled.turns:
            recalled = self._learned.less_refused(whose.scope, recalled)
        base, repairs = body, _NOTHING
        if request.body is body:  # nothing in it had to be read as something else
            request, repairs = self._repaired(whose, request, recalled)
            base = request.body
        matched = match_items(request, recalled)
        parent = parent_of(request, matched, recalled)
        origin = Origin(
            context=request.context(),
            model=request.model,
            conversation=parent.conversation if parent is not None else b"",
            parent=parent.id if parent is not None else b"",
            stores=request.stores,
        )
        if request.is_stateful:
            return Decision("stateful", origin, body, strip=_shown(request, ()))
        asked = "planned" if found is not None else "store_failed"
        decided = plan_injection(request, matched, self.policy) if found is not None else Plan()
        outcomes, strip = decided.outcomes, _shown(request, decided.notes)
        if self._is_shadow:
            return Decision(asked, origin, body, repairs, outcomes, strip=strip)
        # Upstream says that it keeps nothing (zero data retention), and a blob was missing already.
        keeps_nothing = parent is not None and not parent.is_stored
        lacks_blob = keeps_nothing and Outcome.GUARDED_FORM in outcomes
        wants = is_created and self._wants_include(whose.scope, request, lacks_blob=lacks_blob)
        include = include_edit(request) if wants else None
        edits = [*decided.edits, include] if include is not None else decided.edits
        edited = json_spans.apply(base, edits) if edits else base
        injected_bytes = decided.injected_bytes
        return Decision(asked, origin, edited, repairs, outcomes, injected_bytes, strip)

    def _repaired(
        self, whose: Whose, request: Request, recalled: LookupResult
    ) -> tuple[Request, Mapping[Repair, int]]:
        """Mend what is certain, and read what came of it."""
        scope, learned = whose.scope, self._learned
        if request.is_stateful:
            return request, _NOTHING
        if not (request.has_reasoning or has_an_id_twice(request)):
            return request, _NOTHING  # as most are
        repairs = Repairs(
            allowed=self._settings.repairs,
            is_refused=lambda blob: (
                learned.is_refused(scope, RefusalKind.BLOB, blob)
                or learned.is_anothers(whose.account, blob)
            ),
            takes_reasoning=not learned.is_refused(
                scope, RefusalKind.NO_REASONING_MODEL, family(request.model)
            ),
            profile=self._settings.profile,
        )
        mended = repair(request, recalled.turns, repairs)
        if mended.body is request.body:
            return request, mended.counts
        again = read_request(mended.body, {})
        again.hint = request.hint
        return again, mended.counts

    def _wants_include(self, scope: bytes, request: Request, *, lacks_blob: bool) -> bool:
        """Ask for blobs where an item may have to go back to an upstream that knows no id of it."""
        profile = self._settings.profile
        if not profile.takes_include:
            return False
        if request.is_background or is_known_not_to_reason(request.model):
            return False
        match self._settings.include:
            case "never":
                return False
            case "auto" if request.stores and profile.keeps_items and not lacks_blob:
                return False
        return not self._learned.is_refused(scope, RefusalKind.INCLUDE, family(request.model))


def _shown(request: Request, notes: Sequence[PlanNote]) -> ItemSummary | None:
    """Return what people may see of a request; a fault in that costs the request nothing."""
    try:
        return summarise(request, notes)
    except Exception:  # noqa: BLE001 (fail open: nobody need see it)
        return None
