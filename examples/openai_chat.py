"""
OpenAI SDK for Python, Chat Completions: an agent loop that keeps what the SDK declares.

Run it with:   pip install openai && python examples/openai_chat.py
"""

import json

from openai import OpenAI

client = OpenAI()  # reads OPENAI_BASE_URL and OPENAI_API_KEY
tool = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
kept = {"role", "content", "tool_calls"}  # `reasoning_content` is lost, as in many clients
history = []
for question in ("I go to Oslo, Bergen and Bodø. Where will it rain?", "Which trip should I move?"):
    history.append({"role": "user", "content": question})
    calls = True
    while calls:
        response = client.chat.completions.with_raw_response.create(
            model="deepseek-v4-flash",
            messages=history,
            tools=[{"type": "function", "function": tool}],
        )
        print("x-reasoning-replay:", response.headers.get("x-reasoning-replay"))
        message = response.parse().choices[0].message
        history.append(message.model_dump(include=kept, exclude_none=True))
        calls = message.tool_calls or []
        for call in calls:
            text = f"{json.loads(call.function.arguments)['city']}: 7 degrees, rain"
            history.append({"role": "tool", "tool_call_id": call.id, "content": text})
    print(message.content)
print("x-reasoning-replay-request-id:", response.headers.get("x-reasoning-replay-request-id"))
