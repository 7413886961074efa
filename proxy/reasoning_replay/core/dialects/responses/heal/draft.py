"""
Draft: the input of a request as it will be sent, with its items in order and the text of each.

Items are never changed. A draft records new texts, removals, moves and insertions, and turns them
into one edit of the body. Untouched bytes stay, also the white space between two neighbours.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.dialects.responses.profiles import Ids, Profile
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit, Unspliceable

EMITTED = (Role.MODEL, Role.REFERENCE)
# Types of model items that need an output from the client; all others are complete.
_NEED_OUTPUT = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "tool_search_call",
        "mcp_approval_request",
        "program",
    }
)


def is_output(item: ResponsesItem) -> bool:
    """Return whether an item is the output of a call."""
    return item.role is Role.CLIENT and item.type.endswith("_output")


def needs_output(kind: str, call_id: str) -> bool:
    """Return whether such an item has an output: half of a unit is never removed."""
    return bool(call_id) or kind in _NEED_OUTPUT


class SentRun(NamedTuple):
    """
    Consecutive reasoning and the model items after it, up to the next reasoning or client message.

    Attributes:
        later: Model items that come after an output: they may be of the same group.
    """

    reasoning: list[ResponsesItem]
    group: list[ResponsesItem]
    later: list[ResponsesItem]


def sent_runs(items: Sequence[ResponsesItem]) -> Iterator[SentRun]:
    """Yield every run of reasoning with the items after it, which may be none."""
    run, has_output = SentRun([], [], []), False
    for item in items:
        is_next = item.is_reasoning and (run.group or has_output)
        if is_next or not (item.is_reasoning or is_output(item) or item.role in EMITTED):
            if run.reasoning:
                yield run
            run, has_output = SentRun([], [], []), False
        if item.is_reasoning:
            run.reasoning.append(item)
        elif run.reasoning and is_output(item):
            has_output = True
        elif run.reasoning and item.role in EMITTED:
            (run.later if has_output else run.group).append(item)
    if run.reasoning:
        yield run


class Draft:
    """
    The edits of one request's input.

    Attributes:
        items: Items in the order in which they will be sent. Those that were added have no range.
        texts: The items that get another text; edits still treat each as the item that it was.
    """

    def __init__(self, request: Request) -> None:
        """Start without edits."""
        self.items = [place.item for place in request.places]
        self.texts: dict[ResponsesItem, bytes] = {}
        self._request = request

    def text(self, item: ResponsesItem) -> bytes:
        """Return the JSON with which an item will be sent."""
        return self.texts.get(item, item.raw)

    def complete(self, wholes: Mapping[ResponsesItem, bytes]) -> None:
        """Send whole items in place of bare ids; edits treat each as that item from now on."""
        self.items = [
            read_item(wholes[item], item.start, item.end) if wholes.get(item) else item
            for item in self.items
        ]

    def leave_out(self, member: str, *items: ResponsesItem) -> None:
        """Remove a member of items; those whose bytes cannot be cut safely stay as they are."""
        for item in items:
            try:
                raw = json_spans.without(self.text(item), (member,))
            except Unspliceable:
                continue
            if raw != self.text(item):
                self.texts[item] = raw

    def _has_blob(self, item: ResponsesItem) -> bool:
        return bool(item.blob) or (item in self.texts and bool(read_item(self.texts[item]).blob))

    def set_id(self, item: ResponsesItem, item_id: str) -> None:
        """Set the id of an item, in place of any present one."""
        try:
            raw = json_spans.without(self.text(item), ("id",))
        except Unspliceable:
            return
        comma = b"" if raw[1:].lstrip(b" \t\r\n")[:1] == b"}" else b","
        self.texts[item] = b'{"id":' + msgspec.json.encode(item_id) + comma + raw[1:]

    def remove(self, items: Collection[ResponsesItem]) -> None:
        """Remove items."""
        self.items = [item for item in self.items if item not in items]

    def remove_reasoning(self, refused: Collection[ResponsesItem]) -> None:
        """
        Remove reasoning, and with it everything that would require it.

        That is the ids of its group, and each hosted item with a required id: it cannot stay
        without its other half. If only a part of a run is removed, the rest loses its ids too.
        """
        gone = set(refused)
        for run in sent_runs(self.items) if gone else ():
            if gone.isdisjoint(run.reasoning):
                continue
            gone.update(item for item in run.reasoning if not item.blob)
            self.leave_out("id", *[item for item in run.reasoning if item not in gone])
            after = (item for item in (*run.group, *run.later) if item.role is Role.MODEL)
            self.leave_out("id", *[item for item in after if item.id_is_optional])
            if gone.issuperset(run.reasoning):
                gone.update(filter(is_hosted, run.group))
        self.remove(gone)

    def remove_lone_ids(
        self, spares: Callable[[ResponsesItem], bool] = lambda _: False, hosted: str = ""
    ) -> None:
        """
        Remove the ids of items without reasoning before them, where the API accepts that.

        Args:
            spares: Predicate for items that keep their id.
            hosted: Type of hosted items that are removed, as their id is required; "" for none.
        """
        covered = {item for run in sent_runs(self.items) for item in run.group}
        lone = [item for item in self.items if item.role is Role.MODEL and item not in covered]
        lone = [item for item in lone if not spares(item)]
        self.leave_out("id", *[item for item in lone if item.id_is_optional])
        self.remove({item for item in lone if item.type == hosted and is_hosted(item)})

    def send_by_value(
        self, run: SentRun, profile: Profile, captured_ids: Collection[str] | None = None
    ) -> bool:
        """
        Remove the ids of a run and of its group, so that nothing is paired by id.

        Args:
            run: Reasoning and the items after it.
            profile: Profile of the upstream.
            captured_ids: Ids of the group, if it was captured; None means the items directly after
                the run.

        Returns:
            False if one of them cannot be sent without its id; then nothing is changed.
        """
        if profile.ids is Ids.REQUIRED or not all(map(self._has_blob, run.reasoning)):
            return False
        if captured_ids is None:
            named = [item for item in run.group if item.id and item.role is Role.MODEL]
        else:
            named = [
                item for item in (*run.group, *run.later) if item.id and item.id in captured_ids
            ]
        if not all(item.role is Role.MODEL and item.id_is_optional for item in named):
            return False
        self.leave_out("id", *run.reasoning, *named)
        return True

    def body(self) -> bytes:
        """Return the edited body; the same object if nothing changed."""
        body, places = self._request.body, self._request.places
        given = [(place.item.start, place.item.raw) for place in places]
        if given == [(item.start, self.text(item)) for item in self.items]:
            return body
        after = dict(pairwise(start for start, _ in given))
        written = [self.text(item) for item in self.items[:1]]
        for before, item in pairwise(self.items):
            are_neighbours = item.start and after.get(before.start) == item.start
            written.append(body[before.end : item.start] if are_neighbours else b",")
            written.append(self.text(item))
        whole = Edit(places[0].item.start, places[-1].item.end, b"".join(written))
        return json_spans.apply(body, [whole])


def is_hosted(item: ResponsesItem) -> bool:
    """Return whether the item needs no output and has an id that the API requires."""
    is_own = item.role is Role.MODEL and not item.id_is_optional
    return is_own and bool(item.id) and not needs_output(item.type, item.call_id)
