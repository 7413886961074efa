"""Crowd: the clients of a random world, with random habits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from tests.core.worlds.dialect import WorldDialect
from tests.core.worlds.habits import ALL_HABITS, CLEAN, NEW_HABITS, OF_WORLDS, Habits
from tests.core.worlds.said import Said

CONVERSATIONS = 4
# Share of the clients that have a habit.
RARE = {
    "loses": 0.1,
    "drops": 0.1,
    "renumbers": 0.1,
    "retrieval": 0.1,
    "shared": 0.1,
    "same": 0.1,
    "users_same": 0.1,
    "cut": 0.1,
    "is_twin": 0.05,
}
# Numbers of conversations: with recurring ids, and in batches.
CROWDS, BATCHES = (4, 8, 12), (8, 12, 20, 50)
USUAL, SOMETIMES, OFTEN = 0.05, 0.2, 0.7  # shares of the clients that have a new habit


@dataclass(frozen=True)
class New:
    """
    Choice of new habits.

    Attributes:
        shares: Share of the clients that have each, or of the worlds.
        has_shapes: Whether each client has one to four habits, of all.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    has_shapes: bool = False

    @property
    def option(self) -> str:
        """The option of the command that chooses the same."""
        if self.has_shapes:
            return " --shapes"
        if self.shares == FEW.shares:
            return " --new"
        is_clean = self.shares == CLEAN_ONES.shares
        return " --clean" if is_clean else " ".join([" --new", *self.shares] if self.shares else [])


NOTHING_NEW = New()
FEW = New(dict.fromkeys(NEW_HABITS, USUAL))
CLEAN_ONES = New(dict.fromkeys(CLEAN, SOMETIMES))


@dataclass
class Conversation:
    """
    One conversation as its client holds it.

    Attributes:
        dice: Random source of its content; twins start with equal ones.
        words_of: Number of the first conversation with the same words.
        has_twin: Whether it is a twin or has one.
        seen: The input that upstream received last.
        asked: Number of its exchanges.
        ahead: The conversation that this one repeats later, if it does.
        lag: Number of exchanges that the other one is ahead when this one begins.
    """

    number: int
    habits: Habits
    dice: Random
    words_of: int
    has_twin: bool = False
    history: list[Said] = field(default_factory=list)
    counted: int = 0
    seen: list[str] | None = None
    asked: int = 0
    ahead: "Conversation | None" = None
    lag: int = 0


class Crowd:
    """
    The clients of one world.

    Attributes:
        people: Their conversations.
        newly: Random source of new habits.
    """

    def __init__(self, number: int, new: New, dialect: WorldDialect, dice: Random) -> None:
        self._dice, self._dialect = dice, dialect
        self._rarely = Random(f"rarely {number}")  # noqa: S311 - random, and the same each time
        self.newly = Random(f"new {number}")  # noqa: S311 - as above
        self.people: list[Conversation] = []
        shared, size = self._of_world(new)
        for n in range(size):
            habits = self._with(self._with_new(self._rare(self._habits()), new), shared)
            if shared & {"batch"} and n:
                habits = self.people[0].habits  # one program
            one = Conversation(n, habits, dice, n)
            if n and (one.habits.is_twin or one.habits.is_late) and "batch" not in shared:
                self._make_twins(self.people[-1], one, number)
            else:
                one.habits = replace(one.habits, is_late=False)
            self.people.append(one)

    def _make_twins(self, before: Conversation, one: Conversation, number: int) -> None:
        if one.habits.is_late and not before.has_twin:
            before.habits = NEW_HABITS["late"](before.habits, self.newly)
        if before.habits.is_late:
            one.ahead, one.lag = before.ahead or before, self.newly.choice((1, 2, 4))
        one.words_of, one.habits = before.words_of, replace(before.habits, is_twin=True)
        for each in (before, one):
            each.has_twin = True
            each.dice = Random(f"{number} {one.words_of}")  # noqa: S311 - as above

    def _habits(self) -> Habits:
        pick, chance = self._dice.choice, self._dice.random
        habits = Habits(
            ids=pick(["kept", "dropped", "dropped"]),
            naming=pick(["random", "random", "counted", "zero"]),
            words=pick(["rare", "common", "mixed"]),
            user_words=pick(["rare", "common", "mixed"]),
            has_tools=pick([True, False]),
            window=pick([0, 0, 0, 0, 2, 3]),
            frame=pick(["none", "same", "clock", "dev_clock"]),
            environment=pick(["none", "none", "none", "head", "newest"]),
            bypass=pick([0, 0, 0, 0.2]),
            fails=pick([0, 0, 0, 0.2]),
            retry=pick([0, 0, 0.15]),
            fork=pick([0, 0, 0.1]),
            name="own" if chance() < 0.3 else "none",
            clears=chance() < 0.1,
            rewrites=chance() < 0.1,
            interleaves=chance() < 0.2,
        )
        return self._dialect.habits(habits)

    def _rare(self, habits: Habits) -> Habits:
        """Return habits with rare ones added at random."""
        given = {name for name, share in RARE.items() if self._rarely.random() < share}
        return replace(
            habits,
            cut=8 if "cut" in given else 0,
            loses=0.2 if "loses" in given else 0,
            drops="drops" in given,
            renumbers="renumbers" in given,
            is_twin="is_twin" in given,
            environment="retrieval" if "retrieval" in given else habits.environment,
            name="shared" if "shared" in given else habits.name,
            words="same" if "same" in given else habits.words,
            user_words="same" if "users_same" in given else habits.user_words,
        )

    def _of_world(self, new: New) -> tuple[frozenset[str], int]:
        """Return the new habits of all clients, and their number."""
        shares = dict.fromkeys(OF_WORLDS, USUAL) if new.has_shapes else new.shares
        given = {name for name in OF_WORLDS if name in shares}
        shared = {name for name in sorted(given) if self.newly.random() < shares[name]}
        recurring = sorted(shared - {"batch"})
        if recurring:
            shared -= set(recurring) - {self.newly.choice(recurring)}
        if "batch" in shared:
            return frozenset(shared), self.newly.choice(BATCHES)
        return frozenset(shared), self.newly.choice(CROWDS) if shared else CONVERSATIONS

    def _with_new(self, habits: Habits, new: New) -> Habits:
        """Return the habits of one client with new ones."""
        if new.has_shapes:
            names = sorted(ALL_HABITS.keys() - OF_WORLDS - self._dialect.cannot)
            given = self.newly.sample(names, self.newly.randint(1, 4))
        else:
            names = sorted(new.shares.keys() - OF_WORLDS - self._dialect.cannot)
            given = [name for name in names if self.newly.random() < new.shares[name]]
        return self._with(habits, given)

    def _with(self, habits: Habits, names: Iterable[str]) -> Habits:
        for name in sorted(names):
            habits = ALL_HABITS[name](habits, self.newly)
        return habits
