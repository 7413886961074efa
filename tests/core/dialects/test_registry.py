"""Registry: each route belongs to one dialect, and each dialect has its own key space."""

from typing import Any

import pytest
from reasoning_replay.core.dialects.registry import (
    CAPTURED_ROUTES,
    CHAT,
    DIALECTS,
    GEMINI,
    MESSAGES,
    REPLAYED_ROUTES,
    RESPONSES,
    dialect_of,
    names_version,
    scope_in,
    scopes_of,
)
from reasoning_replay.core.dialects.states import Route

ONE, OTHER = b"one tenant of 16", b"another of 16 by"


def test_each_route_belongs_to_one_dialect() -> None:
    """No two dialects claim a route, and every replayed or captured one has a dialect."""
    claimed = [route for entry in DIALECTS for route in entry.routes]
    assert len(claimed) == len(set(claimed))
    assert set(claimed) >= REPLAYED_ROUTES | CAPTURED_ROUTES
    assert {dialect_of(route) for route in claimed} == {RESPONSES, CHAT, MESSAGES, GEMINI}
    assert {dialect_of(route) for route in set(Route) - set(claimed)} == {""}


def test_no_key_space_is_shared() -> None:
    """Two dialects of a tenant, and two tenants, never share a scope; Responses keeps the old."""
    spaces = [*scopes_of(ONE), *scopes_of(OTHER)]
    assert len(set(spaces)) == len(spaces) == 2 * len(DIALECTS)
    assert {len(space) for space in spaces} == {16}
    assert scope_in(RESPONSES, ONE) == scopes_of(ONE)[0] == ONE
    assert [scope_in(name, ONE) for name in (CHAT, MESSAGES, GEMINI)] == scopes_of(ONE)[1:]


@pytest.mark.parametrize(
    ("route", "headers", "names"),
    [
        ("generate_content", set(), True),
        ("gemini_count_tokens", set(), True),
        ("interactions", set(), True),
        (Route.MODELS, {"x-goog-api-key"}, True),
        (Route.MODELS, {"Authorization"}, False),
        (Route.OTHER, set(), False),
        (Route.CHAT, {"x-goog-api-key"}, False),
    ],
)
def test_a_client_of_gemini_names_the_version_itself(
    route: str, headers: set[str], *, names: bool
) -> None:
    """Its route tells it, or on a path that other APIs have, the header of its key."""
    assert names_version(route, headers) is names


def test_labels_are_the_refusals_that_a_dialect_understands() -> None:
    """What it does not understand has no label: no cure is tried."""
    for entry in DIALECTS:
        assert "blob" in entry.refusals
        assert "other" not in entry.refusals


SETTINGS = {
    "chat_fill": "on",
    "chat_rounds": "current",
    "drop_unanswered": "on",
    "gemini_sentinel": "replace",
    "include": "never",
    "messages_drop_block": "on",
    "phase": "off",
    "repairs": "foreign,hollow",
}


def test_an_entry_makes_the_dialect_at_an_upstream() -> None:
    """It gets the settings that it names, and no other."""
    assert {name for entry in DIALECTS for name in entry.settings} == SETTINGS.keys()
    made: list[Any] = []
    for entry in DIALECTS:
        profile = entry.profile_of("auto", "https://api.openai.com/v1")
        made.append(entry.make(profile, {name: SETTINGS[name] for name in entry.settings}))
        assert made[-1].name == entry.name
    of_responses, of_chat, of_messages, of_gemini = made
    assert of_responses.include == "never"
    assert of_responses.repairs == {"foreign", "hollow"}
    assert of_responses.profile.name == "openai"
    assert (of_responses.profile.takes_phase, of_responses.profile.drops_unanswered) == (0, 1)
    assert (of_chat.rounds, of_chat.fills) == ("current", True)
    assert (of_messages.repairs, of_messages.drops) == (("foreign", "hollow"), True)
    assert (of_gemini.profile.name, of_gemini.replaces_sentinels) == ("generic", True)
