"""
Wire of a recorded exchange: the bytes that the client sent and that upstream answered.

Recordings are kept outside the repository; none of them is copied into it. `REPLAY_TEST_RECORDED`
names another folder with the same layout. Notes on the format: its README.
"""

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import brotli
import yaml

# By dialect; see the comments in the file.
KNOWN: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("known.yaml").read_text())
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


@dataclass(frozen=True, slots=True)
class Wire:
    """
    The wire of one recorded exchange.

    Attributes:
        url: As recorded; its host may be redacted.
        path: The path of the client's request, from `/v1` on.
        request: The recorded bytes.
        answer: The recorded bytes of the response, in the recorded content coding.
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

    @property
    def name(self) -> str:
        """The name that the fake upstream and the tables of the tests use."""
        return f"{self.recording}/{self.n}"


def root() -> Path | None:
    """Return the folder of the recordings; None if it has none."""
    named = os.environ.get("REPLAY_TEST_RECORDED", "")
    found = Path(named) if named else BESIDE
    return found if any(found.glob("*/*/meta.json")) else None


def read_wire(
    folder: Path, n: int, meta: Mapping[str, Any], *, path: str, made_up: bytes
) -> dict[str, Any]:
    """
    Read the fields of a `Wire`.

    Args:
        folder: The folder of the recording.
        n: The number of the exchange, from 1 on.
        meta: The content of its `exchange-N.meta.json`.
        path: The path of the client's request.
        made_up: The request, if the recording has only the response.
    """
    sse = folder / f"exchange-{n}.response.sse"
    is_stream = sse.exists()
    answer = (sse if is_stream else sse.with_suffix(".json")).read_bytes()
    headers = _texts(meta["response_headers"])
    content_type = headers.get("content-type", "*")
    if "*" in content_type:  # redacted in the recording
        content_type = "text/event-stream; charset=utf-8" if is_stream else "application/json"
    encoding = headers.get("content-encoding", "")
    request = folder / f"exchange-{n}.request.json"
    return {
        "recording": folder.name,
        "n": n,
        "url": str(meta["url"]),
        "path": path,
        "request": request.read_bytes() if request.exists() else made_up,
        "request_headers": {
            name: value
            for name, value in _texts(meta["request_headers"]).items()
            if name not in _NOT_SENT and "*" not in value
        },
        "status": int(meta["status"]),
        "content_type": content_type,
        "encoding": encoding if encoding in ("gzip", "br") else "",
        "answer": encoded(answer, encoding),
    }


def encoded(answer: bytes, encoding: str) -> bytes:
    """Return an answer in a content coding."""
    if encoding == "gzip":
        return gzip.compress(answer, 1, mtime=0)
    return brotli.compress(answer, quality=1) if encoding == "br" else answer


def decoded(answer: bytes, encoding: str) -> bytes:
    """Return an answer without its content coding."""
    if encoding == "gzip":
        return gzip.decompress(answer)
    return brotli.decompress(answer) if encoding == "br" else answer


def events(answer: bytes) -> Iterator[dict[str, Any]]:
    """Yield the data of each event of a stream that is an object."""
    for line in answer.replace(b"\r\n", b"\n").split(b"\n"):
        if line.startswith(b"data:"):
            try:
                event = json.loads(line[5:])
            except ValueError:
                continue  # `[DONE]`
            if isinstance(event, dict):
                yield event


def _texts(value: object) -> dict[str, str]:
    assert isinstance(value, dict)
    return {str(name).lower(): str(text) for name, text in value.items()}
