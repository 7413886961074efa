"""What is done to answers between upstream and the proxy, and how often: by a request's number."""

from random import Random

__all__ = ["ANSWERED", "FAULTS", "dice", "fault_of"]

FAULTS = {
    "500": 6,
    "429": 6,
    "503": 3,
    "reset": 5,  # before there is an answer
    "hang": 2,  # no answer, for longer than the proxy waits
    "cut": 6,  # reset amid the answer
    "closed": 4,  # ended in good order amid the answer
    "stall": 2,  # silence amid the answer, for longer than the proxy waits
    "slow": 6,  # a pause behind every chunk: no fault at all
}
ANSWERED = {"500": 500, "429": 429, "503": 503}


def dice(*seed: object) -> Random:
    """Give random numbers that are the same for the same seed."""
    return Random("/".join(map(str, seed)))  # noqa: S311 - no secret


def fault_of(seed: str, number: str, share: float) -> str:
    """Choose what happens to a request; "" for most."""
    thrown = dice(seed, "fault", number)
    if thrown.random() >= share:
        return ""
    return thrown.choices(list(FAULTS), list(FAULTS.values()))[0]
