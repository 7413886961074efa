"""Fingerprints: an id of a call in the form of upstream's is never taken for the client's own."""

import pytest
from reasoning_replay.core.history.fingerprints import have_one_origin

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
