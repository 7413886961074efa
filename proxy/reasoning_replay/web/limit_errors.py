"""What a client is told that asks for more than it may have: what, where, and the way out."""

from reasoning_replay.web.errors import ErrorResponse

__all__ = [
    "body_stalled",
    "body_too_large",
    "head_stalled",
    "head_too_large",
    "tenant_busy",
    "too_busy",
    "too_long",
    "too_many_connections",
]

# Exchanges last from a second to many minutes, so any number is a guess; clients double it.
RETRY_AFTER_S = 1
_MIB = 1024 * 1024


def too_many_connections(most: int) -> ErrorResponse:
    """Tell of `max_connections`."""
    return ErrorResponse(
        503,
        "too_many_connections",
        f"The proxy has {most} connections, which is its limit (max_connections). Try again in a "
        "moment; use fewer connections, raise the limit or run more replicas.",
        RETRY_AFTER_S,
        ends=True,
    )


def too_busy(most: int) -> ErrorResponse:
    """Tell of `max_exchanges`."""
    return ErrorResponse(
        503,
        "too_many_exchanges",
        f"The proxy has {most} exchanges under way, which is its limit (max_exchanges). Try again "
        "in a moment; raise the limit or run more replicas.",
        RETRY_AFTER_S,
    )


def tenant_busy(most: int) -> ErrorResponse:
    """Tell of `tenant_max_exchanges`."""
    return ErrorResponse(
        429,
        "tenant_too_many_exchanges",
        f"This tenant has {most} exchanges under way, which is its limit (tenant_max_exchanges). "
        "Try again when one of them has ended, or raise the limit.",
        RETRY_AFTER_S,
    )


def body_too_large(size: int, most: int) -> ErrorResponse:
    """Tell of `body_max_bytes`; `size` is what is known of the body's."""
    return ErrorResponse(
        413,
        "body_too_large",
        f"The request body is {_amount(size)} or more, limit {_amount(most)} (body_max_bytes). "
        "Raise the limit or trim the input.",
        ends=True,
    )


def head_too_large(most: int) -> ErrorResponse:
    """Tell of `head_max_bytes`."""
    return ErrorResponse(
        431,
        "head_too_large",
        f"The request line and its headers are more than {_amount(most)} (head_max_bytes), or "
        "more than 128 headers. Send fewer or shorter ones, or raise the limit.",
        ends=True,
    )


def head_stalled(most_s: float) -> ErrorResponse:
    """Tell of `idle_timeout_s`."""
    return ErrorResponse(
        408,
        "head_timeout",
        f"The head of the request was not there after {most_s:g} s (idle_timeout_s). Send it in "
        "one piece, or raise the limit.",
        ends=True,
    )


def body_stalled(most_s: float) -> ErrorResponse:
    """Tell of `client_timeout_s`."""
    return ErrorResponse(
        408,
        "body_timeout",
        f"Nothing came of the request body for {most_s:g} s (client_timeout_s). Try again, or "
        "raise the limit.",
        ends=True,
    )


def too_long(upstream: str, most_s: float) -> ErrorResponse:
    """Tell of `total_timeout_s`."""
    return ErrorResponse(
        504,
        "upstream_timeout",
        f"{upstream} did not answer in time (the exchange took {most_s:g} s). Try again, or raise "
        "total_timeout_s if the upstream needs longer.",
    )


def _amount(size: int) -> str:
    return f"{size / _MIB:.1f} MiB" if size >= _MIB else f"{size:,} bytes"
