"""
Example values: a value that fits a JSON schema, for the scripted model's calls and answers.

They cover the parts of JSON schema that tools and structured outputs use.
"""

from typing import Any, Final

Schema = dict[str, Any]

DEPTH_MAX: Final = 8  # a schema may contain itself
# A tool with such an argument may run it, so the value only prints.
RUN_BY_TOOLS: Final = ("cmd", "command", "script")


def example(schema: Schema, word: str) -> object:
    """
    Return a value that fits a schema.

    Args:
        schema: The schema; its references point into itself.
        word: The text of each string.
    """
    return _value(schema, word, schema, 0)


def _value(schema: Schema, word: str, root: Schema, depth: int) -> object:
    for _ in range(DEPTH_MAX):
        if name := schema.get("$ref"):
            schema = _named(root, name)
        elif options := schema.get("anyOf") or schema.get("allOf"):
            schema = options[0]
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if allowed or depth > DEPTH_MAX:
        return allowed[0] if allowed else None
    named = schema.get("type", "object")
    kind = named if isinstance(named, str) else named[0]
    match kind.lower():  # Gemini's own types are in upper case
        case "object":
            members = schema.get("properties") or {}
            return {
                name: _value(members.get(name) or {}, _text(name, word), root, depth + 1)
                for name in schema.get("required") or members
            }
        case "array":
            items = schema.get("items") or {"type": "string"}
            return [_value(items, part, root, depth + 1) for part in word.split(" ")]
        case kind:
            return {"string": word, "integer": 1, "number": 1, "boolean": True}.get(kind)


def _text(name: str, word: str) -> str:
    return f"echo {word}" if name in RUN_BY_TOOLS else word


def _named(root: Schema, name: str) -> Schema:
    """Return what a reference such as `#/$defs/Place` points to."""
    found = root
    for key in name.removeprefix("#").strip("/").split("/"):
        found = found.get(key) or {} if key else found
    return found
