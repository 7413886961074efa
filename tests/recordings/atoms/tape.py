"""Recordings of one dialect: what each answer emitted, and which messages of requests replay it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.recordings.atoms.adapter import Adapter, Role, Said
from tests.recordings.wire import Wire, decoded, read_wire, root

# The family is the API that answered, as the recording's own notes name it; without, its host.
_FAMILIES = {
    "127.0.0.1": "ollama",
    "api.openai.com": "openai",
    "kimi(avian)": "kimi",
    "moonshot": "kimi",
    "llama.cpp/local": "llama.cpp",
    "vllm(crusoe)": "vllm",
    "gemini-compat": "gemini",
}
# Sign of the upstream in a recorded host -> its profile; no sign: `generic`.
_PROFILES = {
    "api.cerebras.ai": "cerebras",
    "api.deepseek.com": "deepseek",
    "generativelanguage.googleapis.com": "gemini",
    "api.groq.com": "groq",
    "localhost": "llamacpp",
    "llamacpp.local": "llamacpp",
    "aiplatform.googleapis.com": "vertex",
    "api.minimax.io": "minimax",
    "api.mistral.ai": "mistral",
    "api.moonshot.ai": "moonshot",
    "127.0.0.1": "ollama",
    "ollama.com": "ollama",
    "OLLAMA_API_BASE": "ollama",
    "openrouter.ai": "openrouter",
    "ai-gateway.vercel.sh": "vercel",
    "crusoecloud.com": "vllm",
    "api.x.ai": "xai",
    "api.z.ai": "zai",
    "azure.com": "azure",
    "api.anthropic.com": "anthropic",
    "bedrock-": "bedrock",
}


@dataclass(frozen=True, slots=True)
class Exchange(Wire):
    """
    One recorded exchange.

    Attributes:
        replay: The recording's own note: start, full, partial, none, no-reasoning or
            external-history.
        atoms: The recording's own count of replayed reasoning.
        said: The message of the answer; None if it failed.
        origins: Index of a message in the request -> the exchange whose answer it replays.
    """

    replay: str
    atoms: int
    said: Said | None
    origins: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Recording:
    """
    One recording: all exchanges of one test of a public test suite.

    Attributes:
        family: The API that answered.
        profile: The upstream's profile.
    """

    name: str
    kind: str
    family: str
    profile: str
    exchanges: tuple[Exchange, ...]
    answers: Mapping[int, Said] = field(repr=False)


@cache
def load(adapter: Adapter, kind: str) -> tuple[Recording, ...]:
    """Load every recording of a folder (`oracle`, `dropped`, ...); () if there is none."""
    place = root()
    found = sorted(place.glob(f"{adapter.name}/{kind}/*/meta.json")) if place is not None else []
    return tuple(_recording(adapter, meta.parent, kind) for meta in found)


def _recording(adapter: Adapter, folder: Path, kind: str) -> Recording:
    meta = json.loads((folder / "meta.json").read_bytes())
    answers: dict[int, Said] = {}
    exchanges: list[Exchange] = []
    for n, link in enumerate(meta["chain"], 1):
        exchanges.append(_exchange(adapter, folder, n, link, answers))
        said = exchanges[-1].said
        if said is not None:
            answers[n] = said
    family = str(meta["family"])
    if "azure.com" in family:
        family = "azure"
    hosts = " ".join(meta["host"])
    return Recording(
        folder.name,
        kind,
        _FAMILIES.get(family, family),
        next((name for sign, name in _PROFILES.items() if sign in hosts), "generic"),
        tuple(exchanges),
        answers,
    )


def _exchange(
    adapter: Adapter, folder: Path, n: int, link: Mapping[str, Any], answers: Mapping[int, Said]
) -> Exchange:
    meta = json.loads((folder / f"exchange-{n}.meta.json").read_bytes())
    url, _, query = str(meta["url"]).partition("?")
    path = f"{adapter.path_of(url)}?{query}" if query else adapter.path_of(url)
    wire = read_wire(folder, n, meta, path=path, made_up=b"{}")
    is_stream = (folder / f"exchange-{n}.response.sse").exists()
    said = None
    if wire["status"] < 400:
        plain = decoded(wire["answer"], wire["encoding"])
        said = adapter.answer(plain, is_stream=is_stream)
    text = wire["request"].decode()
    messages = [adapter.said(text[span.start : span.end]) for span in adapter.spans(text)]
    told = {at: one for at, one in enumerate(messages) if one.role is Role.MODEL}
    known = {earlier: answers[earlier] for earlier in link["continues"] if earlier in answers}
    return Exchange(
        **wire,
        replay=link["replay"],
        atoms=link["reasoning_atoms_present"],
        said=said,
        origins=_origins(told, known),
    )


def _origins(told: Mapping[int, Said], known: Mapping[int, Said]) -> dict[int, int]:
    """
    Find the answer that each of the model's messages replays, in order and each answer once.

    The recording names the answers; which message is which is decided by what they say, by the
    ids of their calls, and by the reasoning that the client still sends.
    """
    found: dict[int, int] = {}
    left = dict(known)
    for at, message in told.items():
        scores = {n: _likeness(message, answer) for n, answer in left.items()}
        best = max(scores.values(), default=0)
        if best:
            found[at] = min(n for n, score in scores.items() if score == best)
            del left[found[at]]
    return found


def _likeness(message: Said, answer: Said) -> int:
    says = message.visible == answer.visible
    calls = len(message.visible) > 1 and message.visible[1:] == answer.visible[1:]
    ids = calls and message.ids == answer.ids
    return 4 * says + 2 * ids + _is_shared(message.atoms, answer.atoms)


def _is_shared(mine: Iterable[Any], theirs: Iterable[Any]) -> bool:
    known = list(theirs)
    return any(one.equals(other) for one in mine for other in known)
