"""
Check: a report on whether the proxy can serve with these settings, and what to do if not.

Every probe has a deadline. No line contains a key or a password.
"""

from collections.abc import Mapping, Sequence

from reasoning_replay.check.local import of_clients, of_ports, of_settings
from reasoning_replay.check.store import of_store
from reasoning_replay.check.upstream import key_of, of_upstream
from reasoning_replay.core.dialects.registry import RESPONSES
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.upstreams import in_words_of


async def check(
    settings: Settings,
    environ: Mapping[str, str],
    prove: str = "",
    dialect: str = RESPONSES,
    upstream: str = "",
) -> int:
    """
    Print one line for each finding as soon as it is known, and a summary with the worst one.

    Args:
        settings: The settings of `serve`.
        environ: May hold the caller's key for the upstream. Without a key the check connects to
            the upstream and sends no request.
        prove: The model for a conversation of two turns, which costs tokens; "" skips it.
        dialect: The wire format of that conversation.
        upstream: Name of the only upstream to check; "": all of them. A conversation is with the
            first one.

    Returns:
        The exit code: 1 if there is a problem, else 0; warnings do not count.

    Cost: a few connections and one GET upstream. One test turn with a random name is saved in the
    store, looked up and deleted.
    """
    each = settings.by_upstream
    asked = {upstream: each[upstream]} if upstream else each
    probes = [
        ("settings", "", of_settings(settings)),
        ("clients", "", of_clients(settings)),
        ("ports", "", of_ports(settings)),
        *(("upstream", name, of_upstream(own, environ)) for name, own in asked.items()),
        ("store", "", of_store(settings, environ)),
    ]
    if prove:
        from reasoning_replay.check.live_test import of_proof  # noqa: PLC0415 (it imports the whole proxy)

        name, own = next(iter(asked.items()))
        key = key_of(own, environ, dialect)
        probes.append(("proof", name, of_proof(own, key, prove, dialect)))
    lines: dict[str, list[str]] = {"problem": [], "warning": [], "ok": []}
    for subject, name, probe in probes:
        async for grade, words in probe:
            told = f"{subject:<9} {in_words_of(name, words)}"
            print(f"{grade:<8} {told}", flush=True)
            lines[grade].append(told)
    print(_summary(lines["problem"], lines["warning"]))
    return int(bool(lines["problem"]))


def _summary(problems: Sequence[str], warnings: Sequence[str]) -> str:
    """Return the last line: how many there are of each, and again the first of the worst."""
    counts = [
        f"{len(told)} {name}{'s' if len(told) > 1 else ''}"
        for told, name in ((problems, "problem"), (warnings, "warning"))
        if told
    ]
    grade = "problem" if problems else "warning" if warnings else "ok"
    said = ", ".join(counts) or "no problem, no warning"
    worst = " ".join((problems or warnings or [""])[0].split(maxsplit=1))
    return f"{grade:<8} {'summary':<9} {said}{f': {worst}' if worst else ''}"
