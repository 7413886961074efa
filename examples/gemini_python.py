"""
Google Gen AI SDK for Python: an agent loop that drops the signatures, as many apps do.

Run it with:   pip install google-genai && python examples/gemini_python.py
"""

from google import genai
from google.genai import types

client = genai.Client()  # reads GOOGLE_GEMINI_BASE_URL and GEMINI_API_KEY
schema = {"type": "object", "properties": {"city": {"type": "string"}}}
tool = types.FunctionDeclaration(name="get_weather", parameters_json_schema=schema)
config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[tool])])
history = []
for question in ("I go to Oslo and Bergen. Where will it rain?", "Which trip should I move?"):
    history.append(types.UserContent(question))
    calls = True
    while calls:
        response = client.models.generate_content(
            model="gemini-3-pro-preview", contents=history, config=config
        )
        headers = response.sdk_http_response.headers
        print("x-reasoning-replay:", headers.get("x-reasoning-replay"))
        parts = response.candidates[0].content.parts
        for part in parts:
            part.thought_signature = None
            if part.text:
                print(part.text)
        history.append(types.ModelContent(parts))
        calls = [part.function_call for part in parts if part.function_call]
        said = {"result": "7 degrees, rain"}
        results = [types.Part.from_function_response(name=one.name, response=said) for one in calls]
        if results:
            history.append(types.UserContent(results))
print("x-reasoning-replay-request-id:", headers.get("x-reasoning-replay-request-id"))
