"""
One scenario: what a client sends, how that is refused, and what upstream shall receive instead.

The table is in the other files of this folder, one entry for each row of the demand survey and
client's shape; test_demand.py plays each of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tests.demand.notation import Item
from tests.standin.answering import Behaviour
from tests.standin.quirks import Quirks
from tests.standin.rules import Continuity
from tests.standin.variants import Variant

__all__ = [
    "DUPLICATE",
    "LACKS_CALL",
    "LACKS_FOLLOWER",
    "LACKS_OUTPUT",
    "LACKS_REASONING",
    "NOT_FOUND",
    "Made",
    "Refused",
    "Scenario",
]

Made = Literal["proxied", "straight", "elsewhere"]
"""
Where the honest history was made: through the proxy, which has captured it; past the proxy, so
that it knows nothing; or at another upstream altogether.
"""

# Refusals, as far as they are the same whatever the ids: E1, E2 / E3 / E4 / E7 / E8 / E9.
LACKS_REASONING = (
    r"Item '{0}' of type '\w+' was provided without its required 'reasoning' item: '{1}'\."
)
LACKS_FOLLOWER = (
    r"Item '{0}' of type 'reasoning' was provided without its required following item\."
)
NOT_FOUND = r"Item with id '{0}' not found\. Items are not persisted "
DUPLICATE = (
    r"Duplicate item found with id {0}\. Remove duplicate items from your input and try again\."
)
LACKS_OUTPUT = r"No tool output found for function call {0}\."
LACKS_CALL = r"No tool call found for function call output with call_id {0}\."


@dataclass(frozen=True, slots=True)
class Refused:
    """
    A refusal, as upstream gives it without the proxy.

    Attributes:
        words: Pattern of what it says; `{0}` is the id, or the call id, of the item named first in
            `blamed`, and so on.
        blamed: Names of the items that it names.
        status: Of the answer.
    """

    words: str
    blamed: str = ""
    status: int = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """
    One row of the survey, or one of its shapes.

    Attributes:
        row: Its number; 0 where the survey has none.
        title: Who does this, and what.
        sent: What the client sends, in the notation.
        refused: The refusal without the proxy; None where it is served all the same, which is the
            silent loss of reasoning.
        want: What upstream shall receive in the end; None where the refusal shall pass.
        healed: The diagnosis, when a second try was needed; "" when not.
        repaired: Whether something was repaired before the first try.
        made: See Made.
        loop: What the model does.
        turns: How many answers the honest history holds.
        asks: What the user says once those are over; "" nothing.
        body: Members of the client's requests beside model and input.
        last: Members of the last request alone. "previous" stands for the last response.
        model: Of all requests but the last, unless `last` has none.
        key: The header that carries the credential.
        quirks: Of the backend while the history is made.
        then: Of the backend when the last request arrives; None is as before.
        expires: Whether it has forgotten what it stored by then.
        behaviour: How the stand-in tells its answers.
        continuity: "strict" refuses lost reasoning that the API would not miss.
        more: Items that the honest history does not have, by name.
        streams: Whether the client streams: in both ways, unless it matters.
    """

    row: int
    title: str
    sent: str
    want: str | None
    refused: Refused | None = None
    healed: str = ""
    repaired: bool = False
    made: Made = "proxied"
    loop: Variant = "one_call"
    turns: int = 1
    asks: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    last: Mapping[str, Any] = field(default_factory=dict)
    model: str = "gpt-5.4"
    key: str = "Authorization"
    quirks: Quirks = field(default_factory=Quirks)
    then: Quirks | None = None
    expires: bool = False
    behaviour: Behaviour = field(default_factory=lambda: Behaviour(always_encrypted=True))
    continuity: Continuity = "normal"
    more: Mapping[str, Item] = field(default_factory=dict)
    streams: tuple[bool, ...] = (False, True)

    @property
    def tries(self) -> int:
        """How many requests upstream shall see for the last one of the client's."""
        return 2 if self.healed else 1

    def uncaptured(self, **changes: Any) -> "Scenario":
        """The same where the proxy knows nothing of the history, and what differs then."""
        title = f"{self.title} (not captured)"
        return replace(self, title=title, made="straight", **changes)
