"""Normal form: laws of the history that is sent if the words of a refusal are unknown."""

from collections import Counter

from hypothesis import given
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.heal.normal_form import normal_form
from reasoning_replay.core.dialects.responses.request import read_request

from tests.core.dialects.responses.heal.histories import History, histories, requests
from tests.core.dialects.responses.heal.played import case_of, maybe_cure_of, world_of
from tests.core.dialects.responses.heal.test_laws import Requested, calls, outputs, raws, said
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
def test_the_normal_form_of_a_normal_form_is_the_same(requested: Requested) -> None:
    """What is in normal form is not edited again."""
    history, sent, more = requested
    case = case_of(history.world, sent, UNKNOWN, **more)
    once = normal_form(case)

    assert normal_form(case.of(once)) == once


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
    """A number that Python cannot hold makes no copy malformed."""
    r1, c1 = reasoning("1"), call("1")
    world = world_of([r1, c1])
    sent = body([user("Hi"), r1, c1, output(c1)]).replace(b'"summary" : []', b'"summary" : 1e999')
    case = case_of(world, [user("Hi")], UNKNOWN).of(sent)

    assert read_request(sent, {}).places[1].item.id == r1["id"]
    assert normal_form(case) == sent


def test_a_history_in_normal_form_is_not_retried() -> None:
    """The refusal is about something else."""
    r1, c1 = reasoning("1"), call("1")
    assert maybe_cure_of(world_of([r1, c1]), [user("Hi"), r1, c1, output(c1)], UNKNOWN) is None
