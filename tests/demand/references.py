"""Scenarios of references: ids unknown to upstream are replaced by whole items or removed."""

from collections.abc import Sequence
from dataclasses import replace

from tests.demand.scenario import NOT_FOUND, Refused, Scenario
from tests.standin import Quirks

__all__ = ["SCENARIOS"]

UNSTORED = {"store": False}
ZDR = Quirks(keeps_nothing=True)
ZDR_WORDS = r"Item with id '{0}' not found\. Items are not persisted for Zero Data Retention"
AZURE = Quirks(not_found="azure")


HOLLOW = Scenario(
    row=16,
    title="Semantic Kernel keeps the id without the blob",
    sent="u1 r1:hollow c1 o1",
    refused=Refused(NOT_FOUND, "r1", status=404),
    want="u1 r1 c1 o1",
    repaired=True,
    body=UNSTORED,
)
REFERENCE = Scenario(
    row=25,
    title="AI SDK refers to reasoning",
    sent="u1 r1:ref c1 o1",
    refused=Refused(NOT_FOUND, "r1", status=404),
    want="u1 r1 c1 o1",
    repaired=True,
    body=UNSTORED,
)
NULL_BLOB = Scenario(
    row=37,
    title="OpenClaw sends a null blob to Azure",
    sent="u1 r1:null c1 o1",
    refused=Refused(NOT_FOUND, "r1"),
    want="u1 r1 c1 o1",
    healed="not_found",
    quirks=AZURE,
    expires=True,
)
AGED = Scenario(
    row=52,
    title="AutoGPT continues after the items have expired",
    sent="u1 r1:hollow c1 o1",
    refused=Refused(NOT_FOUND, "r1", status=404),
    want="u1 r1 c1 o1",
    healed="not_found",
    expires=True,
)
NEON = Scenario(
    row=53,
    title="a gateway cannot resolve references to reasoning",
    sent="u1 r1:ref c1 o1",
    refused=Refused(NOT_FOUND, "r1"),
    want="u1 r1 c1 o1",
    healed="not_found",
    quirks=AZURE,
    expires=True,
)
TWENTY = Scenario(
    row=53,
    title="Azure cannot find a message yet",
    loop="message",
    asks="Sure?",
    sent="u1 m1:ref u2",
    refused=Refused(NOT_FOUND, "m1"),
    want="u1 r1 m1 u2",
    healed="not_found",
    quirks=AZURE,
    expires=True,
)
LANGFUSE = Scenario(
    row=54,
    title="bare ids in an organisation without storage",
    sent="u1 r1:bare c1 o1",
    refused=Refused(ZDR_WORDS, "r1", status=404),
    want="u1 r1 c1 o1",
    healed="not_found",
    quirks=ZDR,
)
WITH_BLOB = Scenario(
    row=19,
    title="id and blob at an upstream that looks up every id",
    sent="u1 r1 c1 o1",
    refused=Refused(NOT_FOUND, "r1", status=404),
    want="u1 r1:noid c1:noid o1",
    healed="not_found",
    body=UNSTORED,
    quirks=Quirks(looks_up_all=True, not_found="text"),
)

SCENARIOS: Sequence[Scenario] = (
    HOLLOW,
    HOLLOW.uncaptured(want="u1 c1:noid o1", healed="not_found", repaired=False),
    Scenario(
        row=19,
        title="Agents SDK saves ids in an organisation without storage",
        sent="u1 r1:hollow c1 o1",
        refused=Refused(ZDR_WORDS, "r1", status=404),
        want="u1 r1 c1 o1",
        healed="not_found",
        quirks=ZDR,
    ),
    WITH_BLOB,
    WITH_BLOB.uncaptured(want="u1 r1:noid c1:noid o1", healed="not_found", repaired=False),
    REFERENCE,
    REFERENCE.uncaptured(want="u1 c1:noid o1", healed="not_found", repaired=False),
    replace(
        REFERENCE,
        title="AI SDK sends nothing but an id",
        sent="u1 r1:bare c1 o1",
    ),
    Scenario(
        row=33,
        title="OpenCode sends bare ids over several turns",
        turns=2,
        asks="Sure?",
        sent="u1 r1:hollow c1 o1 r2:hollow m1 u2",
        refused=Refused(NOT_FOUND, "r1", status=404),
        want="u1 r1 c1 o1 r2 m1 u2",
        repaired=True,
        body=UNSTORED,
    ),
    NULL_BLOB,
    NULL_BLOB.uncaptured(want="u1 c1:noid o1", healed="not_found", repaired=False),
    Scenario(
        row=48,
        title="LangChain drops the blob and the call's id",
        sent="u1 r1:hollow c1:noid o1",
        refused=Refused(NOT_FOUND, "r1", status=404),
        want="u1 r1 c1:noid o1",
        repaired=True,
        body=UNSTORED,
    ),
    AGED,
    AGED.uncaptured(want="u1 c1:noid o1", healed="not_found", repaired=False),
    replace(
        AGED,
        title="AutoGPT continues after the items have expired, with an error in plain text",
        quirks=Quirks(not_found="text"),
    ),
    NEON,
    NEON.uncaptured(want="u1 c1:noid o1", healed="not_found", repaired=False),
    TWENTY,
    TWENTY.uncaptured(want="u1 u2", healed="not_found", repaired=False),
    Scenario(
        row=52,
        title="AutoGPT continues after many turns",
        turns=2,
        asks="Sure?",
        sent="u1 r1:hollow c1 o1 r2:ref m1:ref u2",
        refused=Refused(NOT_FOUND, "r1", status=404),
        want="u1 r1 c1 o1 r2 m1 u2",
        healed="not_found",
        expires=True,
    ),
    Scenario(
        row=52,
        title="AutoGPT continues after many turns (not captured)",
        made="straight",
        turns=2,
        asks="Sure?",
        sent="u1 r1:hollow c1 o1 r2:hollow m1 u2",
        refused=Refused(NOT_FOUND, "r1", status=404),
        want="u1 c1:noid o1 m1:noid u2",
        healed="not_found",
        expires=True,
    ),
    LANGFUSE,
    LANGFUSE.uncaptured(want="u1 c1:noid o1", healed="not_found", repaired=False),
)
