"""
Stand-in for Chat Completions: one strict API per vendor, for the tests that judge the proxy.

It imports nothing of the proxy (`test_apart` checks that). Everything but server.py is pure.
It records all that it emits, so a test can assert that no message ever had reasoning of another.
"""

from tests.standin.chat.behaviour import Behaviour
from tests.standin.chat.families import FAMILIES, Family, FamilyName
from tests.standin.chat.model import LOOPS, Loop
from tests.standin.chat.server import ChatStandIn
from tests.standin.common.judging import Finding
from tests.standin.common.server import ApiRefusal, Judged

__all__ = [
    "FAMILIES",
    "LOOPS",
    "ApiRefusal",
    "Behaviour",
    "ChatStandIn",
    "Family",
    "FamilyName",
    "Finding",
    "Judged",
    "Loop",
]
