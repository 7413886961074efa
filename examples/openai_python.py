"""
OpenAI SDK for Python: an agent loop that streams, stores nothing and drops the reasoning.

Run it with:   pip install openai && python examples/openai_python.py
"""

import json

from openai import OpenAI

client = OpenAI()  # reads OPENAI_BASE_URL and OPENAI_API_KEY
tool = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
history = []
for question in ("I go to Oslo, Bergen and Bodø. Where will it rain?", "Which trip should I move?"):
    history.append({"role": "user", "content": question})
    calls = True
    while calls:
        stream = client.responses.create(
            model="gpt-5.4", input=history, tools=[tool], store=False, stream=True
        )
        headers = stream.response.headers
        print("x-reasoning-replay:", headers.get("x-reasoning-replay"))
        output = []
        for event in stream:
            if event.type == "response.output_text.delta":
                print(event.delta, end="", flush=True)
            if event.type == "response.output_item.done" and event.item.type != "reasoning":
                output.append(event.item)  # what many clients drop
        history += [item.to_dict() for item in output]
        calls = [item for item in output if item.type == "function_call"]
        for call in calls:
            text = f"{json.loads(call.arguments)['city']}: 7 degrees, rain"
            result = {"type": "function_call_output", "call_id": call.call_id, "output": text}
            history.append(result)
    print()
print("x-reasoning-replay-request-id:", headers.get("x-reasoning-replay-request-id"))
