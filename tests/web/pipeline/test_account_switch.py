"""Account switch: what another account was issued costs one refusal, at whichever replica."""

import secrets
from collections.abc import Mapping
from typing import Any

import pytest
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.redis_server import RedisServer
from tests.web.scripted import Received
from tests.web.wire import ASK, CALL, RESULT, RS, Item, as_json, error, response, whole
from tests.web.world import World, world

BEFORE, AFTER = 3, 6
NAMED = "The encrypted content for item {id} could not be verified."
FOREIGN = (
    NAMED + " Reason: Encrypted content organization_id did not match the target organization."
)
MASKED = "The encrypted content {head}...{tail} could not be verified."


def turn(number: int) -> tuple[Item, Item, Item]:
    """Return the reasoning, the call and its output of one turn."""
    call_id = f"call_Zk3mQ9xT7bLw2R{number:04}"
    return (
        RS | {"id": f"rs_0c1d2e3f4a5b607182{number:04}", "encrypted_content": blob(number)},
        CALL | {"id": f"fc_0c1d2e3f4a5b607182{number:04}", "call_id": call_id},
        RESULT | {"call_id": call_id},
    )


def blob(number: int) -> str:
    """Return the blob of a turn; its start and its end are its own."""
    return f"gAAAAAB{number}{'x' * 60}{number}y{number}="


class Account:
    """An upstream that issues blobs, and refuses those of another account."""

    def __init__(self, words: str) -> None:
        self.words = words
        self.issued = 0
        self.first = 0  # of the blobs that it accepts
        self.refused = 0

    def __call__(self, received: Received) -> bytes:
        """Refuse the first blob that is not its own, or issue one more."""
        for number in range(self.first):
            if blob(number).encode() in received.body:
                self.refused += 1
                said = {"id": turn(number)[0]["id"], "head": blob(number)[:4]}
                return error(self.words.format(**said, tail=blob(number)[-4:]), None)
        reasoning, call, _ = turn(self.issued)
        self.issued += 1
        rid = f"resp_0c1d2e3f4a5b60{self.issued:04}"
        return whole(as_json(response(reasoning, call, rid=rid)))


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "dropped"])
@pytest.mark.parametrize("words", [NAMED, FOREIGN, MASKED], ids=["named", "foreign", "masked"])
async def test_an_account_switch_costs_one_refusal(
    words: str, shared_redis: RedisServer, *, keeps: bool
) -> None:
    """From then on, each request has all reasoning of the new account, and none of the old one."""
    shared: dict[str, Any] = {
        "store_url": f"{shared_redis.url}?prefix=rr-{secrets.token_hex(8)}",
        "scope_secret": "s",
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "store_budget_ms": 5000,
    }
    async with world(**shared) as one:
        account = one.upstream.decides = Account(words)
        async with running(Settings(**shared, upstream_url=one.upstream.url + "/v1")) as app:
            replicas = one, World(app, one.upstream)
            history: list[Item] = [ASK]
            for number in range(BEFORE + AFTER):
                account.first = BEFORE if number >= BEFORE else 0
                got = await replicas[number % 2].turn(*history, store=False)
                assert got.status == 200
                given: list[Mapping[str, str]] = one.sent()["input"]
                sent = [item["id"] for item in given if item.get("type") == "reasoning"]
                assert sent == [turn(n)[0]["id"] for n in range(account.first, number)]
                history += turn(number) if keeps else turn(number)[1:]
            assert account.refused == 1
