"""
Modes: how the models and vendors of Anthropic Messages differ, as data, one row each.

Rows marked (R) are from recorded traffic, the others from documentation and public issue reports.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

__all__ = ["MODES", "Mode", "ModeName"]

ModeName = Literal["manual", "adaptive", "bound", "deepseek"]


class Mode(Struct, frozen=True, kw_only=True):
    """
    One way in which a model thinks, and in which its API demands the thoughts again.

    Attributes:
        name: Decides its rules (rules.py).
        model: A model that has it.
        thinking: The member `thinking` of a request that switches it on.
        path: The path of its base URL.
        profile: The profile of the proxy that fits.
        thinks_unasked: Whether it thinks without the member `thinking`.
        is_signed: Whether each block has a signature, which is checked.
        is_bound: Whether a block is bound to everything before it.
        shows_text: Whether a block has a text unless the request asks for one.
        ids: The form of the ids of its calls (model.py).
    """

    name: ModeName
    model: str
    thinking: Mapping[str, Any]
    path: str = "/v1"
    profile: str = "anthropic"
    thinks_unasked: bool = False
    is_signed: bool = True
    is_bound: bool = False
    shows_text: bool = True
    ids: str = "toolu"


MODES: Mapping[ModeName, Mode] = {
    mode.name: mode
    for mode in (
        Mode(
            name="manual",
            model="claude-sonnet-4-6",
            thinking={"type": "enabled", "budget_tokens": 1024},
        ),
        # (R) It thinks without being asked to, and its blocks have a signature without a text.
        Mode(
            name="adaptive",
            model="claude-sonnet-5",
            thinking={"type": "adaptive"},
            thinks_unasked=True,
            shows_text=False,
        ),
        Mode(
            name="bound",
            model="claude-fable-5-1",
            thinking={"type": "adaptive"},
            thinks_unasked=True,
            is_bound=True,
            shows_text=False,
        ),
        Mode(
            name="deepseek",
            model="deepseek-v4-flash",
            thinking={"type": "enabled"},
            path="/anthropic/v1",
            profile="deepseek",
            thinks_unasked=True,
            is_signed=False,
            ids="deepseek",
        ),
    )
}
