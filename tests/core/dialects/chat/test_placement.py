"""Placement: what a message lacks is added to it as members, and nothing else changes."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.profiles import GENERIC, PROFILES, Rounds

from tests.core.dialects.chat.chats import Chats, assistant, body_of, tool, user
from tests.core.dialects.chat.streams import answer, call, details, stream

ASK = user("What is the weather in Paris, and in Tokyo?")
ONE, TWO = "call_8hJd02kQpZ71", "call_Zz81mQpr0s3t"
SIGNED = {"google": {"thought_signature": "Eg=="}}
HM = {"reasoning_content": "Hm"}
TEXT = "I look both of them up, one after the other."


def calls(**signed: Any) -> list[dict[str, Any]]:
    """Return two parallel calls; the first one has these members."""
    paris = call("weather", '{"city":"Paris"}', None, ONE)
    return [paris | signed, call("weather", '{"city":"Tokyo"}', None, TWO)]


def outputs() -> list[dict[str, Any]]:
    """Return the outputs of both calls."""
    return [tool("sunny", ONE), tool("rainy", TWO)]


def stripped(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as a client keeps it that follows the API's schema."""
    kept: dict[str, Any] = {
        key: message[key] for key in ("role", "content", "tool_calls") if key in message
    }
    if "tool_calls" in kept:
        kept["tool_calls"] = [
            {key: each[key] for key in ("id", "type", "function")} for each in kept["tool_calls"]
        ]
    return kept


BLOCKS = [
    {"type": "thinking", "thinking": "Hm", "signature": "Eg=="},
    {"type": "redacted_thinking", "data": "Eh=="},
]
MESSAGES = [
    pytest.param(assistant("It is sunny.", reasoning_content="Hm"), id="text"),
    pytest.param(assistant(tool_calls=calls(), reasoning_content="Hm"), id="calls"),
    pytest.param(assistant(TEXT, tool_calls=calls(), reasoning="Hm"), id="text-and-calls"),
    pytest.param(assistant(tool_calls=calls(extra_content=SIGNED)), id="signed-call"),
    pytest.param(
        assistant(tool_calls=calls(thought_signature="Eg=="), reasoning_content="Hm"),
        id="both-places",
    ),
    pytest.param(assistant("Sunny.", extra_content=SIGNED), id="signed-text"),
    pytest.param(assistant("Sunny.", reasoning_text="Hm", reasoning_opaque="o"), id="two-members"),
    pytest.param(
        assistant(tool_calls=calls(), reasoning_content="Hm", thinking_blocks=BLOCKS),
        id="blocks-of-litellm",
    ),
    pytest.param(
        assistant("Sunny.", reasoning_items=[{"id": "rs_1", "encrypted_content": "gAAAA"}]),
        id="items-of-litellm",
    ),
    pytest.param(
        assistant("Sunny.", provider_specific_fields={"thought_signatures": ["Eg=="]}),
        id="fields-of-litellm",
    ),
    pytest.param(
        assistant(tool_calls=calls(provider_specific_fields={"thought_signature": "Eg=="})),
        id="fields-of-a-call",
    ),
    pytest.param(assistant("Sunny."), id="no-reasoning"),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_gets_the_members_that_it_was_emitted_with(message: dict[str, Any]) -> None:
    """The same members are in the same places, and the client's bytes stay."""
    chats = Chats()
    chats.learn([ASK], message)
    later = [ASK, stripped(message), *(outputs() if "tool_calls" in message else [user("Thanks")])]

    (_, got, *_) = chats.send(later)

    for each in got.get("tool_calls", ()):
        each["index"] = None  # of the stream helper; never sent back
    want = json.loads(json.dumps(message))
    for each in want.get("tool_calls", ()):
        each["index"] = None
    assert got == want


@pytest.mark.parametrize(
    "fields",
    [
        {"citations": None, "thinking_blocks": BLOCKS},  # another member has all of its signatures
        {"refusal": None},  # it says nothing
        {"native": "Eg=="},  # nothing that is known as a signature
    ],
)
def test_fields_that_add_no_signature_are_no_reasoning(fields: dict[str, Any]) -> None:
    """LiteLLM sends some with any answer."""
    chats = Chats()
    sent = assistant("Sunny.")
    message = assistant("Sunny.", thinking_blocks=BLOCKS, provider_specific_fields=fields)
    chats.learn([ASK], message)
    later = [ASK, sent, user("Thanks")]
    assert chats.send(later)[1] == assistant("Sunny.", thinking_blocks=BLOCKS)
    chats = Chats()
    fields = {name: fields[name] for name in fields if name != "thinking_blocks"}
    chats.learn([ASK], assistant("Sunny.", provider_specific_fields=fields))
    assert chats.outcomes(later) == {}
    unknown = sent | {"provider_specific_fields": fields}
    assert Chats().outcomes([ASK, unknown, user("Thanks")]) == {"missed": 1}


def test_fields_are_kept_for_the_signature_that_no_other_member_has() -> None:
    """Gemini through LiteLLM: a call has its own, and a text has it in the message's fields."""
    chats = Chats()
    fields = {"provider_specific_fields": {"thought_signatures": ["Eg=="]}}
    signed = calls(provider_specific_fields={"thought_signature": "Eg=="})
    message = assistant(TEXT, tool_calls=signed, **fields)
    chats.learn([ASK], message)
    got = chats.send([ASK, stripped(message), *outputs()])[1]
    assert got == assistant(TEXT, tool_calls=signed)


@pytest.mark.parametrize("text", ["Hm", "other", ""])
@pytest.mark.parametrize("name", ["reasoning", "reasoning_text"])
def test_a_text_takes_the_place_of_one_under_another_name(name: str, text: str) -> None:
    """Upstream gets the one that it emitted: a server may read either name, or refuse one."""
    chats = Chats()
    message = chats.learn([ASK], assistant(TEXT, tool_calls=calls(), reasoning_content="Hm"))
    sent = {"role": "assistant", name: text, **stripped(message)}

    received = chats.send([ASK, sent, *outputs()])[1]

    assert received == stripped(message) | {"reasoning_content": "Hm"}
    assert [*received][1] == "reasoning_content"


ENTRIES = [
    {"type": "reasoning.text", "text": "I look it up.", "signature": "Eg==", "index": 0},
    {"type": "reasoning.encrypted", "data": "gAAAAB", "id": "rs_1", "index": 1},
]
EMITTED = {
    "reasoning_content": "I look it up.",
    "reasoning_details": ENTRIES,
    "extra_content": SIGNED,
}
# Pieces of these, and repeats of a text: what libraries make of members that they do not know.
TORN: Mapping[str, dict[str, Any]] = {
    "last-delta": {"reasoning_content": "it up."},
    "placeholder": {"reasoning_content": " "},
    "one-entry": {"reasoning_details": ENTRIES[1:]},
    "torn-entry": {"reasoning_details": [{**ENTRIES[0], "text": "up."}]},
    "signature-alone": {"reasoning_details": [{**ENTRIES[0], "text": None}]},
    "empty-entry": {"reasoning_details": [{}]},
    "signature": {"extra_content": {"google": {"thought_signature": "g=="}}},
    "empty-object": {"extra_content": {"google": {}}},
    "twice": {"reasoning_content": "I look it up." * 2},
    "id": {"reasoning_details": [{**ENTRIES[0], **ENTRIES[1], "id": "rs_1rs_1"}]},
}
FRAGMENTS = [{"type": "reasoning.text", "text": one, "index": 0} for one in "I look it up."]
# No piece: edited, or the same in another form.
OWN: Mapping[str, dict[str, Any]] = {
    "edited": {"reasoning_content": "it is up."},
    "longer": {"reasoning_content": "I look it up. Well."},
    "another-type": {"reasoning_content": 7},
    "another-key": {"reasoning_details": [{"text": "up.", "note": "up"}]},
    "another-number": {"reasoning_details": [{"text": "up.", "index": 2}]},
    "of-another-key": {"reasoning_details": [{"text": "up.", "id": "Eg=="}]},
    "whole": {"reasoning_details": [*FRAGMENTS, {**ENTRIES[0], "text": ""}, ENTRIES[1]]},
    "own-object": {"extra_content": {"own": {"thought": True}}},
    "more-than-twice": {"reasoning_content": "I look it up." * 2 + "I"},
    "repeated-number": {"reasoning_details": [{**ENTRIES[0], "index": 11}]},
}
THINKS = {"content": f"<think>Hm</think>{TEXT}"}
PLACEHOLDER = {"content": "[System: Empty message content sanitised to satisfy protocol]"}
OF_CALLS = {"tool_calls": calls(extra_content=SIGNED)}
BOTH_CALLS = {"tool_calls": [each | {"extra_content": SIGNED} for each in calls()]}
ONE_CALL = {"tool_calls": [calls()[0], BOTH_CALLS["tool_calls"][1]]}
NULL_OF_A_CALL = {"reasoning": None, "refusal": None, "tool_calls": calls(extra_content=None)}
TWO_TEXTS = {"reasoning_text": "Hm", "reasoning_opaque": "o"}
PLAIN_AND_SEALED = {"reasoning_content": "Hm", "reasoning_opaque": "Eg=="}
ENTRY = {"reasoning_details": [details("text", text="Hm")]}
IN_ORDER: dict[str, Any] = {"reasoning_details": [{"type": "x", "text": "Hm", "index": 0}]}
TURNED = {"reasoning_details": [{"index": 0, "text": "Hm", "type": "x"}]}
FIRST, SECOND = ({"tool_calls": [each]} for each in calls())
NAMES_A_CALL = {"reasoning_details": [details("encrypted", data="abc", id=ONE)]}
NAMES_AN_ITEM = {"reasoning_details": [details("encrypted", data="abc", id="rs_1")]}
WITH_CALLS = {"content": TEXT, "tool_calls": calls()}
ALONE = {"tool_calls": calls()}
GATEWAY = HM | {"reasoning": "Hm"} | ENTRY

# The members that upstream emitted, those that the client sends in another form, those that are
# added, the outcomes, and the profile.
ROWS: Mapping[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str, str]] = {
    "a-null-is-replaced": (
        OF_CALLS | {"reasoning": "Hm", "reasoning_text": "x"},
        NULL_OF_A_CALL,
        OF_CALLS | {"reasoning": "Hm", "reasoning_text": "x"},
        "injected=3",
        "",
    ),
    "an-empty-text": (WITH_CALLS | HM, {"reasoning_content": ""}, HM, "injected=1", ""),
    "an-empty-list": (WITH_CALLS | HM, {"reasoning_content": []}, HM, "injected=1", ""),
    "empty-details": (WITH_CALLS | HM, {"reasoning_details": []}, HM, "injected=1", ""),
    "another-null": (WITH_CALLS | HM, {"reasoning": None}, HM, "injected=1", ""),
    "empty-of-a-call": (
        WITH_CALLS | HM,
        {"tool_calls": calls(thought_signature="")},
        HM,
        "injected=1",
        "",
    ),
    "two-names": (HM | {"reasoning": "Hm"}, {"reasoning": "Hm"}, HM, "present=1, injected=1", ""),
    "each-alone": (
        BOTH_CALLS | TWO_TEXTS,
        ONE_CALL | {"reasoning_text": "Hm"},
        BOTH_CALLS | TWO_TEXTS,
        "present=2, injected=2",
        "",
    ),
    "replayed": (IN_ORDER, IN_ORDER, {}, "present=1", ""),
    "replayed-in-another-order": (IN_ORDER, TURNED, {}, "present=1", ""),
    **{
        f"torn-{name}": (
            EMITTED,
            EMITTED | torn,
            {key: EMITTED[key] for key in torn},
            "present=2, injected=1",
            "",
        )
        for name, torn in TORN.items()
    },
    **{f"own-{name}": (EMITTED, EMITTED | own, {}, "present=3", "") for name, own in OWN.items()},
    # Upstream reads a value of the client's own, so the others are left alone, too.
    "own-text": (TWO_TEXTS, {"reasoning_text": "Mine."}, {}, "present=1", ""),
    "own-longer-text": (TWO_TEXTS, {"reasoning_text": "Hmm"}, {}, "present=1", ""),
    "own-number": (TWO_TEXTS, {"reasoning_text": 7}, {}, "present=1", ""),
    # A text that the message has in another form is sent again only where it is demanded.
    "tags": (WITH_CALLS | HM, THINKS, {}, "present=1", ""),
    "tags-demanded": (WITH_CALLS | HM, THINKS, HM, "present=1, injected=1", "deepseek"),
    "details-hold-it": (HM | ENTRY, ENTRY, {}, "present=1", ""),
    "details-demanded": (HM | ENTRY, ENTRY, HM, "present=1, injected=1", "deepseek"),
    "text-without-details": (HM | ENTRY, HM, ENTRY, "present=1, injected=1", ""),
    "a-signature-is-no-text": (
        {"content": TEXT} | OF_CALLS,
        THINKS,
        OF_CALLS,
        "present=1, injected=1",
        "",
    ),
    # All calls come from the turn; some may be left out, and random ids know no order.
    "re-ordered": (WITH_CALLS | HM, {"tool_calls": calls()[::-1]}, HM, "injected=1", ""),
    "other-text": (WITH_CALLS | HM, {"content": "Else."}, HM, "injected=1", ""),
    "text-left-out": (WITH_CALLS | HM, {"content": None}, HM, "injected=1", ""),
    "text-trimmed": (WITH_CALLS | HM, {"content": f"\n {TEXT} "}, HM, "injected=1", ""),
    "call-left-out": (WITH_CALLS | HM, FIRST, HM, "injected=1", ""),
    "call-added": (
        WITH_CALLS | HM,
        {"tool_calls": [*calls(), call("add")]},
        {},
        "guarded_form=1",
        "",
    ),
    "placeholder": (
        ALONE | PLAIN_AND_SEALED,
        PLACEHOLDER,
        PLAIN_AND_SEALED,
        "injected=2",
        "",
    ),
    "placeholder-and-a-call-left-out": (
        ALONE | PLAIN_AND_SEALED,
        PLACEHOLDER | SECOND,
        {},
        "guarded_form=2",
        "",
    ),
    # A profile says which members go back.
    "generic": (GATEWAY, {}, GATEWAY, "injected=3", ""),
    "openrouter": (GATEWAY, {}, ENTRY, "injected=1", "openrouter"),
    "vllm": (GATEWAY, {}, {"reasoning": "Hm"}, "injected=1", "vllm"),
    "groq": (GATEWAY, {}, {"reasoning": "Hm"}, "injected=1", "groq"),
    "mistral": (GATEWAY, {}, {}, "", "mistral"),
    # Gemini refuses encrypted reasoning without the call that it names.
    "named-call": (ALONE | NAMES_A_CALL, {}, NAMES_A_CALL, "injected=1", ""),
    "named-call-first": (ALONE | NAMES_A_CALL, FIRST, NAMES_A_CALL, "injected=1", ""),
    "named-call-left-out": (ALONE | NAMES_A_CALL, SECOND, {}, "guarded_form=1", ""),
    "no-named-call": (ALONE | NAMES_AN_ITEM, SECOND, NAMES_AN_ITEM, "injected=1", ""),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_a_message_lacks_is_added(row: tuple[Any, ...]) -> None:
    """Upstream gets what it emitted, where and under the name that it emitted it."""
    emitted, change, added, outcomes, profile = row
    chats = Chats(ChatDialect(PROFILES[profile or "generic"]))
    text = None if "tool_calls" in emitted else TEXT
    message = chats.learn([ASK], assistant(text) | emitted)
    sent = stripped(message) | change
    history = [ASK, sent, *(outputs() if "tool_calls" in sent else [user("Go on")])]

    assert chats.send(history) == [ASK, sent | added, *history[2:]]
    counted = {f"{what}={count}" for what, count in chats.outcomes(history).items()}
    assert counted == set(filter(None, outcomes.split(", ")))


@pytest.mark.parametrize(("count", "outcome"), [(32, "injected"), (33, "present")])
def test_few_pieces_are_compared(count: int, outcome: str) -> None:
    """Each is searched for in all that was emitted, so their number is bounded."""
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 40)))
    chats = Chats()
    message = chats.learn([ASK], assistant(TEXT, reasoning_details=[{"text": text}]))
    torn = {"reasoning_details": [{"text": one} for one in text[:count]]}

    assert chats.outcomes([ASK, message | torn, user("Go")]) == {outcome: 1}


def test_a_value_that_cannot_be_read_stays() -> None:
    """A number beyond the range of numbers cannot be compared."""
    chats = Chats()
    message = chats.learn([ASK], assistant(TEXT, reasoning_text="Hm"))
    sent = body_of([ASK, stripped(message) | {"reasoning_text": "HUGE"}, user("Go")])
    sent = sent.replace(b'"HUGE"', b"1e99999")

    assert chats.decide(sent).body is sent


def test_only_what_upstream_emitted_counts_as_present() -> None:
    """Under another name or empty, upstream does not see it; nor may it be injected here."""
    chats = Chats()
    message = chats.learn([ASK], assistant(TEXT, reasoning_content="Hm"))
    sent = [ASK, stripped(message) | {"reasoning": "Hm"}, user("Go")]

    assert chats.outcomes(sent, model="deepseek-v4") == {"guarded_model": 1}
    assert chats.outcomes(sent, **OFF) == {"skipped": 1}
    unknown = assistant("Something else.", reasoning_content="")
    assert chats.outcomes([user("Hello?"), unknown]) == {"missed": 1}


def test_what_cannot_be_compared_counts_as_present() -> None:
    """Nothing is known of the message, upstream emitted no reasoning, or not all of it is one."""
    chats = Chats()
    chats.learn([user("Hi")], assistant("Hello there."))
    message = chats.learn([ASK], assistant(tool_calls=calls(), reasoning_content="Hm"))
    own = {"reasoning_content": "Mine."}
    more = {"tool_calls": [*calls(), call("add")]}

    assert chats.outcomes([user("Hi"), assistant("Hello there.", **own)]) == {"present": 1}
    assert chats.outcomes([user("Else"), assistant("Never said.", **own)]) == {"present": 1}
    assert chats.outcomes([ASK, message | more, *outputs()]) == {"present": 1}


def halves(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a history in which the client made two messages of one, each with one call."""
    first, second = (assistant(None, tool_calls=[each]) for each in stripped(message)["tool_calls"])
    return [ASK, first | {"content": message["content"]}, outputs()[0], second, outputs()[1]]


@pytest.mark.parametrize(("profile", "again"), [("generic", {}), ("deepseek", HM)])
def test_a_turn_that_was_split_gets_its_text_in_the_first_message(
    profile: str, again: dict[str, Any]
) -> None:
    """Or in each, where upstream demands it; the signature of a call goes with the call."""
    chats = Chats(ChatDialect(PROFILES[profile]))
    signed = [each | {"extra_content": SIGNED} for each in calls()]
    message = chats.learn([ASK], assistant(TEXT, tool_calls=signed, **HM))
    apart = [ASK, assistant(TEXT), assistant(None, tool_calls=calls()[::-1]), *outputs()]

    (_, first, _, second, _) = chats.send(halves(message))
    (_, alone, rest, *_) = chats.send(apart)

    assert first == assistant(TEXT, tool_calls=signed[:1], **HM)
    assert second == assistant(None, tool_calls=signed[1:], **again)
    assert alone == assistant(TEXT, **HM)
    assert rest == assistant(None, tool_calls=signed[::-1], **again)


def test_a_text_that_the_client_kept_in_another_part_is_not_sent_twice() -> None:
    """The client put it into the second message of a turn that it split."""
    chats = Chats()
    message = chats.learn([ASK], assistant(TEXT, tool_calls=calls(), **HM))
    sent = halves(message)
    sent[3] |= HM

    assert chats.send(sent) == sent
    assert chats.outcomes(sent) == {"present": 1}


@pytest.mark.parametrize(
    ("ids", "members"),
    [(("call_0", "call_1"), HM), ((ONE, TWO), {"reasoning_opaque": "Eg=="})],
    ids=["counted-ids", "signed-message"],
)
def test_a_turn_that_was_split_or_re_ordered_gets_no_more(
    ids: tuple[str, str], members: dict[str, Any]
) -> None:
    """Counted ids are not certain, and a signature of the whole message has one place only."""
    chats = Chats()
    made = [each | {"id": call_id} for each, call_id in zip(calls(), ids, strict=True)]
    message = chats.learn([ASK], assistant(TEXT, tool_calls=made, **members))
    results = [tool("sunny", ids[0]), tool("rainy", ids[1])]
    first, second = (assistant(None, tool_calls=[each]) for each in made)
    split = [ASK, first, results[0], second, results[1]]
    turned = [ASK, stripped(message) | {"tool_calls": stripped(message)["tool_calls"][::-1]}]

    assert chats.outcomes(split) == {"guarded_form": 2}
    assert "injected" not in chats.outcomes([*turned, *results])


def test_two_turns_in_one_message_get_nothing() -> None:
    """The client merged what two responses said."""
    chats = Chats()
    first = chats.learn([ASK], assistant(tool_calls=calls()[:1], reasoning_content="Hm"))
    history = [ASK, stripped(first), outputs()[0]]
    second = chats.learn(history, assistant(tool_calls=calls()[1:], reasoning_content="Hm so"))
    both = assistant(tool_calls=[*first["tool_calls"], *second["tool_calls"]])

    assert chats.outcomes([ASK, both, *outputs()]) == {"guarded_form": 2}


def test_a_text_of_another_turn_is_not_a_changed_one() -> None:
    """A call with the text of the turn before it is in a message of two turns."""
    chats = Chats()
    chats.learn([user("Hi")], assistant("Hello.", reasoning_content="Hm"))
    asked = [user("Hi"), assistant("Hello."), ASK]
    used = call("weather", call_id="call_pL9xT2mQ7rB4")
    chats.learn(asked, assistant(TEXT, tool_calls=[used], reasoning_content="Hm so"))

    texts = (TEXT, "I look them up.", "Hello.")
    sent = [chats.send([*asked, assistant(text, tool_calls=[used])])[3] for text in texts]

    assert [one.get("reasoning_content") for one in sent] == ["Hm so", "Hm so", None]


def test_a_key_that_occurs_twice_is_not_edited() -> None:
    """Readers disagree on which of two equal keys wins."""
    chats = Chats()
    message = chats.learn([ASK], assistant(tool_calls=calls(), reasoning_content="Hm"))
    sent = body_of([ASK, stripped(message), *outputs()])
    sent = sent.replace(b'"content" : null', b'"content" : null , "content" : null')

    decided = chats.decide(sent)

    assert decided.body is sent
    assert [*map(str, decided.outcomes)] == ["guarded_form"]


def test_a_call_in_the_old_form_takes_no_member_of_a_call() -> None:
    """Only an element of `tool_calls` has a place for it."""
    chats = Chats()
    made = call("weather", '{"city":"Paris and all of its suburbs, please"}', None, "a")
    chats.learn([ASK], assistant(tool_calls=[made | {"extra_content": SIGNED}]))
    sent = [ASK, {"role": "assistant", "function_call": made["function"]}]

    assert chats.outcomes([*sent, tool("sunny", "")]) == {"guarded_form": 1}


@pytest.mark.parametrize(
    ("model", "outcomes"),
    [
        ("glm-5", {"injected": 1}),
        ("zai/glm-5:nitro", {"injected": 1}),
        ("deepseek-v4", {"guarded_model": 1}),
    ],
)
def test_reasoning_goes_only_to_the_model_that_emitted_it(
    model: str, outcomes: dict[str, int]
) -> None:
    """Other models refuse a signature, and other text harms them."""
    chats = Chats()
    message = chats.learn([ASK], assistant(TEXT, reasoning_content="Hm"))
    assert chats.outcomes([ASK, stripped(message), user("Go")], model=model) == outcomes


def test_a_request_without_a_model_continues_those_without_one() -> None:
    """Azure's path names a deployment; the request need not name a model."""
    chats = Chats()
    message = chats.learn([ASK], assistant(TEXT, reasoning_content="Hm"), model="")
    other = chats.learn([user("Other?")], assistant("Another long text.", reasoning_content="Hm"))

    assert chats.outcomes([ASK, stripped(message), user("Go")], model="") == {"injected": 1}
    asked = [user("Other?"), stripped(other), user("Go")]
    assert chats.outcomes(asked, model="") == {"guarded_model": 1}


OFF = {"thinking": {"type": "disabled"}}


@pytest.mark.parametrize(
    ("before", "now", "outcome"),
    [({}, {}, "injected"), ({}, OFF, "skipped"), (OFF, {}, "injected"), (OFF, OFF, "injected")],
)
def test_nothing_is_injected_where_reasoning_is_switched_off(
    before: dict[str, Any], now: dict[str, Any], outcome: str
) -> None:
    """Except if upstream reasoned although it was switched off: the switch has no effect there."""
    chats = Chats()
    message = chats.learn([ASK], assistant(TEXT, reasoning_content="Hm"), **before)
    assert chats.outcomes([ASK, stripped(message), user("Go")], **now) == {outcome: 1}


def test_the_rounds_are_a_setting() -> None:
    """The current round begins after the last message of the user."""
    history = [ASK]
    chats, current = Chats(), Chats(ChatDialect(GENERIC, rounds=Rounds.CURRENT))
    for one in (chats, current):
        history = [ASK]
        said = one.learn(history, assistant(TEXT, reasoning_content="Hm"))
        history += [stripped(said), user("Go on, please, with the next one.")]
        said = one.learn(history, assistant(tool_calls=calls(), reasoning_content="Hm"))
        history += [stripped(said), *outputs()]

    assert chats.outcomes(history) == {"injected": 2}
    assert current.outcomes(history) == {"skipped": 1, "injected": 1}
    assert current.outcomes(history[3:]) == {"injected": 1}


EMPTY = {"reasoning_content": ""}


@pytest.mark.parametrize(("profile", "goes"), [("deepseek", True), ("generic", False)])
@pytest.mark.parametrize("is_streamed", [True, False])
def test_an_emitted_empty_text_goes_where_it_is_demanded(
    profile: str, goes: bool, is_streamed: bool
) -> None:
    """DeepSeek and Moonshot refuse a message without the member that they emitted."""
    chats = Chats(ChatDialect(PROFILES[profile]))
    said = stream({"reasoning_content": ""}, {"content": TEXT, "reasoning_content": None})
    chats.take(body_of([ASK]), said if is_streamed else answer(assistant(TEXT, **EMPTY)))

    (_, got, _) = chats.send([ASK, assistant(TEXT), user("Go")])

    assert got == (assistant(TEXT, **EMPTY) if goes else assistant(TEXT))


def test_an_unfinished_item_gets_nothing() -> None:
    """A response that was cut short has no reasoning for its last item."""
    chats = Chats()
    made = assistant(TEXT, tool_calls=calls()[1:] + calls(extra_content=SIGNED)[:1], reasoning="Hm")
    message = chats.learn([ASK], made, "length")
    text = chats.learn([user("Hi")], assistant(f"Else. {TEXT}", reasoning="Hm"), "length")

    assert chats.outcomes([ASK, stripped(message), *outputs()]) == {
        "guarded_unfinished": 1,
        "injected": 1,
    }
    assert chats.outcomes([user("Hi"), text | {"reasoning": None}]) == {"guarded_unfinished": 1}


def test_unknown_messages_are_counted_once_for_a_run() -> None:
    """A run ends with a message of the client's side; models without reasoning miss nothing."""
    chats = Chats()
    sent = [ASK, assistant("One"), assistant("Two", tool_calls=calls()), *outputs(), assistant("3")]

    assert chats.outcomes(sent) == {"missed": 2}
    assert chats.outcomes(sent, model="gpt-4o") == {}
    assert chats.outcomes([ASK]) == {}


def test_what_two_turns_may_have_said_is_ambiguous() -> None:
    """Neither of them is used."""
    chats = Chats()
    for reasoning in ("a", "b"):
        chats.learn([user("Hi")], assistant("Hello!", reasoning=reasoning))
    sent = [user("Hi"), assistant("Hello!"), user("Go")]

    assert chats.outcomes(sent) == {"ambiguous": 1}
    assert chats.send(sent) == sent


def test_a_withheld_run_of_a_first_call_is_not_counted_twice() -> None:
    """It is the run of the message and of its first call."""
    chats = Chats()
    turn = chats.take(body_of([ASK]), answer(assistant(tool_calls=calls(extra_content=SIGNED))))
    assert turn is not None
    (key,) = chats.store.turns
    chats.store.turns[key] = turn.without_reasoning(lambda _: True)
    message = stripped(assistant(tool_calls=calls()))

    assert chats.outcomes([ASK, message, *outputs()]) == {"refused": 1}
