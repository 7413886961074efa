"""How many exchanges are under way: of all, and of each tenant."""

import asyncio
from collections import Counter

from aiohttp import web

from reasoning_replay.web.errors import ProxyError
from reasoning_replay.web.exchange import Limits
from reasoning_replay.web.exchange_log import ExchangeRecorder
from reasoning_replay.web.limit_errors import tenant_busy, too_busy

__all__ = ["AdmissionControl"]


class AdmissionControl:
    """
    Counts exchanges, and lets in no more than there is room for.

    Attributes:
        count: Of all of them.
        idle: Set while there are none.
    """

    def __init__(self, limits: Limits, account: ExchangeRecorder) -> None:
        """Begin with none."""
        self._limits = limits
        self._account = account
        self._tenants: Counter[bytes] = Counter()
        self.count = 0
        self.idle = asyncio.Event()
        self.idle.set()
        account.metrics.max_exchanges.set(limits.max_exchanges)

    def enter(self, request: web.BaseRequest) -> bytes | None:
        """
        Count an exchange from now on.

        Returns:
            What `leave` wants to know when it is over.

        Raises:
            ProxyError: There is no room for it.
        """
        limits = self._limits
        if self.count >= limits.max_exchanges:
            raise ProxyError(too_busy(limits.max_exchanges))
        tenant = self._tenant(request) if limits.tenant_max_exchanges else None
        if tenant is not None:
            if self._tenants[tenant] >= limits.tenant_max_exchanges:
                raise ProxyError(tenant_busy(limits.tenant_max_exchanges))
            self._tenants[tenant] += 1
        self.count += 1
        self.idle.clear()
        self._tell()
        return tenant

    def leave(self, tenant: bytes | None) -> None:
        """Count it no more."""
        if tenant is not None:
            self._tenants[tenant] -= 1
            if not self._tenants[tenant]:
                del self._tenants[tenant]
        self.count -= 1
        if not self.count:
            self.idle.set()
        self._tell()

    def _tell(self) -> None:
        self._account.metrics.in_flight.set(self.count)

    def _tenant(self, request: web.BaseRequest) -> bytes | None:
        try:
            return self._limits.tenant_of(request.headers)
        except Exception as error:  # noqa: BLE001 (fail open: a bug of ours is no limit of theirs)
            self._account.log.warning("tenant_failed", reason=type(error).__name__)
            return None
