"""
Plugin of pytest: the fixture `strict_api`, a strict API for tests of a client.

It listens on loopback, in a thread of its own, so it serves blocking and asynchronous clients.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from reasoning_replay.strict_api import StrictApi
    from reasoning_replay.verify.report import Run

__all__ = ["ServedApi", "pytest_configure", "strict_api"]

MARKER: Final = (
    "strict_api(scenario, strict): what the model of the fixture strict_api does, such as"
    ' "parallel", and whether it refuses losses that the vendors accept in silence'
)


class ServedApi:
    """
    A strict API that listens.

    Attributes:
        openai_base_url: Base URL for OpenAI's SDKs, `/v1` included.
        anthropic_base_url: Base URL for Anthropic's SDKs.
        gemini_base_url: Base URL for Google's SDKs.
    """

    def __init__(self, api: "StrictApi", *, is_strict: bool) -> None:
        self._api = api
        self._is_strict = is_strict
        self.openai_base_url = api.base_url
        self.anthropic_base_url = self.gemini_base_url = api.base_url.removesuffix("/v1")

    @property
    def run(self) -> "Run":
        """The requests so far, judged."""
        from reasoning_replay.verify.report import Run  # noqa: PLC0415 (see below)

        seen, unserved = tuple(self._api.exchanges), dict(self._api.unserved)
        return Run(seen, 0, self._is_strict, unserved=unserved, is_command=False)

    def assert_whole(self) -> None:
        """
        Assert that reasoning had to come back, and that all of it did.

        Raises:
            AssertionError: It did not; the message is the report.
        """
        run = self.run
        if run.verdict != "whole":
            raise AssertionError("\n".join(run.lines()))


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def strict_api(request: pytest.FixtureRequest) -> Iterator[ServedApi]:
    """Serve all APIs, as strict about reasoning as their vendors, and judge each request."""
    # pytest loads this module at each start, so it imports the rest only where it is used.
    from reasoning_replay.strict_api import DIALECTS, SCENARIOS, Script, StrictApi  # noqa: PLC0415

    marker = request.node.get_closest_marker("strict_api")
    asked: dict[str, Any] = dict(marker.kwargs) if marker else {}
    script = Script(SCENARIOS[asked.pop("scenario", next(iter(SCENARIOS)))], is_marked=True)
    is_strict = bool(asked.pop("strict", False))
    if asked:
        raise pytest.UsageError(f"the marker strict_api has no {', '.join(asked)}")
    api = StrictApi(*(dialect(script, is_strict=is_strict) for dialect in DIALECTS.values()))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(api.__aenter__(), loop).result()
        yield ServedApi(api, is_strict=is_strict)
        asyncio.run_coroutine_threadsafe(api.__aexit__(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
