"""
Check: a report on whether the proxy can serve with these settings, and what to do if not.

Every probe has a deadline. No line contains a key or a password.
"""

from collections.abc import Mapping

from reasoning_replay.check.local import of_clients, of_ports, of_settings
from reasoning_replay.check.store import of_store
from reasoning_replay.check.upstream import key_of, of_upstream
from reasoning_replay.core.dialects.registry import RESPONSES
from reasoning_replay.settings.model import Settings


async def check(
    settings: Settings, environ: Mapping[str, str], prove: str = "", dialect: str = RESPONSES
) -> int:
    """
    Print one line for each finding as soon as it is known.

    Args:
        settings: The settings of `serve`.
        environ: May hold the caller's key for the upstream. Without a key the check connects to
            the upstream and sends no request.
        prove: The model for a conversation of two turns, which costs tokens; "" skips it.
        dialect: The wire format of that conversation.

    Returns:
        The exit code: 1 if there is a problem, else 0; warnings do not count.

    Cost: a few connections and one GET upstream. One test turn with a random name is saved in the
    store, looked up and deleted.
    """
    probes = {
        "settings": of_settings(settings),
        "clients": of_clients(settings),
        "ports": of_ports(settings),
        "upstream": of_upstream(settings, environ),
        "store": of_store(settings, environ),
    }
    if prove:
        from reasoning_replay.check.live_test import of_proof  # noqa: PLC0415 (it imports the whole proxy)

        key = key_of(settings, environ, dialect)
        probes["proof"] = of_proof(settings, key, prove, dialect)
    worst = 0
    for subject, probe in probes.items():
        async for grade, words in probe:
            print(f"{grade:<8} {subject:<9} {words}", flush=True)
            worst = max(worst, grade == "problem")
    return int(worst)
