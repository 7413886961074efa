"""Client on Pydantic AI's agent and its provider for Gemini, which keep the history."""
# mypy: ignore-errors

from pydantic_ai import Agent
from pydantic_ai.models.google import GoogleModel

agent = Agent(GoogleModel("gemini-3-pro-preview"))


@agent.tool_plain
def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"{city}: rain"


history = None
for question in ("Where does it rain?", "And tomorrow?"):
    history = agent.run_sync(question, message_history=history).all_messages()
