"""Client of the Responses API: what its requests and answers look like."""

from reasoning_replay.core.dialects.client_wire import Item, Reply, Wire


def _read_response(answer: Item) -> Reply:
    output: list[Item] = answer["output"]
    kept = [item for item in output if item.get("type") != "reasoning"]
    return Reply(
        output,
        kept,
        [item["call_id"] for item in kept if item.get("type") == "function_call"],
        [bool(one.get("encrypted_content")) for one in output if one.get("type") == "reasoning"],
    )


WIRE = Wire(
    path="/responses",
    history="input",
    tool=lambda function: {"type": "function", **function, "strict": True},
    results=lambda calls, text: [
        {"type": "function_call_output", "call_id": call, "output": text} for call in calls
    ],
    read=_read_response,
    stateless={"store": False},
)
