"""
Stand-in API: a strict Responses API for the tests that judge the proxy.

It imports nothing of the proxy (`test_apart` checks that). Rules, ledger, variants and events are
pure; server.py is the shell. Its rules, texts and formats are those of recorded traffic and of
public issue reports; the few that are not confirmed are marked.
"""

from tests.standin.answering import Behaviour
from tests.standin.quirks import Quirks
from tests.standin.refusals import Refusal
from tests.standin.server import Received, StandIn
from tests.standin.variants import LOOPS

__all__ = ["LOOPS", "Behaviour", "Quirks", "Received", "Refusal", "StandIn"]
