"""Changes that applications make to a history with every turn, around what the model said."""

from collections.abc import Callable

from tests.core.world import Item, user
from tests.e2e.chats import said

__all__ = ["AROUND", "OF_TOOLS", "Change", "window"]

Change = Callable[[int, list[Item]], list[Item]]
"""From the number of the turn and a history."""


def window(items: list[Item], kept: int) -> list[Item]:
    """Return a history from one of the newest messages of the user on."""
    users = [n for n, item in enumerate(items) if item.get("role") == "user"]
    return items[users[-kept] if kept <= len(users) else 0 :]


def nothing(_: int, items: list[Item]) -> list[Item]:
    """Change nothing; the instructions alone change."""
    return items


def clock_in_a_developer_item(n: int, items: list[Item]) -> list[Item]:
    """Begin with the time."""
    return [{"role": "developer", "content": f"It is {n} o'clock."}, *items]


def system_item_replaced(n: int, items: list[Item]) -> list[Item]:
    """Begin with other instructions."""
    return [{"role": "system", "content": f"You are agent {n}, and have taken over."}, *items]


def environment_at_the_head(n: int, items: list[Item]) -> list[Item]:
    """Begin with an environment message, renewed."""
    return [_environment(n), *items]


def environment_moved(n: int, items: list[Item]) -> list[Item]:
    """Put the environment message ahead of the newest message of the user."""
    at = _newest_user(items)
    return [*items[:at], _environment(n), *items[at:]]


def retrieval(n: int, items: list[Item]) -> list[Item]:
    """Put what was found for it into the newest message of the user."""
    at = _newest_user(items)
    text = f"<passages>{n}</passages> {items[at]['content']}"
    return [*items[:at], user(text), *items[at + 1 :]]


def first_user_message_rewritten(n: int, items: list[Item]) -> list[Item]:
    """Say how far the work has come."""
    return [user(f"(Step {n}) {items[0]['content']}"), *items[1:]]


def old_outputs_cleared(_: int, items: list[Item]) -> list[Item]:
    """Leave the newest output as it is."""
    return _outputs_as(items, lambda _: "[cleared]")


def old_outputs_shortened(_: int, items: list[Item]) -> list[Item]:
    """Leave the newest output as it is."""
    return _outputs_as(items, lambda text: text[:20] + "...")


def messages_emptied(_: int, items: list[Item]) -> list[Item]:
    """Leave nothing of what the model said beside its calls."""
    return [said("") if item.get("type") == "message" else item for item in items]


def messages_rewritten(_: int, items: list[Item]) -> list[Item]:
    """Say something else beside the calls."""
    return [said("Well.") if item.get("type") == "message" else item for item in items]


def _environment(n: int) -> Item:
    return user(f"<environment>It is {n} o'clock.</environment>")


def _newest_user(items: list[Item]) -> int:
    return max(n for n, item in enumerate(items) if item.get("role") == "user")


def _outputs_as(items: list[Item], write: Callable[[str], str]) -> list[Item]:
    old = [item for item in items if "output" in item][:-1]
    return [item | {"output": write(item["output"])} if item in old else item for item in items]


AROUND: list[tuple[Change, str]] = [
    (nothing, "It is {n} o'clock."),
    (nothing, "You are agent {n}, and have taken over."),
    (clock_in_a_developer_item, ""),
    (system_item_replaced, ""),
    (environment_at_the_head, ""),
    (environment_moved, ""),
    (retrieval, ""),
    (first_user_message_rewritten, ""),
]
"""What changes in any conversation, and its instructions: of the turn `n`, or none."""

OF_TOOLS: list[tuple[Change, str]] = [
    (old_outputs_cleared, ""),
    (old_outputs_shortened, ""),
    (messages_emptied, ""),
    (messages_rewritten, ""),
]
"""What changes beside calls."""
