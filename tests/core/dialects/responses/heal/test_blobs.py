"""Refused blobs: healing removes the reasoning that upstream refuses, and no more than it must."""

from reasoning_replay.core.dialects.responses.emitted import blob_digest
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, Form, RefusalKind
from reasoning_replay.core.dialects.responses.items import read_item
from reasoning_replay.core.dialects.responses.profiles import PROFILES

from tests.core.dialects.responses.heal.played import (
    ASK,
    cure_of,
    cured,
    maybe_cure_of,
    world_of,
)
from tests.core.world import (
    Item,
    World,
    body,
    call,
    input_of,
    message,
    nameless,
    output,
    reasoning,
    search,
)

R1, R2, R3 = reasoning("1"), reasoning("2"), reasoning("3")
C1, C2, C3 = call("1"), call("2"), call("3")
O1, O2, O3 = output(C1, "one"), output(C2, "two"), output(C3, "three")
SAID, WS = message("1", "Sunny."), search("1")
ANY = Diagnosis(RefusalKind.BLOB)
BOUND = Diagnosis(RefusalKind.BLOB, subject=R1["id"], form=Form.BY_VALUE)
UNSTORED, OTHER_MODEL = {"store": False}, {"model": "o4-mini"}


def refused(item: Item) -> Diagnosis:
    """Return the diagnosis of a refused blob that is named by the id of its item."""
    return Diagnosis(RefusalKind.BLOB, subject=item["id"])


def masked(item: Item) -> Diagnosis:
    """Return the diagnosis of a refused blob that is named by its first and last characters."""
    blob = item["encrypted_content"]
    return Diagnosis(RefusalKind.BLOB, ends=(blob[:4], blob[-2:]))


def digest_of(item: Item) -> bytes:
    """Return the digest under which a refused blob is remembered."""
    return blob_digest(read_item(body([item]).split(b"[", 1)[1].rsplit(b"]", 1)[0]))


PAIRS = [R1, C1, O1, R2, C2, O2]
DAMAGED = {**R1, "encrypted_content": "gAAAAhalf"}


def test_blobs_of_another_vendor_are_removed() -> None:
    """If upstream names no blob, the blobs that have another vendor's shape are removed."""
    grok = {**R1, "encrypted_content": "x/y+z"}
    profile = PROFILES["openai"]

    got = cured(World(), [ASK, grok, C1, O1, R2, C2, O2], ANY, profile=profile)

    assert got == [ASK, nameless(C1), O1, R2, C2, O2]


def test_injected_reasoning_is_counted_when_a_client_blob_is_removed() -> None:
    """Injected reasoning that stays in the request is still counted."""
    given = [ASK, C1, O1, R2, C2, O2]
    found = cure_of(world_of([R1, C1]), [ASK, *PAIRS], masked(R2), given=given)
    assert found.injected == 1
    assert found.injected_bytes > len(R1["encrypted_content"])


def test_injected_reasoning_is_removed_first() -> None:
    """While injected reasoning may be the cause, reasoning that the client sent is kept."""
    sent, given = [ASK, *PAIRS], [ASK, C1, O1, R2, C2, O2]
    want = [ASK, nameless(C1), O1, R2, C2, O2]

    for refusal in (ANY, refused(R1)):
        found = cure_of(World(), sent, refusal, given=given)
        assert cured(World(), sent, refusal, given=given) == want
        assert found.injected == 0
    assert cured(World(), sent, refused(R2), given=given) == [
        ASK,
        nameless(C1),
        O1,
        nameless(C2),
        O2,
    ]


def test_a_cure_reports_the_refused_blob() -> None:
    """The digest of a named blob is reported, and the turn that holds it."""
    world = world_of([R1, C1], [R2, C2])
    found = cure_of(world, [ASK, *PAIRS], refused(R1))

    assert found.lost == {digest_of(R1)}  # nothing is proven about the other blob
    assert [turn.items[0].id for turn in found.withheld] == [C1["id"]]


def test_reasoning_of_the_model_stays_if_that_of_another_is_refused() -> None:
    """Upstream says nothing about the model's own; if that is refused, no captured one is good."""
    world = world_of([R1, C1])
    world.learn(body([ASK, R1, C1, O1], **OTHER_MODEL), [R2, C2], model="o4-mini")
    sent = [ASK, *PAIRS, R3, C3, O3]
    last = [nameless(C3), O3]

    assert cured(world, sent, refused(R2)) == [ASK, R1, C1, O1, nameless(C2), O2, *last]
    assert cured(world, sent, refused(R1)) == [ASK, nameless(C1), O1, nameless(C2), O2, *last]
    assert cured(world, sent, refused(R1), **OTHER_MODEL) == [
        *(ASK, nameless(C1), O1, R2, C2, O2),
        *last,
    ]


def test_a_damaged_copy_does_not_evict_the_original() -> None:
    """Only the digest of the damaged copy is reported; the captured original is kept."""
    found = cure_of(world_of([R1, C1]), [ASK, DAMAGED, C1, O1], refused(R1))

    assert found.lost == {digest_of(DAMAGED)}
    assert found.withheld == ()
    assert len(found.completed) == 1


def test_only_a_conversation_whose_blobs_come_back_is_completed() -> None:
    """Not one that loses them, or had them all along."""
    for turns in ([[R1, C1], [R2, C2]], [[R2, C2]]):
        found = cure_of(world_of(*turns), [ASK, *PAIRS], refused(R1))
        assert found.completed == frozenset()


def test_a_bound_blob_is_good() -> None:
    """A blob refused only because of its item id is not remembered as refused."""
    found = cure_of(world_of([R1, C1]), [ASK, R1, C1, O1], BOUND)

    assert (found.lost, found.withheld) == (frozenset(), ())


def test_include_is_removed_if_the_model_cannot_encrypt() -> None:
    """The refused entry of `include` is removed, whether the proxy or the client added it."""
    include = ["reasoning.encrypted_content", "file_search_call.results"]
    refusal = Diagnosis(RefusalKind.INCLUDE)
    found = cure_of(World(), [ASK], refusal, include=include)

    assert found.body == body([ASK], include=include).replace(b'"%s" , ' % include[0].encode(), b"")
    assert maybe_cure_of(World(), [ASK], refusal) is None


def test_masked_ends_may_match_several_blobs() -> None:
    """All blobs that match are removed, and no turn is evicted."""
    twin = R2 | {"encrypted_content": "gAAAzzAAA1"}
    world = world_of([R1, C1], [twin, C2])
    ends = (R1["encrypted_content"][:4], R1["encrypted_content"][-4:])
    found = cure_of(world, [ASK, R1, C1, O1, twin, C2, O2], Diagnosis(RefusalKind.BLOB, ends=ends))

    assert input_of(found.body) == [ASK, nameless(C1), O1, nameless(C2), O2]
    assert found.withheld == ()
