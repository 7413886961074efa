"""
Upstream profiles: the upstreams that are known to have the Gemini API, as data.

All of them take back what they emitted, in the same place. A signature is kept for one upstream, so
one of AI Studio never goes to Google Cloud: whether it would be accepted there is disputed
(litellm#32140: no; vercel/ai#15548: yes).
"""

from functools import partial

from reasoning_replay.core.dialects.upstreams import Upstream, UpstreamProfile, by_name, chosen

__all__ = ["GENERIC", "PROFILES", "VENDORS", "profile_of"]

_KEY = "x-goog-api-key"
_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_GOOGLE_HOSTS = ("aiplatform.googleapis.com", "*-aiplatform.googleapis.com")

VENDORS = by_name(
    (
        Upstream(
            "gemini",
            ("generativelanguage.googleapis.com",),
            "/v1beta",
            _KEYS,
            "gcp.gemini",
            _KEY,
        ),
        Upstream("vertex", _GOOGLE_HOSTS, "", (), "gcp.vertex_ai"),
        Upstream("generic", (), "", _KEYS, "gcp.gemini", _KEY),
    )
)

_ALL = (
    UpstreamProfile(
        vendor=VENDORS["gemini"],
        source="ai.google.dev (thought signatures); recordings of pydantic-ai, ruby_llm, fantasy, "
        "mirascope, rig, chatlas and genkit",
    ),
    UpstreamProfile(
        vendor=VENDORS["vertex"],
        source="docs.cloud.google.com (thought signatures); recordings of fantasy and ruby_llm",
    ),
)

GENERIC = UpstreamProfile(
    vendor=VENDORS["generic"],
    source="gateways with this API: a signature that was emitted is accepted",
)

PROFILES = by_name((*_ALL, GENERIC))
profile_of = partial(chosen, PROFILES)
