"""Random worlds of the Responses API."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from reasoning_replay.core.dialects.captures import Capture, Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.request_history import RequestHistory
from typing_extensions import override

from tests.core.world import answer
from tests.core.worlds.dialect import CAPTURE_MAX_BYTES, MODEL, WorldDialect
from tests.core.worlds.habits import Habits
from tests.core.worlds.said import Said

SHAPES = (
    "R C",
    "R C",
    "R M C",
    "R C C",
    "R M",
    "C",
    "R C R C",
    "R M M",
)


class ResponsesWorld(WorldDialect):
    """Items have ids, and upstream may store them."""

    name = "responses"
    shapes: ClassVar[tuple[str, ...]] = SHAPES
    cannot = frozenset()

    @override
    def stores(self, request: RequestHistory[HistoryItem]) -> bool:
        return isinstance(request, Request) and request.stores

    @override
    def around(self, more: Mapping[str, Any]) -> str:
        return json.dumps(more)

    @override
    def habits(self, habits: Habits) -> Habits:
        return habits

    @override
    def zero_name(self, conversation: int, n: int) -> str:
        return f"call_{n}"

    @override
    def request_of(self, sent: Sequence[Said], more: dict[str, Any]) -> RequestHistory[HistoryItem]:
        top = {"model": MODEL, "input": [said.item for said in sent], **more}
        return read_request(json.dumps(top).encode(), {})

    @override
    def injected(
        self, request: RequestHistory[HistoryItem], matched: Matches
    ) -> Mapping[int, list[str]]:
        assert isinstance(request, Request)
        plan = plan_injection(request, matched, GENERIC)
        starts = {place.item.start: n for n, place in enumerate(request.places)}
        injected: dict[int, list[str]] = defaultdict(list)
        for edit in plan.edits:
            if b'"reasoning"' in edit.new:
                blob = json.loads(edit.new.rstrip(b","))["encrypted_content"]
                injected[starts[edit.start]].append(blob)
        return injected

    @override
    def response_of(self, said: Sequence[Said]) -> bytes:
        items = [each.item for each in said]
        return answer(items, f"resp_{self.draw()}", model=MODEL, store=False)

    @override
    def capturing(self, origin: Origin) -> Capture:
        return ResponsesCapture(origin, CAPTURE_MAX_BYTES)
