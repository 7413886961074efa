"""Errors as they were recorded, and as they are quoted in public, where they are at hand."""

import json
from pathlib import Path

import pytest

from proxy.core.heal.cure import cure
from proxy.core.heal.diagnosis import Fault, diagnose
from proxy.core.keys import Recalled
from proxy.core.plans import Policy
from proxy.core.request import read_request
from tests.recordings import tape


@pytest.fixture(scope="module")
def recorded() -> Path:
    """Return where they lie; skip where that is nowhere."""
    root = tape.root()
    if root is None:
        pytest.skip("no recordings in ../shared/recorded, and REPLAY_TEST_RECORDED names none")
    return root


def test_every_quoted_error_is_understood(recorded: Path) -> None:
    """What users quoted of their refusals concerns us, each of them."""
    path = recorded / "quoted-errors.json"
    if not path.exists():
        pytest.skip("no quoted-errors.json beside the recordings")
    for error in json.loads(path.read_text()):
        body = json.dumps(error["body"]) if "body" in error else error["message"]
        found = diagnose(error["status"], body.encode())
        assert found.fault not in (Fault.INPUT, Fault.OTHER), error["source"]


def test_recorded_errors_of_other_kinds_stay_the_clients(recorded: Path) -> None:
    """Keys, models, limits, files: nothing of it is healed, and nothing is sent once more."""
    refused = [one for r in tape.load("error") for one in r.exchanges if one.status >= 400]
    assert refused
    for exchange in refused:
        found = diagnose(exchange.status, exchange.answer)
        assert found.fault in (Fault.INPUT, Fault.OTHER), exchange.name
        sent = read_request(exchange.request, {})
        assert cure(sent, sent, found, Recalled(), Policy()) is None
