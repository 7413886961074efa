"""Scenarios of order: items that belong together are apart; the cure reorders them without loss."""

from collections.abc import Sequence
from dataclasses import replace

from tests.demand.scenario import (
    LACKS_CALL,
    LACKS_FOLLOWER,
    LACKS_OUTPUT,
    LACKS_REASONING,
    Refused,
    Scenario,
)
from tests.standin import Quirks

__all__ = ["SCENARIOS"]

BLAMES_FOLLOWER = Quirks(blames_follower=True)


CALL_FIRST = Scenario(
    row=5,
    title="Continue emits the call before the message",
    loop="preamble",
    sent="u1 r1 c1 m1 o1",
    refused=Refused(LACKS_REASONING, "m1 r1"),
    want="u1 r1 m1 c1 o1",
    healed="lacks_reasoning",
    quirks=BLAMES_FOLLOWER,
)
GROUPED = Scenario(
    row=12,
    title="TanStack AI puts all reasoning first",
    loop="two_reasoning",
    turns=2,
    sent="u1 r1 r2 c1 o1 r3 r4 c2 c3 o2 o3",
    refused=Refused(LACKS_REASONING, "c3 r4"),
    want="u1 r1 r2 c1 o1 r3 c2 r4 c3 o2 o3",
    healed="lacks_reasoning",
    quirks=BLAMES_FOLLOWER,
)
BEHIND_ITS_CALL = Scenario(
    row=24,
    title="AI SDK sends reasoning after its call",
    sent="u1 c1 r1 o1",
    refused=Refused(LACKS_REASONING, "c1 r1"),
    want="u1 r1 c1 o1",
    healed="lacks_reasoning",
)
LATE_OUTPUT = Scenario(
    row=15,
    title="Agent Framework sends the output after the next question",
    asks="Still there?",
    sent="u1 r1 c1 u2 o1",
    refused=Refused(LACKS_OUTPUT, "c1"),
    want="u1 r1 c1 o1 u2",
    healed="lacks_output",
    quirks=Quirks(prompt_outputs=True),
)
EARLY_OUTPUT = Scenario(
    row=38,
    title="oh-my-pi sends the output before its call",
    sent="u1 o1 r1 c1",
    refused=Refused(LACKS_CALL, "o1"),
    want="u1 r1 c1 o1",
    healed="lacks_call",
)

SCENARIOS: Sequence[Scenario] = (
    CALL_FIRST,
    CALL_FIRST.uncaptured(),
    replace(
        CALL_FIRST,
        title="Continue emits the call before the message, reasoning is blamed",
        refused=Refused(LACKS_FOLLOWER, "r1"),
        healed="lacks_follower",
        quirks=Quirks(),
    ),
    replace(
        CALL_FIRST,
        title="Continue emits the call before the message, reasoning is blamed (not captured)",
        made="straight",
        refused=Refused(LACKS_FOLLOWER, "r1"),
        want="u1 r1:noid c1:noid m1:noid o1",
        healed="lacks_follower",
        quirks=Quirks(),
    ),
    GROUPED,
    GROUPED.uncaptured(),
    replace(
        GROUPED,
        title="TanStack AI puts all reasoning first, reasoning is blamed",
        refused=Refused(LACKS_FOLLOWER, "r4"),
        healed="lacks_follower",
        quirks=Quirks(),
    ),
    BEHIND_ITS_CALL,
    BEHIND_ITS_CALL.uncaptured(),
    LATE_OUTPUT,
    LATE_OUTPUT.uncaptured(),
    replace(
        LATE_OUTPUT,
        row=38,
        title="oh-my-pi sends a message between call and output",
        sent="u1 r1 c1 u2 o1",
    ),
    EARLY_OUTPUT,
    EARLY_OUTPUT.uncaptured(),
    Scenario(
        row=38,
        title="oh-my-pi drops the first call of a group",
        loop="parallel",
        sent="u1 r1 c2 c3 o1 o2 o3",
        refused=Refused(LACKS_FOLLOWER, "r1"),
        want="u1 r1 c1 c2 c3 o1 o2 o3",
        healed="lacks_follower",
    ),
    Scenario(
        row=38,
        title="a reference takes the place of the call",
        sent="u1 r1 c1:ref o1",
        refused=Refused(LACKS_CALL, "o1"),
        want="u1 r1 c1 o1",
        healed="lacks_call",
    ),
    Scenario(
        row=38,
        title="oh-my-pi sends a message before all outputs of a group (not captured)",
        loop="parallel",
        made="straight",
        asks="Still there?",
        sent="u1 r1 c1 c2 c3 u2 o3 o1 o2",
        refused=Refused(r"No tool output found for function call call_\w+\."),
        want="u1 r1 c1 c2 c3 o3 o1 o2 u2",
        healed="lacks_output",
        quirks=Quirks(prompt_outputs=True),
    ),
    Scenario(
        row=38,
        title="oh-my-pi drops two calls, their outputs stay",
        loop="chain",
        turns=3,
        sent="u1 o1 c2 o2 o3",
        refused=Refused(LACKS_CALL, "o1"),
        want="u1 r1 c1 o1 c2 o2 r2 c3 o3",
        healed="lacks_call",
    ),
    Scenario(
        row=46,
        title="Qwen Code pairs calls with outputs where groups must stay together",
        loop="parallel",
        sent="u1 c1 o1 c2 o2 c3 o3",
        refused=Refused(LACKS_REASONING, "c1 r1"),
        want="u1 r1 c1 c2 c3 o1 o2 o3",
        healed="lacks_reasoning",
        quirks=Quirks(grouped=True),
    ),
    Scenario(
        row=38,
        title="oh-my-pi drops a call, its output stays",
        sent="u1 o1",
        refused=Refused(LACKS_CALL, "o1"),
        want="u1 r1 c1 o1",
        healed="lacks_call",
    ),
    Scenario(
        row=38,
        title="oh-my-pi drops a call, its reasoning and output stay",
        sent="u1 r1 o1",
        refused=Refused(LACKS_FOLLOWER, "r1"),
        want="u1 r1 c1 o1",
        healed="lacks_follower",
    ),
    Scenario(
        row=57,
        title="codex2api sends an output without its call",
        turns=2,
        loop="chain",
        sent="u1 r1 c1 o1 o2",
        refused=Refused(LACKS_CALL, "o2"),
        want="u1 r1 c1 o1 c2 o2",
        healed="lacks_call",
    ),
)
