"""
Soak test of the proxy: `make soak`, for half an hour; `make soak ARGS="--minutes 2 --seed x"`.

Exits with 1 if a bound is broken.
"""

import argparse
import asyncio
import logging
import secrets
import sys

from tests.soak.report import broken, table
from tests.soak.run import Options, soak


def _options() -> Options:
    default = Options()
    parser = argparse.ArgumentParser(description="Mixed load on real processes, with faults.")
    parser.add_argument("--minutes", type=float, default=default.minutes, help="duration")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="seed of all random choices")
    parser.add_argument("--rate", type=float, default=default.rate, help="requests per second")
    parser.add_argument("--clients", type=int, default=default.clients, help="parallel clients")
    parser.add_argument("--share", type=float, default=default.share, help="share of faults")
    parser.add_argument("--hostile", type=int, default=default.hostile, help="hostile clients")
    parser.add_argument("--outages-every-s", type=float, default=default.outages_every_s)
    parser.add_argument("--replicas", type=int, default=default.replicas)
    return Options(**vars(parser.parse_args()))


def main() -> int:
    """Run, print the report, and return the exit code."""
    options = _options()
    logging.disable()  # logs of reset connections, which are intended
    print(f"soaking for {options.minutes:g} minutes, seed {options.seed}", flush=True)  # noqa: T201
    result = asyncio.run(soak(options))
    print(table(result, options))  # noqa: T201
    faults = broken(result)
    for fault in faults:
        print(f"BROKEN: {fault}")  # noqa: T201
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
