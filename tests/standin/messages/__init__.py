"""
Stand-in for Anthropic Messages: one strict API per mode, for the tests that judge the proxy.

It signs what it emits, so a test can assert that no block ever was in a place where it was not
emitted.
"""

from tests.standin.messages.model import LOOPS
from tests.standin.messages.modes import MODES, Mode, ModeName
from tests.standin.messages.server import MessagesStandIn

__all__ = ["LOOPS", "MODES", "MessagesStandIn", "Mode", "ModeName"]
