"""
Healing: cures for refused requests to the Gemini API. All of it is pure.

`diagnosis` classifies a refusal. `cure` builds the request of the one retry. `signature_editor`
takes signatures out of a request.
"""
