"""Prefix walk: reasoning that is bound to a history is injected after that history alone."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.anthropic.profiles import GENERIC

from tests.core.dialects.anthropic.streams import MODEL, THOUGHT, answer, call, text, thought
from tests.core.dialects.anthropic.tenant import (
    BOUND,
    Message,
    Tenant,
    assistant,
    body_of,
    dialect_of,
    dropped,
    result,
    user,
)

TOOLS = [{"name": "add", "input_schema": {"type": "object"}}]
TOP: dict[str, Any] = {"model": BOUND, "system": "Be good.", "tools": TOOLS}


class Client:
    """A client of a model that binds, with a history that has all reasoning."""

    def __init__(self, **top: Any) -> None:
        self.tenant = Tenant()
        self.top = TOP | top
        self.history: list[Message] = [user("Start with number 0, please.")]

    def turn(
        self,
        *,
        fails: bool = False,
        passes: bool = False,
        inner: bool = False,
        model: str = MODEL,
    ) -> None:
        """Send the history without reasoning, and add the next response to it, by that model."""
        n = len(self.history)
        made = [thought(f"T{n}", f"S{n}"), text(f"This is the answer number {n} to that.")]
        if inner:
            made += [thought("", f"I{n}"), call("add", f"toolu_01QiEjkBaC9vDtcLcog{n:04}")]
        if passes:
            self.history.append(assistant(*made))
        else:
            body = body_of(dropped(self.history), **self.top)
            decided = self.tenant.decide(body, fails=fails)
            self.tenant.keep(decided, answer(*made, model=model))
            self.history.append(assistant(*made))
        calls = [block["id"] for block in made if block["type"] == "tool_use"]
        self.history.append(result(*calls) if calls else user(f"Go on after number {n}, please."))

    def received(self, sent: list[Message] | None = None, **top: Any) -> list[str]:
        """Return the signatures that upstream receives, for the whole history or another one."""
        body = body_of(dropped(self.history) if sent is None else sent, **(self.top | top))
        messages = json.loads(self.tenant.decide(body).body)["messages"]
        return [
            block["signature"]
            for message in messages
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "thinking"
        ]


def client(turns: int = 3, **top: Any) -> Client:
    """Return a client after some turns."""
    made = Client(**top)
    for _ in range(turns):
        made.turn()
    return made


def test_a_paused_turn_in_a_bound_history() -> None:
    """Its continuation is bound to it, whether the client sends one message or two."""
    tenant = Tenant()
    ask, go = user("Start with number 0, please."), user("Go on, please.")
    search = call("web_search", "srvtoolu_01GUk7pHBFbRVEoNiViomUfx", "server_tool_use", query="x")
    found = {"type": "web_search_tool_result", "tool_use_id": search["id"], "content": []}
    first = tenant.learn([ask], THOUGHT, search, reason="pause_turn", model=BOUND)
    second = tenant.learn(
        dropped([ask, first]), found, thought("", "Eh=="), text("Found."), model=BOUND
    )
    third = tenant.learn(
        dropped([ask, first, second, go]), thought("", "Et=="), text("Done."), model=BOUND
    )
    history = [ask, first, second, go, third, go]
    assert tenant.send(dropped(history), BOUND) == history
    merged = [ask, assistant(*first["content"], *second["content"]), *dropped(history[3:])]
    assert tenant.send(merged, BOUND) == [*merged[:2], *history[3:]]


@pytest.mark.parametrize("change", [{"system": "Be bad."}, {"tools": []}, {"system": None}])
def test_other_instructions_or_tools_unbind_everything(change: dict[str, Any]) -> None:
    """They precede every message."""
    mine = client()
    assert mine.received(**change) == []
    assert mine.received() == ["S1", "S3", "S5"]


def test_an_edit_stays_an_edit() -> None:
    """The conversation goes on after the edit, with the reasoning that was made there."""
    mine = client()
    mine.history = [*mine.history[:2], user("I said something else, and I meant that.")]
    assert mine.received() == ["S1"]
    mine.turn()
    mine.turn()
    assert mine.received() == ["S1", "S3", "S5"]
    kept = mine.tenant.send(dropped(mine.history), **mine.top)
    assert kept == mine.history


def test_edited_text_of_the_model_unbinds_what_follows() -> None:
    """The message itself gets nothing, because its blocks are not those of its turn."""
    mine = client()
    sent = dropped(mine.history)
    sent[1] = assistant(text("This is not what the model has said in number 1."))
    assert mine.received(sent) == []


def test_respelled_text_before_a_later_run() -> None:
    """Within a message, the exact text before its last run counts."""
    mine = Client()
    mine.turn(inner=True)
    sent = dropped(mine.history)
    assert mine.received(sent) == ["S1", "I1"]
    sent[1]["content"][0]["text"] += " "
    assert mine.received(sent) == []
    outer = client(1)
    sent = dropped(outer.history)
    sent[1]["content"][0]["text"] += " "
    assert outer.received(sent) == ["S1"]


def test_what_was_missed_stays_missed() -> None:
    """Upstream never saw that message with its reasoning, and later turns are bound to that."""
    mine = client(1)
    mine.turn(fails=True)  # sent without S1
    mine.turn()
    assert mine.received() == ["S3", "S5"]
    for _ in range(3):
        mine.turn()
    assert mine.received()[:2] == ["S3", "S5"]
    assert "S1" not in mine.received()


def test_what_was_missed_is_injected_if_no_later_turn_is_bound_to_its_absence() -> None:
    """Right after a failed lookup, or if the client forgets the turn that was made without it."""
    mine = client(1)
    first = list(mine.history)
    mine.turn(fails=True)
    assert mine.received(dropped(first)) == ["S1"]


def test_reasoning_after_a_turn_that_the_store_has_evicted() -> None:
    """The newest contiguous blocks go back: a head may be missing, a hole may not be made."""
    mine = client()
    turns = mine.tenant.store.turns
    del turns[next(iter(turns))]
    assert mine.received() == ["S3", "S5"]
    mine.turn()
    mine.turn()
    assert mine.received() == ["S3", "S5", "S7", "S9"]
    del turns[list(turns)[1]]
    assert mine.received() == ["S7", "S9"]
    mine.turn()
    assert mine.received() == ["S7", "S9", "S11"]


def test_a_hole_that_the_client_makes_is_filled() -> None:
    """It keeps its newer blocks, which record the one that it dropped."""
    mine = client()
    sent = [*mine.history[:2], *dropped(mine.history[2:4]), *mine.history[4:]]
    assert mine.received(sent) == ["S1", "S3", "S5"]


def test_no_hole_is_made_after_a_block_of_the_client() -> None:
    """What was made after a block that is lost stays away; the client's own blocks stay."""
    mine = client(4)
    turns = mine.tenant.store.turns
    del turns[list(turns)[1]]
    sent = [*mine.history[:2], *dropped(mine.history[2:])]
    assert mine.received(sent) == ["S1"]
    outcomes = mine.tenant.decide(body_of(sent, **mine.top)).outcomes
    assert outcomes.get("guarded_prefix") == 2  # type: ignore[call-overload]
    sent[5] = mine.history[5]  # its predecessor is lost, so nothing older is injected
    assert mine.received(sent) == ["S1", "S5", "S7"]
    assert mine.received([*dropped(sent[:2]), *sent[2:]]) == ["S5", "S7"]


@pytest.mark.parametrize("kept", [0, 1])
def test_a_part_of_a_turn_that_the_client_sends(kept: int) -> None:
    """It is completed after its own history, and what it was made after stays; else it is alone."""
    mine = client(1)
    mine.turn(inner=True)
    mine.turn()
    sent = dropped(mine.history)
    thought_, said, inner, called = mine.history[3]["content"]
    sent[3] = assistant(*[[said, inner], [thought_, said]][kept], called)
    assert mine.received(sent) == ["S1", "S3", "I3", "S5"]
    sent[0] = user("I said something else, and I want that to count.")
    assert mine.received(sent) == ["I3" if not kept else "S3"]


def test_a_part_that_a_later_turn_was_made_after_stays_a_part() -> None:
    """Upstream saw it so: the later turn records the last block of the part."""
    mine = client(1)
    mine.turn(inner=True)
    whole = mine.history[3]
    thought_, said, _, called = whole["content"]
    mine.history[3] = assistant(thought_, said, called)
    body = body_of([*dropped(mine.history[:3]), *mine.history[3:]], **mine.top)
    decided = mine.tenant.decide(body, fails=True)
    later = [thought("", "L"), text("This is said after a part of it.")]
    mine.tenant.keep(decided, answer(*later))
    mine.history += [assistant(*later), user("Go on, please.")]
    sent = dropped(mine.history)
    sent[3] = mine.history[3]
    assert mine.received(sent) == ["S3", "L"]
    sent[3] = whole
    assert mine.received(sent) == ["S1", "S3", "I3"]


def test_unknown_turns_tell_nothing() -> None:
    """A turn that was made without the proxy, and that the client sends without reasoning."""
    mine = client(1)
    mine.turn(passes=True)
    mine.turn()
    assert mine.received() == ["S1", "S5"]
    mine.turn()
    assert mine.received() == ["S1", "S5", "S7"]


def test_the_clients_own_reasoning_is_never_damaged() -> None:
    """It may be bound to a history without what the proxy knows."""
    mine = client(1)
    mine.turn(passes=True)
    sent = dropped(mine.history)
    sent[3] = mine.history[3]
    assert mine.received(sent) == ["S3"]

    known = client(3)
    sent = dropped(known.history)
    sent[3] = known.history[3]
    assert known.received(sent) == ["S1", "S3", "S5"]


def test_a_turn_of_another_model_is_no_part_of_this() -> None:
    """Models that bind nothing need no history."""
    mine = client(2, model="claude-opus-4-6")
    sent = dropped(mine.history)
    sent[0] = user("I said something else, and I want that to count.")
    assert mine.received(sent) == ["S1", "S3"]
    assert not any(turn.binding for turn in mine.tenant.store.turns.values())


def test_the_response_names_the_model_of_an_alias() -> None:
    """A gateway's own name may lead to a model that binds; the edit comes before its reasoning."""
    mine = Client(model="smart")
    mine.tenant = Tenant(dialect_of(GENERIC))
    for _ in range(3):
        mine.turn(model=BOUND)
    assert mine.received() == ["S1", "S3", "S5"]
    sent = dropped(mine.history)
    sent[2] = user("I said something else, and I want that to count.")
    assert mine.received(sent) == ["S1"]


def test_an_alias_that_leads_to_another_model_from_now_on() -> None:
    """What was injected before stays; reasoning of which the history is not known is guarded."""
    mine = Client(model="smart")
    mine.tenant = Tenant(dialect_of(GENERIC))
    mine.turn()
    mine.turn()
    assert mine.received() == ["S1", "S3"]
    mine.turn(model=BOUND)
    assert mine.received() == ["S1", "S3"]
    mine.turn(model=BOUND)
    assert mine.received() == ["S1", "S3", "S7"]


def test_a_turn_without_a_binding_is_guarded() -> None:
    """After a cure, it is not known what its reasoning is bound to."""
    mine = Client()
    body = body_of(mine.history, **mine.top)
    decided = mine.tenant.decide(body)
    mine.tenant.keep(decided, answer(THOUGHT, text("This is the answer.")), is_cured=True)
    mine.history += [assistant(THOUGHT, text("This is the answer.")), user("Go on, please.")]
    assert mine.received() == []
    mine.turn()
    assert mine.received() == ["S3"]


def test_the_result_of_a_failed_lookup_is_bound_to_what_was_sent() -> None:
    """Without a lookup, and in shadow mode, the request is sent as it is."""
    mine = Client()
    mine.turn(fails=True)
    assert mine.received() == ["S1"]
