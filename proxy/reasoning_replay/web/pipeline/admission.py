"""Admission control: limits on the exchanges in flight, in total and of each tenant."""

import asyncio
from collections import Counter

from reasoning_replay.web.errors import TENANT_BUSY, TOO_MANY_EXCHANGES, ProxyError
from reasoning_replay.web.exchange import Exchange, Limits, TenantOf
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

    def acquire(
        self, exchange: Exchange, client: ClientRequest, tenant_of: TenantOf
    ) -> bytes | None:
        """
        Admit an exchange.

        Args:
            exchange: It; a bug in finding its tenant is logged, and does not limit it.
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
        tenant = None
        if limits.tenant_max_exchanges:
            with self._exchange_log.fail_open("tenant_failed", exchange):
                tenant = tenant_of(client.identifying_headers)
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
