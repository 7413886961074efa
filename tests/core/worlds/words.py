"""Words of random worlds: short, long, or from a small pool."""

import json
from random import Random

LETTERS = "abcdefghijklmnop "
WORDS = {
    "message": ("Done.", "OK", "Sunny."),
    "call": ("{}", '{"q":"x"}'),
    "user": ("Hi", "continue", "yes"),
    "output": ("ok", ""),
}
STOCK = (
    "I'm sorry, but I can't help with that request. If you have another question, I'm happy to.",
    "Is there anything else that I can help you with today? Just let me know, and I'll see to it.",
    "I have looked into this, and everything that you asked for has been done. All tests pass now.",
)
POOL = {
    "message": STOCK[:2],
    "call": tuple(
        json.dumps({"q": f"the release notes of version {n}, in full, please"}) for n in "12"
    ),
    "user": tuple(f"Please deploy the {name} service, and tell me when it is up." for name in "ab"),
    "output": ("The deployment has finished, and all of the checks have passed by now.",),
}


def words(dice: Random, kind: str, how: str, *, is_stock: bool = False) -> str:
    """Return the words of a message, a call, a user or an output, as a habit has them."""
    if is_stock and kind == "message" and dice.random() < 0.4:
        return dice.choice(STOCK)
    if how == "pool":
        return dice.choice(POOL[kind])
    if how == "mixed":
        how = dice.choice(["rare", "common"])
    if how == "same":
        return WORDS[kind][0]
    if how == "common":
        return dice.choice(WORDS[kind])
    return "".join(dice.choices(LETTERS, k=72))
