"""
Table of the runs of one dialect: one line for each family of APIs, and one for all of them.

How to read it. The runs of `oracle` play real clients that replayed reasoning, with all of it taken
out; `dropped` are real clients that drop it by themselves; `foreign` began outside the recording;
`error` are refusals. With the head cut, the client also forgot the messages before the model's
first, as a sliding window does. Columns, counted in exchanges:

- to inject: the client sends a message without the reasoning that upstream had emitted for it;
- injected: upstream received all that the client once sent (of `dropped`: anything at all);
- as sent: of these, the ones that differ in nothing from what the client once sent. The others are
  listed below the table: *other field* (the client had moved or copied a text to another member;
  the member of the answer is used), *also there* (the answer had the same text in a further member,
  too), *longer* (the client had lost a part of a text), *more* (the client had dropped a part of
  what the answer emitted);
- known: not injected, for a reason that the recording itself proves; listed below the table;
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
from collections.abc import Iterable, Mapping, Sequence

from tests.recordings.atoms.adapter import Adapter
from tests.recordings.atoms.chat import Chat
from tests.recordings.atoms.client import Variant
from tests.recordings.atoms.gemini import Gemini
from tests.recordings.atoms.messages import Messages
from tests.recordings.atoms.reasons import Known, Reason, alone_of, bound_of, reason_of, twin_of
from tests.recordings.atoms.runs import KINDS, Played, alone, changing, mix, one_tenant, own
from tests.recordings.atoms.tape import Recording, load
from tests.recordings.runner import Result
from tests.redis_server import redis_server

# The dialects that are judged by atoms, with their known results.
ADAPTERS: Mapping[str, tuple[Adapter, Known]] = {
    adapter.name: (adapter, Known.of(adapter.name)) for adapter in (Chat(), Messages(), Gemini())
}

HEAD = (
    "run",
    "family",
    "exchanges",
    "to inject",
    "injected",
    "as sent",
    "known",
    "unexplained",
    "unsteady",
    "wrong",
)
ROW = "{:<31} {:<14} {:>9} {:>9} {:>8} {:>7} {:>5} {:>11} {:>8} {:>5}"
ALL = "all"


def print_table(name: str) -> list[str]:
    """Play all recordings of a dialect and print the results; return what is not right."""
    adapter = ADAPTERS[name][0]
    print(f"\n{name}\n" + ROW.format(*HEAD))  # noqa: T201
    oracle = load(adapter, "oracle")
    told: list[str] = []
    played = asyncio.run(alone(adapter, oracle))
    told += _rows("oracle, alone", played, adapter, has_families=True)
    notes = _notes(played) + _reasons(adapter, played)
    pieces = asyncio.run(alone(adapter, oracle, seed=1))
    told += _rows("oracle, responses in pieces", pieces, adapter)
    told += _rows("oracle, own profile", asyncio.run(own(adapter, oracle)), adapter)
    cut = asyncio.run(alone(adapter, oracle, Variant.HEAD_CUT))
    told += _rows("oracle, head cut", cut, adapter)
    replayed = asyncio.run(alone(adapter, oracle, Variant.REPLAYED))
    told += _rows("oracle, as recorded", replayed, adapter)
    for kind in KINDS[1:]:
        played = asyncio.run(alone(adapter, load(adapter, kind)))
        told += _rows(f"{kind}, alone", played, adapter, has_families=kind == "dropped")
        notes += _reasons(adapter, played) + _injected(played)
    if shutil.which("redis-server"):
        with redis_server() as server:
            played = asyncio.run(alone(adapter, oracle, store_url=server.url))
        told += _rows("oracle, alone, Redis", played, adapter)
        with redis_server() as server:
            played, complaints = asyncio.run(one_tenant(adapter, mix(adapter), server.url))
        how = "one tenant, two proxies, pieces"
        told += _rows(how, played, adapter, mix(adapter), has_families=True)
        told += complaints
        notes += _reasons(adapter, played, mix(adapter))
        with redis_server() as server:
            run = one_tenant(adapter, mix(adapter), server.url, Variant.HEAD_CUT)
            played, complaints = asyncio.run(run)
        told += _rows("one tenant, head cut", played, adapter, mix(adapter)) + complaints
    print("\n".join(["", *notes]))  # noqa: T201
    return told


def excuses(
    adapter: Adapter, played: Iterable[Played], others: Sequence[Recording] = ()
) -> dict[str, Reason]:
    """Return the reasons of the exchanges that lack reasoning, if they have one."""
    found: dict[str, Reason] = {}
    for one in played:
        reason = reason_of(adapter, one.take)
        if reason is None and one.is_lacking:
            reason = bound_of(adapter, one.take) or twin_of(adapter, one.take, others)
            verdict = one.verdict
            if not reason and verdict.wanted - verdict.restored == 1 and 0 not in verdict.injected:
                reason = alone_of(adapter, one.take)
        if reason is not None:
            found[one.name] = reason
    return found


def _rows(
    how: str,
    played: list[Played],
    adapter: Adapter,
    others: Sequence[Recording] = (),
    *,
    has_families: bool = False,
) -> list[str]:
    """Print the lines of one run; return what is not right, by name."""
    known = excuses(adapter, played, others)
    families = sorted({one.take.recording.family for one in played}) if has_families else []
    unsteady = changing(played)
    for family in [*families, ALL]:
        part = [one for one in played if family in (ALL, one.take.recording.family)]
        names = {one.name for one in part}
        injected = [one for one in part if one.verdict.result is Result.INJECTED]
        lacking = [one for one in part if one.is_lacking]
        line = (
            len(part),
            sum(bool(one.verdict.wanted) for one in part),
            len(injected),
            sum(not one.verdict.notes for one in injected),
            sum(one.name in known for one in lacking),
            sum(one.name not in known for one in lacking),
            sum(one.partition(":")[0] in names for one in unsteady),
            sum(len(one.faults) for one in part),
        )
        print(ROW.format(how, family, *line), flush=True)  # noqa: T201
    return [
        *(f"{how}: WRONG {fault}" for one in played for fault in one.faults),
        *(f"{how}: UNSTEADY {one}" for one in unsteady),
        *(
            f"{how}: {one.name}: {', '.join(one.verdict.missing)} [{one.mark}]"
            for one in played
            if one.is_lacking and one.name not in known
        ),
    ]


def _notes(played: Iterable[Played]) -> list[str]:
    """List the injections that differ from what the client once sent."""
    return [
        f"{', '.join(sorted(one.verdict.notes))}: {one.name}"
        for one in played
        if one.verdict.result is Result.INJECTED and one.verdict.notes
    ]


def _reasons(
    adapter: Adapter, played: Sequence[Played], others: Sequence[Recording] = ()
) -> list[str]:
    """List the exchanges that are not restored, under their reasons."""
    known = excuses(adapter, played, others)
    names = [one.name for one in played if one.is_lacking and one.name in known]
    counted = Counter(known[name] for name in names)
    found = []
    for reason, count in counted.items():
        found.append(f"{count} known: {reason}")
        found += [f"  {name}" for name in names if known[name] is reason]
    return found


def _injected(played: Iterable[Played]) -> list[str]:
    """List what was injected for clients that drop reasoning by themselves."""
    return [
        f"injected: {one.name}: message {at}: {', '.join(str(atom) for atom in atoms)}"
        for one in played
        for at, atoms in one.verdict.injected.items()
    ]
