"""Label values: what the labels of a metric say of an exchange and of a reasoning item."""

from reasoning_replay.core.history.plan import LACKING, Outcome

Labels = tuple[str, ...]  # the values of the labels of a series

# Statuses with a label of their own; any other counts as its class.
_STATUSES = {
    status: str(status)
    for status in (
        *(101, 200, 201, 202, 204, 304),
        *(400, 401, 402, 403, 404, 405, 408, 409, 411, 413, 415, 417, 421, 422, 426, 429, 431),
        *(499, 500, 501, 502, 503, 504, 520, 522, 524, 529),
    )
}
_CLASSES = range(1, 6)
_NO_HEAD = "none"
_USUAL = {"ok": "200", "refused": "400", "upstream_error": "500", "cut_off": "200"}


def status_label(status: int) -> str:
    """Return the label of a status: itself if listed, else its class, `other`, or `none` for 0."""
    known = _STATUSES.get(status)
    if known is not None:
        return known
    kind = status // 100
    return f"{kind}xx" if kind in _CLASSES else "other" if status else _NO_HEAD


def outcome_labels(outcome: Outcome) -> Labels:
    """Return the labels `outcome` and `reason` of a reasoning item."""
    return ("lacking", outcome.value) if outcome in LACKING else (outcome.value, "")


def usual_status(route: str, outcome: str) -> str:
    """Return the usual status label of exchanges with this route and outcome."""
    if route == "websocket" and outcome in ("ok", "cut_off"):
        return "101"
    return _USUAL.get(outcome, _NO_HEAD)
