"""Diagnosis of recorded errors and of errors quoted in public, if the recordings are present."""

import json
from pathlib import Path

import pytest
from reasoning_replay.core.dialects.responses.heal.cure import RefusedResponses
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind, diagnose
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.lookup_keys import LookupResult

from tests.recordings import tape, wire
from tests.recordings.responses import Responses


@pytest.fixture(scope="module")
def recorded() -> Path:
    """Return the directory of the recordings; skip the test if there is none."""
    root = wire.root()
    if root is None:
        pytest.skip("no recordings in ../shared/recorded, and REPLAY_TEST_RECORDED names none")
    return root


def test_every_quoted_error_is_understood(recorded: Path) -> None:
    """Every refusal that users quoted in public is diagnosed as one that the proxy heals."""
    path = recorded / "quoted-errors.json"
    if not path.exists():
        pytest.skip("no quoted-errors.json next to the recordings")
    for error in json.loads(path.read_text()):
        body = json.dumps(error["body"]) if "body" in error else error["message"]
        found = diagnose(error["status"], body.encode())
        assert found.kind not in (RefusalKind.INPUT, RefusalKind.OTHER), error["source"]


def test_recorded_errors_of_other_kinds_are_not_healed(recorded: Path) -> None:
    """Errors of keys, models, limits and files are passed on, and the request is not retried."""
    refused = [
        one for r in tape.load(Responses(), "error") for one in r.exchanges if one.status >= 400
    ]
    assert refused
    for exchange in refused:
        found = diagnose(exchange.status, exchange.answer)
        assert found.kind in (RefusalKind.INPUT, RefusalKind.OTHER), exchange.name
        sent = read_request(exchange.request, {})
        assert RefusedResponses(sent, sent, found, LookupResult(), GENERIC).cure() is None
