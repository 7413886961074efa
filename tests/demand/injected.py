"""
Scenarios of dropped reasoning, before calls and before messages.

Captured reasoning is injected before the first attempt. If nothing was captured, the cure leaves
out the ids that demand the reasoning, which the API accepts.
"""

from collections.abc import Sequence

from tests.demand.scenario import LACKS_REASONING, Refused, Scenario
from tests.standin import Behaviour

__all__ = ["SCENARIOS"]

UNSTORED = {"store": False}
TO_BILLING = {"instructions": "You are the billing agent. Take over."}


CLINE = Scenario(
    row=1,
    title="Cline keeps the call's id",
    sent="u1 c1 o1",
    refused=Refused(LACKS_REASONING, "c1 r1"),
    want="u1 r1 c1 o1",
    model="gpt-5.5",
)
CONTINUE = Scenario(
    row=2,
    title="Continue keeps calls' ids over several steps",
    loop="chain",
    turns=3,
    sent="u1 c1 o1 c2 o2 c3 o3",
    refused=Refused(LACKS_REASONING, "c1 r1"),
    want="u1 r1 c1 o1 c2 o2 r2 c3 o3",
    model="gpt-5",
)
CONTINUE_MESSAGE = Scenario(
    row=3,
    title="Continue keeps the message's id",
    loop="message",
    asks="Sure?",
    sent="u1 m1 u2",
    refused=Refused(LACKS_REASONING, "m1 r1"),
    want="u1 r1 m1 u2",
)
MASTRA = Scenario(
    row=6,
    title="Mastra Memory rebuilds the history",
    turns=2,
    asks="Sure?",
    sent="u1 c1 o1 m1 u2",
    refused=Refused(LACKS_REASONING, "c1 r1"),
    want="u1 r1 c1 o1 r2 m1 u2",
    model="gpt-5-mini",
)
HERMES = Scenario(
    row=39,
    title="Hermes keeps the message and its id",
    loop="message",
    asks="Sure?",
    sent="u1 m1 u2",
    refused=Refused(LACKS_REASONING, "m1 r1"),
    want="u1 r1 m1 u2",
    model="gpt-5.6",
)
OPEN_SWE = Scenario(
    row=47,
    title="LangGraph middleware removes stale reasoning",
    loop="chain",
    turns=3,
    sent="u1 c1 o1 c2 o2 r2 c3 o3",
    refused=Refused(LACKS_REASONING, "c1 r1"),
    want="u1 r1 c1 o1 c2 o2 r2 c3 o3",
)
QWEN = Scenario(
    row=46,
    title="Qwen Code pairs every call with its output",
    loop="parallel",
    sent="u1 c1 o1 c2 o2 c3 o3",
    refused=Refused(LACKS_REASONING, "c1 r1"),
    want="u1 r1 c1 o1 c2 o2 c3 o3",
)

SCENARIOS: Sequence[Scenario] = (
    CLINE,
    CLINE.uncaptured(want="u1 c1:noid o1", healed="lacks_reasoning"),
    CONTINUE,
    CONTINUE.uncaptured(want="u1 c1:noid o1 c2:noid o2 c3:noid o3", healed="lacks_reasoning"),
    CONTINUE_MESSAGE,
    CONTINUE_MESSAGE.uncaptured(want="u1 m1:noid u2", healed="lacks_reasoning"),
    MASTRA,
    MASTRA.uncaptured(want="u1 c1:noid o1 m1:noid u2", healed="lacks_reasoning"),
    Scenario(
        row=6,
        title="Mastra Memory keeps a hosted search, whose id is required (not captured)",
        loop="hosted",
        made="straight",
        sent="u1 w1 c1 o1",
        refused=Refused(LACKS_REASONING, "w1 r1"),
        want="u1 c1:noid o1",
        healed="lacks_reasoning",
    ),
    Scenario(
        row=7,
        title="Mastra DurableAgent with parallel calls",
        loop="parallel",
        sent="u1 c1 c2 c3 o1 o2 o3",
        refused=Refused(LACKS_REASONING, "c1 r1"),
        want="u1 r1 c1 c2 c3 o1 o2 o3",
    ),
    Scenario(
        row=8,
        title="Mastra refers to a message whose reasoning it did not keep",
        loop="message",
        asks="Sure?",
        sent="u1 m1:ref u2",
        refused=Refused(LACKS_REASONING, "m1 r1"),
        want="u1 r1 m1:ref u2",
        model="gpt-5.6",
    ),
    Scenario(
        row=10,
        title="Mastra drops reasoning",
        sent="u1 c1 o1",
        refused=Refused(LACKS_REASONING, "c1 r1"),
        want="u1 r1 c1 o1",
        body=UNSTORED,
    ),
    Scenario(
        row=11,
        title="TanStack AI drops several in a turn",
        loop="two_reasoning",
        turns=2,
        sent="u1 c1 o1 c2 c3 o2 o3",
        refused=Refused(LACKS_REASONING, "c1 r1"),
        want="u1 r1 r2 c1 o1 r3 c2 r4 c3 o2 o3",
    ),
    Scenario(
        row=13,
        title="Agency Swarm hands off to another agent",
        sent="u1 c1 o1",
        refused=Refused(LACKS_REASONING, "c1 r1"),
        want="u1 r1 c1 o1",
        last=TO_BILLING,
    ),
    Scenario(
        row=14,
        title="Agent Framework on Azure, with an api-key",
        sent="u1 c1 o1",
        refused=Refused(LACKS_REASONING, "c1 r1"),
        want="u1 r1 c1 o1",
        key="api-key",
    ),
    Scenario(
        row=27,
        title="AI SDK's open-responses provider drops all but the call_id",
        sent="u1 c1:noid o1",
        refused=Refused(LACKS_REASONING, "c1 r1"),
        continuity="strict",
        want="u1 r1:noid c1:noid o1",
        body=UNSTORED,
    ),
    Scenario(
        row=27,
        title="ids rotate, so that only the call_id identifies the call",
        sent="u1 c1:addedid o1",
        refused=Refused(LACKS_REASONING, "c1 r1"),
        continuity="strict",
        want="u1 r1:noid c1:addedid o1",
        body=UNSTORED,
        behaviour=Behaviour(always_encrypted=True, rotate_ids=True),
        streams=(True,),
    ),
    Scenario(
        row=30,
        title="Rig sends the call alone",
        loop="custom",
        sent="u1 c1 o1",
        refused=Refused(LACKS_REASONING, "c1 r1"),
        want="u1 r1 c1 o1",
        body=UNSTORED,
    ),
    HERMES,
    HERMES.uncaptured(want="u1 m1:noid u2", healed="lacks_reasoning"),
    QWEN,
    QWEN.uncaptured(want="u1 c1:noid o1 c2:noid o2 c3:noid o3", healed="lacks_reasoning"),
    OPEN_SWE,
    OPEN_SWE.uncaptured(want="u1 c1:noid o1 c2:noid o2 r2 c3 o3", healed="lacks_reasoning"),
    Scenario(
        row=48,
        title="LangChain drops ids and reasoning",
        turns=2,
        asks="Sure?",
        sent="u1 c1:noid o1 m1:easy u2",
        want="u1 r1 c1 o1 r2:noid m1:phased u2",
    ),
    Scenario(
        row=49,
        title="LangChain Elixir sends no ids",
        loop="parallel",
        sent="u1 c1:noid c2:noid c3:noid o1 o2 o3",
        want="u1 r1:noid c1:noid c2:noid c3:noid o1 o2 o3",
        body=UNSTORED,
    ),
    Scenario(
        row=50,
        title="frameworks drop reasoning between tool turns",
        loop="chain",
        turns=3,
        sent="u1 c1:noid o1 c2:noid o2 c3:noid o3",
        refused=Refused(LACKS_REASONING, "c1 r1"),
        continuity="strict",
        want="u1 r1:noid c1:noid o1 c2:noid o2 r2:noid c3:noid o3",
        body=UNSTORED,
    ),
    Scenario(
        row=51,
        title="frameworks without reasoning support keep only texts",
        loop="message",
        asks="Sure?",
        sent="u1 m1:easy u2",
        want="u1 r1:noid m1:phased u2",
    ),
    Scenario(
        row=55,
        title="Kilo Code drops reasoning before a call",
        sent="u1 c1 o1",
        refused=Refused(LACKS_REASONING, "c1 r1"),
        want="u1 r1 c1 o1",
        body={"store": False, "include": ["reasoning.encrypted_content"]},
    ),
    Scenario(
        row=56,
        title="LibreChat requests all_turns and replays none",
        turns=3,
        sent="u1 c1:noid o1 m1:easy u2 c2:noid o2",
        refused=Refused(LACKS_REASONING, "c1 r1"),
        continuity="strict",
        want="u1 r1:noid c1:noid o1 r2:noid m1:phased u2 r3:noid c2:noid o2",
        body={"store": False, "reasoning": {"effort": "high", "context": "all_turns"}},
        model="gpt-5.6",
    ),
)
