"""
OpenAI Agents SDK for Python: an app that keeps the messages and calls of a chat, and no reasoning.

Run it with:   pip install openai-agents && python examples/openai_agents.py
"""

import asyncio

import agents
from openai import AsyncOpenAI, DefaultAsyncHttpxClient


async def show(response) -> None:
    print("x-reasoning-replay:", response.headers.get("x-reasoning-replay"))
    print("x-reasoning-replay-request-id:", response.headers.get("x-reasoning-replay-request-id"))


@agents.function_tool
def get_weather(city: str) -> str:
    return f"{city}: 7 degrees, rain"


async def main() -> None:
    http_client = DefaultAsyncHttpxClient(
        event_hooks={"response": [show]}
    )  # only to see the header
    agents.set_default_openai_client(AsyncOpenAI(http_client=http_client))
    agents.set_tracing_disabled(disabled=True)  # it would send traces to api.openai.com
    settings = agents.ModelSettings(store=False)
    agent = agents.Agent("Trips", model="gpt-5.4", tools=[get_weather], model_settings=settings)
    history = []
    for question in ("I go to Oslo and Bodø. Where will it rain?", "Which trip should I move?"):
        asked = [*history, {"role": "user", "content": question}]
        result = await agents.Runner.run(agent, asked)
        print(result.final_output)
        items = result.to_input_list()
        history = [item for item in items if item.get("type") != "reasoning"]


asyncio.run(main())
