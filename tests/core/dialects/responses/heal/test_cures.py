"""Every row of cures.md: a refused request, and the request of the retry."""

import pytest
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, Form, RefusalKind

from tests.core.dialects.responses.heal.played import ASK, cured, world_of
from tests.core.dialects.responses.notation import NAMED, history, request_of, rows


def diagnosis_of(text: str) -> Diagnosis:
    """Return the diagnosis that a cell describes, with the ids of the items that it names."""
    kind, *words = text.split()
    found = dict(word.partition("=")[::2] for word in words)

    def name_of(key: str) -> str:
        item, _, member = found.get(key, "").partition(".")
        return str(NAMED[item][member or "id"]) if item in NAMED else item

    blob = NAMED[found["ends"]]["encrypted_content"] if "ends" in found else ""
    return Diagnosis(
        RefusalKind(kind),
        subject=name_of("subject"),
        wanted=name_of("wanted"),
        index=int(found["index"]) if "index" in found else None,
        member=found.get("member", ""),
        ends=(blob[:4], blob[-2:]) if blob else None,
        is_foreign="foreign" in found,
        form=Form(found.get("form", "")),
    )


@pytest.mark.parametrize(("captured", "request_", "sent", "refusal", "want"), rows("heal/cures.md"))
def test_a_refused_request_is_cured(
    captured: str, request_: str, sent: str, refusal: str, want: str
) -> None:
    """The retry has the items of the table, or the refusal is passed on."""
    world = world_of(*map(history, captured.split(" / "))) if captured else world_of()
    members, _, given = request_.partition("given: ")
    came = [ASK, *history(given)] if given else None
    refused = diagnosis_of(refusal)
    got = cured(world, [ASK, *history(sent)], refused, given=came, **request_of(members))

    assert got == (None if want == "(refused)" else [ASK, *history(want)])
