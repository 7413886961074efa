"""Client on LangChain's agent and its provider for Gemini, which keep the history."""
# mypy: ignore-errors

from langchain.agents import create_agent
from langchain_google_genai import ChatGoogleGenerativeAI


def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"{city}: rain"


agent = create_agent(ChatGoogleGenerativeAI(model="gemini-3-pro-preview"), tools=[get_weather])
history = []
for question in ("Where does it rain?", "And tomorrow?"):
    history.append({"role": "user", "content": question})
    history = agent.invoke({"messages": history})["messages"]
