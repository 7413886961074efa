"""Load: many parallel clients and their conversations, during failures of the store."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import aiohttp

from tests.soak.client import Conversation, Plan, Way
from tests.soak.habits import HABITS
from tests.soak.judge import Judge
from tests.soak.relay import dice
from tests.strict import LOOPS

TENANTS = [f"sk-soak-{letter}" for letter in "abcdef"]
WAYS: dict[Way, int] = {"stream": 6, "json": 3, "websocket": 3}
CITIES = ("Oslo", "Lima", "Bari", "Kyiv")


@dataclass
class Load:
    """
    All clients together.

    Attributes:
        urls: Base URLs of the replicas; each request goes to a random one.
        judge: Receives the claim of each request, and a report of each response.
        session: The session of all clients.
        seed: Seed of all choices.
        rate: Largest number of requests per second.
        ends_at: Time after which nothing more is started, on the monotonic clock.
        complaints: Returns the number of warnings in the proxies' logs.
        conversations: Number of conversations that came to an end.
        outages: Number of starts and ends of store failures.
    """

    urls: Sequence[str]
    judge: Judge
    session: aiohttp.ClientSession
    seed: str
    rate: float
    ends_at: float
    complaints: Callable[[], int]
    conversations: int = 0
    outages: int = 0
    _next_at: float = field(default_factory=time.monotonic)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _names: Iterator[int] = field(default_factory=itertools.count)

    def number(self) -> str:
        """Return the number of the next request."""
        return f"n{next(self._numbers)}"

    def failures(self) -> int:
        """Count the starts and ends of store failures: odd while the store fails."""
        return self.outages + 2 * self.complaints()

    async def slot(self) -> None:
        """Wait until another request may be sent."""
        now = time.monotonic()
        self._next_at = max(self._next_at + 1 / self.rate, now)
        await asyncio.sleep(self._next_at - now)

    def quits(self) -> bool:
        """Return whether it is time to end."""
        return time.monotonic() > self.ends_at

    async def run(self, clients: int) -> None:
        """Run parallel clients, each with one conversation after the other, until the end."""
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._client())

    async def _client(self) -> None:
        while not self.quits():
            name = f"c{next(self._names)}"
            chance = dice(self.seed, name)
            plan = _plan(name, chance)
            await Conversation(plan, self, chance).run()
            self.conversations += 1


def _plan(name: str, chance: Random) -> Plan:
    title = chance.choices(list(HABITS), [one.weight for one in HABITS.values()])[0]
    habit = HABITS[title]
    ways = dict(WAYS)
    if habit.is_stateful or habit.reasoning == "reference":
        ways.pop("websocket")
    is_like_another = chance.random() < 0.15
    opening = "" if is_like_another else f"{name}: "
    cities = CITIES[:1] if is_like_another else CITIES
    count = chance.choice([1, 2, 2, 3, 3, 4, 6, 10])
    questions = [
        f"{opening}Where does it rain, {at}, {chance.choice(cities)}?" for at in range(count)
    ]
    is_long = chance.random() < 0.05 and not is_like_another
    loop = chance.choice(list(LOOPS))
    way = chance.choices(list(ways), list(ways.values()))[0]
    return Plan(
        habit=habit,
        way=way,
        title=f"{name}, {title}, {way}",
        loop=loop,
        # Each loop has a separate stand-in, which does not know the tenants of the others.
        key=f"{chance.choice(TENANTS)}-{loop}",
        # Two parallel conversations may have one name, because some clients send the user's name.
        name=name if chance.random() < 0.8 else "shared",
        questions=questions,
        padding=chance.choice([50, 200, 400]) if is_long else 0,
        is_like_another=is_like_another,
    )
