"""Refusal memory: refused blobs and their issuers, bounded for each tenant and in total."""

import pytest
from msgspec import structs
from reasoning_replay.adapters.stores.contract.turns import turn
from reasoning_replay.core.dialects import refusal_memory
from reasoning_replay.core.dialects.refusal_memory import RefusalMemory
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.turns import Reasoning

MINE, THEIRS = b"mine", b"theirs"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set small limits."""
    monkeypatch.setattr(refusal_memory, "REMEMBERED", 20)
    monkeypatch.setattr(refusal_memory, "REMEMBERED_EACH", 8)


def known(one: RefusalMemory, scope: bytes, count: int) -> list[int]:
    """Return the numbers of the blobs, out of `count`, that are known to be refused."""
    return [n for n in range(count) if one.known_to(scope).has(RefusalKind.BLOB, b"%d" % n)]


def taught(one: RefusalMemory, scope: bytes, count: int) -> None:
    """Remember `count` blobs as refused."""
    for n in range(count):
        one.refuse(scope, RefusalKind.BLOB, b"%d" % n)


def test_a_tenant_beyond_its_limit_evicts_its_own_entries() -> None:
    """The oldest entry of the tenant is evicted; the entries of other tenants stay."""
    one = RefusalMemory(lambda: 0.0)
    taught(one, THEIRS, 3)
    taught(one, MINE, 100)
    assert known(one, THEIRS, 3) == [0, 1, 2]
    assert known(one, MINE, 100) == list(range(92, 100))


def test_the_least_active_tenant_is_evicted_first() -> None:
    """The total number of entries is bounded as well."""
    one = RefusalMemory(lambda: 0.0)
    for tenant in range(50):
        taught(one, b"tenant %d" % tenant, 4)
    assert one._until._count == 20
    assert [len(known(one, b"tenant %d" % n, 4)) for n in range(50)] == [0] * 45 + [4] * 5
    assert len(one._until._owners) == 5


def test_a_repeated_refusal_renews_its_entry() -> None:
    """The entry is kept once, counts as the newest, and expires later."""
    now = [0.0]
    one = RefusalMemory(lambda: now[0])
    taught(one, MINE, 8)
    now[0] = refusal_memory.REMEMBERED_S - 1
    one.refuse(MINE, RefusalKind.BLOB, b"0")
    one.refuse(MINE, RefusalKind.BLOB, b"new")
    assert known(one, MINE, 8) == [0, 2, 3, 4, 5, 6, 7]
    now[0] += 2
    assert known(one, MINE, 8) == [0]


def test_an_hour_after_its_newest_refusal_nothing_is_recorded_for_a_tenant() -> None:
    """Of other tenants, nothing was recorded at all."""
    now = [0.0]
    one = RefusalMemory(lambda: now[0])
    taught(one, MINE, 2)
    now[0] = refusal_memory.REMEMBERED_S - 1
    assert [one.known_to(who).is_empty for who in (MINE, THEIRS)] == [False, True]
    now[0] += 1
    assert one.known_to(MINE).is_empty


def blob_of(n: int) -> bytes:
    """Return the digest of blob `n`."""
    return b"%016d" % n


def issued(n: int) -> list[Reasoning]:
    """Return reasoning with blob `n`."""
    raw = b'{"type":"reasoning","encrypted_content":"gAAAA%d"}' % n
    return [Reasoning(f"rs_{n}", raw, (blob_of(n),), has_blob=True)]


def test_issuers_are_remembered_up_to_a_limit_for_each_account() -> None:
    """A blob issued to two accounts belongs to both, until the entry of one is evicted."""
    one = RefusalMemory(lambda: 0.0)
    shared = issued(0)
    for _ in range(2):  # each save of a turn notes it again
        one.issue((MINE,), shared)
    assert one.known_to(b"", (THEIRS,)).is_foreign(blob_of(0))
    one.issue((THEIRS,), shared)
    assert not one.known_to(b"", (THEIRS,)).is_foreign(blob_of(0))
    for n in range(1, 100):
        one.issue((THEIRS,), issued(n))
    assert not one.known_to(b"", (MINE,)).is_foreign(blob_of(0))
    assert one.known_to(b"", (THEIRS,)).is_foreign(blob_of(0))
    assert one.known_to(b"", (MINE,)).is_foreign(blob_of(99))
    assert not one.known_to(b"", (MINE,)).is_foreign(blob_of(50))  # evicted: belongs to no account
    assert len(one._issued_for) == one._issued._count == 9


def test_the_accounts_of_one_blob_are_bounded() -> None:
    """An upstream may send the same blob to every account."""
    one = RefusalMemory(lambda: 0.0)
    for n in range(100):
        one.issue((b"%d" % n,), issued(0))
    assert len(one._issued_for[blob_of(0)]) == 20


def test_without_an_account_no_issuer_is_remembered() -> None:
    """A request without an account name never makes a blob foreign."""
    one = RefusalMemory(lambda: 0.0)
    one.issue((b"",), issued(0))
    assert not one.known_to(b"", (MINE,)).is_foreign(blob_of(0))


def test_a_lookup_without_refused_blobs_returns_the_same_object() -> None:
    """Callers need not scan it again; refusals of other tenants have no effect."""
    one = RefusalMemory(lambda: 0.0)
    blob = b"0" * 16
    run = (Reasoning("rs_1", b"{}", (blob,), True),)
    this = turn("one")
    this = structs.replace(
        this, items=tuple(item.after(run, withheld=False) for item in this.items)
    )
    recalled = LookupResult([this])
    one.refuse(THEIRS, RefusalKind.BLOB, blob)
    assert one.known_to(MINE).without_refused(recalled) is recalled
    one.refuse(MINE, RefusalKind.BLOB, b"another")
    assert one.known_to(MINE).without_refused(recalled) is recalled
    one.refuse(MINE, RefusalKind.BLOB, blob)
    (less,) = one.known_to(MINE).without_refused(recalled).turns
    assert [(item.run, item.withheld) for item in less.items] == [((), True)] * len(this.items)
    assert this.items
