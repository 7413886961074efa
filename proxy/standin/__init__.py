"""
A strict stand-in for the Responses API: for the demo, and for the tests that judge the proxy.

It knows nothing of the proxy. Rules, ledger, variants and events are pure; server.py is the shell.
"""

from proxy.standin.answering import Behaviour
from proxy.standin.quirks import Quirks
from proxy.standin.refusals import Refusal
from proxy.standin.server import Received, StandIn
from proxy.standin.variants import LOOPS

__all__ = ["LOOPS", "Behaviour", "Quirks", "Received", "Refusal", "StandIn"]
