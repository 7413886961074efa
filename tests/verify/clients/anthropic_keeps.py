"""Client on Anthropic's SDK that sends back all that it got."""
# mypy: ignore-errors

from anthropic import Anthropic

client = Anthropic()
tool = {"name": "get_weather", "input_schema": {"type": "object", "properties": {}}}
history = [{"role": "user", "content": "Where does it rain?"}]
calls = True
while calls:
    message = client.messages.create(
        model="claude-sonnet-4-6",
        max_tokens=4096,
        thinking={"type": "enabled", "budget_tokens": 2048},
        tools=[tool],
        messages=history,
    )
    history.append({"role": "assistant", "content": message.content})
    calls = [block for block in message.content if block.type == "tool_use"]
    if calls:
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": "rain"} for call in calls
        ]
        history.append({"role": "user", "content": results})
