"""Other scenarios: invalid ids, members that a backend refuses, and rules of other vendors."""

from collections.abc import Sequence
from dataclasses import replace

from tests.demand.scenario import Refused, Scenario
from tests.standin import Quirks

__all__ = ["SCENARIOS"]

BAD_CHARACTERS = (
    r"Invalid 'input\[[12]\]\.id': '{0}'\. Expected an ID that contains letters, numbers,"
    r" underscores, or dashes, but this value contained additional characters\."
)
BAD_PREFIX = r"Invalid 'input\[1\]\.id': '{0}'\. Expected an ID that begins with 'fc'\."
BAD_MESSAGE_ID = r"Invalid 'id': message id must be a string starting with 'msg_'"
LACKS_TEXT = r"The `reasoning_text` in the thinking mode must be passed back to the API\."
UNSTORED = {"store": False}
DEEPSEEK = Quirks(thinks_aloud=True)

MANGLED = Scenario(
    row=34,
    title="OpenCode mangles an id",
    sent="u1 c1:dotted o1",
    refused=Refused(BAD_CHARACTERS, "c1:dotted"),
    made="straight",
    want="u1 c1:noid o1",
    healed="bad_id",
)
TEXTLESS = Scenario(
    row=0,
    title="DeepSeek's reasoning is replayed without its text",
    sent="u1 r1:notext c1 o1",
    refused=Refused(LACKS_TEXT),
    want="u1 r1 c1 o1",
    healed="lacks_text",
    quirks=DEEPSEEK,
)

SCENARIOS: Sequence[Scenario] = (
    MANGLED,
    replace(
        MANGLED,
        title="OpenCode strips an id to nothing",
        sent="u1 c1:emptyid o1",
        refused=Refused(BAD_CHARACTERS, "c1:emptyid"),
    ),
    replace(
        MANGLED,
        title="OpenCode uses the call's id as the item's id",
        sent="u1 c1:callid o1",
        refused=Refused(BAD_PREFIX, "c1:callid"),
    ),
    Scenario(
        row=34,
        title="OpenCode mangles the id of a call, and keeps its reasoning",
        sent="u1 r1 c1:dotted o1",
        refused=Refused(BAD_CHARACTERS, "c1:dotted"),
        want="u1 r1 c1 o1",
        healed="bad_id",
    ),
    Scenario(
        row=34,
        title="OpenCode mangles several ids in several ways",
        turns=2,
        asks="Sure?",
        made="straight",
        sent="u1 c1:callid o1 m1:dotted u2",
        refused=Refused(BAD_PREFIX, "c1:callid"),
        want="u1 c1:noid o1 m1:noid u2",
        healed="bad_id",
    ),
    Scenario(
        row=34,
        title="OpenCode sends the id of a message that a gateway refuses",
        loop="message",
        asks="Sure?",
        made="straight",
        sent="u1 m1:dotted u2",
        refused=Refused(BAD_MESSAGE_ID),
        want="u1 m1:noid u2",
        healed="bad_id",
        quirks=DEEPSEEK,
    ),
    Scenario(
        row=40,
        title="Foundry demands the id that goes with reasoning",
        sent="u1 c1:noid o1",
        want="u1 r1 c1:noid o1",
        healed="bad_id",
        body=UNSTORED,
        quirks=Quirks(needs_reasoning_ids=True),
    ),
    TEXTLESS,
    replace(
        TEXTLESS,
        title="DeepSeek's reasoning is dropped",
        sent="u1 c1 o1",
        healed="",
    ),
    replace(
        TEXTLESS,
        title="DeepSeek's calls are paired with their outputs",
        loop="parallel",
        sent="u1 r1 c1 o1 c2 o2 c3 o3",
        want="u1 r1 c1 c2 c3 o1 o2 o3",
    ),
    Scenario(
        row=0,
        title="vLLM does not support blobs",
        made="elsewhere",
        sent="u1 r1 c1 o1",
        refused=Refused(r"Encrypted content is not supported\."),
        want="u1 c1:noid o1",
        healed="field",
        then=Quirks(takes_blobs=False),
    ),
    Scenario(
        row=0,
        title="reasoning with a status is refused",
        sent="u1 r1:status c1 o1",
        refused=Refused(r"Unknown parameter: 'input\[1\]\.status'\."),
        made="straight",
        want="u1 r1 c1 o1",
        healed="field",
    ),
    Scenario(
        row=0,
        title="several reasoning items with a status are refused",
        turns=2,
        asks="Sure?",
        sent="u1 r1:status c1 o1 r2:status m1 u2",
        refused=Refused(r"Unknown parameter: 'input\[1\]\.status'\."),
        want="u1 r1 c1 o1 r2 m1 u2",
        healed="field",
    ),
    Scenario(
        row=0,
        title="reasoning with content is refused",
        sent="u1 r1:text c1 o1",
        refused=Refused(r"Invalid 'input\[1\]\.content': array too long\."),
        made="straight",
        want="u1 r1:nocontent c1 o1",
        healed="field",
    ),
)
