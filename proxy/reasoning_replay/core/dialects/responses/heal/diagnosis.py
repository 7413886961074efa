"""
Diagnosis: the error in a request that a refusal reports.

One table decides, from the text that upstream sends; nothing is guessed from a status alone.
Texts: OpenAI and vendors with the same API, as quoted in public issues of their clients.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from typing_extensions import override

from reasoning_replay.core.dialects.error_texts import Refusal, is_refusal, read_error, table_of
from reasoning_replay.core.dialects.lenient import decoded


class RefusalKind(StrEnum):
    """The reason for a refusal, as far as it may concern the proxy."""

    LACKS_REASONING = "lacks_reasoning"  # an item without the reasoning that led to it
    LACKS_FOLLOWER = "lacks_follower"  # reasoning without the item that it led to
    DUPLICATE = "duplicate"  # the same id twice
    NOT_FOUND = "not_found"  # a bare id of an item that upstream does not store
    BLOB = "blob"  # encrypted content: damaged, or from another item, account or upstream
    INCLUDE = "include"  # the model does not support encrypted reasoning
    NO_REASONING_MODEL = "no_reasoning_model"  # the model accepts no reasoning at all
    LACKS_TEXT = "lacks_text"  # reasoning must include its plain text
    BAD_ID = "bad_id"  # an id in a form that the API does not accept
    LACKS_OUTPUT = "lacks_output"  # a call without its output
    LACKS_CALL = "lacks_call"  # an output without its call
    FIELD = "field"  # a member that reasoning may not have here, or the phase of a message
    CACHE_KEY = "cache_key"  # the `prompt_cache_key` that the proxy added
    CACHE_DIAGNOSIS = "cache_diagnosis"  # the `prompt_cache_options` that it added
    INPUT = "input"  # another error about items: the proxy's edits may be the cause
    FORM = "form"  # words that are not known, about input that may be at fault
    OTHER = "other"


class Form(StrEnum):
    """The form in which an upstream takes reasoning, or the items that it led to."""

    ANY = ""
    NAMED = "id"  # reasoning has its id
    BY_VALUE = "by_value"  # reasoning has no id, nor do the items that it led to
    NAMELESS = "no_ids"  # no item has an id
    BY_ID = "by_id"  # reasoning is its id alone


@dataclass(frozen=True, slots=True)
class Diagnosis(Refusal):
    """
    A classified refusal.

    Attributes:
        subject: Id or `call_id` that it names; "" if it names none.
        wanted: Id of the reasoning that the subject lacks.
        index: Index in `input` of the item that it points at; None if it points at none.
        member: Name of the refused member of that item.
        ends: First and last characters of the blob that it quotes.
        is_foreign: Whether the blob is intact but was issued to another account or resource.
        is_of_agent: Whether the blob is no reasoning, but a message between agents.
        form: The form that upstream takes.
        until_ms: Time of the newest response whose items upstream does not find; 0: unknown.
    """

    kind: RefusalKind
    subject: str = ""
    wanted: str = ""
    index: int | None = None
    member: str = ""
    ends: tuple[str, str] | None = None
    is_foreign: bool = False
    is_of_agent: bool = False
    form: Form = Form.ANY
    until_ms: int = 0

    @property
    @override
    def incurable(self) -> str:
        return f"{self.kind};of=agent" if self.is_of_agent else ""

    @property
    @override
    def hint(self) -> str:
        if self.kind is RefusalKind.LACKS_OUTPUT:
            return "a call has no output: drop_unanswered: on leaves out such calls"
        if self.is_of_agent:
            return "another account or region encrypted what an agent sent: use one for all agents"
        return ""


_ITEM = r"Item '(?P<subject>[^']+)' of type '[^']+' was provided without its required "
# A match takes all of the line, or the rest of the line would be read once for each match.
_VERIFIED = (
    r" could not be verified"
    r"(?:.*(?P<by_value>item_id did not match)|.*(?P<foreign>organization_id did not match)|.*)"
)
_GONE = r"(?P<no_ids>was not found or has expired)"
_OF_ID = r"'input\[(?P<index>\w+)\]\.id'"
_CALL_ID = r"(?P<subject>[^\s'\"\\]+?)\.?(?:$|[\s'\"\\])"

# What refusals say; the first match decides. Named groups become the attributes of a Diagnosis.
TEXTS = table_of(
    (
        (_ITEM + r"'reasoning' item: '(?P<wanted>[^']+)'", RefusalKind.LACKS_REASONING),
        (_ITEM + r"following item", RefusalKind.LACKS_FOLLOWER),
        (r"Duplicate item found with id (?P<subject>[\w-]+)", RefusalKind.DUPLICATE),
        (r"Item with id '(?P<subject>[^']+)' not found", RefusalKind.NOT_FOUND),
        (
            r"Referenced reasoning item '(?P<subject>[^']+)' " + _GONE,
            RefusalKind.NOT_FOUND,
        ),
        (r"encrypted content for item (?P<subject>[\w-]+)" + _VERIFIED, RefusalKind.BLOB),
        (
            r"encrypted content (?P<head>[^\s.]{1,8})\.\.\.(?P<tail>[^\s.]{1,8})" + _VERIFIED,
            RefusalKind.BLOB,
        ),
        (r"item_id did not match (?P<by_value>the target item id)", RefusalKind.BLOB),
        (
            r"(?P<foreign>organization_id did not match|was not issued to this caller)",
            RefusalKind.BLOB,
        ),
        (r"(?P<foreign>created under a different Azure OpenAI resource)", RefusalKind.BLOB),
        # What agents send each other; nothing but its backend can read it.
        (r"(?P<agent>encrypted (?:function output|agent message) content)", RefusalKind.BLOB),
        (r"encrypted content could not be (?:verified|decrypted)", RefusalKind.BLOB),
        (r"Could not decrypt the provided encrypted_content", RefusalKind.BLOB),
        (r"Encrypted content is not supported with this model", RefusalKind.INCLUDE),
        (r"(?P<member>Encrypted content) is not supported", RefusalKind.FIELD),
        (r"Reasoning input items can only be provided to a reason", RefusalKind.NO_REASONING_MODEL),
        (r"type \"reasoning\" is not a valid input item type", RefusalKind.NO_REASONING_MODEL),
        (r"in the thinking mode must be passed back", RefusalKind.LACKS_TEXT),
        (r"Missing `reasoning_content`|reasoning_content is missing", RefusalKind.LACKS_TEXT),
        (
            r"(?:Invalid|Missing required parameter:|(?P<no_ids>Unknown parameter:)) " + _OF_ID,
            RefusalKind.BAD_ID,
        ),
        (r"Invalid 'id': message id must be", RefusalKind.BAD_ID),
        (r"No tool output found for [\w ]{0,40}?call " + _CALL_ID, RefusalKind.LACKS_OUTPUT),
        (r"No tool call found for [\w ]{1,60}? with call_id " + _CALL_ID, RefusalKind.LACKS_CALL),
        (
            r"'input\[(?P<index>\w+)\]\.(?P<member>status|content|(?P<by_id>encrypted_content))'",
            RefusalKind.FIELD,
        ),
        (r"['\"`.](?P<member>phase)['\"`]", RefusalKind.FIELD),
        (r"prompt_cache_key", RefusalKind.CACHE_KEY),
        (r"prompt_cache_options|comparison_response_id", RefusalKind.CACHE_DIAGNOSIS),
    )
)
# Members of the request whose refusal is known by the value of `param` alone.
_MEMBERS = ((RefusalKind.INCLUDE, "include"), (RefusalKind.CACHE_KEY, "prompt_cache_key"))
_OURS = re.compile(
    r"'reasoning'|reasoning_(?:text|content)|reasoning (?:input )?item|encrypted[ _]content"
    r"|input\[\d+\]|Invalid 'input"
    # Of items whose members are missing, or null: xAI, llama.cpp
    r"|the compaction blob|enum ModelInput|item\['\w+'\]|type of 'item'",
    re.IGNORECASE,
)


class _Event(msgspec.Struct):
    """What an event says about a failure; the first one of a stream may echo a whole request."""

    type: object = None
    status: object = None

    @property
    def is_failure(self) -> bool:
        """Whether it reports that the response failed, for any reason."""
        return self.type in ("error", "response.failed")


_OPENINGS = ("response.created", "response.queued", "response.in_progress")
_EVENT = msgspec.json.Decoder(_Event)


def is_failing_event(data: bytes) -> bool:
    """Return whether an event reports that the response failed, for any reason."""
    event = decoded(_EVENT, data)
    return event is not None and event.is_failure


def is_opening_event(data: bytes) -> bool:
    """Return whether an event only says that a response has begun, or waits."""
    event = decoded(_EVENT, data)
    return event is not None and event.type in _OPENINGS


def is_refusing_event(data: bytes) -> bool:
    """Return whether an event reports a failure that the request itself caused."""
    event = decoded(_EVENT, data)
    if event is None or not event.is_failure:
        return False
    return event.status is None or (isinstance(event.status, int) and is_refusal(event.status))


def diagnose(status: int, body: bytes) -> Diagnosis:
    """Classify a refusal; an event that is one counts as status 400."""
    if not is_refusal(status):
        return Diagnosis(RefusalKind.OTHER)
    message, params, codes = read_error(body)
    for pattern, kind in TEXTS:
        if (found := pattern.search(message)) is not None:
            return _read(kind, found.groupdict())
    for kind, name in _MEMBERS:
        if any(param == name or param.startswith(f"{name}[") for param in params):
            return Diagnosis(kind)
    if "invalid_encrypted_content" in codes:
        return Diagnosis(RefusalKind.BLOB)
    if any(param == "input" or param.startswith("input[") for param in params):
        return Diagnosis(RefusalKind.INPUT)
    return Diagnosis(RefusalKind.INPUT if _OURS.search(message) else RefusalKind.OTHER)


def _read(kind: RefusalKind, found: dict[str, str | None]) -> Diagnosis:
    head, tail, index = found.get("head"), found.get("tail"), found.get("index")
    return Diagnosis(
        kind,
        subject=found.get("subject") or "",
        wanted=found.get("wanted") or "",
        index=int(index) if index and index.isdecimal() else None,
        member=(found.get("member") or "").lower().replace(" ", "_"),
        ends=(head, tail) if head and tail else None,
        is_foreign=bool(found.get("foreign")),
        is_of_agent=bool(found.get("agent")),
        form=next((form for form in Form if form and found.get(form)), Form.ANY),
    )
