"""Scenarios of refused blobs: upstream cannot decrypt the reasoning, and the session continues."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.demand.notation import Item
from tests.demand.scenario import Refused, Scenario
from tests.standin import Behaviour, Quirks

__all__ = ["SCENARIOS"]

OF_ITEM = r"The encrypted content for item {0} could not be verified\. Reason: "
ORGANIZATION = OF_ITEM + r"Encrypted content organization_id did not match the target organization"
MOVED = OF_ITEM + r"Encrypted content item_id did not match the target item id\."
UNREADABLE = OF_ITEM + r"Encrypted content could not be decrypted or parsed\."
MASKED = r"The encrypted content gAAA\.\.\.\S{{4}} could not be verified\."
DAMAGED = MASKED + r" Reason: Encrypted content could not be decrypted or parsed\."
CALLER = r"reasoning `encrypted_content` was not issued to this caller"
RESOURCE = r"The requested item was created under a different Azure OpenAI resource\."
NO_REASONING = r"Reasoning input items can only be provided to a reasoning or computer use model"
UNSTORED = {"store": False}
ELSEWHERE = Quirks(account="b")
COMPACTED: Mapping[str, Item] = {
    "k1": {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAABcompacted=="},
}


POOLED = Scenario(
    row=29,
    title="Pydantic AI behind a gateway that changes organisations",
    sent="u1 r1 c1 o1",
    refused=Refused(ORGANIZATION, "r1"),
    want="u1 c1:noid o1",
    healed="blob",
    body=UNSTORED,
    then=ELSEWHERE,
)
CALLERS = replace(
    POOLED,
    row=35,
    title="OpenCode via a pooled gateway, another caller",
    refused=Refused(CALLER),
    then=Quirks(account="b", foreign="caller"),
)
IN_STREAM = replace(
    POOLED,
    row=45,
    title="VS Code extension, `error` opens the stream",
    refused=Refused(MASKED),
    then=Quirks(account="b", foreign="masked", refuses_by="error"),
    streams=(True,),
)
SWITCHED = Scenario(
    row=41,
    title="Codex switches the model",
    sent="u1 r1 c1 o1",
    refused=Refused(MASKED),
    want="u1 c1:noid o1",
    repaired=True,
    body=UNSTORED,
    last={"model": "o4-mini"},
)
TWO_TURNS = Scenario(
    row=43,
    title="Codex resumes an old session",
    made="elsewhere",
    turns=2,
    asks="Go on.",
    sent="u1 r1 c1 o1 r2 m1 u2",
    refused=Refused(DAMAGED),
    want="u1 c1:noid o1 m1:noid u2",
    healed="blob",
    body=UNSTORED,
)

SCENARIOS: Sequence[Scenario] = (
    Scenario(
        row=20,
        title="Agents SDK continues with a model known not to reason",
        sent="u1 r1 c1 o1",
        refused=Refused(NO_REASONING),
        want="u1 c1:noid o1",
        repaired=True,
        last={"model": "gpt-4o"},
    ),
    Scenario(
        row=20,
        title="Agents SDK continues with an unknown model (not captured)",
        made="straight",
        sent="u1 r1 c1 o1",
        refused=Refused(NO_REASONING),
        want="u1 c1:noid o1",
        healed="no_reasoning_model",
        last={"model": "acme-plain"},
    ),
    POOLED,
    POOLED.uncaptured(),
    Scenario(
        row=29,
        title="a compaction is never changed",
        made="straight",
        sent="k1 u1 r1 c1 o1",
        refused=Refused(ORGANIZATION, "r1"),
        want="k1 u1 c1:noid o1",
        healed="blob",
        body=UNSTORED,
        then=ELSEWHERE,
        more=COMPACTED,
    ),
    CALLERS,
    CALLERS.uncaptured(),
    Scenario(
        row=35,
        title="OpenCode meets another region",
        made="elsewhere",
        sent="u1 r1 c1 o1",
        refused=Refused(DAMAGED),
        want="u1 c1:noid o1",
        healed="blob",
        body=UNSTORED,
    ),
    Scenario(
        row=36,
        title="Copilot's ids differ from the ids that its blobs are bound to",
        sent="u1 r1:addedid c1:addedid o1",
        refused=Refused(MOVED, "r1:addedid"),
        want="u1 r1:noid c1:noid o1",
        healed="blob",
        body=UNSTORED,
        behaviour=Behaviour(always_encrypted=True, rotate_ids=True),
        streams=(True,),
    ),
    Scenario(
        row=36,
        title="Copilot's ids differ from the ids that its blobs are bound to (not captured)",
        made="straight",
        turns=2,
        asks="Sure?",
        sent="u1 r1:addedid c1:addedid o1 r2:addedid m1:addedid u2",
        refused=Refused(MOVED, "r1:addedid"),
        want="u1 r1:noid c1:noid o1 r2:noid m1:noid u2",
        healed="blob",
        body=UNSTORED,
        behaviour=Behaviour(always_encrypted=True, rotate_ids=True),
        streams=(True,),
    ),
    SWITCHED,
    SWITCHED.uncaptured(healed="blob", repaired=False),
    Scenario(
        row=42,
        title="one blob of two is damaged, both originals are captured",
        turns=2,
        asks="Go on.",
        sent="u1 r1:damaged c1 o1 r2 m1 u2",
        refused=Refused(r"The encrypted content \S+\.\.\.\S+ could not be verified\. Reason: "),
        want="u1 r1 c1 o1 r2 m1 u2",
        healed="blob",
        body=UNSTORED,
    ),
    Scenario(
        row=42,
        title="Codex's own blob is refused",
        sent="u1 r1 c1 o1",
        refused=Refused(MASKED),
        want="u1 c1:noid o1",
        healed="blob",
        body=UNSTORED,
        then=Quirks(account="b", foreign="masked"),
    ),
    TWO_TURNS,
    Scenario(
        row=44,
        title="a gateway changes accounts for a client that drops reasoning",
        sent="u1 c1:noid o1",
        want="u1 c1:noid o1",
        healed="blob",
        body=UNSTORED,
        then=Quirks(account="b", foreign="item"),
    ),
    Scenario(
        row=44,
        title="a gateway over several Azure resources",
        turns=2,
        asks="Go on.",
        made="straight",
        sent="u1 r1 c1 o1 r2 m1 u2",
        refused=Refused(RESOURCE),
        want="u1 c1:noid o1 m1:noid u2",
        healed="blob",
        body=UNSTORED,
        then=Quirks(account="b", foreign="resource"),
    ),
    Scenario(
        row=44,
        title="a gateway over several accounts names the item",
        sent="u1 r1 c1 o1",
        refused=Refused(UNREADABLE, "r1"),
        want="u1 c1:noid o1",
        healed="blob",
        body=UNSTORED,
        then=Quirks(account="b", foreign="item"),
    ),
    IN_STREAM,
    IN_STREAM.uncaptured(),
    replace(
        IN_STREAM,
        title="VS Code extension, a flat `error` opens the stream",
        then=Quirks(account="b", foreign="masked", refuses_by="flat_error"),
    ),
    replace(
        IN_STREAM,
        title="VS Code extension, `response.failed` opens the stream",
        then=Quirks(account="b", foreign="masked", refuses_by="failed"),
    ),
    Scenario(
        row=55,
        title="pi replays another account's reasoning",
        made="straight",
        sent="u1 r1 c1 o1",
        refused=Refused(ORGANIZATION, "r1"),
        want="u1 c1:noid o1",
        healed="blob",
        then=ELSEWHERE,
        body=UNSTORED,
    ),
)
