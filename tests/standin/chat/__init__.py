"""
Stand-in for Chat Completions: one strict API per vendor, for the tests that judge the proxy.

Everything but server.py is pure.
"""

from tests.standin.chat.families import FAMILIES, Family, FamilyName
from tests.standin.chat.model import LOOPS
from tests.standin.chat.server import ChatStandIn
from tests.standin.judging import ApiRefusal

__all__ = ["FAMILIES", "LOOPS", "ApiRefusal", "ChatStandIn", "Family", "FamilyName"]
