"""Scenarios of followers: reasoning whose follower the client dropped, moved or sent without id."""

from collections.abc import Sequence
from dataclasses import replace

from tests.demand.scenario import LACKS_FOLLOWER, LACKS_REASONING, Refused, Scenario
from tests.standin import Behaviour

__all__ = ["SCENARIOS"]

NO_BLOBS = Behaviour()
"""Upstream stores the items and returns ids without blobs."""


CALL_WITHOUT_ID = Scenario(
    row=4,
    title="Continue sends reasoning by id, and the call without its id",
    sent="u1 r1 c1:noid o1",
    refused=Refused(LACKS_FOLLOWER, "r1"),
    want="u1 r1 c1 o1",
    repaired=True,
)
FOLLOWER_GONE = Scenario(
    row=4,
    title="Continue drops the message",
    loop="message",
    asks="Sure?",
    sent="u1 r1 u2",
    refused=Refused(LACKS_FOLLOWER, "r1"),
    want="u1 u2",
    healed="lacks_follower",
)
MESSAGE_WITHOUT_ID = Scenario(
    row=9,
    title="Mastra drops the message's id",
    loop="message",
    asks="Sure?",
    sent="u1 r1 m1:noid u2",
    refused=Refused(LACKS_FOLLOWER, "r1"),
    want="u1 r1 m1 u2",
    repaired=True,
)
SEARCH_GONE = Scenario(
    row=17,
    title="Agents SDK drops a hosted call before its own",
    loop="hosted",
    sent="u1 r1 r2 c1 o1",
    refused=Refused(LACKS_FOLLOWER, "r1"),
    want="u1 r1 w1 r2 c1 o1",
    healed="lacks_follower",
)
ORPHAN = Scenario(
    row=24,
    title="AI SDK drops an empty text",
    turns=2,
    asks="Sure?",
    sent="u1 r1 c1 o1 r2 u2",
    refused=Refused(LACKS_FOLLOWER, "r2"),
    want="u1 r1 c1 o1 u2",
    healed="lacks_follower",
)

PREAMBLE_GONE = Scenario(
    row=24,
    title="AI SDK drops the text before a call",
    loop="preamble",
    sent="u1 r1 c1 o1",
    refused=Refused(LACKS_FOLLOWER, "r1"),
    want="u1 r1:noid c1:noid o1",
    repaired=True,
    body={"store": False},
)
ID_STRIPPED = Scenario(
    row=39,
    title="Hermes strips the reasoning's id alone",
    loop="message",
    asks="Sure?",
    sent="u1 r1:noid m1 u2",
    refused=Refused(LACKS_REASONING, "m1 r1"),
    want="u1 r1 m1 u2",
    repaired=True,
)

SCENARIOS: Sequence[Scenario] = (
    CALL_WITHOUT_ID,
    CALL_WITHOUT_ID.uncaptured(
        want="u1 r1:noid c1:noid o1", healed="lacks_follower", repaired=False
    ),
    FOLLOWER_GONE,
    FOLLOWER_GONE.uncaptured(want="u1 u2"),
    Scenario(
        row=4,
        title="Continue ends with the rest of a broken stream",
        loop="message",
        made="straight",
        sent="u1 r1",
        refused=Refused(LACKS_FOLLOWER, "r1"),
        want="u1",
        repaired=True,
    ),
    MESSAGE_WITHOUT_ID,
    MESSAGE_WITHOUT_ID.uncaptured(
        want="u1 r1:noid m1:noid u2", healed="lacks_follower", repaired=False
    ),
    PREAMBLE_GONE,
    replace(PREAMBLE_GONE, title="AI SDK drops the text before a stored call", body={}),
    PREAMBLE_GONE.uncaptured(healed="lacks_follower", repaired=False),
    SEARCH_GONE,
    SEARCH_GONE.uncaptured(want="u1 r2 c1 o1", behaviour=NO_BLOBS),
    Scenario(
        row=18,
        title="Agents SDK nests a handoff's history, only reasoning is left",
        asks="Go on, billing agent.",
        sent="u1 r1 u2",
        refused=Refused(LACKS_FOLLOWER, "r1"),
        want="u1 u2",
        healed="lacks_follower",
    ),
    Scenario(
        row=23,
        title="raw SDK rebuilds the message without id",
        loop="message",
        asks="Sure?",
        made="straight",
        sent="u1 r1 m1:noid u2",
        refused=Refused(LACKS_FOLLOWER, "r1"),
        want="u1 m1:noid u2",
        healed="lacks_follower",
        behaviour=NO_BLOBS,
    ),
    ORPHAN,
    ORPHAN.uncaptured(want="u1 r1 c1 o1 u2"),
    Scenario(
        row=28,
        title="Pydantic AI does not replay hosted searches",
        loop="interleaved",
        asks="Sure?",
        sent="u1 r1 r2 r3 m1 u2",
        refused=Refused(LACKS_FOLLOWER, "r1"),
        want="u1 r1 w1 r2 w2 r3 m1 u2",
        healed="lacks_follower",
    ),
    ID_STRIPPED,
    ID_STRIPPED.uncaptured(want="u1 r1:noid m1:noid u2", healed="lacks_reasoning", repaired=False),
    Scenario(
        row=46,
        title="Qwen Code removes all calls of a group",
        loop="parallel",
        made="straight",
        asks="Never mind.",
        sent="u1 r1 u2",
        refused=Refused(LACKS_FOLLOWER, "r1"),
        want="u1 u2",
        healed="lacks_follower",
    ),
    Scenario(
        row=48,
        title="LangChain merges items and loses the call's id",
        sent="u1 r1 c1:noid o1",
        refused=Refused(LACKS_FOLLOWER, "r1"),
        want="u1 r1 c1 o1",
        repaired=True,
        behaviour=NO_BLOBS,
    ),
    Scenario(
        row=55,
        title="BrainPilot keeps an orphan",
        turns=2,
        asks="Sure?",
        made="straight",
        sent="u1 r1 c1 o1 r2 u2",
        refused=Refused(LACKS_FOLLOWER, "r2"),
        want="u1 r1 c1 o1 u2",
        healed="lacks_follower",
        body={"store": False},
    ),
    Scenario(
        row=58,
        title="an app on the Agents SDK keeps an orphan",
        loop="message",
        turns=2,
        made="straight",
        asks="Sure?",
        sent="u1 r1 u2 r2 m2 u3",
        refused=Refused(LACKS_FOLLOWER, "r1"),
        want="u1 u2 r2 m2 u3",
        healed="lacks_follower",
        behaviour=NO_BLOBS,
    ),
)
