"""
Lookup keys: how a store finds the conversations that a request may continue.

Every captured item leads to its conversation by several keys: its id, its `call_id`, and what it
says together with what had been said before it. A request is looked up by the same keys.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import NamedTuple, overload

from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.request_history import Place, RequestHistory
from reasoning_replay.core.history.turns import LINK_BYTES, Context, Turn, turn_id
from reasoning_replay.core.wire.digest import digest

__all__ = [
    "RESPONSE",
    "ConversationChoice",
    "Lookup",
    "LookupResult",
    "certain_keys_of_turn",
    "choose",
    "key_of_response",
    "key_of_turn",
    "keys_of_name",
    "keys_of_request",
    "keys_of_turn",
    "response_named_by",
]

# A request is looked up by this many of its newest items, and this many spread over the rest:
# any one of them leads to its conversation, which is then loaded whole.
NEWEST_LOOKED_UP = 16
SPREAD_LOOKED_UP = 8
CONVERSATIONS_LOADED = 6

Key = bytes
RESPONSE = -1  # in Lookup.place: not an item, but the response that the request continues


class Lookup(NamedTuple):
    """
    What one item of a request is looked up by.

    Attributes:
        place: Its index in the request, or RESPONSE.
        certain: Keys that one item alone has: its id and its `call_id`.
        doubtful: Keys of what it says and after what, the strongest first; may be made only when
            they are looked at. Where one of them leads, the last one leads, too.
    """

    place: int
    certain: Sequence[Key]
    doubtful: Sequence[Key] = ()

    @property
    def keys(self) -> Sequence[Key]:
        """All of them."""
        return [*self.certain, *self.doubtful]


class ConversationChoice(NamedTuple):
    """
    Which conversations to load.

    Attributes:
        conversations: Their ids, at most CONVERSATIONS_LOADED.
        crowded: Places of items that more conversations could have said than can be compared.
    """

    conversations: list[bytes]
    crowded: set[int]


class LookupResult(NamedTuple):
    """
    What a store holds for a request: every turn of the conversations chosen for it.

    Attributes:
        crowded: As of `ConversationChoice`.
        is_stale: Whether the store did not answer, and these are local copies of before.
    """

    turns: Sequence[Turn] = ()
    crowded: AbstractSet[int] = frozenset()
    is_stale: bool = False


def key_of_response(response_id: str) -> Key:
    """Return the key under which a response's conversation is found."""
    return key_of_turn(turn_id(response_id))


def key_of_turn(this: bytes) -> Key:
    """Return the key under which a turn's conversation is found, by the turn's id."""
    return digest(b"r", this)


def keys_of_name(name: str) -> list[Key]:
    """Return the keys of the conversation that an item's id or `call_id` belongs to."""
    return _certain(name, "", "")


def keys_of_turn(turn: Turn) -> list[Key]:
    """Return every key that shall lead to a turn's conversation."""
    keys = [key_of_turn(turn.id)]
    context = turn.context
    for item in turn.items:
        keys += [_key_of(part.id) for part in item.run if is_distinctive(part.id, "")]
        keys += _certain(item.id, item.call_id, item.name)
        if item.content and context.is_known:
            keys += _doubtful(item.content, context)
    return list(dict.fromkeys(keys))


def certain_keys_of_turn(turn: Turn) -> list[Key]:
    """Return those of a turn's keys that one item alone has, or the turn itself."""
    keys = [key_of_turn(turn.id)]
    for item in turn.items:
        keys += [_key_of(part.id) for part in item.run if is_distinctive(part.id, "")]
        keys += _certain(item.id, item.call_id, item.name)
    return list(dict.fromkeys(keys))


def keys_of_request(request: RequestHistory[HistoryItem]) -> list[Lookup]:
    """Return what to look a request up by, newest item first."""
    anchors = request.anchors
    if not (anchors or request.is_stateful):
        return []  # as the first request of a conversation
    newest, older = anchors[-NEWEST_LOOKED_UP:], anchors[:-NEWEST_LOOKED_UP]
    step = max(1, -(-len(older) // SPREAD_LOOKED_UP))
    asked = [_asked(request, n) for n in reversed(older[::step] + newest)]
    if previous := request.continues:
        asked.insert(0, Lookup(RESPONSE, [key_of_response(previous)]))
    return [item for item in asked if item.certain or item.doubtful]


def choose(
    asked: Sequence[Lookup], leads_to: Callable[[Key], Sequence[bytes]]
) -> ConversationChoice:
    """
    Choose the conversations to load.

    Args:
        asked: As `keys_of_request` gives it.
        leads_to: The conversations that a key leads to, newest last.

    The certain keys of all items come first; what is said shares the room that they leave: for each
    item the strongest key that leads anywhere, and then, newest item first, all that say the same
    after another history. What leads to more conversations than there is room for decides nothing:
    to load some of them would make an ambiguous saying look clear.
    """
    chosen: dict[bytes, None] = {}
    crowded: set[int] = set()

    def take(item: Lookup, found: dict[bytes, None]) -> None:
        if len(chosen | found) <= CONVERSATIONS_LOADED:
            chosen.update(found)
        else:
            crowded.add(item.place)

    doubtful: list[Lookup] = []
    for item in asked:
        # Both, where an item has both: if they disagree, that must come out.
        found = {conversation: None for key in item.certain for conversation in leads_to(key)}
        if found:
            take(item, found)
        elif item.doubtful:
            doubtful.append(item)
    doubtful = [item for item in doubtful if leads_to(item.doubtful[-1])]
    for item in doubtful:
        led = (dict.fromkeys(reversed(leads_to(key))) for key in item.doubtful)
        take(item, next(conversations for conversations in led if conversations))
    for item in doubtful:
        alike = dict.fromkeys(reversed(leads_to(item.doubtful[-1])))
        if item.place not in crowded and len(chosen | alike) <= CONVERSATIONS_LOADED:
            chosen.update(alike)
    return ConversationChoice(list(chosen), crowded)


def _asked(request: RequestHistory[HistoryItem], n: int) -> Lookup:
    place = request.places[n]
    item = place.item
    certain = _certain(item.id, item.call_id, item.name)
    if response_id := response_named_by(item):
        certain.append(key_of_response(response_id))
    return Lookup(n, certain, _ContentKeys(request, place))


class _ContentKeys(Sequence[Key]):
    """The doubtful keys of an item, made when they are looked at: where names lead, nobody does."""

    def __init__(self, request: RequestHistory[HistoryItem], place: Place[HistoryItem]) -> None:
        self._request = request
        self._place = place

    @cached_property
    def _keys(self) -> list[Key]:
        return _doubtful(self._place.item.content, self._request.context(self._place))

    def __bool__(self) -> bool:
        return bool(self._place.item.content) and not self._request.is_stateful

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, at: int) -> Key: ...
    @overload
    def __getitem__(self, at: slice) -> list[Key]: ...
    def __getitem__(self, at: int | slice) -> Key | list[Key]:
        if at == -1 and self:  # most sayings are new: nothing else has to be made then
            return _key_of_saying(self._place.item.content)
        return self._keys[at]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)


def _certain(item_id: str, call_id: str, name: str) -> list[Key]:
    """Return the keys of an item's names; ids and call ids share one space: clients mix them."""
    keys = [_key_of(item_id)] if item_id and is_distinctive(item_id, "") else []
    if call_id and is_distinctive(call_id, name):
        keys.append(_key_of(call_id))
    return keys


def _key_of(name: str) -> Key:
    return digest(b"i", name.encode("utf-8", "surrogatepass"))


def _doubtful(content: bytes, context: Context) -> list[Key]:
    """
    Return the keys of a saying, the strongest first.

    After all that was said, under the same instructions and name; after all that was said, after
    the last of it, and alone: for histories whose frame is rewritten, or whose head is cut.
    """
    if not content or not context.is_known:
        return []
    keys = [
        digest(b"f", context.chain, content, context.frame, context.hint),
        digest(b"x", context.chain, content),
    ]
    if context.depth:
        keys.append(digest(b"l", context.tail[-LINK_BYTES:], content))
    return [*keys, _key_of_saying(content)]


def _key_of_saying(content: bytes) -> Key:
    return digest(b"t", content)


def response_named_by(item: HistoryItem) -> str:
    """Return the response id that pydantic-ai puts before a `call_id` that is used repeatedly."""
    if ":" not in item.call_id:
        return ""
    response_id, _, call_id = item.call_id.rpartition(":")
    return response_id if call_id and is_distinctive(response_id, item.name) else ""
