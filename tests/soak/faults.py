"""Faults of responses between upstream and the proxy: weights, and the choice for each request."""

from random import Random

FAULTS = {
    "500": 6,
    "429": 6,
    "503": 3,
    "reset": 5,  # before any response
    "hang": 2,  # no response, for longer than the proxy waits
    "cut": 6,  # reset during the response
    "closed": 4,  # closed in good order during the response
    "stall": 2,  # silence during the response, for longer than the proxy waits
    "slow": 6,  # a pause after every chunk: not a fault
}
ANSWERED = {"500": 500, "429": 429, "503": 503}


def dice(*seed: object) -> Random:
    """Return a random source that is the same for the same seed."""
    return Random("/".join(map(str, seed)))  # noqa: S311 - no secret


def fault_of(seed: str, number: str, share: float) -> str:
    """Choose the fault of a request; "" for most."""
    thrown = dice(seed, "fault", number)
    if thrown.random() >= share:
        return ""
    return thrown.choices(list(FAULTS), list(FAULTS.values()))[0]
