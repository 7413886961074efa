"""
Reordering: a history in the order in which it happened.

A unit holds the items that one response emitted (reasoning directly before the item it led to),
followed by the outputs of its calls. A unit stands where its first item other than reasoning
stands. User messages between a call and its output move after the unit. Captured turns determine
the units; items that were not captured are grouped with their neighbours.
"""

from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from reasoning_replay.core.dialects.responses.heal.captured import Position
from reasoning_replay.core.dialects.responses.heal.draft import is_output
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.history.items import Role

__all__ = ["in_order"]

_Unit = list[ResponsesItem]


def in_order(
    items: Sequence[ResponsesItem], positions: Mapping[ResponsesItem, Position]
) -> list[ResponsesItem]:
    """
    Return the items in order; an equal list if nothing is out of order.

    Args:
        items: The input of a request.
        positions: Position of each captured item in its turn.
    """
    captured: dict[bytes, _Unit] = defaultdict(list)
    for item in items:
        if item in positions:
            captured[positions[item][0]].append(item)
    units = {_anchor(unit): sorted(unit, key=positions.__getitem__) for unit in captured.values()}
    standing = [item for item in items if item in units or item not in positions]
    units |= {_anchor(unit): unit for unit in _unknown(standing, units.keys())}
    outputs = _outputs(items, units)
    placed = {item for unit in (*units.values(), *outputs.values()) for item in unit}
    ordered: list[ResponsesItem] = []
    for item in items:
        if item in units:
            ordered += units[item] + outputs[item]
        elif item not in placed:
            ordered.append(item)
    return ordered


def _unknown(standing: Sequence[ResponsesItem], anchors: Collection[ResponsesItem]) -> list[_Unit]:
    """Group uncaptured items by the items between them; an anchor stands for a captured unit."""
    units: list[_Unit] = []
    is_open = False
    for item in standing:
        is_own = item not in anchors and item.role not in (Role.CLIENT, Role.FRAME)
        if is_own and is_open:
            units[-1].append(item)
        elif is_own:
            units.append([item])
        is_open = is_own
    return units


def _anchor(unit: _Unit) -> ResponsesItem:
    """Return the item that determines where a unit stands: the first that is not reasoning."""
    return next((item for item in unit if not item.is_reasoning), unit[0])


def _outputs(
    items: Sequence[ResponsesItem], units: Mapping[ResponsesItem, _Unit]
) -> dict[ResponsesItem, _Unit]:
    """Return for each unit, in order, the first free output after each call, else one before it."""
    at = {item: n for n, item in enumerate(items)}
    waiting: dict[str, list[int]] = defaultdict(list)
    for item, n in at.items():
        if is_output(item) and item.call_id:
            waiting[item.call_id].append(n)
    found: dict[ResponsesItem, _Unit] = {}
    for anchor in sorted(units, key=at.__getitem__):
        taken: list[int] = []
        for call in units[anchor]:
            free = waiting.get(call.call_id, []) if call.is_tool else []
            if free:
                after = bisect(free, at[call])
                taken.append(free.pop(after if after < len(free) else 0))
        found[anchor] = [items[n] for n in sorted(taken)]
    return found
