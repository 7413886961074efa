"""
Scenario: the request of a client, its refusal, and the request that upstream must receive instead.

rows.md is the table of all scenarios; test_demand.py plays every row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.demand.notation import Item
from tests.standin.quirks import Behaviour, Continuity, Quirks
from tests.standin.variants import Variant

__all__ = ["Made", "Refused", "Scenario"]

Made = Literal["proxied", "straight", "elsewhere"]
"""
Where the honest history was made: through the proxy, which captured it; directly at the upstream,
so that nothing is captured; or at another upstream.
"""


@dataclass(frozen=True, slots=True)
class Refused:
    """
    A refusal that upstream returns without the proxy.

    Attributes:
        words: Pattern of its message; `{0}` is the id, or the call id, of the first item in
            `blamed`, and so on.
        blamed: Names of the items that the message names.
        status: Status of the response.
    """

    words: str
    blamed: str = ""
    status: int = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """
    One row of the survey, or one of its forms.

    Attributes:
        row: Number of the row; 0 if the survey has none.
        title: The client and its behaviour.
        sent: The items that the client sends, in the notation.
        refused: The refusal without the proxy; None if the request is accepted and its reasoning
            is silently lost.
        want: The items that upstream must receive in the end; None if the refusal is passed on.
        healed: The diagnosis, if a second attempt is needed; otherwise "".
        repaired: Whether the request is repaired before the first attempt.
        made: See Made.
        loop: Shape of the model's responses.
        turns: Number of responses in the honest history.
        asks: The user's message after those; "" for none.
        body: Members of the client's requests in addition to model and input.
        last: Members of the last request only. "previous" stands for the last response.
        model: Model of all requests; `last` may name another for the last one.
        key: Header that carries the credential.
        quirks: Behaviour of the backend while the history is made.
        then: Behaviour of the backend when the last request arrives; None means unchanged.
        expires: Whether the backend has deleted its stored items by then.
        behaviour: Form of the stand-in's responses.
        continuity: "strict" refuses lost reasoning that the API would accept.
        more: Items that the honest history does not have, by name.
        streams: Whether the client streams: both ways, unless only one is relevant.
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
        """Number of requests that upstream must receive for the client's last one."""
        return 2 if self.healed else 1
