"""Fingerprints: which ids name one item, and which have the form of upstream's."""

import pytest
from reasoning_replay.core.history.fingerprints import (
    ID_CHARS,
    RANDOM_ID_CHARS,
    _origin_of,
    are_two_counts,
    are_two_items,
    have_one_origin,
    is_distinctive,
)

UPSTREAMS = "call_00_a8K2mPqZ7Lx93Qw5Rt61Vb"
LONG = "call_a8K2mPq4__thought__" + "Qm9" * 20


@pytest.mark.parametrize(
    ("this", "want"),
    [
        pytest.param("call_5e6f0a1b2c3d4e5f60718293", False, id="another-length"),
        pytest.param("tool_7LmQ2vXz9Kp4Rt8Wn1Hs5Yb0", False, id="another-prefix"),
        pytest.param("68c96c54-9704-8195-8484-dea31f07926d", False, id="uuid"),
        pytest.param("7LmQ2vXz9Kp4", False, id="bare"),
        pytest.param("call_01_Yt72Lm4Nz81cK3pXw95Hs0", True, id="of-another-call"),
        pytest.param(LONG, True, id="holds-other-data"),
    ],
)
def test_an_id_in_upstreams_form_is_upstreams(this: str, want: bool) -> None:
    """The form is the first word and the length; a long id holds data, so it has no form."""
    assert have_one_origin(this, UPSTREAMS, "weather") is want
    assert have_one_origin(UPSTREAMS, this, "") is want


@pytest.mark.parametrize(
    ("one", "other", "tool"),
    [
        ("tool_read_7LmQ2vXz9Kp4", "tool_7LmQ2vXz9Kp4", "read_"),
        ("call_c8K2mPqZ7Lx9", "call_a8K2mPqZ7Lx9", "c"),
    ],
)
def test_a_tool_is_no_part_of_the_form(one: str, other: str, tool: str) -> None:
    """A name in the id changes its length; a short name may be a part of an id by chance."""
    assert have_one_origin(one, other, tool)


# (id of a call, name of the tool, whether the id can identify a single call)
CALL_IDS = [
    ("call_gZrTFArD5630P0RS6FEaT79L", "", True),
    ("fc_68c96c59bc14819599154c9988b82996", "", True),
    ("toolu_01A09q90qw90lq917835lq9", "", True),
    ("123e4567-e89b-12d3-a456-426614174000", "", True),
    ("chatcmpl-tool-9f2c4d5e", "", True),
    ("D681PevKs", "", True),
    ("call_00_Xq3vK9abTy", "", True),
    ("functions.get_weather:0", "get_weather", False),
    ("functions.getWeather2:0", "getWeather2", False),
    ("functions.get_weather:0", "", False),
    ("call_0", "", False),
    ("call_12", "", False),
    ("call_00000001", "", False),
    ("msg_0000000000000001", "", False),
    ("call_a0000000000001", "", False),
    ("call_1700000000", "", False),
    ("call_1763819265123", "", False),
    ("call_73918264509182736455", "", True),
    ("call_20261123T031903Z", "", False),
    ("call_20261123T031903Z1", "", False),
    ("call_run1763867983", "", False),
    ("call_websearch1", "", False),
    ("call_webSearch12", "", False),
    ("call_WEBSEARCH1", "", False),
    ("call_step12ab", "", False),
    ("call_cqdapy3b", "", True),
    ("call_kvd09629", "", True),
    ("call_deface12", "", True),
    ("call_aabb1122", "", False),
    ("550e8400-e29b-41d4-a716-446655440000", "", True),
    ("00000000-0000-0000-0000-000000000001", "", False),
    ("toolu_get", "", False),
    ("call_get_weather_0", "get_weather", False),
    ("call_abcdefgh", "", False),
    ("ABCDEFGHIJ", "", False),
    ("0", "", False),
    ("", "", False),
    ("", "f", False),
    (":::", "", False),
    ("call_" + "x9" * ID_CHARS, "", False),
    ("call_gZrTFArD5630P0RS6FEaT79L", "f" * ID_CHARS + "f", False),
]


@pytest.mark.parametrize(("call_id", "name", "distinctive"), CALL_IDS)
def test_only_random_ids_are_distinctive(call_id: str, name: str, *, distinctive: bool) -> None:
    """An index, or a tool's name with a counter, occurs in every conversation."""
    assert is_distinctive(call_id, name) is distinctive


MINTED = "msg_68c96c54970481958484dea31f07926d"


@pytest.mark.parametrize(
    ("named", "are_two"),
    [
        pytest.param("", False, id="no-id"),
        pytest.param(MINTED, False, id="its-own"),
        pytest.param("msg_0", False, id="counted"),
        pytest.param("msg_00000000000000000000000000000000", False, id="counted-and-padded"),
        pytest.param("68c96c54-9704-8195-8484-dea31f07926d", False, id="uuid"),
        pytest.param("msg_68c96c54970481958484dea31f0792", False, id="another-length"),
        pytest.param("msg_68c96c54970481958484dea31f07926z", False, id="another-alphabet"),
        pytest.param("out_68c96c54970481958484dea31f07926e", False, id="another-prefix"),
        pytest.param("msg_68c96c54970481958484dea31f07926e", True, id="random-in-the-same-form"),
    ],
)
def test_another_id_in_upstreams_form_means_another_item(named: str, *, are_two: bool) -> None:
    """Equal content under such an id is from another response, which was not captured."""
    assert are_two_items(named, MINTED) is are_two


@pytest.mark.parametrize(
    ("ours", "theirs", "are_two"),
    [
        ("call_00000002", "call_00000001", True),
        ("call_1", "call_12", True),
        ("call_1", "call_1", False),
        ("mine_2", "call_1", False),
        ("x", "call_1", False),
    ],
)
def test_two_numbers_of_one_counter_are_two_calls(ours: str, theirs: str, *, are_two: bool) -> None:
    """A counted id is not a certain name, but different numbers mean different items."""
    assert are_two_counts(ours, theirs) is are_two


def test_long_names_are_compared_in_linear_time_and_not_cached() -> None:
    """A client may send a name of a million digits; in quadratic time this test takes an hour."""
    before = _origin_of.cache_info().currsize
    long = "1" * 1_000_000

    assert not are_two_counts(long + "x", "call_1")
    assert are_two_counts("call_" + long, "call_" + long[1:])
    one, other = ("msg_" + letter * RANDOM_ID_CHARS.stop for letter in "ab")
    assert not are_two_items(one, other)
    assert _origin_of.cache_info().currsize == before
