"""Client on Google's SDK that lets the SDK call the tool and keep the history."""
# mypy: ignore-errors

from google import genai


def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"{city}: rain"


client = genai.Client()
chat = client.chats.create(model="gemini-3-pro-preview", config={"tools": [get_weather]})
chat.send_message("Where does it rain?")
chat.send_message("And tomorrow?")
