"""Processes that share a store notice that they have different scope secrets."""

from collections.abc import Sequence
from typing import Any

import pytest
from reasoning_replay.adapters.resilience.safe_store import SafeStore

from tests.redis_server import RedisServer
from tests.web.world import Logged, eventually, logged, world

OLD, NEW, OTHER = "of last year" * 3, "of this year" * 3, "of another" * 3
EVENT = "scope_secrets_differ"


@pytest.fixture(params=["sqlite", "redis"])
def store_url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    """A store that processes may share."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/replay.db"
    own: RedisServer = request.getfixturevalue("own_redis")
    return own.url


@pytest.mark.parametrize(
    ("secrets", "differ"),
    [
        ([OLD, OLD], False),
        ([OLD, f"{OLD},{NEW}", f"{NEW},{OLD}", NEW], True),  # too fast: the old one is still there
        ([OLD, f"{OLD},{NEW}", f"{NEW},{OLD}"], False),
        ([f"{NEW},{OLD}", NEW], False),
        ([OLD, OTHER], True),
        ([OLD, ""], True),
        (["", f"{NEW},"], False),
    ],
)
async def test_the_last_one_says_so(
    store_url: str,
    capsys: Logged,
    monkeypatch: pytest.MonkeyPatch,
    secrets: list[str],
    differ: bool,
) -> None:
    """When it starts; the pair of a rotation is no difference."""
    met, meet = 0, SafeStore.meet

    async def counted(store: SafeStore, own: bytes) -> Sequence[bytes]:
        nonlocal met
        marks = await meet(store, own)
        met += 1
        return marks

    monkeypatch.setattr(SafeStore, "meet", counted)
    for nth, secret in enumerate(secrets, 1):
        async with world(store_url=store_url, scope_secret=secret):
            await eventually(lambda nth=nth: met == nth)  # type: ignore[misc]
            said = logged(capsys, EVENT)
        assert len(said) == (differ and nth == len(secrets))
    assert not said or "in a rotation as new,old" in said[0]["hint"]
