"""The memory for conversations, through the proxy: whose are dropped, and what the log says."""

from dataclasses import dataclass, field
from typing import Any

from tests.core.world import call, drawn, output, reasoning, user
from tests.web.wire import as_json, response, whole
from tests.web.world import MODEL, World, world

KB = 1 << 10


@dataclass(slots=True)
class Agent:
    """A client that drops reasoning, with a key of its own, and a conversation that goes on."""

    proxy: World
    tenant: str
    name: str = ""
    size: int = 4 * KB
    said: list[Any] = field(default_factory=list)

    async def turn(self) -> str:
        """Take a turn; return how the request was decided on."""
        name = f"{self.tenant}{self.name} {len(self.said)}"
        self.said = self.said or [user(f"{self.name}: " + "x" * self.size)]
        emitted = [reasoning(name), call(name)]
        answer = as_json(response(*emitted) | {"id": f"resp_{drawn(name)}"})
        self.proxy.upstream.answers(whole(answer))
        before = self._ways()
        body = {"model": MODEL, "input": self.said}
        key = f"Authorization: Bearer sk-{self.tenant}"
        await self.proxy.post(body, key, "Content-Type: application/json")
        seen = self.proxy.sent()["input"]
        assert [item.get("type") for item in seen].count("reasoning") == len(self.said) // 2
        self.said += [emitted[1], output(emitted[1])]
        after = self._ways()
        return next(way for way, count in after.items() if count > before.get(way, 0))

    def _ways(self) -> dict[str, float]:
        families = self.proxy.app.metrics.registry.collect()
        return {
            sample.labels["way"]: sample.value
            for family in families
            for sample in family.samples
            if sample.name == "reasoning_replay_decisions_total"
            and sample.labels["dialect"] == "responses"
        }


async def test_a_stranger_drops_only_its_own_conversations() -> None:
    """Ten agents of one tenant keep theirs, whatever another tenant sends meanwhile."""
    async with world(local_max_bytes=1024 * KB) as w:
        agents = [Agent(w, "a", f"{n}") for n in range(10)]
        for _ in range(3):
            assert {await agent.turn() for agent in agents} <= {"new", "short"}
        strangers = [Agent(w, "b", f"{n}", 300 * KB) for n in range(6)]
        for _ in range(3):
            ways = [await stranger.turn() for stranger in strangers]
            assert [await agent.turn() for agent in agents] == ["short"] * 10

        assert set(ways) == {"forgotten"}
        assert w.counted("local_evicted_total") >= 6
        assert 512 * KB < w.counted("local_bytes") <= 1024 * KB


async def test_a_conversation_larger_than_the_memory_is_told_apart() -> None:
    """It loses what was decided, which can be decided again, and no reasoning."""
    async with world(local_max_bytes=40 * KB) as w:
        agent = Agent(w, "a", size=64 * KB)
        assert [await agent.turn() for _ in range(4)] == ["new", "new", "too_large", "too_large"]
        assert w.counted("local_max_bytes") == 40 * KB
        assert w.counted("local_evicted_total") == 0
