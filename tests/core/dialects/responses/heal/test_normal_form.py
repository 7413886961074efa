"""Normal form: laws of the history that is sent if the words of a refusal are unknown."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import assume, given
from reasoning_replay.core.dialects.responses.heal.captured import Case
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.heal.normal_form import normal_form
from reasoning_replay.core.history.items import Role
from reasoning_replay.strict_api import Script
from reasoning_replay.strict_api import responses_words as words
from reasoning_replay.strict_api.dialect import Refused
from reasoning_replay.strict_api.responses import Responses
from reasoning_replay.strict_api.responses_rules import OUTPUTS, InputRules, Seen
from typing_extensions import override

from tests.core.dialects.responses.heal.histories import (
    STATEFUL,
    History,
    histories,
    later_faults,
    requests,
)
from tests.core.dialects.responses.heal.played import case_of, maybe_cure_of, world_of
from tests.core.dialects.responses.heal.test_laws import Requested, calls, core, outputs, raws, said
from tests.core.world import MODEL, Item, body, call, input_of, nameless, output, reasoning, user
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


class Strictest(InputRules):
    """Outputs and reasoning once, outputs before the next message, both ids of a pair or none."""

    @override
    def outputs(self) -> Iterator[Refused]:
        answered = [one.item.get("call_id") for one in self.seen if one.kind in OUTPUTS]
        twice = {name for name in answered if answered.count(name) > 1}
        blobs = Counter(one.item.get("encrypted_content") for one in self.seen)
        twice |= {blob for blob, count in blobs.items() if blob and count > 1}
        yield from (words.DUPLICATE(str(name)) for name in twice)
        yield from super().outputs()

    @override
    def is_like(self, one: Seen, item_id: str) -> bool:
        return False

    @override
    def ends_outputs(self, one: Seen) -> bool:
        return one.kind not in OUTPUTS


def is_accepted(history: History, sent: list[Item], more: dict[str, Any]) -> bool:
    """Return whether the strictest API takes a request, if it has emitted the history."""
    api = Responses(Script())
    for emitted in history.outputs:
        api.keep_pairs(emitted)
        names = {item[key] for item in emitted for key in ("id", "call_id") if key in item}
        own = [not names.isdisjoint((item.get("id"), item.get("call_id"))) for item in sent]
        if any(own) and not all(own[own.index(True) : len(own) - own[::-1].index(True)]):
            return False  # the items of a response and their outputs stand together
        ids = [item["id"] for item in emitted]
        mine = [item for item, is_own in zip(sent, own, strict=True) if is_own]
        order = [ids.index(name) if (name := item.get("id")) in ids else len(ids) for item in mine]
        if order != sorted(order):
            return False  # as they were emitted, and the outputs after them
    request = {"model": MODEL, **more, "input": sent}
    return not list(Strictest(request, [], api.emitted, {}).refusals())


def is_unchanged(case: Case, before: list[bytes], after: list[bytes]) -> bool:
    """Return whether items stay, apart from the ids of those of which nothing is known."""
    models = (item for item in case.items if item.role is Role.MODEL and item.id)
    unknown = {item.raw for item in models if item not in case.matches}
    return len(before) == len(after) and all(
        one == other or (one in unknown and nameless(json.loads(one)) == json.loads(other))
        for one, other in zip(before, after, strict=True)
    )


@examples(400)
@given(requests())
def test_what_the_strict_api_accepts_stays(requested: Requested) -> None:
    """Its reasoning, calls, outputs and messages are sent as they came."""
    history, sent, more = requested
    more = {**more, "store": False}
    assume(STATEFUL.keys().isdisjoint(more) and is_accepted(history, sent, more))
    case = case_of(history.world, sent, UNKNOWN, **more)
    assume(case.inject_again(case.sent.body) == case.sent.body)  # it may accept lost reasoning

    assert is_unchanged(case, raws(case.sent.body), raws(normal_form(case)))


@examples(300)
@given(later_faults())
def test_bytes_before_the_first_fault_stay(requested: tuple[Requested, int]) -> None:
    """The turns before those that the client changed keep their bytes, and so their cache."""
    (history, sent, more), end = requested
    case = case_of(history.world, sent, UNKNOWN, **more)
    before, after = raws(case.sent.body), raws(normal_form(case))

    assert is_unchanged(case, before[:end], after[:end])


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
