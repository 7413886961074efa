"""Scenarios without a cure: healing would invent items, so the refusal is passed on unchanged."""

from collections.abc import Sequence

from tests.demand.blobs import MASKED
from tests.demand.scenario import LACKS_CALL, LACKS_OUTPUT, NOT_FOUND, Refused, Scenario
from tests.standin import Quirks

__all__ = ["SCENARIOS"]

AFTER_PREVIOUS = {"previous_response_id": "previous"}

SCENARIOS: Sequence[Scenario] = (
    Scenario(
        row=15,
        title="Agent Framework drops an output",
        asks="Still there?",
        sent="u1 r1 c1 u2",
        refused=Refused(LACKS_OUTPUT, "c1"),
        want=None,
    ),
    Scenario(
        row=15,
        title="Agent Framework drops one output of three",
        loop="parallel",
        sent="u1 r1 c1 c2 c3 o1 o3",
        refused=Refused(LACKS_OUTPUT, "c2"),
        want=None,
    ),
    Scenario(
        row=15,
        title="Agent Framework continues from a deleted response",
        asks="Still there?",
        sent="u2",
        refused=Refused(r"Previous response with id 'resp_gone' not found\."),
        want=None,
        last={"previous_response_id": "resp_gone"},
    ),
    Scenario(
        row=21,
        title="Agents SDK does not post the output to the previous response",
        asks="Still there?",
        sent="u2",
        refused=Refused(LACKS_OUTPUT, "c1"),
        want=None,
        last=AFTER_PREVIOUS,
    ),
    Scenario(
        row=38,
        title="oh-my-pi drops an unknown call (not captured)",
        made="straight",
        sent="u1 o1",
        refused=Refused(LACKS_CALL, "o1"),
        want=None,
    ),
    Scenario(
        row=45,
        title="VS Code extension, the error comes after `response.created`",
        made="straight",
        sent="u1 r1 c1 o1",
        refused=Refused(MASKED),
        want=None,
        then=Quirks(account="b", foreign="masked", refuses_by="late"),
        streams=(True,),
    ),
    Scenario(
        row=53,
        title="a reference to a call, with its output (not captured)",
        made="straight",
        sent="u1 c1:ref o1",
        refused=Refused(NOT_FOUND, "c1", status=404),
        want=None,
        expires=True,
    ),
    Scenario(
        row=57,
        title="codex2api sends the output of an unknown call (not captured)",
        made="straight",
        turns=2,
        loop="chain",
        sent="u1 r1 c1 o1 o2",
        refused=Refused(LACKS_CALL, "o2"),
        want=None,
    ),
    Scenario(
        row=0,
        title="DeepSeek's text is unknown (not captured)",
        made="straight",
        sent="u1 r1:notext c1 o1",
        refused=Refused(
            r"The `reasoning_text` in the thinking mode must be passed back to the API\."
        ),
        want=None,
        quirks=Quirks(thinks_aloud=True),
    ),
)
