"""Replay settings: injection, repairs and healing."""

from typing import Literal

from pydantic import BaseModel, Field

from reasoning_replay.settings.field_types import RepairNames

__all__ = ["ReplayPolicySettings"]


class ReplayPolicySettings(BaseModel, defer_build=True):
    """Mode, `include`, healing and repairs."""

    mode: Literal["on", "shadow", "off"] = Field(
        default="on",
        description="`on`: capture and inject. `shadow`: capture, and count what would be "
        "injected, but change no request, so `include` has no effect. `off`: pass everything "
        "through.",
    )
    include: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether to request `reasoning.encrypted_content` if the client did not. "
        '`auto`: if the request has `"store": false` or the upstream keeps no items. `always`: '
        "on every request with its own history, for zero data retention. `never`: much reasoning "
        "cannot be injected. Not sent to upstreams that ignore it.",
    )
    heal: Literal["on", "off"] = Field(
        default="on",
        description="`on`: a refused request is sent once more, with the least edit that cures "
        "it, and at last as the client wrote it. `off`: every refusal reaches the client.",
    )
    phase: Literal["on", "off"] = Field(
        default="on",
        description="Responses: whether messages get back the `phase` that the client dropped, "
        "`on` or `off`.",
    )
    chat_rounds: Literal["profile", "all", "current"] = Field(
        default="profile",
        description="Chat Completions: messages that get their reasoning. `all`: every message, so "
        "that prompt caches keep working. `current`: those after the last message of the user, for "
        "fewer input tokens. `profile`: as the profile of the upstream says.",
    )
    chat_fill: Literal["off", "on"] = Field(
        default="off",
        description="Chat Completions: what happens if the upstream demands reasoning that is not "
        "known. `off`: its refusal reaches the client. `on`: the retry has an empty "
        "`reasoning_content`, or Google's `skip_thought_signature_validator`. The model then works "
        "without that reasoning. See docs/healing.md.",
    )
    messages_drop_block: Literal["off", "on"] = Field(
        default="off",
        description="Messages: whether the retry after a refusal of reasoning of another history "
        "leaves it out (`off`) or asks the API to (`on`, by `drop_block`).",
    )
    repairs: RepairNames = Field(
        default="duplicates,hollow,foreign,unpaired,dangling",
        description="Repairs before the first attempt, separated by commas, or `none`. "
        "`duplicates`: repeated reasoning. `hollow`: bare ids, if the upstream keeps nothing. "
        "`foreign`: reasoning of another model or account, or refused within the last hour. "
        "`unpaired`: reasoning with its id but its follower without, or the reverse. `dangling`: "
        "reasoning at the end of the input. See docs/healing.md.",
    )
