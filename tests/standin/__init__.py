"""
Stand-in APIs for the tests that judge the proxy: the strict API, with what only tests need.

That is scripted loops, faults, several callers, and the quirks of backends. They share no code with
the proxy (`test_apart` checks that), and serve official SDKs.
"""

from tests.standin.exchange import Received
from tests.standin.quirks import Quirks
from tests.standin.rules import Refusal
from tests.standin.server import StandIn
from tests.standin.variants import LOOPS

__all__ = ["LOOPS", "Quirks", "Received", "Refusal", "StandIn"]
