"""
Case files: small inputs that public reports of users were rebuilt from.

They are kept outside the repository; none of them is copied into it. `REPLAY_TEST_CASES` names
another folder with the same layout. Notes on the format: its README.
"""

import itertools
import json
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.responses_rules import EMITTED_TYPES, OUTPUTS, PREFIXES, kind_of

__all__ = ["Case", "read", "root"]

BESIDE = Path(__file__).parents[2].parent / "shared" / "cases"
BLOB = "encrypted_content"
_PLACEHOLDER = re.compile(r"<(id|call_id|blob) of response (\d+)>")
_TYPE_OF = {prefix: kind for kind, prefix in PREFIXES.items()}


class Case(NamedTuple):
    """
    One case.

    Attributes:
        name: Its file, without the folder and the ending.
        profile: The profile of the proxy.
        upstream: What is special about the upstream: its vendor, and what it keeps.
        requests: The bodies of the client, in order.
        outputs: What upstream emits in its responses, as far as the client's bodies tell.
        names: Ids of the responses that a later body names.
    """

    name: str
    profile: str
    upstream: Item
    requests: list[Item]
    outputs: list[list[Item]]
    names: list[str]


def root(folder: str = "responses") -> Path | None:
    """Return a folder of cases; None if it has none."""
    named = os.environ.get("REPLAY_TEST_CASES", "")
    found = (Path(named) if named else BESIDE) / folder
    return found if any(found.glob("*.json")) else None


def read(name: str) -> Case:
    """Read a case, and make whole what its file abbreviates: blobs, ids and arguments."""
    folder = root()
    assert folder is not None
    file = json.loads((folder / f"{name}.json").read_text())
    requests = json.loads(_PLACEHOLDER.sub(_named, json.dumps(file["client_requests"])))
    outputs = _outputs(requests)
    emitted = {one["id"]: one for output in outputs for one in output}
    for body in requests:
        for item in body["input"]:
            known = emitted.get(item.get("id", ""), {})
            if item.get(BLOB):
                item[BLOB] = known.get(BLOB) or next(
                    one[BLOB] for one in emitted.values() if one.get(BLOB)
                )
            if item.get("arguments") == "<as emitted>":
                item["arguments"] = known["arguments"]
    names = [one["previous_response_id"] for one in requests if "previous_response_id" in one]
    return Case(name, file["profile"], file["upstream"], requests, outputs, names)


def _named(found: re.Match[str]) -> str:
    kind, number = found.groups()
    prefix = {"id": "fc", "call_id": "call", "blob": "blob"}[kind]
    return f"{prefix}_{int(number):048x}"


def _outputs(requests: list[Item]) -> list[list[Item]]:
    """
    Return what the client was given before each request, in order, reasoning first.

    Groups of the model's items that a request is the first to hold are what the newest responses
    emitted, one each.
    """
    outputs: list[list[Item]] = []
    seen: set[str] = set()
    for asked, body in enumerate(requests):
        groups = [
            group
            for group in _groups(body["input"], body.get("tools") or [])
            if not any(_key(one) in seen for one in group)
        ]
        missing = asked - len(outputs) - len(groups)
        if groups and missing >= 0:
            outputs += [[] for _ in range(missing)]
            outputs += [_begun(group) for group in groups]
        seen |= {_key(one) for group in groups for one in group}
    return outputs


def _groups(items: list[Item], tools: list[Item]) -> Iterator[list[Item]]:
    """Yield the model's items between the client's, as the model emitted them."""
    calls = {one.get("call_id") for one in items if kind_of(one) not in OUTPUTS}
    lost = [one for one in items if kind_of(one) in OUTPUTS and one["call_id"] not in calls]
    for is_model, run in itertools.groupby(items, _by_model):
        group = list(run)
        if is_model:
            for at, one in enumerate(group):
                if kind_of(one) == "item_reference" and one["id"].startswith("fc_") and lost:
                    group[at] = one | {"call_id": lost.pop(0)["call_id"]}
            found = [_emitted(one, tools) for one in group]
            is_first = any("call_id" in one for one in found)
            yield [*([_lost(one) for one in lost] if is_first else ()), *found]


def _by_model(item: Item) -> bool:
    kind = kind_of(item)
    is_message = kind == "message" and item.get("role") == "assistant"
    return is_message or kind in {"reasoning", "item_reference"} or kind in EMITTED_TYPES


def _key(item: Item) -> str:
    return str(item.get("call_id") or item["id"])


def _lost(output: Item) -> Item:
    """Return the call that the client dropped, and whose output it kept."""
    return _call(output["call_id"], f"fc_{output['call_id'].removeprefix('call_')}")


def _call(call_id: str, item_id: str) -> Item:
    names = {"id": item_id, "call_id": call_id, "name": "get_weather"}
    return {"type": "function_call", "status": "completed", **names, "arguments": '{"city":"Oslo"}'}


def _emitted(item: Item, tools: list[Item]) -> Item:
    """Return the item as the model emitted it, before the client changed it."""
    kind, item_id = kind_of(item), str(item.get("id") or "")
    if kind == "item_reference":
        kind = _TYPE_OF[item_id.partition("_")[0]]
    match kind:
        case "reasoning":
            item_id = item_id or f"rs_{'0' * 48}"
            return {"id": item_id, "type": kind, "summary": [], BLOB: f"gAAAA{item_id * 9}"}
        case "message":
            content = item.get("content", "A short answer about the weather in the town.")
            text = content if isinstance(content, str) else content[0]["text"]
            item_id = item_id or f"msg_{zlib.crc32(text.encode()):048x}"
            part: Item = {"type": "output_text", "text": text, "annotations": []}
            more = {"status": "completed", "role": "assistant", "content": [part]}
            return {"id": item_id, "type": kind, **more}
    call_id = str(item.get("call_id") or f"call_{item_id.removeprefix('fc_')[:24]}")
    arguments = str(item.get("arguments", "")).replace("<as emitted>", "") or '{"city":"Oslo"}'
    call = {**_call(call_id, item_id or f"fc_{call_id}"), "arguments": arguments}
    if any(tool["type"] == "custom" for tool in tools):
        given = {"id": f"ctc_{call_id}", "input": json.loads(arguments)["input"]}
        del call["arguments"]
        return {**call, "name": item["name"], "type": "custom_tool_call", **given}
    return call


def _begun(group: list[Item]) -> list[Item]:
    """Return a group that begins with its reasoning, which the client may have dropped."""
    if group[0]["type"] == "reasoning":
        return group
    first = next((one for one in group if one["type"] == "reasoning"), None)
    rest = [one for one in group if one is not first]
    item_id = f"rs_{_key(group[0]).partition('_')[2]:0<48}"
    made = {"id": item_id, "type": "reasoning", "summary": [], BLOB: f"gAAAA{item_id * 9}"}
    return [first or made, *rest]
