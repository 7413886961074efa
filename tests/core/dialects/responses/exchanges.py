"""Exchanges of one tenant with the Responses dialect, as the engine decides them."""

from reasoning_replay.core.dialects.base import Caller, Decision
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.responses.dialect import ResponsesDialect
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.profiles import GENERIC, Profile
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.engines import answered, asked, engine_of
from tests.core.world import answer, body, call, reasoning, user

R1, C1 = reasoning("1"), call("1")
R2, C2 = reasoning("2"), call("2")
SCOPE = b"scope"
CALLER = Caller(SCOPE, NO_ACCOUNT)
ASK = user("What is the weather?")


def engine(
    *, is_shadow: bool = False, include: str = "never", profile: Profile = GENERIC
) -> Engine:
    """Return the engine of a dialect with all repairs switched on."""
    return engine_of(ResponsesDialect(profile, include, [*Repair]), is_shadow=is_shadow)


def found(one: Engine) -> LookupResult:
    """Return the lookup result of a store that captured one turn."""
    question = asked(one, body([ASK]), SCOPE)
    first = answered(one, CALLER, body([ASK]), question, LookupResult(), is_created=True)
    capture = one.capture(first.origin)
    capture.read(answer([R1, C1], "resp_1"))
    part = capture.snapshot(1).part
    assert part is not None
    one.note_issued((b"account", b""), part.reasoning)
    return LookupResult([part.turn])


def decided(one: Engine, sent: bytes, held: LookupResult | None) -> Decision:
    """Return the decision on one request."""
    return answered(one, CALLER, sent, asked(one, sent, SCOPE), held, is_created=True)
