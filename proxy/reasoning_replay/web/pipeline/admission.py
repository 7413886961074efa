"""Admission control: limits on the exchanges in flight, in total and of each tenant."""

import asyncio
from collections import Counter

from reasoning_replay.adapters.runtime.fail_open import FailOpen
from reasoning_replay.web.errors import TENANT_BUSY, TOO_MANY_EXCHANGES, ProxyError
from reasoning_replay.web.exchange import Limits, TenantOf
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.pipeline.client_request import ClientRequest


class AdmissionControl:
    """Counter of the exchanges in flight, with limits; `idle` is set while there is none."""

    def __init__(self, limits: Limits, exchange_log: ExchangeLog) -> None:
        """Start with no exchange in flight."""
        self._limits = limits
        self._exchange_log = exchange_log
        self._tenants: Counter[bytes] = Counter()
        self.count = 0
        self.idle = asyncio.Event()
        self.idle.set()
        exchange_log.metrics.max_exchanges.set(limits.max_exchanges)
        exchange_log.metrics.in_flight.set_function(lambda: self.count)

    def acquire(self, client: ClientRequest, tenant_of: TenantOf) -> bytes | None:
        """
        Admit an exchange.

        Args:
            client: Its request.
            tenant_of: Returns its tenant; called only if tenants have a limit.

        Returns:
            Its tenant, for `release`; None if tenants are not counted.

        Raises:
            ProxyError: A limit is reached.
        """
        limits = self._limits
        if self.count >= limits.max_exchanges:
            raise ProxyError(TOO_MANY_EXCHANGES.filled(most=limits.max_exchanges))
        tenant = self._tenant(client, tenant_of) if limits.tenant_max_exchanges else None
        if tenant is not None:
            if self._tenants[tenant] >= limits.tenant_max_exchanges:
                raise ProxyError(TENANT_BUSY.filled(most=limits.tenant_max_exchanges))
            self._tenants[tenant] += 1
        self.count += 1
        self.idle.clear()
        return tenant

    def release(self, tenant: bytes | None) -> None:
        """Release the slot of an admitted exchange."""
        if tenant is not None:
            self._tenants[tenant] -= 1
            if not self._tenants[tenant]:
                del self._tenants[tenant]
        self.count -= 1
        if not self.count:
            self.idle.set()

    def _tenant(self, client: ClientRequest, tenant_of: TenantOf) -> bytes | None:
        with FailOpen("tenant_failed", self._warn):  # a bug here must not limit clients
            return tenant_of(client.identifying_headers)
        return None

    def _warn(self, event: str, error: Exception) -> None:
        self._exchange_log.log.warning(event, reason=type(error).__name__)
