"""
Upstream profiles: the upstreams that are known to have the Gemini API, as data.

All of them take back what they emitted, in the same place. A signature is kept for one upstream, so
one of AI Studio never goes to Google Cloud: whether it would be accepted there is disputed
(litellm#32140: no; vercel/ai#15548: yes).
"""

from functools import partial

from reasoning_replay.core.dialects.vendors import (
    GEMINI_VENDORS,
    UpstreamProfile,
    by_name,
    chosen,
)

_ALL = (
    UpstreamProfile(
        vendor=GEMINI_VENDORS["gemini"],
        source="ai.google.dev (thought signatures); recordings of pydantic-ai, ruby_llm, fantasy, "
        "mirascope, rig, chatlas and genkit",
    ),
    UpstreamProfile(
        vendor=GEMINI_VENDORS["vertex"],
        source="docs.cloud.google.com (thought signatures); recordings of fantasy and ruby_llm",
    ),
)

GENERIC = UpstreamProfile(
    vendor=GEMINI_VENDORS["generic"],
    source="gateways with this API: a signature that was emitted is accepted",
)

PROFILES = by_name((*_ALL, GENERIC))
profile_of = partial(chosen, PROFILES)
