"""Weak names, through the running app: ids that recur are no proof, in one proxy and in two."""

import pytest

from tests.core.world import call, dropped, message, nameless, output, reasoning, user
from tests.e2e.chats import Tenant, injected
from tests.fast_lane import first

RECURRING = "call_a8K2mPqZ7Lx93Qw5Rt61Vb4c"
LOOK = "Let me look."


class Talk:
    """A conversation of a client that drops reasoning, and all ids of items if it does not keep."""

    def __init__(self, tenant: Tenant, name: str, *, keeps_ids: bool) -> None:
        self._tenant, self._name, self._keeps_ids = tenant, name, keeps_ids
        self._whole = [user(f"What is the weather in the city {name}?")]
        self._turns = self.restored = self.due = 0

    async def go_on(self) -> None:
        """Send the history; all that upstream gets is at its place. Add a response and a reply."""
        told = dropped(self._whole)
        name, calls = f"{self._name}.{self._turns}", not self._turns
        arguments = f'{{"city":"{self._name}"}}'
        deed = call(name, call_id=RECURRING, arguments=arguments) if calls else message(name, LOOK)
        seen = await self._tenant.ask(told, reasoning(name), deed)

        assert seen == [item for item in self._whole if item in seen]
        assert dropped(seen) == told
        self.restored += len(seen) - len(told)
        self.due += len(self._whole) - len(told)
        self._turns += 1
        kept = [reasoning(name), deed] if self._keeps_ids else [injected(name), nameless(deed)]
        self._whole += [*kept, output(deed) if calls else user("And now?")]


@pytest.mark.parametrize("keeps_ids", [True, False], ids=["ids-kept", "ids-dropped"])
@pytest.mark.parametrize("number", first(1, [10, 7, 50]))
async def test_a_call_id_of_many_conversations(
    tenant: Tenant, number: int, *, keeps_ids: bool
) -> None:
    """
    Conversations with a common `call_id` get their own reasoning, and all of it if ids are kept.

    The ids of the other items are random. One conversation begins a request earlier than the
    others, so a proxy may hold a copy of it alone.
    """
    talks = [Talk(tenant, f"{n}", keeps_ids=keeps_ids) for n in range(number)]
    await talks[0].go_on()
    for _ in range(3):
        for talk in talks:
            await talk.go_on()

    assert not keeps_ids or [talk.restored for talk in talks] == [talk.due for talk in talks]
