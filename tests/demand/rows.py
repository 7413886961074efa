"""
Rows: each request of a client, its refusal, and the request that upstream must receive instead.

rows.md is the table of all scenarios; test_demand.py plays every row.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from tests.demand.notation import Item
from tests.strict.backends import Quirks
from tests.strict.responses import Continuity, ResponsesBehaviour
from tests.strict.scripts import LOOPS

Made = Literal["proxied", "straight", "elsewhere"]
"""
Where the honest history was made: through the proxy, which captured it; directly at the upstream,
so that nothing is captured; or at another upstream.
"""


@dataclass(frozen=True, slots=True)
class Refused:
    """
    A refusal that upstream returns without the proxy.

    Attributes:
        words: Pattern of its message; `{0}` is the id, or the call id, of the first item in
            `blamed`, and so on.
        blamed: Names of the items that the message names.
        status: Status of the response.
    """

    words: str
    blamed: str = ""
    status: int = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """
    One row of the survey, or one of its forms.

    Attributes:
        row: Number of the row; 0 if the survey has none.
        title: The client and its behaviour.
        sent: The items that the client sends, in the notation.
        refused: The refusal without the proxy; None if the request is accepted and its reasoning
            is silently lost.
        want: The items that upstream must receive in the end; None if the refusal is passed on.
        healed: The diagnosis, if a second attempt is needed; otherwise "".
        repaired: Whether the request is repaired before the first attempt.
        made: See Made.
        loop: Shape of the model's responses.
        turns: Number of responses in the honest history.
        asks: The user's message after those; "" for none.
        body: Members of the client's requests in addition to model and input.
        last: Members of the last request only. "previous" stands for the last response.
        model: Model of all requests; `last` may name another for the last one.
        key: Header that carries the credential.
        quirks: ResponsesBehaviour of the backend while the history is made.
        then: ResponsesBehaviour of the backend when the last request arrives; None means unchanged.
        expires: Whether the backend has deleted its stored items by then.
        behaviour: Form of the strict API's responses.
        continuity: "strict" refuses lost reasoning that the API would accept.
        more: Items that the honest history does not have, by name.
        streams: Whether the client streams: both ways, unless only one is relevant.
    """

    row: int
    title: str
    sent: str
    want: str | None
    refused: Refused | None = None
    healed: str = ""
    repaired: bool = False
    made: Made = "proxied"
    loop: str = "one_call"
    turns: int = 1
    asks: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    last: Mapping[str, Any] = field(default_factory=dict)
    model: str = "gpt-5.4"
    key: str = "Authorization"
    quirks: Quirks = field(default_factory=Quirks)
    then: Quirks | None = None
    expires: bool = False
    behaviour: ResponsesBehaviour = field(
        default_factory=lambda: ResponsesBehaviour(always_encrypted=True)
    )
    continuity: Continuity = "normal"
    more: Mapping[str, Item] = field(default_factory=dict)
    streams: tuple[bool, ...] = (False, True)

    @property
    def tries(self) -> int:
        """Number of requests that upstream must receive for the client's last one."""
        return 2 if self.healed else 1


_OF_ITEM = r"The encrypted content for item {0} could not be verified\. Reason: Encrypted content "
_MASKED = r"The encrypted content gAAA\.\.\.\S{{4}} could not be verified\."
_NOT_FOUND = r"Item with id '{0}' not found\. Items are not persisted "
_PAIR = r"Item '{0}' of type '\w+' was provided without its required "

REFUSALS: Mapping[str, str] = {
    "lacks_reasoning": _PAIR + r"'reasoning' item: '{1}'\.",
    "lacks_follower": _PAIR + r"following item\.",
    "not_found": _NOT_FOUND,
    "not_found_zdr": _NOT_FOUND + "for Zero Data Retention",
    "duplicate": (
        r"Duplicate item found with id {0}\. Remove duplicate items from your input and try again\."
    ),
    "lacks_output": r"No tool output found for function call {0}\.",
    "lacks_an_output": r"No tool output found for function call call_\w+\.",
    "lacks_call": r"No tool call found for function call output with call_id {0}\.",
    "blob_of_organization": _OF_ITEM + "organization_id did not match the target organization",
    "blob_of_item": _OF_ITEM + r"item_id did not match the target item id\.",
    "blob_unreadable": _OF_ITEM + r"could not be decrypted or parsed\.",
    "blob_masked": _MASKED,
    "blob_damaged": _MASKED + r" Reason: Encrypted content could not be decrypted or parsed\.",
    "blob_quoted": r"The encrypted content \S+\.\.\.\S+ could not be verified\. Reason: ",
    "blob_of_caller": "reasoning `encrypted_content` was not issued to this caller",
    "blob_of_resource": (
        r"The requested item was created under a different Azure OpenAI resource\."
    ),
    "no_reasoning": (
        "Reasoning input items can only be provided to a reasoning or computer use model"
    ),
    "id_characters": (
        r"Invalid 'input\[[12]\]\.id': '{0}'\. Expected an ID that contains letters, numbers,"
        r" underscores, or dashes, but this value contained additional characters\."
    ),
    "id_prefix": r"Invalid 'input\[1\]\.id': '{0}'\. Expected an ID that begins with 'fc'\.",
    "id_of_message": "Invalid 'id': message id must be a string starting with 'msg_'",
    "lacks_text": r"The `reasoning_text` in the thinking mode must be passed back to the API\.",
    "no_blobs": r"Encrypted content is not supported\.",
    "no_status": r"Unknown parameter: 'input\[1\]\.status'\.",
    "no_content": r"Invalid 'input\[1\]\.content': array too long\.",
    "no_response": r"Previous response with id 'resp_gone' not found\.",
}
"""Patterns of upstream's messages; `{0}` is the id, or `call_id`, of the first item it names."""

_SEARCH: Item = {
    "type": "tool_search_output",
    "id": "tso_68a1f0c2b7d34e95",
    "call_id": None,
    "tools": [],
}
_COMPACTION = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAABcompacted=="}
_UNSTORED = {"store": False}


def _account(**quirks: Any) -> dict[str, Any]:
    """Return the setting of a gateway that responds as another account for the last request."""
    return {"then": Quirks(account="b", **quirks)}


SETTINGS: Mapping[str, dict[str, Any]] = {
    # Members of all requests, or of the last one
    "unstored": {"body": _UNSTORED},
    "conversation": {"body": {"conversation": "conv_1"}},
    "encrypted": {"body": _UNSTORED | {"include": ["reasoning.encrypted_content"]}},
    "all_turns": {"body": _UNSTORED | {"reasoning": {"effort": "high", "context": "all_turns"}}},
    "previous": {"last": {"previous_response_id": "previous"}},
    "deleted response": {"last": {"previous_response_id": "resp_gone"}},
    "handoff": {"last": {"instructions": "You are the billing agent. Take over."}},
    "to o4-mini": {"last": {"model": "o4-mini"}},
    "to gpt-4o": {"last": {"model": "gpt-4o"}},
    "to acme-plain": {"last": {"model": "acme-plain"}},
    # Backends
    "azure": {"quirks": Quirks(not_found="azure")},
    "deepseek": {"quirks": Quirks(thinks_aloud=True)},
    "foundry": {"quirks": Quirks(needs_reasoning_ids=True)},
    "zdr": {"quirks": Quirks(keeps_nothing=True)},
    "looks up all": {"quirks": Quirks(looks_up_all=True, not_found="text")},
    "plain text": {"quirks": Quirks(not_found="text")},
    "blames the follower": {"quirks": Quirks(blames_follower=True)},
    "prompt outputs": {"quirks": Quirks(prompt_outputs=True)},
    "grouped": {"quirks": Quirks(grouped=True)},
    "no blobs": {"behaviour": ResponsesBehaviour()},
    "rotated ids": {"behaviour": ResponsesBehaviour(always_encrypted=True, rotate_ids=True)},
    "strict": {"continuity": "strict"},
    "expired": {"expires": True},
    # The backend when the last request arrives
    "then vllm": {"then": Quirks(takes_blobs=False)},
    "then organization": _account(foreign="organization"),
    "then item": _account(foreign="item"),
    "then caller": _account(foreign="caller"),
    "then resource": _account(foreign="resource"),
    "then masked": _account(foreign="masked"),
    "then masked by error": _account(foreign="masked", refuses_by="error"),
    "then masked by flat_error": _account(foreign="masked", refuses_by="flat_error"),
    "then masked by failed": _account(foreign="masked", refuses_by="failed"),
    "then masked by late": _account(foreign="masked", refuses_by="late"),
    # The client
    "api-key": {"key": "api-key"},
    "stream": {"streams": (True,)},
    "tool search": {"more": {"t1": _SEARCH}},
    "compaction": {"more": {"k1": _COMPACTION}},
}


def _setting(word: str) -> dict[str, Any]:
    """Return the members of a scenario that one word of the last column stands for."""
    if word in SETTINGS:
        return SETTINGS[word]
    if word in get_args(Made):
        return {"made": word}
    if word in [*LOOPS]:
        return {"loop": word}
    if word.startswith('"'):
        return {"asks": word.strip('"')}
    if word.startswith("gpt-"):
        return {"model": word}
    return {"turns": int(word.removeprefix("x"))}


def _refused(text: str) -> Refused | None:
    found = re.fullmatch(r"(?:(\d+) )?(\w+) ?(.*)", text)
    if found is None:
        return None
    status, name, blamed = found.groups()
    return Refused(REFUSALS[name], blamed, int(status or 400))


def _scenario(line: str) -> Scenario:
    row, title, sent, refused, want, by, settings = [cell.strip() for cell in line.split("|")[1:-1]]
    members: dict[str, Any] = {}
    for word in filter(None, settings.split("; ")):
        members |= _setting(word)
    return Scenario(
        row=int(row),
        title=title,
        sent=sent,
        refused=_refused(refused),
        want=want or None,
        healed="" if by == "repair" else by,
        repaired=by == "repair",
        **members,
    )


_LINES = Path(__file__).with_name("rows.md").read_text().splitlines()
TABLE = [_scenario(line) for line in _LINES if re.match(r"\| (?!row )", line)]
