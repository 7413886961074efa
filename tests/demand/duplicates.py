"""Scenarios of duplicates: items that occur twice, in the input or in the input and upstream."""

from collections.abc import Mapping, Sequence

from tests.demand.notation import Item
from tests.demand.scenario import DUPLICATE, Refused, Scenario

__all__ = ["SCENARIOS"]

SEARCHED: Mapping[str, Item] = {
    "t1": {
        "type": "tool_search_output",
        "id": "tso_68a1f0c2b7d34e95",
        "call_id": None,
        "tools": [],
    },
}
IN_CONVERSATION = {"conversation": "conv_1"}
AFTER_PREVIOUS = {"previous_response_id": "previous"}

CONTINUED = Scenario(
    row=26,
    title="AI SDK sends reasoning that the previous response contains",
    sent="r1 o1",
    refused=Refused(DUPLICATE, "r1"),
    want="o1",
    healed="duplicate",
    last=AFTER_PREVIOUS,
)

SCENARIOS: Sequence[Scenario] = (
    Scenario(
        row=10,
        title="Mastra repeats the output of a tool search",
        sent="u1 r1 c1 o1 t1 t1",
        refused=Refused(DUPLICATE, "t1"),
        want="u1 r1 c1 o1 t1",
        healed="duplicate",
        more=SEARCHED,
    ),
    Scenario(
        row=22,
        title="Agents JS sends items that the conversation stores",
        sent="r1 c1 o1",
        refused=Refused(DUPLICATE, "r1"),
        want="o1",
        healed="duplicate",
        body=IN_CONVERSATION,
    ),
    Scenario(
        row=22,
        title="Agents JS sends items that the conversation stores (not captured)",
        loop="message",
        asks="Sure?",
        made="straight",
        sent="m1 u2",
        refused=Refused(DUPLICATE, "m1"),
        want="u2",
        healed="duplicate",
        body=IN_CONVERSATION,
    ),
    Scenario(
        row=26,
        title="AI SDK sends reasoning twice",
        sent="u1 r1 r1 c1 o1",
        refused=Refused(DUPLICATE, "r1"),
        want="u1 r1 c1 o1",
        repaired=True,
    ),
    CONTINUED,
    CONTINUED.uncaptured(),
    Scenario(
        row=31,
        title="OpenRouter's provider sends reasoning in two of its forms",
        sent="u1 r1 r1:final c1 o1",
        refused=Refused(DUPLICATE, "r1"),
        want="u1 r1 c1 o1",
        healed="duplicate",
        model="gpt-5-codex",
        streams=(True,),
    ),
    Scenario(
        row=32,
        title="Cloudflare agents repeat a whole turn",
        loop="message",
        asks="Sure?",
        sent="u1 r1 m1 r1 m1 u2",
        refused=Refused(DUPLICATE, "r1"),
        want="u1 r1 m1 u2",
        healed="duplicate",
    ),
    Scenario(
        row=32,
        title="Zed repeats a call with its output",
        sent="u1 r1 c1 o1 c1 o1",
        refused=Refused(DUPLICATE, "c1"),
        want="u1 r1 c1 o1",
        healed="duplicate",
    ),
    Scenario(
        row=32,
        title="VS Code gives one id to two texts",
        loop="message",
        asks="Sure?",
        made="straight",
        sent="u1 r1 m1 u2 m1:reworded u2",
        refused=Refused(DUPLICATE, "m1"),
        want="u1 r1 m1 u2 m1:reworded+noid u2",
        healed="duplicate",
    ),
    Scenario(
        row=32,
        title="VS Code gives ids to more than one text (not captured)",
        turns=2,
        asks="Sure?",
        made="straight",
        sent="u1 r1 c1 o1 r2 m1 u2 m1:reworded u2 c1:reasked o1:again u2",
        refused=Refused(DUPLICATE, "m1"),
        want="u1 r1 c1 o1 r2 m1 u2 m1:reworded+noid u2 c1:reasked+noid o1:again u2",
        healed="duplicate",
    ),
    Scenario(
        row=40,
        title="Hermes repeats reasoning of an earlier turn",
        turns=2,
        asks="Sure?",
        sent="u1 r1 c1 o1 r1 r2 m1 u2",
        refused=Refused(DUPLICATE, "r1"),
        want="u1 r1 c1 o1 r2 m1 u2",
        healed="duplicate",
        body={"store": False},
    ),
)
