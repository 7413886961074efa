"""Normal form: laws of the history that is sent if the words of a refusal are unknown."""

from collections import Counter

from hypothesis import given
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.heal.normal_form import normal_form

from tests.core.dialects.responses.heal.histories import History, histories, requests
from tests.core.dialects.responses.heal.played import case_of, maybe_cure_of, world_of
from tests.core.dialects.responses.heal.test_laws import Requested, calls, core, outputs, raws, said
from tests.core.world import body, call, input_of, output, reasoning, user
from tests.fast_lane import examples

UNKNOWN = Diagnosis(RefusalKind.FORM)


@examples(300)
@given(requests())
def test_it_keeps_all_that_the_client_did_and_said(requested: Requested) -> None:
    """No message, output or call of the client is lost; what has a follower is not at the end."""
    history, sent, more = requested
    got = input_of(normal_form(case_of(history.world, sent, UNKNOWN, **more)))

    assert said(got) == said(sent)
    assert set(outputs(got)) == set(outputs(sent))
    assert calls(sent) & set(outputs(got)) <= calls(got)


@examples(300)
@given(requests())
def test_a_normal_form_needs_no_further_edit(requested: Requested) -> None:
    """Only an unknown id that is left out may tell more the next time: then reasoning comes."""
    history, sent, more = requested
    case = case_of(history.world, sent, UNKNOWN, **more)
    once = normal_form(case)
    twice = normal_form(case.of(once))
    before, after = (Counter(map(core, input_of(one))) for one in (once, twice))

    assert all('"type": "reasoning"' in one for one in after - before)
    if after == before:
        assert once == twice


@examples(200)
@given(histories)
def test_an_honest_history_is_in_normal_form(history: History) -> None:
    """A history as upstream emitted it stays, apart from ids of what was emitted alone."""
    case = case_of(history.world, history.items, UNKNOWN)
    got = raws(normal_form(case))
    lone = Counter(raws(case.sent.body)) - Counter(got)

    assert len(got) == len(history.items)
    assert all(b"reasoning" not in raw for raw in lone)


def test_what_cannot_be_compared_stays() -> None:
    """A number that is too long for Python makes no copy malformed."""
    r1, c1 = reasoning("1"), call("1")
    items = [user("Hi"), r1, c1, output(c1)]
    long = b'"summary" : ' + b"9" * 5000
    case = case_of(world_of([r1, c1]), items, UNKNOWN)
    case = case.of(body(items).replace(b'"summary" : []', long))

    assert long in normal_form(case)


def test_without_reasoning_is_a_cure_of_its_own_here() -> None:
    """The edit that other dialects have leaves the client's request as it is."""
    case = case_of(world_of([call("1")]), [user("Hi")], UNKNOWN)
    assert case.bare() == case.given.body


def test_a_history_in_normal_form_is_not_retried() -> None:
    """The refusal is about something else."""
    r1, c1 = reasoning("1"), call("1")
    assert maybe_cure_of(world_of([r1, c1]), [user("Hi"), r1, c1, output(c1)], UNKNOWN) is None
