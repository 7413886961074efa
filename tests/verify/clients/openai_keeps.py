"""Client on OpenAI's SDK that sends back all that it got."""
# mypy: ignore-errors

from openai import OpenAI

client = OpenAI()
tool = {"type": "function", "name": "get_weather", "parameters": {}}
history = [{"role": "user", "content": "Where does it rain?"}]
calls = True
while calls:
    response = client.responses.create(model="gpt-5.4", tools=[tool], input=history)
    calls = [item for item in response.output if item.type == "function_call"]
    history += response.output
    for call in calls:
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        history.append(result)
