"""
Sessions: `python -m tests.demand.sessions` plays each row of the survey as a session.

The client makes the mistake of the row once, and keeps what it got: its history has the fault in
each of ten turns. Printed are the requests that upstream refused, for a hundred of the client's.
"""

import asyncio
import sys

from tests.demand.notation import Item
from tests.demand.rows import TABLE, Scenario
from tests.demand.table import set_up

TURNS = 10
STATEFUL = {"previous_response_id", "conversation"}


async def played(scenario: Scenario) -> tuple[int, int, int]:
    """Play a session; return the client's requests, upstream's refusals and the client's."""
    refused = failed = asked = 0
    async with set_up(scenario, stream=scenario.streams[0]) as stage:
        sent: list[Item] = list(stage.sent)
        for turn in range(TURNS):
            before = len(stage.api.received)
            body = stage.client.last(sent, stage.past)
            answer = await stage.client.send(stage.proxy, body)
            asked += 1
            tries = len(stage.api.received) - before
            is_refused = answer.status != 200 or bool(answer.said)
            refused += tries - (not is_refused)
            failed += is_refused
            if is_refused:
                break
            question: Item = {"role": "user", "content": f"And on day {turn}?"}
            sent += [*stage.client.kept(answer.raw), question]
    return asked, refused, failed


async def main() -> None:
    """Play all rows that a client can go on with, and print the figures."""
    asked = refused = failed = rows = 0
    told: list[str] = []
    for scenario in TABLE:
        if scenario.want is None or not STATEFUL.isdisjoint({*scenario.body, *scenario.last}):
            continue
        rows += 1
        of_row = await played(scenario)
        asked, refused, failed = asked + of_row[0], refused + of_row[1], failed + of_row[2]
        if of_row[1] > 1 or of_row[2]:
            told.append(f"{scenario.row} {scenario.title}: {of_row[1]} of {of_row[0]} refused")
    share = 100 * refused / asked
    told.append(
        f"{rows} rows, {asked} requests, {refused} refused at upstream ({share:.1f} per hundred)"
    )
    told.append(f"{failed} sessions ended in a refusal")
    sys.stdout.write("\n".join([*told, ""]))


if __name__ == "__main__":
    asyncio.run(main())
