"""
LangChain for Python: an app that keeps the texts and the tool calls of a chat, and no reasoning.

Run it with:   pip install langchain langchain-openai && python examples/langchain_agent.py
"""

from langchain.agents import create_agent
from langchain.messages import HumanMessage
from langchain_openai import ChatOpenAI


def get_weather(city: str) -> str:
    """Return the weather."""
    return f"{city}: 7 degrees, rain"


# Without use_responses_api=True LangChain may use Chat Completions: see langchain_chat.py.
model = ChatOpenAI(
    model="gpt-5.4",
    use_responses_api=True,
    store=False,
    include_response_headers=True,  # only to see the header
)
agent = create_agent(model, tools=[get_weather])
history = []
for question in ("I go to Oslo and Bodø. Where will it rain?", "Which trip should I move?"):
    messages = agent.invoke({"messages": [*history, HumanMessage(question)]})["messages"]
    for message in messages[len(history) :]:
        if message.type == "ai":
            headers = message.response_metadata["headers"]
            print("x-reasoning-replay:", headers.get("x-reasoning-replay"))
    print(messages[-1].text)
    history = messages
    for message in history:
        if message.type == "ai":  # what many apps leave out
            message.content = [block for block in message.content if block["type"] != "reasoning"]
print("x-reasoning-replay-request-id:", headers.get("x-reasoning-replay-request-id"))
