"""
Stand-in for Anthropic Messages: one strict API per mode, for the tests that judge the proxy.

It imports nothing of the proxy (`test_apart` checks that). Everything but server.py is pure.
It records all that it emits, and signs it, so a test can assert that no block ever was in a place
where it was not emitted.
"""

from tests.standin.messages.behaviour import Behaviour
from tests.standin.messages.model import LOOPS, Loop
from tests.standin.messages.modes import MODES, Mode, ModeName
from tests.standin.messages.server import MessagesStandIn

__all__ = ["LOOPS", "MODES", "Behaviour", "Loop", "MessagesStandIn", "Mode", "ModeName"]
