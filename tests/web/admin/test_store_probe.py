"""Store probe: a store that failed is checked again, without a request."""

import pytest
from reasoning_replay.web.admin import store_probe

from tests.web.wire import ASK, CALL, RESULT, whole
from tests.web.world import Hooked, eventually, world


async def test_a_recovery_is_detected_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A recovery of the store is detected without a request.

    The process that saw the failure may get no other request for a long time.
    """
    monkeypatch.setattr(store_probe, "LOOK_S", 0.05)
    is_away, checks = True, 0

    async def fails(operation: str) -> None:
        nonlocal checks
        checks += operation == "check"
        if is_away:
            raise ConnectionError

    async with world() as w:
        w.app.store.inner = Hooked(w.app.store.inner, fails)
        w.upstream.otherwise = whole(b"{}")
        await w.turn(ASK, CALL, RESULT)
        assert w.counted("store_up") == 0
        await eventually(lambda: checks > 1)
        assert w.counted("store_up") == 0
        is_away = False
        await eventually(lambda: w.counted("store_up") == 1)


async def test_a_healthy_store_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A healthy store is not probed."""
    monkeypatch.setattr(store_probe, "LOOK_S", 0.0)
    asked: list[str] = []

    async def note(operation: str) -> None:
        asked.append(operation)

    async with world() as w:
        w.app.store.inner = Hooked(w.app.store.inner, note)
        w.upstream.otherwise = whole(b"{}")
        await w.get("/v1/models")
        await w.get("/v1/models")
    assert asked == []
