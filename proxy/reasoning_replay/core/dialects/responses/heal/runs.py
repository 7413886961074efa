"""Runs: consecutive reasoning with the items after it, and the edits that keep them consistent."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from reasoning_replay.core.dialects.responses.heal.draft import Draft, is_answered, is_output
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.dialects.responses.profiles import Ids, Profile
from reasoning_replay.core.history.items import Role

__all__ = ["Run", "remove_lone_ids", "remove_reasoning", "runs_of", "send_by_value"]


class Run(NamedTuple):
    """
    Consecutive reasoning and the model items after it, up to the next reasoning or client message.

    Attributes:
        later: Model items that come after an output: they may be of the same group.
    """

    reasoning: list[ResponsesItem]
    group: list[ResponsesItem]
    later: list[ResponsesItem]

    @property
    def emitted(self) -> list[ResponsesItem]:
        """The items of the group and the later ones that may be edited; no references."""
        return [item for item in (*self.group, *self.later) if item.role is Role.MODEL]


def runs_of(items: Sequence[ResponsesItem]) -> Iterator[Run]:
    """Yield every run of reasoning with the items after it, which may be none."""
    run, has_output = Run([], [], []), False
    for item in items:
        is_next = item.is_reasoning and (run.group or has_output)
        if is_next or not (item.is_reasoning or is_output(item) or _is_emitted(item)):
            if run.reasoning:
                yield run
            run, has_output = Run([], [], []), False
        if item.is_reasoning:
            run.reasoning.append(item)
        elif run.reasoning and is_output(item):
            has_output = True
        elif run.reasoning and _is_emitted(item):
            (run.later if has_output else run.group).append(item)
    if run.reasoning:
        yield run


def remove_reasoning(draft: Draft, refused: Collection[ResponsesItem]) -> None:
    """
    Remove reasoning, and with it everything that would require it.

    That is the ids of its group, and each hosted item with a required id: it cannot stay without
    its other half. If only a part of a run is removed, the rest loses its ids too.
    """
    gone = set(refused)
    for run in runs_of(draft.items) if gone else ():
        if gone.isdisjoint(run.reasoning):
            continue
        gone.update(item for item in run.reasoning if not item.blob)
        draft.leave_out("id", *[item for item in run.reasoning if item not in gone])
        draft.leave_out("id", *[item for item in run.emitted if item.id_is_optional])
        if gone.issuperset(run.reasoning):
            gone.update(item for item in run.group if _is_hosted(item))
    draft.remove(gone)


def send_by_value(
    draft: Draft, run: Run, profile: Profile, own: Collection[str] | None = None
) -> bool:
    """
    Remove the ids of a run and of its group, so that nothing is paired by id.

    Args:
        draft: The request.
        run: Reasoning and the items after it.
        profile: Profile of the upstream.
        own: Ids of the group, if it was captured; None means the items directly after the run.

    Returns:
        False if one of them cannot be sent without its id; then nothing is changed.
    """
    if profile.ids is Ids.REQUIRED or not all(item.blob for item in run.reasoning):
        return False
    if own is None:
        named = [item for item in run.group if item.id and item.role is Role.MODEL]
    else:
        named = [item for item in (*run.group, *run.later) if item.id and item.id in own]
    if not all(item.role is Role.MODEL and item.id_is_optional for item in named):
        return False
    draft.leave_out("id", *run.reasoning, *named)
    return True


def remove_lone_ids(
    draft: Draft, spares: Callable[[ResponsesItem], bool] = lambda _: False, hosted: str = ""
) -> None:
    """
    Remove the ids of items without reasoning before them, where the API accepts that.

    Args:
        draft: The request.
        spares: Predicate for items that keep their id.
        hosted: Type of hosted items that are removed, as their id is required; "" for none.
    """
    covered = {item for run in runs_of(draft.items) for item in run.group}
    lone = [item for item in draft.items if item.role is Role.MODEL and item not in covered]
    lone = [item for item in lone if not spares(item)]
    draft.leave_out("id", *[item for item in lone if item.id_is_optional])
    draft.remove({item for item in lone if item.type == hosted and _is_hosted(item)})


def _is_emitted(item: ResponsesItem) -> bool:
    return item.role in (Role.MODEL, Role.REFERENCE)


def _is_hosted(item: ResponsesItem) -> bool:
    """Return whether the item needs no output and has an id that the API requires."""
    is_own = item.role is Role.MODEL and not item.id_is_optional
    return is_own and bool(item.id) and not is_answered(item.type, item.call_id)
