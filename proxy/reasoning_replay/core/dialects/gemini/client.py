"""Client of Gemini: what its requests and answers look like."""

import json
from collections.abc import Sequence

from reasoning_replay.core.dialects.client_wire import MODEL, Item, Reply, Wire, only
from reasoning_replay.core.dialects.gemini.parts import SIGNATURES

# A call, and what its result repeats of it.
_CALL = "functionCall"
_OF_FUNCTION = ("name", "id")


def _read_content(answer: Item) -> Reply:
    parts: list[Item] = answer["candidates"][0]["content"]["parts"]
    bare = [
        {name: value for name, value in part.items() if name not in SIGNATURES}
        for part in parts
        if not part.get("thought")
    ]
    kept = [part for part in bare if any(part.values())]
    return Reply(
        [{"role": "model", "parts": parts}],
        [{"role": "model", "parts": kept}] if kept else [],
        [json.dumps(only(part[_CALL], _OF_FUNCTION)) for part in kept if _CALL in part],
        [True for part in parts if any(part.get(name) for name in SIGNATURES)],
    )


def _function_responses(calls: Sequence[str], text: str) -> list[Item]:
    said = [json.loads(call) | {"response": {"result": text}} for call in calls]
    return [{"role": "user", "parts": [{"functionResponse": one} for one in said]}] if said else []


WIRE = Wire(
    path=f"/models/{MODEL}:generateContent",
    history="contents",
    tool=lambda function: {
        "functionDeclarations": [
            {
                "name": function["name"],
                "description": function["description"],
                "parametersJsonSchema": function["parameters"],
            }
        ]
    },
    results=_function_responses,
    read=_read_content,
    says=lambda text: {"role": "user", "parts": [{"text": text}]},
)
