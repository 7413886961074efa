"""
Stand-in for Chat Completions: one strict API per vendor, for the tests that judge the proxy.

It imports nothing of the proxy (`test_apart` checks that). Everything but server.py is pure.
It records all that it emits, so a test can assert that no message ever had reasoning of another.
"""

from tests.standin.chat.behaviour import Behaviour
from tests.standin.chat.families import FAMILIES, Family, FamilyName
from tests.standin.chat.judging import Finding
from tests.standin.chat.model import LOOPS, Loop
from tests.standin.chat.refusals import ChatRefusal
from tests.standin.chat.server import ChatStandIn, Judged

__all__ = [
    "FAMILIES",
    "LOOPS",
    "Behaviour",
    "ChatRefusal",
    "ChatStandIn",
    "Family",
    "FamilyName",
    "Finding",
    "Judged",
    "Loop",
]
