"""
Table of the runs of one dialect: one line for each run, or for each family of APIs in it.

How to read it. The runs of `oracle` play real clients that replayed reasoning, with all of it taken
out; `dropped` are real clients that drop it by themselves; `foreign` began outside the recording;
`error` are refusals; `plain`, `stateful` and `stream` are clients of Responses that had none to
replay. With the head cut, the client also forgot the messages before the model's first, as a
sliding window does. Columns, counted in exchanges:

- to inject: the client sends a message without the reasoning that upstream had emitted for it;
- injected: upstream received all that the client once sent (of `dropped`: anything at all);
- as sent: of these, the ones that differ in nothing from what the client once sent. The others are
  listed below the table: *other field* (the client had moved or copied a text to another member;
  the member of the answer is used), *also there* (the answer had the same text in a further member,
  too), *longer* (the client had lost a part of a text), *more* (the client had dropped a part of
  what the answer emitted);
- known: not injected, for a reason that the recording itself proves; listed below the table. For
  Responses, three columns: *ambiguous* (another conversation says the same), *no blob* (the client
  did not ask for any) and *head* (nothing proves whose text begins the request);
- unexplained: not injected, for no known reason;
- unsteady: a later request of the conversation got more, or less, in the same message than an
  earlier one;
- wrong: anything else that upstream received and the client did not send, and every response that
  did not reach the client as it was.

The result is right if `unexplained`, `unsteady` and `wrong` are 0; each exchange counted there is
listed at the end.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from tests.recordings.adapter import Adapter
from tests.recordings.chat import Chat
from tests.recordings.client import Variant
from tests.recordings.gemini import Gemini
from tests.recordings.judge import Result
from tests.recordings.messages import Messages
from tests.recordings.reasons import (
    Known,
    Reason,
    alone_of,
    bound_of,
    reason_of,
    twin_of,
    unsealed_of,
)
from tests.recordings.responses import Responses, sealed
from tests.recordings.runner import MIXED, Played, alone, changing, mix, one_tenant, own
from tests.recordings.tape import Recording, load
from tests.redis_server import redis_server

ADAPTERS: Mapping[str, Adapter] = {
    one.name: one for one in (Responses(), Chat(), Messages(), Gemini())
}
# With their known results.
KNOWN: Mapping[str, Known] = {name: Known.of(name) for name in ADAPTERS}
DROPPING = tuple(one for one in Variant if one is not Variant.REPLAYED)
ALL = "all"
HEAD = "run family exchanges to_inject injected as_sent known unexplained unsteady wrong"
ROW = "{:<31} {:<14} {:>9} {:>9} {:>8} {:>7} {:>5} {:>11} {:>8} {:>5}"
HEAD_OF_ITEMS = "run client exchanges to_inject injected ambiguous no_blob head unexplained wrong"
ROW_OF_ITEMS = "{:<26} {:<22} {:>9} {:>10} {:>8} {:>9} {:>8} {:>5} {:>11} {:>5}"
KINDS_OF_ITEMS = ("oracle", "dropped", "plain", "stateful", "stream", "error")

Listing = Callable[[Sequence[Played], Mapping[str, Reason]], list[str]]


class _Run(NamedTuple):
    """
    One run of a table.

    Attributes:
        how: Its name.
        variant: What the clients drop.
        recordings: What is played, unless it is one tenant.
        place: Where: one proxy, the same with responses in pieces or with Redis, one proxy for each
            profile, or two proxies of one tenant.
        lists: What is listed of it below the table.
        has_families: Whether each family of APIs has a line.
    """

    how: str
    variant: Variant = Variant.DROPPED
    recordings: Sequence[Recording] = ()
    place: Literal["one", "pieces", "redis", "own", "tenant"] = "one"
    lists: tuple[Listing, ...] = ()
    has_families: bool = False


def print_table(name: str) -> list[str]:
    """Play all recordings of a dialect and print the results; return what is not right."""
    adapter = ADAPTERS[name]
    head, row = (HEAD_OF_ITEMS, ROW_OF_ITEMS) if adapter.is_owed else (HEAD, ROW)
    titles = [title.replace("_", " ") for title in head.split()]
    print("" if adapter.is_owed else f"\n{name}\n", row.format(*titles), sep="")  # noqa: T201
    told: list[str] = []
    listed = [] if adapter.is_owed else [""]
    for run in _runs_of_items(adapter) if adapter.is_owed else _runs(adapter):
        if run.place in ("redis", "tenant") and not shutil.which("redis-server"):
            continue
        played, complaints = _played(adapter, run)
        known = excuses(adapter, played, mix(adapter) if run.place == "tenant" else ())
        unsteady = [] if adapter.is_owed else changing(played)
        families = {one.take.recording.family for one in played} if run.has_families else set()
        for family in [*sorted(families), ALL]:
            part = [one for one in played if family in (ALL, one.take.recording.family)]
            if adapter.is_owed:
                cells = [run.variant, *_cells_of_items(part, known)]
            else:
                cells = [family, *_cells(part, known, unsteady)]
            print(row.format(run.how, *cells), flush=True)  # noqa: T201
        told += _not_right(f"{run.how}, {run.variant}", played, known, unsteady) + complaints
        listed += [line for listing in run.lists for line in listing(played, known)]
    if listed:
        print("\n".join(listed))  # noqa: T201
    return told


def _played(adapter: Adapter, run: _Run) -> tuple[list[Played], list[str]]:
    """Play a run; return the exchanges, and warnings in logs."""
    if run.place in ("redis", "tenant"):
        with redis_server() as server:
            if run.place == "tenant":
                return asyncio.run(one_tenant(adapter, server.url, run.variant))
            playing = alone(adapter, run.recordings, run.variant, store_url=server.url)
            return asyncio.run(playing), []
    if run.place == "own":
        return asyncio.run(own(adapter, run.recordings, run.variant)), []
    seed = 1 if run.place == "pieces" else None
    return asyncio.run(alone(adapter, run.recordings, run.variant, seed=seed)), []


def _runs(adapter: Adapter) -> Iterator[_Run]:
    """Yield the runs of a dialect with messages."""
    oracle, dropped = load(adapter, "oracle"), Variant.DROPPED
    told = (_notes, _reasons)
    yield _Run("oracle, alone", dropped, oracle, lists=told, has_families=True)
    yield _Run("oracle, responses in pieces", dropped, oracle, "pieces")
    yield _Run("oracle, own profile", dropped, oracle, "own")
    yield _Run("oracle, head cut", Variant.HEAD_CUT, oracle)
    yield _Run("oracle, as recorded", Variant.REPLAYED, oracle)
    for kind in MIXED[1:]:
        those, is_client = load(adapter, kind), kind == "dropped"
        yield _Run(f"{kind}, alone", dropped, those, "one", (_reasons, _injected), is_client)
    yield _Run("oracle, alone, Redis", dropped, oracle, "redis")
    yield _Run("one tenant, two proxies, pieces", dropped, (), "tenant", (_reasons,), True)
    yield _Run("one tenant, head cut", Variant.HEAD_CUT, (), "tenant")


def _runs_of_items(adapter: Adapter) -> Iterator[_Run]:
    """Yield the runs of Responses: each with each variant of a client."""
    oracle = load(adapter, "oracle")
    for variant in DROPPING:
        yield _Run("alone", variant, oracle)
        yield _Run("alone, responses in pieces", variant, oracle, "pieces")
        yield _Run("alone, own profile", variant, oracle, "own")
    for variant in DROPPING:
        yield _Run("one tenant, two proxies", variant, (), "tenant")
    for kind in KINDS_OF_ITEMS:
        yield _Run(kind, Variant.REPLAYED, load(adapter, kind))
        yield _Run(f"{kind}, own profile", Variant.REPLAYED, load(adapter, kind), "own")
    as_if_asked = [sealed(recording) for recording in load(adapter, "dropped")]
    yield _Run("dropped, sealed", Variant.REPLAYED, as_if_asked)
    yield _Run("dropped, sealed, own", Variant.REPLAYED, as_if_asked, "own")


def excuses(
    adapter: Adapter, played: Iterable[Played], others: Sequence[Recording] = ()
) -> dict[str, Reason]:
    """Return the reasons of the exchanges that lack reasoning, if they have one."""
    found: dict[str, Reason] = {}
    for one in played:
        reason = reason_of(adapter, one.take)
        if reason is None and one.is_lacking:
            reason = bound_of(adapter, one.take) or unsealed_of(adapter, one.take)
            reason = reason or twin_of(adapter, one.take, others)
            reason = reason or alone_of(adapter, one.take, one.verdict.lost)
        if reason is not None:
            found[one.name] = reason
    return found


def _cells(
    played: Sequence[Played], known: Mapping[str, Reason], unsteady: Sequence[str]
) -> list[object]:
    """Return the counts of a line."""
    names = {one.name for one in played}
    injected = [one for one in played if one.verdict.result is Result.INJECTED]
    lacking = [one for one in played if one.is_lacking]
    return [
        len(played),
        sum(bool(one.verdict.wanted) for one in played),
        len(injected),
        sum(not one.verdict.notes for one in injected),
        sum(one.name in known for one in lacking),
        sum(one.name not in known for one in lacking),
        sum(one.partition(":")[0] in names for one in unsteady),
        sum(len(one.faults) for one in played),
    ]


def _cells_of_items(played: Sequence[Played], known: Mapping[str, Reason]) -> list[object]:
    """Return the counts of a line, with a column for each kind of reason."""
    *first, injected, _, _, unexplained, _, wrong = _cells(played, known, ())
    counted = Counter(known.values())
    ambiguous = counted[Reason.TWIN] + counted[Reason.LOOKALIKE]
    reasons = [ambiguous, counted[Reason.UNSEALED], counted[Reason.ALONE]]
    return [*first, injected, *reasons, unexplained, wrong]


def _not_right(
    how: str, played: Iterable[Played], known: Mapping[str, Reason], unsteady: Iterable[str]
) -> list[str]:
    """Name what is wrong, and what is lacking for no known reason."""
    return [
        *(f"{how}: UNSTEADY {one}" for one in unsteady),
        *(f"{how}: WRONG {fault}" for one in played for fault in one.faults),
        *(
            f"{how}: {one.name}: {one.verdict.lost} [{one.mark}]"
            for one in played
            if one.is_lacking and one.name not in known
        ),
    ]


def _notes(played: Sequence[Played], _known: Mapping[str, Reason]) -> list[str]:
    """List the injections that differ from what the client once sent."""
    return [
        f"{', '.join(sorted(one.verdict.notes))}: {one.name}"
        for one in played
        if one.verdict.result is Result.INJECTED and one.verdict.notes
    ]


def _reasons(played: Sequence[Played], known: Mapping[str, Reason]) -> list[str]:
    """List the exchanges that are not restored, under their reasons."""
    names = [one.name for one in played if one.is_lacking and one.name in known]
    counted = Counter(known[name] for name in names)
    found = []
    for reason, count in counted.items():
        found.append(f"{count} known: {reason}")
        found += [f"  {name}" for name in names if known[name] is reason]
    return found


def _injected(played: Sequence[Played], _known: Mapping[str, Reason]) -> list[str]:
    """List what was injected for clients that drop reasoning by themselves."""
    return [
        f"injected: {one.name}: message {at}: {', '.join(str(atom) for atom in atoms)}"
        for one in played
        for at, atoms in one.verdict.injected.items()
    ]
