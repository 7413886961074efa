"""docs/upstreams.md describes each profile as it is in the code, and its script works."""

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from reasoning_replay.core.dialects.anthropic import profiles as messages
from reasoning_replay.core.dialects.chat import profiles as chat
from reasoning_replay.core.dialects.gemini import profiles as gemini
from reasoning_replay.core.dialects.registry import CHAT as CHAT_API
from reasoning_replay.core.dialects.registry import DIALECTS, GEMINI, RESPONSES
from reasoning_replay.core.dialects.registry import MESSAGES as MESSAGES_API
from reasoning_replay.core.dialects.responses.profiles import PROFILES, Ids, Profile
from reasoning_replay.core.dialects.routes import DialectEntry
from reasoning_replay.core.dialects.vendors import Upstream, UpstreamProfile

from tests.docs.page_tables import names_in, rows_of, section_of
from tests.programs import require
from tests.standin import Quirks, StandIn

PAGE = "upstreams.md"
TABLES: Mapping[str, Mapping[str, UpstreamProfile]] = {
    RESPONSES: PROFILES,
    CHAT_API: chat.PROFILES,
    MESSAGES_API: messages.PROFILES,
    GEMINI: gemini.PROFILES,
}


def rows(heading: str) -> dict[str, list[str]]:
    """Return the table rows of a section: the name in the first cell -> the other cells."""
    return {row[0].strip("`"): row[1:] for row in rows_of(PAGE, heading)}


KNOWN = rows("## Known upstreams")
CHAT = rows("## Chat Completions")
MESSAGES_PAGE = "anthropic-messages.md"
MESSAGES = {row[0].strip("`"): row[1:] for row in rows_of(MESSAGES_PAGE, "## Upstreams")}


def test_the_table_has_every_profile_in_order() -> None:
    """The table has the profiles in their order, and then the rules for ids."""
    assert list(KNOWN) == [*PROFILES, *Ids]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_every_profile_is_in_the_table(profile: Profile) -> None:
    """A row has the hosts, the rule for ids, the special features and the source of a profile."""
    hosts, ids, also, source = KNOWN[profile.name]

    assert tuple(re.findall(r"`([^`]+)`", hosts)) == profile.vendor.hosts
    assert bool(hosts) == bool(profile.vendor.hosts or profile.name == "generic")
    assert ids == profile.ids
    assert ("keeps nothing" in also) is not profile.keeps_items
    needs = {"": "", "content": "needs the text", "encrypted_content": "needs `encrypted_content`"}
    assert needs[profile.needs] in also
    assert ("needs" in also) is bool(profile.needs)
    assert tuple(re.findall(r"refuses `(\w+)`", also)) == profile.omits
    assert source


def test_the_table_of_chat_has_every_profile_in_order() -> None:
    """The table has the profiles of Chat Completions in their order."""
    assert list(CHAT) == list(chat.PROFILES)


@pytest.mark.parametrize("profile", chat.PROFILES.values(), ids=chat.PROFILES)
def test_every_profile_of_chat_is_in_the_table(profile: chat.Profile) -> None:
    """A row has the hosts, unless the other table has them, and the members that go back."""
    hosts, back, source = CHAT[profile.name]

    known = PROFILES[profile.name].vendor.hosts if profile.name in PROFILES else ()
    assert (*known, *re.findall(r"`([^`]+)`", hosts)) == profile.vendor.hosts
    assert bool(hosts)
    members = profile.alone if profile.takes is None else profile.takes
    assert tuple(re.findall(r"`(\w+)`", back)) == members
    assert ("alone" in back) == bool(profile.alone)
    assert (back == "nothing") == (profile.takes == ())
    assert ("only" in back) == bool(profile.takes)
    assert source


def test_the_table_of_messages_has_every_profile_in_order() -> None:
    """A row has the hosts of a profile of Anthropic Messages, and whether blocks are signed."""
    assert list(MESSAGES) == list(messages.PROFILES)
    for profile in messages.PROFILES.values():
        hosts, blocks, source = MESSAGES[profile.name]
        assert tuple(re.findall(r"`([^`]+)`", hosts)) == profile.vendor.hosts
        assert blocks == ("signed" if profile.is_signed else "")
        assert bool(hosts)
        assert source


def test_the_table_of_gemini_has_every_profile_in_order() -> None:
    """A row has the hosts of a profile of Gemini."""
    told = {row[0].strip("`"): row[1:] for row in rows_of("gemini.md", "## Upstreams")}
    assert list(told) == list(gemini.PROFILES)
    for profile in gemini.PROFILES.values():
        hosts, source = told[profile.name]
        assert tuple(re.findall(r"`([^`]+)`", hosts)) == profile.vendor.hosts
        assert source


@pytest.mark.parametrize(
    ("page", "heading", "profile"),
    [
        (PAGE, "## Chat Completions", chat.Profile),
        (MESSAGES_PAGE, "## Upstreams", messages.Profile),
    ],
)
def test_every_field_of_another_profile_is_named(
    page: str, heading: str, profile: type[UpstreamProfile]
) -> None:
    """The section names what a profile of its API has in addition."""
    more = {field.name for field in fields(profile)} - {f.name for f in fields(UpstreamProfile)}
    text = section_of(page, heading)
    assert all(f"`{name}`" in text for name in more)


def test_every_field_of_a_profile_is_explained() -> None:
    """Each field has a row with its default."""
    explained = rows("### The fields of a profile")
    of_profile = [field for field in fields(Profile) if field.name != "vendor"]
    assert list(explained) == [field.name for field in (*fields(Upstream), *of_profile)]
    words = {"": "empty", (): "none", True: "true", False: "false"}
    for field in (*fields(Upstream), *of_profile):
        told = explained[field.name][0]
        if field.name == "blob":
            continue  # a pattern, which the page describes in words
        if field.default is MISSING:
            assert not told
        elif field.default in words:
            assert told == words[field.default]
        else:
            default = field.default[0] if isinstance(field.default, tuple) else field.default
            assert told == f"`{default}`"


def evidence(entry: DialectEntry, vendor: Upstream) -> str:
    """Return what the profile of a dialect rests on, in the words of the page."""
    known = TABLES[entry.name].get(vendor.name)
    if entry.name in vendor.lacks:
        return "no such API"
    if known is None or vendor.name == "generic":
        return "generic"
    is_recorded = re.search("record|cassette", known.source) is not None
    return "recordings" if is_recorded else "documentation"


def test_what_was_tried_with_each_upstream_is_told() -> None:
    """The page has one row for each upstream: its keys, and the evidence of each profile."""
    profiles = [one for entry in reversed(DIALECTS) for one in TABLES[entry.name].values()]
    vendors = {one.name: one.vendor for one in profiles}
    want = {
        name: [", ".join(f"`{key}`" for key in vendor.key_names) or "none"]
        + [evidence(entry, vendor) for entry in DIALECTS]
        for name, vendor in vendors.items()
    }
    told = rows_of("tried.md")
    assert {names_in(row[0])[0]: row[1:] for row in told if len(row) == 6} == want


async def probed(quirks: Quirks, folder: Path, *, stores: bool) -> dict[str, str]:
    """Run the script of the page; return the result of each step by its letter."""
    script = re.search(r"^```sh\n(.*?)^```$", section_of(PAGE), re.MULTILINE | re.DOTALL)
    assert script is not None
    for program in ("jq", "curl"):
        require(program)
    async with StandIn("one_call", "normal", quirks=quirks) as standin:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-euc",
            script[1],
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "URL": standin.base_url,
                "KEY": "sk-test",
                "MODEL": "gpt-5.4",
                "STORE": str(stores).lower(),
                "no_proxy": "*",
            },
            stdout=asyncio.subprocess.PIPE,
        )
        told, _ = await process.communicate()
    assert process.returncode == 0
    found = re.findall(r"^([A-H]) .*?: (.*)$", told.decode(), re.MULTILINE)
    return {name: "used" if _is_used(said, dict(found)["E"]) else said for name, said in found}


def _is_used(said: str, without: str) -> bool:
    tokens = [re.fullmatch(r"accepted, (\d+) input tokens", one) for one in (said, without)]
    return None not in tokens and int(tokens[0][1]) > int(tokens[1][1])  # type: ignore[index]


# (an upstream, whether it is asked to store, the results that decide a field of its profile)
UPSTREAMS = [
    pytest.param(Quirks(), False, {"A": "used", "B": "used", "D": "Item 'fc_"}, id="together"),
    pytest.param(Quirks(), True, {"H": "used"}, id="keeps-items"),
    pytest.param(Quirks(keeps_nothing=True), True, {"H": "Item with id"}, id="keeps-nothing"),
    pytest.param(
        Quirks(needs_reasoning_ids=True),
        False,
        {"A": "used", "B": "Missing required parameter: 'input[1].id'", "D": "Item 'fc_"},
        id="required",
    ),
    pytest.param(
        Quirks(keeps_nothing=True, looks_up_all=True, not_found="text"),
        False,
        {"A": "Item with id", "B": "used"},
        id="dropped",
    ),
    pytest.param(
        Quirks(keeps_nothing=True, thinks_aloud=True, takes_blobs=False),
        False,
        {"C": "used", "D": "accepted", "F": "used"},
        id="kept",
    ),
]


@pytest.mark.parametrize(("quirks", "stores", "want"), UPSTREAMS)
async def test_the_script_finds_out_how_an_upstream_behaves(
    quirks: Quirks, stores: bool, want: dict[str, str], tmp_path: Path
) -> None:
    """The results lead to the right row of the page's decision table."""
    told = await probed(quirks, tmp_path, stores=stores)

    assert list(told) == list("ABCDEFGH")
    for name, result in want.items():
        assert told[name].startswith(result), name
