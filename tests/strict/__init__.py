"""
Strict upstreams: the strict API of the package with a fault switch, for tests that judge the proxy.

Each keeps every request as it arrived, has one API for each caller, and can be told to refuse, to
delay or to cut into pieces.
"""

from tests.strict.backends import Quirks
from tests.strict.responses import StrictResponses
from tests.strict.scripts import LOOPS
from tests.strict.upstream import Received, Refusal, Upstream

__all__ = ["LOOPS", "Quirks", "Received", "Refusal", "StrictResponses", "Upstream"]
