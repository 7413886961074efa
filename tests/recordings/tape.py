"""Recordings of one dialect: what each answer emitted, and which messages of requests replay it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.recordings.adapter import Adapter, Key, Role, Said
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


@dataclass(frozen=True, slots=True)
class Exchange(Wire):
    """
    One recorded exchange.

    Attributes:
        replay: The recording's own note: start, full, partial, none, no-reasoning or
            external-history.
        atoms: The recording's own count of replayed reasoning.
        said: The messages of the answer, by number; none if it failed.
        origins: Index of a message in the request -> the emitted message that it replays.
    """

    replay: str
    atoms: int
    said: Mapping[int, Said]
    origins: Mapping[int, Key]


@dataclass(frozen=True, slots=True)
class Recording:
    """
    One recording: all exchanges of one test of a public test suite.

    Attributes:
        family: The API that answered.
        profile: The upstream's profile.
        answers: All emitted messages.
    """

    name: str
    kind: str
    family: str
    profile: str
    exchanges: tuple[Exchange, ...]
    answers: Mapping[Key, Said] = field(repr=False)


@cache
def load(adapter: Adapter, kind: str) -> tuple[Recording, ...]:
    """Load every recording of a folder (`oracle`, `dropped`, ...); () if there is none."""
    place = root()
    if place is None:
        return ()
    found = sorted((place / adapter.folder).glob(f"{kind}/*/meta.json"))
    return tuple(_recording(adapter, meta.parent, kind) for meta in found)


def _recording(adapter: Adapter, folder: Path, kind: str) -> Recording:
    meta = json.loads((folder / "meta.json").read_bytes())
    answers: dict[Key, Said] = {}
    exchanges: list[Exchange] = []
    for n, link in enumerate(meta["chain"], 1):
        exchanges.append(_exchange(adapter, folder, n, link, answers))
        answers |= {(n, number): said for number, said in exchanges[-1].said.items()}
    family = str(meta.get("family"))
    if "azure.com" in family:
        family = "azure"
    profile = adapter.profile_of(folder.name, meta["host"])
    family = _FAMILIES.get(family, family)
    return Recording(folder.name, kind, family, profile, tuple(exchanges), answers)


def _exchange(
    adapter: Adapter, folder: Path, n: int, link: Mapping[str, Any], answers: Mapping[Key, Said]
) -> Exchange:
    meta = json.loads((folder / f"exchange-{n}.meta.json").read_bytes())
    wire = read_wire(folder, n, meta, path=adapter.path_of(meta), made_up=adapter.made_up)
    said: Mapping[int, Said] = {}
    if wire["status"] < 400:
        plain = decoded(wire["answer"], wire["encoding"])
        is_stream = (folder / f"exchange-{n}.response.sse").exists()
        said = adapter.answers(plain, is_stream=is_stream)
    text = wire["request"].decode()
    origins = adapter.origins(text, meta)
    if origins is None:
        messages = [adapter.said(text[span.start : span.end]) for span in adapter.spans(text)]
        told = {at: one for at, one in enumerate(messages) if one.role is Role.MODEL}
        origins = _origins(
            told, {key: one for key, one in answers.items() if key[0] in link["continues"]}
        )
    atoms = link.get("reasoning_atoms_present", 0)
    return Exchange(**wire, replay=link["replay"], atoms=atoms, said=said, origins=origins)


def _origins(told: Mapping[int, Said], known: Mapping[Key, Said]) -> dict[int, Key]:
    """
    Find the answer that each of the model's messages replays, in order and each answer once.

    The recording names the answers; which message is which is decided by what they say, by the
    ids of their calls, and by the reasoning that the client still sends.
    """
    found: dict[int, Key] = {}
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
    shares = any(one.equals(other) for one in message.atoms for other in answer.atoms)
    return 4 * says + 2 * ids + shares
