"""Memory of refusals: what a cure teaches holds for its tenant and model, for an hour."""

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.chat.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.chat.heal.memory import ChatRefusals, Learnt
from reasoning_replay.core.dialects.refusal_memory import REMEMBERED_S
from reasoning_replay.core.history.lookup_keys import LookupResult

MINE, THEIRS = b"mine", b"theirs"
MODEL, OTHER = "vendor-large-1", "other-small-2"
FIELD = Diagnosis(RefusalKind.FIELD, refused=frozenset({"reasoning", "extra_content"}))
LACKS = Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_content")
BLOB = Diagnosis(RefusalKind.BLOB)


def test_nothing_is_known_at_first() -> None:
    """A tenant without refusals costs one look."""
    one = ChatRefusals(lambda: 0.0)
    found = LookupResult()
    assert one.learnt(MINE, MODEL) == Learnt()
    assert one.without_refused(MINE, found) is found


def test_a_refused_member_is_known_for_its_model() -> None:
    """Other models, and other tenants, may use it."""
    one = ChatRefusals(lambda: 0.0)
    one.learn(MINE, FIELD, Cure(b""), MODEL)
    assert one.learnt(MINE, MODEL) == Learnt(refused=FIELD.refused)
    assert one.learnt(MINE, OTHER) == one.learnt(THEIRS, MODEL) == Learnt()


def test_a_model_that_demands_reasoning_is_known() -> None:
    """All rounds are injected for it from then on."""
    one = ChatRefusals(lambda: 0.0)
    one.learn(MINE, LACKS, Cure(b"", injected=1), MODEL)
    assert one.learnt(MINE, MODEL) == Learnt(demands=True)


def test_a_filler_that_was_accepted_is_known() -> None:
    """The next request has it from the start, so that the prefix stays the same."""
    one = ChatRefusals(lambda: 0.0)
    one.learn(MINE, LACKS, Cure(b"", degraded=1), MODEL)
    assert one.learnt(MINE, MODEL) == Learnt(demands=True, fillers=("reasoning_content",))
    one.learn(MINE, BLOB, Cure(b"", degraded=1, lost=frozenset({b"blob"})), OTHER)
    assert one.learnt(MINE, OTHER) == Learnt(fillers=("extra_content",))


def test_it_expires_after_an_hour() -> None:
    """Upstreams change, so they are tried again."""
    now = [0.0]
    one = ChatRefusals(lambda: now[0])
    one.learn(MINE, FIELD, Cure(b""), MODEL)
    now[0] = REMEMBERED_S + 1
    assert one.learnt(MINE, MODEL) == Learnt()
