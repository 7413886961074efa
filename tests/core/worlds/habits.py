"""
Habits of clients and upstreams in random worlds.

`NEW_HABITS` are played only where a caller names them: a rule of matching that a habit breaks need
not be ready when the world that shows it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any


@dataclass(frozen=True)
class Habits:
    """
    Habits of one client and its upstream.

    Attributes:
        ids: `kept` or `dropped`, where the API does not demand them.
        naming: Ids are drawn at `random`, `counted`, or `call_0` in every response (`zero`).
        words, user_words: Short and `common`, long and `rare`, `mixed`, always the `same`, or long
            and from a small `pool`.
        window: Number of the user's messages that are sent; 0: all.
        cut: Number of items that are sent, even if a turn is split; 0: all.
        frame: Instructions: `none`, the `same`, a `clock`, or a `dev_clock` in a developer item.
        environment: A message of the application: `none`, at the `head`, at the `end`, or before
            the `newest` message of the user; or passages (`retrieval`) inside that message.
        bypass, fails, loses: Share of exchanges that bypass the proxy, whose lookup fails, or
            after which the store loses a turn.
        retry, fork: Share of requests that are sent twice, or that continue from an earlier turn.
        name: Whether the conversation has a name (`prompt_cache_key`) of its `own`, one that is
            `shared` with others, or `none`.
        is_twin: Whether it repeats the words of the conversation before it.
        clears: Whether old outputs of tools are cleared.
        drops: Whether messages before calls are left out.
        renumbers: Whether calls are renumbered in each request.
        renames: How a client replaces ids of calls for good, by random ones: "" not at all, in the
            form of `upstream`, or in its `own`.
        rewrites: Whether messages of the model lose their full stop.
        interleaves: Whether each output follows its call.
        recurs: How ids of calls come to recur in all conversations: the n-th of each is the same
            (`seeded`), they and the ids of items follow from the content (`hashed`), from the time
            (`stamped`), or from a counter among letters (`worded`, `stepped`).
        cached: Whether the process also uses its own copies of the newest conversations.
        stock: Whether many messages of the model are one of a few long sentences.
        opens: What the application writes before the conversation, in words that the model said
            elsewhere: "" nothing, a `greeting`, or an `example` of a question and its answer.
        resubmits: Whether two answers may follow each other, the second with the same first words.
        begins: Whether a cut history begins with words that begin conversations.
        is_late: Whether a twin begins some turns later and catches up, or the one before it does.
        lacks: Whether an item of some turns is left out.
        notes: Developer items: one `after` each message of the model, or all `gathered` ahead.
        forks_with: Whether there are many forks with a `clock`, or with `lost` turns.
        contradicts: Whether items have other ids than those that upstream gave.
        batch: Whether many conversations begin at once, each with its `own` prompt or with one
            that is `shared`.
        keeps: What is kept of finished turns: all (""), their `finals`, or their `messages`.
        renews: Whether each request has new ids of calls.
        tells: Whether old calls and their outputs are told in messages.
        summary: Whether the history is the first question, a summary, and the last two turns.
    """

    ids: str
    naming: str
    words: str
    user_words: str
    has_tools: bool
    window: int
    frame: str
    environment: str
    bypass: float
    fails: float
    retry: float
    fork: float
    name: str
    clears: bool
    rewrites: bool
    interleaves: bool
    cut: int = 0
    loses: float = 0
    drops: bool = False
    renumbers: bool = False
    renames: str = ""
    is_twin: bool = False
    recurs: str = ""
    cached: bool = False
    stock: bool = False
    opens: str = ""
    resubmits: bool = False
    begins: bool = False
    is_late: bool = False
    lacks: bool = False
    notes: str = ""
    forks_with: str = ""
    contradicts: bool = False
    batch: str = ""
    keeps: str = ""
    renews: bool = False
    tells: bool = False
    summary: bool = False

    @property
    def only_appends(self) -> bool:
        """Whether each request begins with the previous one."""
        changes = self.cuts or self.clears or self.frame == "dev_clock" or self.notes == "gathered"
        return not (changes or self.renews or self.tells) and self.environment == "none"

    @property
    def cuts(self) -> bool:
        """Whether a part of the history is left out for good."""
        return bool(self.window or self.cut or self.keeps or self.summary)

    @property
    def ids_are_certain(self) -> bool:
        """Whether its ids identify each item."""
        is_own = self.recurs != "hashed" and not self.contradicts
        return self.ids == "kept" and self.naming == "random" and is_own

    @property
    def held(self) -> list[str]:
        """Those that are not the default, by name."""
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        return [f"{name}={how}" for name, how in held.items() if how not in (0, "", "none")]

    @property
    def kinds(self) -> list[str]:
        """The kinds of clients that it counts as."""
        kind = f"{'tool loop' if self.has_tools else 'plain chat'}, ids {self.ids}"
        return [kind, *([] if self.window or self.cut else ["whole history"]), *self.held]


def _some_unknown(habits: Habits, dice: Random, **more: Any) -> Habits:
    """Return habits with more; in three of four, some turns are lost or never known."""
    bypass, loses = dice.choice([(0, 0), (0.2, 0), (0, 0.2), (0.3, 0)])
    return replace(habits, bypass=bypass, loses=loses, **more)


def _recurring(how: str) -> Callable[[Habits, Random], Habits]:
    return lambda habits, dice: _some_unknown(
        habits, dice, recurs=how, naming="random", has_tools=True, renames="", renumbers=False
    )


def _appending(habits: Habits, **more: Any) -> Habits:
    frame = "clock" if habits.frame == "dev_clock" else habits.frame
    whole: dict[str, Any] = {"window": 0, "cut": 0, "clears": False, "environment": "none"}
    return replace(habits, **whole | {"frame": frame} | more)


def _begun(habits: Habits, dice: Random) -> Habits:
    window, cut = dice.choice([(2, 0), (2, 0), (3, 0), (0, 8)])
    said = {"words": "pool", "user_words": "pool", "begins": True}
    return _some_unknown(habits, dice, window=window, cut=cut, **said)


def _repeating(habits: Habits, dice: Random, **more: Any) -> Habits:
    words, user_words = dice.choice(["pool", habits.words]), dice.choice(["pool", "same", "common"])
    return replace(habits, words=words, user_words=user_words, **more)


def _clock_forks(habits: Habits, dice: Random) -> Habits:
    forks: dict[str, Any] = {"forks_with": "clock", "frame": "clock", "fork": 0.4, "fails": 0}
    return _appending(_repeating(habits, dice), **forks)


def _lost_forks(habits: Habits, dice: Random) -> Habits:
    loses = dice.choice([0.2, 0.4])
    return _repeating(habits, dice, forks_with="lost turns", fork=0.5, loses=loses)


NEW_HABITS: Mapping[str, Callable[[Habits, Random], Habits]] = {
    **{how: _recurring(how) for how in ("seeded", "hashed", "stamped", "worded", "stepped")},
    "cached": lambda habits, dice: replace(
        _recurring("seeded")(habits, dice), cached=True, bypass=0, loses=0, fails=0
    ),
    "stock": lambda habits, dice: _some_unknown(habits, dice, stock=True),
    "greeting": lambda habits, _: replace(habits, opens="greeting", window=0, cut=0),
    "example": lambda habits, _: replace(habits, opens="example", window=0, cut=0),
    "resubmits": lambda habits, _: replace(habits, resubmits=True, has_tools=True),
    "begins": _begun,
    "late": lambda habits, _: _appending(habits, is_late=True, fork=0, retry=0, fails=0),
    "lacks": lambda habits, _: replace(habits, lacks=True, has_tools=True),
    "notes": lambda habits, dice: replace(
        habits, notes="after", words=dice.choice(["pool", habits.words])
    ),
    "clock-forks": _clock_forks,
    "lost-forks": _lost_forks,
    "contradicts": lambda habits, dice: _some_unknown(habits, dice, contradicts=True, ids="kept"),
    "batch": lambda habits, dice: _appending(habits, batch=dice.choice(["own", "shared"]), fork=0),
    "finals": lambda habits, _: replace(
        habits, keeps="finals", has_tools=True, user_words="rare", words="rare"
    ),
    "messages": lambda habits, _: replace(habits, keeps="messages", has_tools=True),
    "gathers": lambda habits, _: replace(habits, notes="gathered"),
    "renews": lambda habits, _: replace(habits, renews=True, has_tools=True),
    "tells": lambda habits, _: replace(habits, tells=True, has_tools=True),
    "summary": lambda habits, _: replace(habits, summary=True, window=0, cut=0),
    "tail": lambda habits, _: replace(habits, environment="end"),
}
"""Habits by name: what each adds to the others."""

CLEAN = (
    "contradicts",
    "example",
    "finals",
    "gathers",
    "messages",
    "renews",
    "stamped",
    "stepped",
    "stock",
    "summary",
    "tail",
    "tells",
)
"""New habits that matching copes with: those that the tests play."""

OF_WORLDS = frozenset({"seeded", "hashed", "stamped", "worded", "stepped", "cached", "batch"})
"""New habits that all clients of a world have, or none."""

ALL_HABITS: Mapping[str, Callable[[Habits, Random], Habits]] = {
    **NEW_HABITS,
    "window": lambda habits, dice: replace(habits, window=dice.choice([2, 3]), cut=0),
    "cut": lambda habits, _: replace(habits, cut=8, window=0),
    "clears": lambda habits, _: replace(habits, clears=True),
    "rewrites": lambda habits, _: replace(habits, rewrites=True),
    "drops": lambda habits, _: replace(habits, drops=True),
    "renumbers": lambda habits, _: replace(habits, renumbers=True),
    "interleaves": lambda habits, _: replace(habits, interleaves=True),
    "retrieval": lambda habits, _: replace(habits, environment="retrieval"),
    "head": lambda habits, _: replace(habits, environment="head"),
    "newest": lambda habits, _: replace(habits, environment="newest"),
    "dev_clock": lambda habits, _: replace(habits, frame="dev_clock"),
    "pool": lambda habits, _: replace(habits, words="pool"),
}
"""All habits of which `--shapes` gives one to four to each client."""
