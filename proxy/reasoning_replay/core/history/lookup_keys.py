"""
Lookup keys: digests by which a store finds the conversations that a request may continue.

Every captured item leads to its conversation by several keys: its id, its `call_id`, and its
content combined with the history before it. A request is looked up by the same keys.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain
from typing import NamedTuple, overload

from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.request_history import Place, RequestHistory
from reasoning_replay.core.history.turns import LINK_BYTES, Context, Turn, turn_id
from reasoning_replay.core.wire.digest import digest

# A request is looked up by this many of its newest items, and by this many spread over the rest.
# Any one of them leads to its conversation, which is then loaded completely.
NEWEST_LOOKED_UP = 16
SPREAD_LOOKED_UP = 8
CONVERSATIONS_LOADED = 6

Key = bytes
RESPONSE = -1  # in Lookup.place: the response that the request continues, instead of an item


class Lookup(NamedTuple):
    """
    The lookup keys of one item of a request.

    Attributes:
        place: Index of the item in the request, or RESPONSE.
        id_keys: Keys that hardly more than one item has: from its id and its `call_id`. A text
            without ids has those of the first call in the same message.
        content_keys: Keys from its content and the history before it, the strongest first. They
            may be computed on first use. If one of them leads to a conversation, so does the last.
    """

    place: int
    id_keys: Sequence[Key]
    content_keys: Sequence[Key] = ()

    @property
    def keys(self) -> Sequence[Key]:
        """All keys, those of ids first."""
        return [*self.id_keys, *self.content_keys]


class ConversationChoice(NamedTuple):
    """
    The conversations to load.

    Attributes:
        conversations: Their ids, at most CONVERSATIONS_LOADED.
        crowded: Places of items that could come from more conversations than can be loaded.
    """

    conversations: list[bytes]
    crowded: set[int]


class LookupResult(NamedTuple):
    """
    The result of a lookup: every turn of the conversations that were chosen for a request.

    Attributes:
        crowded: As in `ConversationChoice`.
        is_stale: Whether the store failed and the turns are local copies, not validated.
    """

    turns: Sequence[Turn] = ()
    crowded: AbstractSet[int] = frozenset()
    is_stale: bool = False


def key_of_response(response_id: str) -> Key:
    """Return the key that leads to the conversation of a response."""
    return key_of_turn(turn_id(response_id))


def key_of_turn(this: bytes) -> Key:
    """Return the key that leads to the conversation of a turn, from the turn's id."""
    return digest(b"r", this)


def keys_of_name(name: str) -> list[Key]:
    """Return the keys that lead from an item's id or `call_id` to its conversation."""
    return _id_keys(name, "", "")


def keys_of_turn(turn: Turn) -> dict[Key, bool]:
    """Return every key that must lead to the conversation of a turn -> whether it is of an id."""
    of_content = [key for item in turn.items for key in _content_keys(item.content, turn.context)]
    of_ids = dict.fromkeys(id_keys_of_turn(turn), True)
    return of_ids | dict.fromkeys([key for key in of_content if key not in of_ids], False)


def id_keys_of_turn(turn: Turn) -> list[Key]:
    """Return the keys of a turn that belong to only one item, or to the turn itself."""
    keys = [key_of_turn(turn.id)]
    for item in turn.items:
        keys += [_key_of(part.id) for part in item.run if is_distinctive(part.id, "")]
        keys += _id_keys(item.id, item.call_id, item.name)
    return list(dict.fromkeys(keys))


def keys_of_request(request: RequestHistory[HistoryItem]) -> list[Lookup]:
    """Return the lookups of a request, newest item first."""
    anchors = request.anchors
    if not (anchors or request.is_stateful):
        return []  # the first request of a conversation
    newest, older = anchors[-NEWEST_LOOKED_UP:], anchors[:-NEWEST_LOOKED_UP]
    step = max(1, -(-len(older) // SPREAD_LOOKED_UP))
    asked = [_asked(request, n) for n in reversed(older[::step] + newest)]
    if previous := request.continues:
        asked.insert(0, Lookup(RESPONSE, [key_of_response(previous)]))
    return [item for item in asked if item.id_keys or item.content_keys]


def choose(
    asked: Sequence[Lookup], leads_to: Callable[[Key], Sequence[bytes] | None]
) -> ConversationChoice:
    """
    Choose the conversations to load.

    Args:
        asked: Result of `keys_of_request`.
        leads_to: Returns the conversations that a key leads to, newest last; None without any.

    The id keys of all items come first, and of these the one of each item that leads to the
    fewest conversations; the others serve to detect a contradiction. The content keys share the
    remaining room: first, for each item, the strongest key that leads to a conversation; then,
    newest item first, the conversations with the same content after another history. An item that
    leads to more conversations than there is room for adds none of them: if only some were loaded,
    ambiguous names or content would look unambiguous.
    """
    chosen: dict[bytes, None] = {}
    crowded: set[int] = set()

    def take(found: Iterable[bytes]) -> bool:
        every = chosen | dict.fromkeys(found)
        if fits := len(every) <= CONVERSATIONS_LOADED:
            chosen.update(every)
        return fits

    named = _named(asked, leads_to)
    for item, fewest, _ in named:
        if not take(fewest):
            crowded.add(item.place)
    for _, _, more in named:
        take(more)
    sure = {item.place for item, _, _ in named} - crowded
    rest = [item for item in asked if item.place not in sure]
    by_content = [item for item in rest if item.content_keys and leads_to(item.content_keys[-1])]
    for item in by_content:
        strongest = next(found for key in item.content_keys if (found := leads_to(key)))
        if not take(reversed(strongest)):
            crowded.add(item.place)
    for item in by_content:
        if item.place not in crowded:
            take(reversed(leads_to(item.content_keys[-1]) or ()))
    return ConversationChoice(list(chosen), crowded)


def count_led(asked: Sequence[Lookup], turns: Iterable[Turn]) -> tuple[int, int]:
    """
    Return how many items of a request lead to some turns: by more than a bare text, and at all.

    Cost: the keys of all these turns.
    """
    keys = {key for turn in turns for key in keys_of_turn(turn)}
    if not keys:
        return 0, 0
    strong = [[*item.id_keys, *list(item.content_keys)[:-1]] for item in asked]
    led = sum(not keys.isdisjoint(of_item) for of_item in strong)
    return led, sum(not keys.isdisjoint(item.keys) for item in asked)


def _named(
    asked: Sequence[Lookup], leads_to: Callable[[Key], Sequence[bytes] | None]
) -> list[tuple[Lookup, Sequence[bytes], Sequence[bytes]]]:
    """Return the conversations that the names of each item lead to: by its rarest, and by all."""
    led = [(item, [found for key in item.id_keys if (found := leads_to(key))]) for item in asked]
    named = [(item, min(found, key=len), [*chain(*found)]) for item, found in led if found]
    return sorted(named, key=lambda one: len(one[1]))


def _asked(request: RequestHistory[HistoryItem], n: int) -> Lookup:
    place = request.places[n]
    id_keys = _id_keys_of(place.item)
    if not id_keys and n + 1 < len(request.places):
        # Short texts are in many conversations, all of which would have to be loaded.
        following = request.places[n + 1].item
        id_keys = _id_keys_of(following) if following.start < place.item.end else []
    return Lookup(n, id_keys, _LazyContentKeys(request, place))


def _id_keys_of(item: HistoryItem) -> list[Key]:
    """Return the id keys of an item of a request."""
    keys = _id_keys(item.id, item.call_id, item.name)
    if response_id := response_named_by(item):
        keys.append(key_of_response(response_id))
    return keys


def lookup_of_content(request: RequestHistory[HistoryItem], n: int, content: bytes) -> Lookup:
    """Return the lookup of an item of a request by a content that it may have had."""
    return Lookup(n, (), _content_keys(content, request.context(request.places[n])))


class _LazyContentKeys(Sequence[Key]):
    """Content keys of an item, computed on first use: not needed if an id key leads."""

    def __init__(self, request: RequestHistory[HistoryItem], place: Place[HistoryItem]) -> None:
        self._request = request
        self._place = place

    @cached_property
    def _keys(self) -> list[Key]:
        return _content_keys(self._place.item.content, self._request.context(self._place))

    def __bool__(self) -> bool:
        return bool(self._place.item.content) and not self._request.is_stateful

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, at: int) -> Key: ...
    @overload
    def __getitem__(self, at: slice) -> list[Key]: ...
    def __getitem__(self, at: int | slice) -> Key | list[Key]:
        if at == -1 and self:  # most content is new, and then no other key is needed
            return _key_of_saying(self._place.item.content)
        return self._keys[at]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)


def _id_keys(item_id: str, call_id: str, name: str) -> list[Key]:
    """Return the keys of an item's ids; ids and call ids share one space: clients mix them."""
    keys = [_key_of(item_id)] if item_id and is_distinctive(item_id, "") else []
    if call_id and is_distinctive(call_id, name):
        keys.append(_key_of(call_id))
    return keys


def _key_of(name: str) -> Key:
    return digest(b"i", name.encode("utf-8", "surrogatepass"))


def _content_keys(content: bytes, context: Context) -> list[Key]:
    """
    Return the keys of an item's content, the strongest first.

    The content is combined with: the whole chain, the frame and the hint; the whole chain; the
    chain's last link; nothing. The weaker keys serve clients that rewrite the frame or cut the head
    of the history.
    """
    if not content or not context.is_known:
        return []
    keys = []
    if context.chain:
        keys.append(digest(b"f", context.chain, content, context.frame, context.hint))
        keys.append(digest(b"x", context.chain, content))
    if context.depth:
        keys.append(digest(b"l", context.tail[-LINK_BYTES:], content))
    return [*keys, _key_of_saying(content)]


def _key_of_saying(content: bytes) -> Key:
    return digest(b"t", content)


def response_named_by(item: HistoryItem) -> str:
    """Return the response id that pydantic-ai puts before a reused `call_id`; "" without one."""
    if ":" not in item.call_id:
        return ""
    response_id, _, call_id = item.call_id.rpartition(":")
    return response_id if call_id and is_distinctive(response_id, item.name) else ""
