"""Report of a soak: a short table, and the broken bounds."""

from collections.abc import Iterator

from tests.soak.run import Options, Result

MIB = 1 << 20
# Second half against first half. Bounded memory may still fill up a little. The lowest value
# counts: hostile requests take memory for a while, but a leak takes it for ever.
RSS_GROWS = 1.05
RSS_SLACK_BYTES = 6 * MIB
TREND_S = 30.0  # in a shorter run, one burst lasts for a half
FILES_SLACK = 40  # connections to upstream are kept open for later requests
RECALLED_MIN = 0.99
MISSED_SLACK = 8  # a late save, on a busy machine
# A busy machine lags now and then: so many probes may take longer than LAG_S, none than LAG_MAX_S.
LAG_S, LAG_MAX_S, LAG_SHARE, LAG_SLACK = 0.25, 2.5, 0.01, 10


def broken(result: Result) -> list[str]:
    """Return the broken bounds; [] if there are none."""
    return [*result.wrong, *_broken(result)]


def _broken(result: Result) -> Iterator[str]:
    counts = result.counts
    for name in counts:
        if name.startswith("wrong: "):
            yield f"{counts[name]} x {name}"
    if not counts["complete responses"] or not counts["injected"]:
        yield "no response was complete, or nothing was injected"
    asked = counts["asked, nothing failed"]
    if asked * RECALLED_MIN > counts["given, nothing failed"] + MISSED_SLACK:
        yield f"only {recalled(result):.2%} was injected although nothing failed"
    for number, uses in enumerate(result.uses):
        if not uses:
            yield f"replica {number} does not use its store after all faults"
    if result.in_flight:
        yield f"{result.in_flight:.0f} exchanges never ended"
    yield from _growing(result)


def _growing(result: Result) -> Iterator[str]:
    for number, gauge in enumerate(result.gauges):
        first, second = gauge.halves("rss_bytes", min)
        if result.took_s > TREND_S and second > first * RSS_GROWS + RSS_SLACK_BYTES:
            yield f"memory of replica {number} grows: {first / MIB:.1f} to {second / MIB:.1f} MiB"
        first, second = gauge.halves("files")
        if second > first + FILES_SLACK:
            yield f"open files of replica {number} grow: {first:.0f} to {second:.0f}"
    for number, lag in enumerate(result.lags):
        late = sum(took_s > LAG_S for took_s in lag.took_s)
        most_s = lag.percentile(1.0)
        if late > LAG_SHARE * len(lag.took_s) + LAG_SLACK or most_s > LAG_MAX_S:
            yield f"the loop of replica {number} lags: {late} times, by {most_s:.2f} s at most"
    for number, (before, after) in enumerate(result.idle_files):
        if after > before + FILES_SLACK:
            yield f"replica {number} keeps files open: {before} before, {after} after"


def recalled(result: Result) -> float:
    """Return the share of dropped reasoning that was injected although the client dropped it."""
    asked = result.counts["asked, nothing failed"]
    return result.counts["given, nothing failed"] / asked if asked else 1.0


def table(result: Result, options: Options) -> str:
    """Format the report."""
    rows = list(_rows(result, options))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def _rows(result: Result, options: Options) -> Iterator[tuple[str, str]]:
    counts = result.counts
    requests = counts["requests"]
    yield "seed", options.seed
    yield "duration", f"{result.took_s / 60:.1f} minutes, {options.replicas} replicas, one Redis"
    yield "requests", f"{requests}, {requests / result.took_s:.1f} per second"
    yield "conversations", str(counts["conversations"])
    yield "store or link failed", f"{counts['outages of the store']} times"
    cut, ours = counts["cut off by upstream"], counts["proxy errors, upstream away"]
    yield "upstream failed", f"{cut} responses cut off, {ours} errors of the proxy for it"
    yield "clients left", str(counts["clients that left"])
    hostile = {name[9:]: count for name, count in counts.items() if name.startswith("hostile: ")}
    refused = counts["hostile requests that were refused"]
    broke_off = counts["hostile requests that broke off"]
    yield "hostile requests", ", ".join(f"{hostile[name]} x {name}" for name in sorted(hostile))
    yield "  refused, or broken off", f"{refused}, {broke_off}"
    yield "bytes compared", f"{counts['bytes compared'] / MIB:.1f} MiB"
    yield "wrong bytes", str(counts["wrong: bytes"] + counts["wrong: altered"])
    injected = ("invented", "doubled", "misplaced", "other conversation", "foreign")
    yield "wrong injections", str(sum(counts[f"wrong: {name}"] for name in injected))
    yield "errors of the proxy", str(counts["wrong: proxy"])
    yield "requests refused by upstream", str(counts["wrong: refused"])
    yield "  excused, as the store lost items", str(counts["refused as sent"])
    yield "reasoning of equal requests", str(counts["reasoning of the same bytes"])
    yield "reasoning of a twin, after the store lost its own", str(counts["replaced by a twin"])
    yield "reasoning injected", str(counts["injected"])
    if counts["asked"]:
        yield "dropped reasoning injected", f"{counts['given'] / counts['asked']:.1%} of all"
    yield "  if nothing had failed", f"{recalled(result):.2%}"
    yield "requests retried (healed)", str(counts["retried"])
    for number, gauge in enumerate(result.gauges):
        first, second = gauge.halves("rss_bytes", min)
        before, after = gauge.halves("files")
        idle = result.idle_files[number]
        cpu_s = gauge.samples[-1].cpu_s - gauge.samples[0].cpu_s
        share = requests / len(result.gauges)
        peak = gauge.peak_bytes / MIB
        yield (
            f"replica {number}: memory",
            f"at least {first / MIB:.1f} MiB, then {second / MIB:.1f} MiB; {peak:.1f} MiB at most",
        )
        yield (
            "  open files",
            f"{before:.0f}, then {after:.0f}; {idle[0]} at the start, {idle[1]} at the end",
        )
        lag = result.lags[number]
        shares = [lag.percentile(share) * 1000 for share in (0.5, 0.99, 0.999, 1.0)]
        yield "  lag (median, 99 %, 99.9 %, most)", ", ".join(f"{ms:.0f} ms" for ms in shares)
        yield "  uses of the store after all faults", f"{result.uses[number]:.0f}"
        yield "  CPU", f"{cpu_s / share * 1000:.1f} ms per request"
    logged = {name[8:]: count for name, count in counts.items() if name.startswith("logged: ")}
    yield "logged above info", ", ".join(f"{logged[name]} x {name}" for name in logged) or "nothing"
