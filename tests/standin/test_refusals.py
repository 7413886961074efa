"""Refusals: the envelope, and the few texts that no request of the other tables causes."""

import msgspec
import pytest

from tests.standin import refusals
from tests.standin.refusals import Refusal


def test_the_envelope_has_its_four_members() -> None:
    """Members without a value are present as null."""
    body = msgspec.json.decode(msgspec.json.encode(Refusal(400, "No.").envelope))

    assert body == {
        "error": {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}
    }


@pytest.mark.parametrize(
    ("refusal", "status", "code"),
    [
        (refusals.no_credential(), 401, "invalid_api_key"),
        (refusals.not_found("rs_1"), 404, None),
        (refusals.unknown_response("resp_1"), 404, None),
        (refusals.unknown_route("GET", "/"), 404, None),
        (refusals.wrong_method("GET"), 405, "method_not_supported"),
        (refusals.unreadable_body("here"), 400, None),
    ],
)
def test_the_status_is_the_one_of_the_api(refusal: Refusal, status: int, code: str | None) -> None:
    """Most refusals are 400; a missing object is 404, and a missing credential is 401."""
    assert (refusal.status, refusal.code) == (status, code)


def test_a_short_blob_is_shown_as_it_is() -> None:
    """The error shows the first and last four characters, even if they overlap."""
    assert "gAA...gAA could" in refusals.bad_ciphertext("gAA", readable=True).message
