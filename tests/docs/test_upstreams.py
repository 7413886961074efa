"""docs/upstreams.md describes each profile as it is in the code, and its script works."""

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

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
from tests.strict import Quirks, StrictResponses

PAGE = "upstreams.md"
MESSAGES_PAGE = "anthropic-messages.md"
TABLES: Mapping[str, Mapping[str, UpstreamProfile]] = {
    RESPONSES: PROFILES,
    CHAT_API: chat.PROFILES,
    MESSAGES_API: messages.PROFILES,
    GEMINI: gemini.PROFILES,
}


def of_responses(profile: Profile) -> list[str]:
    """Return the cells of a profile between its hosts and its sources."""
    also = [] if profile.keeps_items else ["keeps nothing"]
    needs = {"content": "the text", "encrypted_content": "`encrypted_content`"}
    also += [f"needs {needs[profile.needs]}"] if profile.needs else []
    also += [f"refuses `{name}`" for name in profile.omits]
    return [profile.ids, "; ".join(also)]


def of_chat(profile: chat.Profile) -> list[str]:
    """Return what goes back."""
    if profile.takes is not None:
        return [
            "only " + ", ".join(map("`{}`".format, profile.takes)) if profile.takes else "nothing"
        ]
    return [", ".join(f"`{name}`, alone if emitted" for name in profile.alone)]


def of_messages(profile: messages.Profile) -> list[str]:
    """Return whether blocks are signed."""
    return ["signed" if profile.is_signed else ""]


def hosts_of(name: str, profile: UpstreamProfile) -> str:
    """Return the hosts in the words of the page."""
    if profile is chat.PROFILES.get(name) and name in set(PROFILES) - {"generic"}:
        return "as above"
    hosts = ", ".join(f"`{host}`" for host in profile.vendor.hosts)
    return "every other host" if name == "generic" else hosts


@pytest.mark.parametrize(
    ("page", "heading", "dialect", "cells"),
    [
        (PAGE, "## Known upstreams", RESPONSES, of_responses),
        (PAGE, "## Chat Completions", CHAT_API, of_chat),
        (MESSAGES_PAGE, "## Upstreams", MESSAGES_API, of_messages),
        ("gemini.md", "## Upstreams", GEMINI, lambda _: []),
    ],
)
def test_a_table_has_each_profile_as_it_is(
    page: str, heading: str, dialect: str, cells: Callable[[Any], list[str]]
) -> None:
    """A row has the hosts, what is special, and the sources; the rows are in the code's order."""
    told = {
        row[0].strip("`"): row[1:]
        for row in rows_of(page, heading)
        if row[0].strip("`") not in [*Ids]
    }
    assert list(told) == list(TABLES[dialect])
    for name, profile in TABLES[dialect].items():
        *row, source = told[name]
        assert row == [hosts_of(name, profile), *cells(profile)]
        assert source


def test_the_rules_for_ids_are_explained() -> None:
    """Each has a row below the profiles."""
    assert set(Ids) < {row[0].strip("`") for row in rows_of(PAGE, "## Known upstreams")}


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
    explained = {
        row[0].strip("`"): row[1:]
        for row in rows_of("internals/profiles.md", "## The fields of a profile")
    }
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
    told = rows_of("compatibility.md", "## Upstreams")
    assert {names_in(row[0])[0]: row[1:] for row in told if len(row) == 6} == want


async def probed(quirks: Quirks, folder: Path, *, stores: bool) -> dict[str, str]:
    """Run the script of the page; return the result of each step by its letter."""
    script = re.search(r"^```sh\n(.*?)^```$", section_of(PAGE), re.MULTILINE | re.DOTALL)
    assert script is not None
    for program in ("jq", "curl"):
        require(program)
    async with StrictResponses("one_call", "normal", quirks=quirks) as api:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-euc",
            script[1],
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "URL": api.base_url,
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
