"""Checks of stored records and of tenant scopes."""

from multidict import CIMultiDict
from reasoning_replay.adapters.stores.encryption import SEALED, EncryptedCodec
from reasoning_replay.core.dialects.responses.heal.cure import cure
from reasoning_replay.core.dialects.responses.heal.repair import Repair, Repairs, repair
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_turn
from reasoning_replay.core.history.matching.matches import match_items
from reasoning_replay.core.history.turns import records_of, turns_of
from reasoning_replay.core.tenancy.jwt_claims import claims_of
from reasoning_replay.core.tenancy.scope import Scoping, account_of, hint_of, read_parts
from reasoning_replay.core.wire.headers import asking_for_identity, for_downstream, for_upstream
from reasoning_replay.core.wire.json_spans import Unspliceable
from reasoning_replay.settings.encryption_keys import EncryptionKey

from tests.fuzz.inputs import read, read_records
from tests.fuzz.naive import spliced
from tests.fuzz.requests import drawn, plain_read

__all__ = ["rows", "scope"]

_REPAIRS = Repairs(frozenset(Repair), lambda _: False)
_SEALED = EncryptedCodec([EncryptionKey("a", bytes(32)), EncryptionKey("b", bytes(range(32)))])
_SCOPE = bytes(16)


def rows(data: bytes) -> None:
    """Check that any records of a store decode to usable turns, or to none."""
    dice, payload = read(data)
    asked, _, kept = payload.partition(b"\x1e")
    records = read_records(kept)
    for name, value in records.items():
        _SEALED.decode(_SCOPE, _SCOPE, name, SEALED + value)
        sealed = _SEALED.encode(_SCOPE, _SCOPE, name, value)
        assert _SEALED.decode(_SCOPE, _SCOPE, name, sealed) == value
        at = dice.randrange(1, len(sealed))
        spoiled = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        assert _SEALED.decode(_SCOPE, _SCOPE, name, spoiled) is None
        assert _SEALED.decode(_SCOPE, _SCOPE, name + b"\1", sealed) is None
    turns = turns_of(_SCOPE, records)
    for turn in turns:
        again = turns_of(_SCOPE, records_of(turn))
        assert [one.id for one in again] == [turn.id]
        assert turns_of(_SCOPE, records_of(again[0])) == again
        assert len(set(keys_of_turn(turn))) == len(keys_of_turn(turn))
    request = plain_read(asked)
    if request is None:
        return
    recalled = LookupResult(turns)
    try:
        decided = plan_injection(request, match_items(request, recalled), GENERIC)
        assert spliced(request.body, decided.edits) == (decided.apply(request.body), request.body)
        repair(request, recalled.turns, _REPAIRS)
        cure(request, request, drawn(dice, request, turns), recalled, GENERIC)
    except Unspliceable:
        return  # a client of the store may write invalid items; the web layer goes on without them


def scope(data: bytes) -> None:
    """Check that the scope depends on the credential and the settings, and on nothing else."""
    written, _, head = read(data).payload.decode("latin-1").partition("\x1e")
    pairs = [(n.strip(), v.strip()) for n, _, v in (x.partition(":") for x in head.split("\n"))]
    headers = CIMultiDict(pairs)
    try:
        parts = read_parts(written)
    except ValueError:
        parts = read_parts("credential")
    scoping = Scoping("http://upstream", "secret", parts)
    ours = scoping.of(headers)
    assert scoping.of(headers) == ours
    assert ours is None or len(ours) == 16
    assert ours is None or Scoping("http://other", "secret", parts).of(headers) != ours
    assert ours is None or Scoping("http://upstream", "secre", parts).of(headers) != ours
    shouted = CIMultiDict((name.upper() if name.isascii() else name, v) for name, v in pairs)
    assert scoping.of(shouted) == ours
    if ours is not None and parts.credential:
        for at, (name, value) in enumerate(pairs):
            if name.lower() in ("authorization", "api-key", "x-api-key") and value:
                changed = CIMultiDict([*pairs[:at], (name, value + "x"), *pairs[at + 1 :]])
                is_ending = name.lower() in ",".join(headers.getall("connection", [])).lower()
                assert is_ending or scoping.of(changed) != ours
    for _, value in pairs:
        claims = claims_of(value, ("tid", "oid"))
        assert claims is None or len(claims) == 3
    account_of(headers)
    hint_of(headers, lambda _: "")
    raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in pairs]
    going = for_upstream(raw)
    assert for_upstream(going) == going
    assert for_downstream(for_downstream(raw)) == for_downstream(raw)
    asking = asking_for_identity(going)
    assert asking_for_identity(asking) == asking
