"""What must hold at the edges: what a store gives back, whose a request is, and the web's shell."""

import asyncio
import io

from multidict import CIMultiDict

from proxy.adapters.codec import SEALED, Sealed
from proxy.adapters.guarded_store import GuardedStore
from proxy.adapters.logs import Log
from proxy.adapters.memory_store import MemoryStore
from proxy.adapters.metrics import Metrics
from proxy.adapters.store import Bounds
from proxy.core.claims import claims_of
from proxy.core.coding import decoder_for, is_encoded
from proxy.core.headers import asking_for_identity, for_downstream, for_upstream
from proxy.core.heal.cure import cure
from proxy.core.heal.diagnosis import diagnose
from proxy.core.heal.repair import Repair, Repairs, repair
from proxy.core.identity import recognise
from proxy.core.inject import Anchors, Outcome, Policy, plan
from proxy.core.keys import Recalled, keys_of_turn
from proxy.core.profiles import PROFILES
from proxy.core.scope import Scoping, account_of, hint_of, read_parts
from proxy.core.spans import Unspliceable
from proxy.core.turns import decode_turn, encode_turn
from proxy.key_ring import Key
from proxy.web.exchange import Exchange
from proxy.web.reader import Reader
from proxy.web.replay import Replay, ReplaySettings
from proxy.web.routes import Route
from tests.fuzz.inputs import cut, read
from tests.fuzz.naive import spliced
from tests.fuzz.requests import drawn, plain_read

__all__ = ["replay", "rows", "scope"]

MAX_BYTES = 1 << 20
_REPAIRS = Repairs(frozenset(Repair), lambda _: False)
_SEALED = Sealed([Key("a", bytes(32)), Key("b", bytes(range(32)))])
_SCOPE = bytes(16)


def rows(data: bytes) -> None:
    """Whatever a store gives back is a turn that can be used, or none."""
    dice, payload = read(data)
    asked, _, kept = payload.partition(b"\x1e")
    turn = decode_turn(kept)
    _SEALED.decode(_SCOPE, _SCOPE, _SCOPE, kept)
    _SEALED.decode(_SCOPE, _SCOPE, _SCOPE, SEALED + kept)
    if turn is None:
        return
    assert decode_turn(encode_turn(turn)) == turn
    if max(len(turn.id), len(turn.conversation)) < 1 << 16:
        sealed = _SEALED.encode(_SCOPE, turn)
        assert _SEALED.decode(_SCOPE, turn.conversation, turn.id, sealed) == turn
        at = dice.randrange(1, len(sealed))
        spoiled = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        assert _SEALED.decode(_SCOPE, turn.conversation, turn.id, spoiled) is None
        assert _SEALED.decode(bytes(15) + b"\1", turn.conversation, turn.id, sealed) is None
    assert len(set(keys_of_turn(turn))) == len(keys_of_turn(turn))
    request = plain_read(asked)
    if request is None:
        return
    recalled = Recalled([turn])
    try:
        decided = plan(request, recognise(request, recalled), Policy())
        assert spliced(request.body, decided.edits) == (decided.apply(request.body), request.body)
        repair(request, recalled.turns, _REPAIRS)
        cure(request, request, drawn(dice, request), recalled, Policy())
    except Unspliceable:
        return  # whoever writes into a store may write what is no item; the web goes on without


def scope(data: bytes) -> None:
    """Tenants are told apart by what tells them apart, and by nothing else."""
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
    going = for_upstream(pairs)
    assert for_upstream(going) == going
    assert for_downstream(for_downstream(pairs)) == for_downstream(pairs)
    asking = asking_for_identity(going)
    assert asking_for_identity(asking) == asking


class _Web:
    """One proxy without its sockets: a memory store, its guard, and what is done to exchanges."""

    def __init__(self, profile: str, *, is_shadow: bool) -> None:
        self.log = Log("error", "json", io.StringIO())
        self.now = 0.0
        bounds = Bounds(ttl_s=60, max_turns=50, max_bytes=MAX_BYTES)
        store = MemoryStore(bounds, MAX_BYTES, lambda: self.now)
        settings = ReplaySettings(
            scoping=Scoping("http://upstream", "secret"),
            is_shadow=is_shadow,
            anchors=Anchors.ALL,
            profile=PROFILES[profile],
            include="auto",
            heals=True,
            repairs=frozenset(Repair),
            frame_max_bytes=MAX_BYTES,
            store_budget_s=10.0,
        )
        guarded = GuardedStore(store, 10.0, Metrics(), self.log, lambda: self.now)
        self.replay = Replay(settings, guarded, lambda: self.now, lambda: int(self.now))

    def exchange(self, key: str) -> Exchange:
        exchange = Exchange(Route.RESPONSES, self.now)
        self.replay.identify(exchange, {"authorization": f"Bearer {key}"})
        return exchange

    def reader(self, exchange: Exchange, coding: str, *, is_stream: bool) -> Reader | None:
        if exchange.capture is None:
            return None
        return Reader(
            replay=self.replay,
            exchange=exchange,
            capture=exchange.capture,
            decoder=decoder_for(coding, MAX_BYTES),
            max_bytes=MAX_BYTES,
            left=None,
            is_stream=is_stream,
            is_encoded=is_encoded(coding),
            log=self.log,
        )


async def _replay(data: bytes) -> None:
    dice, payload = read(data)
    web = _Web(dice.choice(sorted(PROFILES)), is_shadow=dice.random() < 0.1)
    coding = dice.choice(("", "", "", "gzip", "br"))
    reader: Reader | None = None
    for n, said in enumerate(payload.split(b"\x1e")):
        web.now += 1.0
        if n % 2:
            if reader is not None:
                for chunk in cut(dice, said):
                    await reader.feed(chunk)
                await reader.close()
            continue
        exchange = web.exchange("ours")
        prepared = await web.replay.prepare(exchange, said, {})
        assert prepared.original is said
        assert exchange.edited == (prepared.body is not said)
        assert not (web.replay.is_shadow and exchange.edited)
        stranger = web.exchange("theirs")
        theirs = await web.replay.prepare(stranger, said, {})
        assert not stranger.outcomes[Outcome.INJECTED]
        assert b"gAAAA" in said or b"gAAAA" not in theirs.body
        reader = web.reader(exchange, coding, is_stream=b"data:" in said)
        try:
            cured = await web.replay.cure(exchange, prepared, diagnose(400, said))
        except Unspliceable:
            continue
        assert cured is None or cured.body != prepared.body


def replay(data: bytes) -> None:
    """Nothing comes out of the web's shell but what goes on; other tenants get nothing."""
    asyncio.run(_replay(data))
