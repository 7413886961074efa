"""Recordings of the Responses API: what each response emitted, and what each request replays."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from tests.recordings.wire import Wire, decoded, encoded, events, read_wire, root

Json = dict[str, object]
Key = tuple[int, int]  # the exchange of a recording, and the output index of an item in it

# Sign of the vendor in a recording -> the upstream's profile. If the host was redacted, or not
# recorded, it was OpenAI's by default; a ChatGPT login has its own backend.
_VENDORS = (
    ("openai-oauth", "codex"),
    ("chatgpt.com", "codex"),
    ("azure.com", "azure"),
    ("vercel-ai-azure", "azure"),
    ("githubcopilot.com", "copilot"),
    ("openrouter.ai", "openrouter"),
    ("api.x.ai", "xai"),
    ("vercel-ai-xai", "xai"),
    ("bedrock", "bedrock"),
    ("api.deepseek.com", "deepseek"),
    ("api.openai.com", "openai"),
)
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


@dataclass(frozen=True, slots=True)
class Emitted:
    """
    One item of a response.

    Attributes:
        item: As in `output_item.done`, or in the `output` of a JSON response.
        blobs: Every `encrypted_content` recorded for it.
    """

    key: Key
    item: Json
    blobs: frozenset[str] = frozenset()

    @property
    def is_reasoning(self) -> bool:
        """Whether it is reasoning, which the proxy injects."""
        return self.item.get("type") == "reasoning"

    @property
    def id(self) -> str:
        """The item's id; "" without one."""
        return str(self.item.get("id") or "")


@dataclass(frozen=True, slots=True)
class Exchange(Wire):
    """
    One recorded exchange.

    Attributes:
        origins: Index into the request's `input` -> the emitted item that it replays.
    """

    emitted: tuple[Emitted, ...]
    origins: Mapping[int, Key]


@dataclass(frozen=True, slots=True)
class Recording:
    """
    One recording: all exchanges of one test of a public test suite.

    Attributes:
        vendor: The profile of the API that responded; `generic` if it has none of its own.
    """

    name: str
    kind: str
    vendor: str
    exchanges: tuple[Exchange, ...]
    emitted: Mapping[Key, Emitted] = field(repr=False)

    def find(self, item: Json) -> frozenset[Key]:
        """
        Return the emitted reasoning that an item matches.

        It is matched by its blob, because two items can have one id (xAI); else by its id; else by
        its text. A blob and an id that name different items match none.
        """
        blob, item_id = item.get("encrypted_content"), item.get("id")
        thoughts = [one for one in self.emitted.values() if one.is_reasoning]
        by_blob = {one.key for one in thoughts if blob and blob in one.blobs}
        by_id = {one.key for one in thoughts if item_id and item_id == one.id}
        if by_blob and item_id:
            return frozenset(by_blob & by_id)
        if by_blob or by_id:
            return frozenset(by_blob or by_id)
        if blob or item_id:
            return frozenset()
        same = ("summary", "content")
        return frozenset(
            one.key for one in thoughts if all(item.get(k) == one.item.get(k) for k in same)
        )


@cache
def load(kind: str) -> tuple[Recording, ...]:
    """Load every recording of a folder (`oracle`, `plain`, ...); () if there is none."""
    place = root()
    found = sorted(place.glob(f"{kind}/*/meta.json")) if place is not None else []
    return tuple(_recording(meta.parent, kind) for meta in found)


def sealed(recording: Recording) -> Recording:
    """
    Return a recording as if its client had asked for encrypted reasoning.

    The blobs are made up, unlike all other bytes here: one for each reasoning item without.
    """
    exchanges = []
    for exchange in recording.exchanges:
        plain = decoded(exchange.answer, exchange.encoding)
        lines = (_seal_line(line) for line in plain.split(b"\n"))
        answer = b"\n".join(lines) if b"data:" in plain else _seal(plain)
        is_stream = exchange.content_type.startswith("text/event-stream")
        emitted = tuple((_streamed if is_stream else _whole)(exchange.n, answer))
        wire = encoded(answer, exchange.encoding)
        exchanges.append(replace(exchange, answer=wire, emitted=emitted))
    found = {one.key: one for exchange in exchanges for one in exchange.emitted}
    return replace(recording, exchanges=tuple(exchanges), emitted=found)


def _seal_line(line: bytes) -> bytes:
    return b"data: " + _seal(line[5:]) if line.startswith(b"data: {") else line


def _seal(document: bytes) -> bytes:
    """Add a blob to each reasoning item of a response or an event; all else stays unchanged."""
    value = json.loads(document)
    response = value.get("response", value)
    items = [value.get("item"), *(response.get("output") or [])]
    thoughts = [one for one in items if one and one.get("type") == "reasoning"]
    for thought in thoughts:
        thought["encrypted_content"] = thought.get("encrypted_content") or f"gAAAA-{thought['id']}"
    return json.dumps(value).encode() if thoughts else document


def _recording(folder: Path, kind: str) -> Recording:
    exchanges: list[Exchange] = []
    while (meta := folder / f"exchange-{len(exchanges) + 1}.meta.json").exists():
        exchanges.append(_exchange(folder, len(exchanges) + 1, json.loads(meta.read_bytes())))
    emitted = {one.key: one for exchange in exchanges for one in exchange.emitted}
    hosts = json.loads((folder / "meta.json").read_bytes())["host"]
    place = " ".join([folder.name, *hosts])
    vendor = next((name for sign, name in _VENDORS if sign in place), "")
    if not vendor:
        vendor = "openai" if "(not recorded)" in hosts else "generic"
    return Recording(folder.name, kind, vendor, tuple(exchanges), emitted)


def _exchange(folder: Path, n: int, meta: Json) -> Exchange:
    analysis = meta["analysis"]
    assert isinstance(analysis, dict)
    wire = read_wire(
        folder,
        n,
        meta,
        path="/v1/responses" + ("/compact" if meta["endpoint"] == "compact" else ""),
        made_up=_a_request(analysis),
    )
    plain = decoded(wire["answer"], wire["encoding"])
    is_stream = (folder / f"exchange-{n}.response.sse").exists()
    return Exchange(
        **wire,
        emitted=tuple((_streamed if is_stream else _whole)(n, plain)),
        origins={
            one["pos"]: (one["from_exchange"], one["output_index"])
            for one in analysis.get("replayed_items", [])
        },
    )


def _a_request(analysis: Json) -> bytes:
    """Make up a request for a response that was recorded without one."""
    asked = {"model": analysis.get("model") or "gpt-5", "input": "Go on.", "stream": True}
    return json.dumps(asked).encode()


def _whole(n: int, answer: bytes) -> Iterator[Emitted]:
    try:
        output = json.loads(answer).get("output") or []
    except (ValueError, AttributeError):
        return
    for index, item in enumerate(output):
        yield Emitted((n, index), item, _blobs(item))


def _streamed(n: int, answer: bytes) -> Iterator[Emitted]:
    done: dict[int, Json] = {}
    blobs: dict[int, frozenset[str]] = {}
    for event in events(answer):
        kind, index, item = event.get("type"), event.get("output_index"), event.get("item")
        if isinstance(index, int) and isinstance(item, dict):
            if kind == "response.output_item.done":
                done[index] = item
            blobs[index] = blobs.get(index, frozenset()) | _blobs(item)
        response = event.get("response")
        if kind in _ENDS and isinstance(response, dict):
            for at, last in enumerate(response.get("output") or []):
                done.setdefault(at, last)
                if done[at].get("id") == last.get("id"):
                    blobs[at] = blobs.get(at, frozenset()) | _blobs(last)
    for index in sorted(done):
        yield Emitted((n, index), done[index], blobs[index])


def _blobs(item: Json) -> frozenset[str]:
    blob = item.get("encrypted_content")
    return frozenset([blob]) if isinstance(blob, str) and blob else frozenset()
