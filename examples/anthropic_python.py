"""
Anthropic SDK for Python: an agent loop that drops the thinking blocks, as many apps do.

Run it with:   pip install anthropic && python examples/anthropic_python.py
"""

from anthropic import Anthropic

client = Anthropic()  # reads ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY
tool = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
history = []
for question in ("I go to Oslo and Bergen. Where will it rain?", "Which trip should I move?"):
    history.append({"role": "user", "content": question})
    calls = True
    while calls:
        response = client.messages.with_raw_response.create(
            model="claude-sonnet-4-6",
            max_tokens=4096,
            thinking={"type": "enabled", "budget_tokens": 2048},
            tools=[tool],
            messages=history,
        )
        print("x-reasoning-replay:", response.headers.get("x-reasoning-replay"))
        blocks = [one for one in response.parse().content if "thinking" not in one.type]
        for block in blocks:
            if block.type == "text":
                print(block.text)
        history.append({"role": "assistant", "content": [one.to_dict() for one in blocks]})
        calls = [one for one in blocks if one.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": "7 degrees, rain"}
            for call in calls
        ]
        if results:
            history.append({"role": "user", "content": results})
print("x-reasoning-replay-request-id:", response.headers.get("x-reasoning-replay-request-id"))
