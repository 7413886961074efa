"""Profiles: the form of reasoning that each upstream accepts, and how an upstream is recognised."""

import re
from dataclasses import replace

import pytest
from reasoning_replay.core.dialects.responses.profiles import (
    PROFILES,
    Ids,
    Profile,
    profile_of,
)
from reasoning_replay.core.dialects.vendors import AUTO
from reasoning_replay.core.history.plan import Outcome

from tests.core.world import (
    Item,
    World,
    body,
    call,
    message,
    nameless,
    output,
    reasoning,
    search,
    user,
)

ASK = user("What is the weather in Paris?")
R1, R2 = reasoning("1"), reasoning("2")
C1, C2 = call("1"), call("2", tool="get_time")
SAID = message("1", "It is sunny in Paris today.")
WS = search("1")
TEXT = [{"type": "reasoning_text", "text": "The user asks."}]
OPEN: Item = {"type": "reasoning", "id": "rs_open", "summary": [], "content": TEXT}

# One conversation: a call, its output and a message; call and message had reasoning before them.
KEPT = [C1, output(C1), SAID]


def world_of(profile: Profile | str, *responses: list[Item], store: bool = True) -> World:
    """Return a world of this upstream that captured these responses, one after the other."""
    world = World(profile=PROFILES[profile] if isinstance(profile, str) else profile)
    sent = [ASK]
    for items in responses:
        world.learn(body(sent), items, store=store)
        for item in items:
            if item["type"] != "reasoning":
                sent += [item, output(item)] if item["type"] == "function_call" else [item]
    return world


def by_key(items: list[Item]) -> list[list[tuple[str, object]]]:
    """Return items for comparison: an injected id may stand at another position in its item."""
    return [sorted(item.items(), key=str) for item in items]


BOTH = [R1, C1, output(C1), R2, SAID]
NEITHER = [nameless(R1), nameless(C1), output(C1), nameless(R2), nameless(SAID)]
MIXED = [R1, nameless(C1), output(C1), R2, nameless(SAID)]
BARE = [nameless(C1), output(C1), nameless(SAID)]

# For a call and a message sent without reasoning, with `store: false` and without it: (items
# received if the client kept the ids, items received if it dropped them)
GOING_BACK = {
    "openai": ((BOTH, NEITHER), (BOTH, BOTH)),
    "azure": ((BOTH, MIXED), (BOTH, BOTH)),
    "codex": ((NEITHER, NEITHER), (NEITHER, NEITHER)),
    "copilot": ((BOTH, MIXED), (BOTH, MIXED)),
    "openrouter": ((BOTH, MIXED), (BOTH, MIXED)),
    "xai": ((BOTH, NEITHER), (BOTH, BOTH)),
    "bedrock": ((BOTH, NEITHER), (BOTH, BOTH)),
    "deepseek": ((KEPT, BARE), (KEPT, BARE)),  # DeepSeek cannot use a blob
    "vllm": ((KEPT, BARE), (KEPT, BARE)),
    "ollama": ((BOTH, MIXED), (BOTH, MIXED)),
    "llamacpp": ((KEPT, BARE), (KEPT, BARE)),
    "mistral": ((KEPT, BARE), (KEPT, BARE)),
    "meta": ((BOTH, NEITHER), (BOTH, BOTH)),
    "alibaba": ((BOTH, NEITHER), (BOTH, BOTH)),
    "minimax": ((BOTH, MIXED), (BOTH, MIXED)),
    "generic": ((BOTH, NEITHER), (BOTH, BOTH)),
}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("stores", [False, True], ids=["unstored", "stored"])
@pytest.mark.parametrize("keeps_ids", [True, False], ids=["ids-kept", "ids-dropped"])
def test_each_upstream_receives_the_form_it_accepts(
    name: str, stores: bool, keeps_ids: bool
) -> None:
    """The form depends on the profile, on `store`, and on the ids that the client kept."""
    want = GOING_BACK[name][stores][not keeps_ids]
    sent = KEPT if keeps_ids else BARE

    seen = world_of(name, [R1, C1], [R2, SAID]).seen(body([ASK, *sent], store=stores))

    assert by_key(seen) == by_key([ASK, *want])


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("keeps_ids", [True, False], ids=["ids-kept", "ids-dropped"])
def test_readable_reasoning_is_injected_with_its_id(name: str, keeps_ids: bool) -> None:
    """Reasoning with readable text keeps its id, and no other item changes."""
    anchor = C1 if keeps_ids else nameless(C1)
    is_of_use = PROFILES[name].needs != "encrypted_content"

    seen = world_of(name, [OPEN, C1]).seen(body([ASK, anchor, output(C1)]))

    assert seen == [ASK, *([OPEN] if is_of_use else []), anchor, output(C1)]


def test_every_profile_names_its_source() -> None:
    """A profile without a source would be a guess."""
    assert [name for name, profile in PROFILES.items() if len(profile.source) < 40] == []
    assert [name for name, profile in PROFILES.items() if name != profile.name] == []
    assert list(PROFILES) == list(GOING_BACK)


# (upstream_url, profile that `auto` selects)
HOSTS = [
    ("https://api.openai.com/v1", "openai"),
    ("https://API.OpenAI.com./v1", "openai"),
    ("https://eu.api.openai.com/v1", "openai"),
    ("https://your-resource.openai.azure.com/openai/v1", "azure"),
    ("https://your-resource.services.ai.azure.com/openai/v1", "azure"),
    ("https://your-resource.cognitiveservices.azure.com/openai/v1", "azure"),
    ("https://your-resource.openai.azure.us/openai/v1", "azure"),
    ("https://chatgpt.com/backend-api/codex", "codex"),
    ("https://api.githubcopilot.com", "copilot"),
    ("https://api.enterprise.githubcopilot.com", "copilot"),
    ("https://copilot-api.octo.ghe.com", "copilot"),
    ("https://openrouter.ai/api/v1", "openrouter"),
    ("https://api.x.ai/v1", "xai"),
    ("https://us-east-1.api.x.ai/v1", "xai"),
    ("https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1", "bedrock"),
    ("https://bedrock-runtime-fips.us-west-2.amazonaws.com/openai/v1", "bedrock"),
    ("https://bedrock-mantle.us-east-1.api.aws/openai/v1", "bedrock"),
    ("https://api.deepseek.com", "deepseek"),
    ("http://127.0.0.1:11434/v1", "ollama"),
    ("http://[::1]:11434/v1", "ollama"),
    ("https://ollama.com/v1", "ollama"),
    ("https://api.mistral.ai/v1", "mistral"),
    ("https://api.meta.ai/v1", "meta"),
    ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "alibaba"),
    ("https://w1.ap-southeast-1.maas.aliyuncs.com/compatible-mode/v1", "alibaba"),
    ("https://api.minimax.io/v1", "minimax"),
    ("https://opencode.ai/zen/v1", "generic"),
    ("http://127.0.0.1:8000/v1", "generic"),
    ("https://openai.com.example.org/v1", "generic"),
    ("https://api.openai.com.example.org/v1", "generic"),
    ("https://notapi.openai.com.example.org/v1", "generic"),
    ("https://gateway.elb.amazonaws.com/v1", "generic"),
    ("https://gateway.example.org/api.openai.com/v1", "generic"),
    ("https://api.openai.com@gateway.example.org/v1", "generic"),
]


@pytest.mark.parametrize(("url", "want"), HOSTS)
def test_auto_selects_by_host_and_port(url: str, want: str) -> None:
    """A path or a user name that looks like a known host has no effect."""
    assert profile_of(AUTO, url) is PROFILES[want]


def test_a_named_profile_wins_over_the_host() -> None:
    """A named profile is used for any host, as the host may be a gateway."""
    assert profile_of("azure", "https://api.openai.com/v1") is PROFILES["azure"]
    # Of another dialect: this upstream's Responses API, if it has one, is unknown.
    assert profile_of("moonshot", "https://api.openai.com/v1") is PROFILES["generic"]


FERNET = "gAAAAABpA5oHfxppmLDktuWhr3oH-_QP=="
XAI = "Eyl3cnpROlYYAvdogOuRNnNm4nBs254yrpZKH6Y7+/ynUvQiO1go"
XAI_TOOL = "tco_fe1da043-2876_call-38b07eab-5a84-0_" + XAI
BEDROCK = "rsn_5ZVrif4J0bXIqmWdledj7QIFeB83roAWNgm2GR1OVcTj7WjTMiXJp2YTWm4UERdloS6GAF8AAQA=="
THINKING = "The user asks for the weather.\nI shall call get_weather."
BLOBS = [FERNET, XAI, XAI_TOOL, BEDROCK, THINKING]


@pytest.mark.parametrize(
    ("name", "own"),
    [
        pytest.param("openai", [FERNET], id="openai"),
        pytest.param("azure", [FERNET], id="azure"),
        pytest.param("codex", [FERNET], id="codex"),
        pytest.param("copilot", BLOBS, id="copilot"),
        pytest.param("openrouter", BLOBS, id="openrouter"),
        pytest.param("xai", [XAI, XAI_TOOL], id="xai"),
        pytest.param("bedrock", [BEDROCK], id="bedrock"),
        pytest.param("deepseek", [], id="deepseek"),
        pytest.param("vllm", [], id="vllm"),
        pytest.param("ollama", [XAI, XAI_TOOL, THINKING], id="ollama"),
        pytest.param("llamacpp", [], id="llamacpp"),
        pytest.param("mistral", [], id="mistral"),
        pytest.param("meta", BLOBS, id="meta"),
        pytest.param("alibaba", BLOBS, id="alibaba"),
        pytest.param("minimax", BLOBS, id="minimax"),
        pytest.param("generic", BLOBS, id="generic"),
    ],
)
def test_a_foreign_blob_is_recognised_by_its_shape(name: str, own: list[str]) -> None:
    """Shapes separate vendors only where they differ; an empty blob belongs to no vendor."""
    profile = PROFILES[name]

    assert [blob for blob in BLOBS if profile.is_own_blob(blob)] == own
    assert not profile.is_own_blob("")


def test_a_shape_never_prevents_injection() -> None:
    """Formats change, so blobs that upstream emitted are injected whatever their shape."""
    strict = replace(PROFILES["openai"], blob=re.compile("(?!)"))

    assert world_of(strict, [R1, C1]).seen(body([ASK, C1])) == [ASK, R1, C1]


# (members that the upstream rejects in input, item emitted, item injected; None: no item)
OMITS = [
    pytest.param((), {**R1, "status": "completed"}, R1, id="status-is-never-kept"),
    pytest.param(("content",), {**R1, "content": []}, R1, id="content"),
    pytest.param(("content",), {**R1, "content": TEXT}, R1, id="text-next-to-a-blob"),
    pytest.param(("content",), OPEN, None, id="text-alone"),
    pytest.param(("encrypted_content",), R1, None, id="blob-alone"),
    pytest.param(("encrypted_content",), {**OPEN, "encrypted_content": "x"}, OPEN, id="blob"),
    pytest.param(("format",), {**R1, "summary": ["format"]}, {**R1, "summary": ["format"]}, id="a-word"),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(("omits", "emitted", "want"), OMITS)
def test_rejected_members_are_left_out(
    omits: tuple[str, ...], emitted: Item, want: Item | None
) -> None:
    """Reasoning that is useless without them is not injected; the id that demands it is removed."""
    world = world_of(replace(PROFILES["generic"], omits=omits), [emitted, C1])
    anchor = C1 if want is not None else nameless(C1)

    assert world.seen(body([ASK, C1], store=False)) == [ASK, *([want] if want else []), anchor]


@pytest.mark.parametrize("nothing", [None, "", [], [""], "absent"], ids=str)
def test_reasoning_without_a_needed_member_is_not_injected(nothing: object) -> None:
    """An empty value counts as absent; ids stay if this upstream does not check them."""
    empty = {**R1, "content": nothing} if nothing != "absent" else R1
    world = world_of("deepseek", [empty, C1])

    sent = body([ASK, C1])
    decided = world.ask(sent)[2]

    assert decided.outcomes == {Outcome.GUARDED_FORM: 1}
    assert decided.apply(sent) is sent


def test_a_run_is_injected_whole_or_not_at_all() -> None:
    """Half a run is not what upstream emitted."""
    world = world_of("deepseek", [OPEN, R2, C1])

    assert world.seen(body([ASK, C1])) == [ASK, C1]


NO_BLOB = {**R1, "encrypted_content": None}
NO_ID = nameless(R1)
EASY = {"role": "assistant", "content": "It is sunny in Paris today."}
MADE_UP = {**C1, "id": "fc_made_up"}

# Handling of ids in the less simple cases: (rule, items emitted, `store` of the request, items
# sent, items received)
RULES = [
    pytest.param(Ids.REQUIRED, [NO_BLOB, C1], True, [C1], [NO_BLOB, C1], id="required-by-name"),
    pytest.param(
        Ids.REQUIRED, [NO_BLOB, C1], False, [C1], [nameless(C1)], id="required-no-blob-unstored"
    ),
    pytest.param(Ids.REQUIRED, [NO_ID, C1], False, [C1], [nameless(C1)], id="required-has-no-id"),
    pytest.param(Ids.REQUIRED, [R1, SAID], True, [EASY], [EASY], id="required-takes-no-id"),
    pytest.param(Ids.REQUIRED, [R1, SAID], False, [EASY], [R1, EASY], id="required-easy-unstored"),
    pytest.param(Ids.REQUIRED, [R1, C1], True, [MADE_UP], [MADE_UP], id="required-made-up"),
    pytest.param(
        Ids.REQUIRED, [R1, C1], False, [MADE_UP], [R1, MADE_UP], id="required-made-up-unstored"
    ),
    pytest.param(Ids.REQUIRED, [R1, WS], False, [WS], [R1, WS], id="required-demanded-id"),
    pytest.param(
        Ids.REQUIRED, [R1, C1, C2], True, [C2], [nameless(C2)], id="required-head-dropped-stored"
    ),
    pytest.param(
        Ids.REQUIRED, [R1, C1, C2], False, [C2], [nameless(C2)], id="required-head-dropped"
    ),
    pytest.param(
        Ids.REQUIRED, [R1, C1, WS], False, [WS], [WS], id="required-head-dropped-demanded-id"
    ),
    pytest.param(Ids.DROPPED, [R1, WS], False, [WS], [R1, WS], id="dropped-demanded-id"),
    pytest.param(
        Ids.DROPPED, [R1, C1, WS], False, [nameless(C1), WS], [R1, C1, WS], id="dropped-in-a-group"
    ),
    pytest.param(Ids.DROPPED, [R1, C1, WS], False, [WS], [WS], id="dropped-head-dropped"),
    pytest.param(
        Ids.DROPPED, [NO_BLOB, C1], False, [C1], [nameless(C1)], id="dropped-nothing-to-send"
    ),
    pytest.param(Ids.KEPT, [NO_BLOB, C1], True, [C1], [NO_BLOB, C1], id="kept-by-name"),
    pytest.param(Ids.KEPT, [NO_BLOB, C1], False, [C1], [C1], id="kept-nothing-to-send"),
    pytest.param(Ids.KEPT, [NO_ID, C1], False, [C1], [NO_ID, C1], id="kept-has-no-id"),
    pytest.param(Ids.KEPT, [R1, C1, C2], False, [C2], [R1, C2], id="kept-head-dropped"),
    pytest.param(Ids.KEPT, [R1, WS], False, [WS], [R1, WS], id="kept-demanded-id"),
]


@pytest.mark.parametrize(("ids", "emitted", "stores", "sent", "want"), RULES)
def test_each_rule_handles_unusual_ids(
    ids: Ids, emitted: list[Item], stores: bool, sent: list[Item], want: list[Item]
) -> None:
    """Ids may be missing, demanded, invented by the client, or not on the head of their group."""
    world = world_of(replace(PROFILES["generic"], ids=ids), emitted)

    seen = world.seen(body([ASK, *sent], store=stores))

    assert by_key(seen) == by_key([ASK, *want])


@pytest.mark.parametrize("name", PROFILES)
def test_a_bare_id_is_injected_only_if_the_upstream_stores_items(name: str) -> None:
    """The profile decides this, independent of the request."""
    keeps = PROFILES[name].keeps_items

    decided = world_of(name, [NO_BLOB, C1]).ask(body([ASK, C1]))[2]

    assert decided.outcomes[Outcome.INJECTED if keeps else Outcome.GUARDED_FORM] == 1
