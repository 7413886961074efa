"""
Table of the runs of the Responses API: one line for each run.

`to inject` counts the exchanges in which the client dropped reasoning, and the columns after it say
what became of them; `head` counts those in which only a text that begins the request lacks its
reasoning, and nothing proves whose it is. The result is right if `unexplained` and `wrong` are 0;
each exchange counted there is listed below the table.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import Sequence

from tests.recordings.responses import tape
from tests.recordings.responses.client import Variant
from tests.recordings.responses.heads import is_unproved
from tests.recordings.responses.runs import Played, alone, mix, one_tenant, own
from tests.recordings.responses.twins import ambiguous
from tests.recordings.runner import Result
from tests.redis_server import redis_server

HEAD = (
    "run",
    "client",
    "exchanges",
    "to inject",
    "injected",
    "ambiguous",
    "no blob",
    "head",
    "unexplained",
    "wrong",
)
ROW = "{:<26} {:<22} {:>9} {:>10} {:>8} {:>9} {:>8} {:>5} {:>11} {:>5}"


def print_table() -> list[str]:
    """Play all recordings and print the results; return what is wrong or unexplained."""
    print(ROW.format(*HEAD))  # noqa: T201
    told: list[str] = []
    dropping = [variant for variant in Variant if variant is not Variant.AS_RECORDED]
    for variant in dropping:
        for seed, how in ((None, "alone"), (1, "alone, responses in pieces")):
            played = asyncio.run(alone(tape.load("oracle"), variant, seed))
            told += _row(how, variant, played)
        played = asyncio.run(own(tape.load("oracle"), variant))
        told += _row("alone, own profile", variant, played)
    for variant in dropping if shutil.which("redis-server") else ():
        with redis_server() as server:
            played, complaints = asyncio.run(one_tenant(mix(), variant, server.url))
        told += _row("one tenant, two proxies", variant, played, ambiguous(variant)) + complaints
    for kind in ("oracle", "dropped", "plain", "stateful", "stream", "error"):
        played = asyncio.run(alone(tape.load(kind), Variant.AS_RECORDED))
        told += _row(kind, Variant.AS_RECORDED, played)
        played = asyncio.run(own(tape.load(kind), Variant.AS_RECORDED))
        told += _row(f"{kind}, own profile", Variant.AS_RECORDED, played)
    sealed = [tape.sealed(recording) for recording in tape.load("dropped")]
    for how, run in (("dropped, sealed", alone), ("dropped, sealed, own", own)):
        played = asyncio.run(run(sealed, Variant.AS_RECORDED))
        told += _row(how, Variant.AS_RECORDED, played)
    return told


def _row(how: str, variant: Variant, played: list[Played], known: Sequence[str] = ()) -> list[str]:
    """Print one line of the table; return the wrong and the unexplained exchanges, by name."""
    counted = Counter(one.verdict.result for one in played)
    wrong = [fault for one in played for fault in one.faults]
    lacking = [one for one in played if one.is_lacking]
    # The recorded client did not ask for encrypted reasoning, so upstream sent none.
    unsealed = [
        one for one in lacking if one.take.recording.kind == "dropped" and not one.take.is_sealed
    ]
    heads = [one for one in lacking if is_unproved(one, variant) and one.name not in known]
    told = [one for one in lacking if one.name in known]
    open_ = [one for one in lacking if one not in told + unsealed + heads]
    line = (
        len(played),
        sum(bool(one.verdict.wanted) for one in played),
        counted[Result.INJECTED],
        len(told),
        len(unsealed),
        len(heads),
        len(open_),
        len(wrong),
    )
    print(ROW.format(how, variant, *line), flush=True)  # noqa: T201
    place = f"{how}, {variant}"
    return [f"{place}: WRONG {fault}" for fault in wrong] + [
        f"{place}: {one.name}: {one.verdict.result} [{one.mark}]" for one in open_
    ]
