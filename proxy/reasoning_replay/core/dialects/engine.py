"""
Engine: the way of a request, which is the same in every dialect.

    begun -> ask -> (look up) -> decide -> (send) -> capture
    ask_for_cure -> (look up) -> cure -> (send) -> learn: if it is refused

A dialect is data and readers (`base.Dialect`). The engine holds all state: the refusal memory, and
the prefix cache, which it shares with those of the other dialects. Both are bounded, and every call
may run in a thread.
"""

from collections.abc import Iterable
from dataclasses import replace

from reasoning_replay.core.dialects.added_members import with_added, without_added
from reasoning_replay.core.dialects.base import Bodies, Cure, Question
from reasoning_replay.core.dialects.cache_diagnoses import CACHE_DIAGNOSIS
from reasoning_replay.core.dialects.cache_keys import CACHE_KEY
from reasoning_replay.core.dialects.captures import UNKNOWN_ORIGIN, Capture, Origin
from reasoning_replay.core.dialects.continuation import continuation_of
from reasoning_replay.core.dialects.error_texts import Refusal, error_names
from reasoning_replay.core.dialects.lessons import taught_by, with_doubt
from reasoning_replay.core.dialects.refusal_memory import BLOB, DAMAGED
from reasoning_replay.core.dialects.request_engine import EVERYONE, RequestEngine
from reasoning_replay.core.dialects.unknown_words import is_about_request, or_form
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.matches import match_items
from reasoning_replay.core.history.turns import Lesson, Reasoning
from reasoning_replay.core.tenancy.scope import Account

_OF_ADDED = frozenset({CACHE_KEY, CACHE_DIAGNOSIS})


class Engine(RequestEngine):
    """The engine of one dialect at one upstream."""

    # Responses

    def capture(self, origin: Origin | None) -> Capture:
        """Return the capture for a response; `origin` is None if the request is unknown."""
        return self.readers.capture(origin or UNKNOWN_ORIGIN, self._capture_max_bytes)

    def note_issued(self, account: Account, reasoning: Iterable[Reasoning]) -> None:
        """Record for which account upstream issued the reasoning of a response."""
        if self._dialect.has_accounts:
            self._refusals.issue(account, reasoning)

    # Refusals

    def diagnose(self, status: int, body: bytes, *, is_certain: bool = True) -> Refusal:
        """
        Return why a request was refused.

        Args:
            status: Status of the response; 400 for an event.
            body: Decoded body, or the data of the event.
            is_certain: Whether the status says that the request is at fault.
        """
        refusal: Refusal = self.readers.diagnose(status, body)
        if is_certain or is_about_request(error_names(body)):
            return or_form(refusal, status, body)
        return refusal

    def ask_for_cure(self, bodies: Bodies, refusal: Refusal) -> Question:
        """
        Parse a refused request and return the store lookups that a cure needs.

        Raises:
            Unspliceable: The body cannot be parsed safely.
        """
        sent = self._read(without_added(bodies.sent, bodies.added), {}, path=bodies.path)
        return Question(sent, self._dialect.lookups_for_cure(sent, refusal))

    def cure(  # noqa: PLR0913 (all that a cure depends on)
        self,
        scope: bytes | None,
        bodies: Bodies,
        question: Question,
        refusal: Refusal,
        found: LookupResult,
        *,
        is_last: bool = False,
    ) -> Cure | None:
        """
        Return the request to send instead of a refused one; None if there is none.

        `is_last` as in `Dialect.cure`.
        """
        sent, added = question.request, bodies.added
        if any(one.kind == refusal.kind for one in added):
            body = with_added(sent.body, [one for one in added if one.kind != refusal.kind])
            return Cure(body, is_clients_own=body == bodies.received, is_same_history=True)
        if sent.is_mended:  # it has a lone surrogate, so it cannot be edited
            return Cure(bodies.received, is_clients_own=True) if bodies.is_edited else None
        given = self._read(bodies.received, {}, path=bodies.path) if bodies.is_edited else sent
        # What upstream refused is not repeated.
        self._prefixes.drop(self._owner(scope or b"", bodies.path), bodies.received)
        refused = self._with_lessons(self._refusals.known_to(scope or b""), given, found)
        usable = refused.without_refused(found)
        cured = self._dialect.cure(sent, given, refusal, usable, refused, is_last=is_last)
        if added and cured is not None and not cured.is_clients_own:
            cured = replace(cured, body=with_added(cured.body, added))
        if cured is None:
            return None
        if self._dialect.has_accounts:
            cured = with_doubt(cured, refusal.kind, found.turns, given.model)
        if cured.matched is not None or not bodies.is_continued:
            again = self._read(cured.body, {}, path=bodies.path)
            matched = cured.matched or match_items(again, usable)
            origin = continuation_of(again, found, refused, matched).origin
            cured = replace(cured, origin=origin)
        if not cured.withheld:
            return cured
        # Turns as stored: runs withheld for an hour only must not be withheld for good.
        named = {turn.id for turn in cured.withheld}
        return replace(cured, withheld=tuple(turn for turn in found.turns if turn.id in named))

    def lessons(self, refusal: Refusal, cure: Cure, model: str) -> tuple[Lesson, ...]:
        """Return what an accepted cure teaches about its conversation; see `learn`."""
        return taught_by(cure, self._dialect.lessons(refusal, cure, model))

    def learn(self, scope: bytes, refusal: Refusal, cure: Cure, model: str) -> None:
        """
        Record an accepted cure: upstream would refuse the content that it leaves out again.

        The model is the one of the request's `Origin`: the body may not name it.
        """
        known: list[tuple[str, str | bytes]] = [
            *((BLOB, blob) for blob in cure.lost),
            *((DAMAGED, conversation) for conversation in cure.completed),
            *self._dialect.lessons(refusal, cure, model),
        ]
        for kind, what in known:
            self._refusals.refuse(scope, kind, what)
        if refusal.kind in _OF_ADDED:  # it does not depend on the tenant
            self._refusals.refuse(EVERYONE, refusal.kind, self.name)
