"""Replay settings: what the proxy adds to requests, and what it repairs and heals in them."""

from typing import Literal

from pydantic import BaseModel, Field

from reasoning_replay.settings.field_types import RepairNames

__all__ = ["ReplayPolicySettings"]


class ReplayPolicySettings(BaseModel, defer_build=True):
    """Mode, injection, `include`, healing and repairs."""

    mode: Literal["on", "shadow", "off"] = Field(
        default="on",
        description="on: capture and inject. shadow: capture and count what would be injected "
        "back, but change no request. off: pass everything through.",
    )
    anchors: Literal["all", "tool_calls"] = Field(
        default="all",
        description="Before which items reasoning is injected: all (tool calls and assistant "
        "messages) or tool_calls alone, which sends fewer input tokens.",
    )
    include: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether to ask for reasoning.encrypted_content where the client did not: auto "
        "(when upstream keeps no items, so that ids alone mean nothing to it), always (of every "
        "model that may reason), never: then much cannot be injected.",
    )
    heal: Literal["on", "off"] = Field(
        default="on",
        description="Whether a request that upstream refuses for something that can be healed is "
        "sent once more, healed. off: also a refusal of what was injected reaches the client.",
    )
    repairs: RepairNames = Field(
        default="duplicates,hollow,foreign,unpaired,dangling",
        description="What is repaired before the first attempt, by comma: duplicates (exact "
        "copies), "
        "hollow (an id alone, to an upstream that keeps nothing), foreign (reasoning of another "
        "model or account, or refused before), unpaired (reasoning with its id and what it led to "
        "without, or the other way round), dangling (reasoning at the very end); none.",
    )
