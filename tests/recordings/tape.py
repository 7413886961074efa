"""
Recordings, kept outside the repository; none of them is copied into it.

`REPLAY_TEST_RECORDED` names another folder with the same layout. Notes on the format: its README.
"""

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import brotli

__all__ = ["Emitted", "Exchange", "Json", "Key", "Recording", "load", "root", "sealed"]

Json = dict[str, object]
Key = tuple[int, int]  # the exchange of a recording, and the output index of an item in it

BESIDE = Path(__file__).parents[2].parent / "shared" / "recorded"
# Headers of the connection, not of the client; or replaced by the runner's own.
_NOT_SENT = frozenset(
    {
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "host",
    }
)
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
class Exchange:
    """
    One recorded exchange.

    Attributes:
        url: As recorded; its host may be redacted.
        path: The path of the client's request, from `/v1` on.
        request: The recorded bytes.
        answer: The recorded bytes of the response, in the recorded content coding.
        origins: Index into the request's `input` -> the emitted item that it replays.
    """

    recording: str
    n: int
    url: str
    path: str
    request: bytes
    request_headers: Mapping[str, str]
    status: int
    content_type: str
    encoding: str
    answer: bytes
    emitted: tuple[Emitted, ...]
    origins: Mapping[int, Key]

    @property
    def name(self) -> str:
        """The name that the fake upstream and the tables of the tests use."""
        return f"{self.recording}/{self.n}"


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


def root() -> Path | None:
    """Return the folder of the recordings; None if it has none."""
    named = os.environ.get("REPLAY_TEST_RECORDED", "")
    found = Path(named) if named else BESIDE
    return found if any(found.glob("*/*/meta.json")) else None


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
        plain = _decoded(exchange.answer, exchange.encoding)
        lines = (_seal_line(line) for line in plain.split(b"\n"))
        answer = b"\n".join(lines) if b"data:" in plain else _seal(plain)
        is_stream = exchange.content_type.startswith("text/event-stream")
        emitted = tuple((_streamed if is_stream else _whole)(exchange.n, answer))
        wire = _encoded(answer, exchange.encoding)
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
    sse = folder / f"exchange-{n}.response.sse"
    is_stream = sse.exists()
    answer = (sse if is_stream else sse.with_suffix(".json")).read_bytes()
    headers = _texts(meta["response_headers"])
    content_type = headers.get("content-type", "*")
    if "*" in content_type:  # redacted in the recording
        content_type = "text/event-stream; charset=utf-8" if is_stream else "application/json"
    analysis = meta["analysis"]
    assert isinstance(analysis, dict)
    request = folder / f"exchange-{n}.request.json"
    encoding = headers.get("content-encoding", "")
    status = meta["status"]
    assert isinstance(status, int)
    return Exchange(
        recording=folder.name,
        n=n,
        url=str(meta["url"]),
        path="/v1/responses" + ("/compact" if meta["endpoint"] == "compact" else ""),
        request=request.read_bytes() if request.exists() else _a_request(analysis),
        request_headers={
            name: value
            for name, value in _texts(meta["request_headers"]).items()
            if name not in _NOT_SENT and "*" not in value
        },
        status=status,
        content_type=content_type,
        encoding=encoding if encoding in ("gzip", "br") else "",
        answer=_encoded(answer, encoding),
        emitted=tuple(_streamed(n, answer) if is_stream else _whole(n, answer)),
        origins={
            one["pos"]: (one["from_exchange"], one["output_index"])
            for one in analysis.get("replayed_items", [])
        },
    )


def _a_request(analysis: Json) -> bytes:
    """Make up a request for a response that was recorded without one."""
    asked = {"model": analysis.get("model") or "gpt-5", "input": "Go on.", "stream": True}
    return json.dumps(asked).encode()


def _encoded(answer: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.compress(answer, 1, mtime=0)
    return brotli.compress(answer, quality=1) if encoding == "br" else answer


def _decoded(answer: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.decompress(answer)
    return brotli.decompress(answer) if encoding == "br" else answer


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
    for event in _events(answer):
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


def _events(answer: bytes) -> Iterator[Json]:
    for line in answer.replace(b"\r\n", b"\n").split(b"\n"):
        if line.startswith(b"data:"):
            try:
                event = json.loads(line[5:])
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


def _blobs(item: Json) -> frozenset[str]:
    blob = item.get("encrypted_content")
    return frozenset([blob]) if isinstance(blob, str) and blob else frozenset()


def _texts(value: object) -> dict[str, str]:
    assert isinstance(value, dict)
    return {str(name).lower(): str(text) for name, text in value.items()}
