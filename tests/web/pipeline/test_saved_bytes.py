"""Cost of saving: what a response sends to the store is proportional to what is new."""

from tests.redis_server import RedisServer
from tests.web.line import line_to
from tests.web.scripted import Script, Step, send, wait
from tests.web.wire import (
    ASK,
    CALL,
    END,
    RESULT,
    RS,
    Item,
    as_json,
    chunk,
    events,
    stream_head,
    whole,
)
from tests.web.world import MODEL, post, world

PAIRS = 32
PAIR_BYTES = 20_000
SENT_PER_BYTE_MAX = 1.2


def pair(number: int) -> list[Item]:
    """Return 20 KB of reasoning and the call that it led to."""
    blob = f"gAAAAB{number:04}".ljust(PAIR_BYTES, "x")
    names = {
        "id": f"fc_0c1d2e3f4a5b607182{number:04}",
        "call_id": f"call_Zk3mQ9xT7bLw2R{number:04}",
    }
    return [
        RS | {"id": f"rs_0c1d2e3f4a5b607182{number:04}", "encrypted_content": blob},
        CALL | names,
    ]


async def test_an_answer_is_sent_to_the_store_about_once(own_redis: RedisServer) -> None:
    """Each of 32 calls is saved without the bytes that were saved before."""
    items = [item for number in range(PAIRS) for item in pair(number)]
    told = events(*items)
    steps: list[Step] = [step for event in told[1:] for step in (wait(), send(chunk(event)))]
    script = Script([send(stream_head() + chunk(told[0])), *steps, send(END)])

    def received() -> int:
        return int(own_redis.told("stats")["total_net_input_bytes"])

    async with (
        world(store_url=own_redis.url, scope_secret="s") as w,
        line_to(w.app.url) as line,
    ):
        before = received()
        w.upstream.plays(script)
        await line.send(post({"model": MODEL, "input": [ASK]}))
        assert (await line.head()).status == 200
        for event in told:  # one by one, so that no two events share a chunk
            script.go()
            assert await line.exactly(len(event)) == event
        await line.rest()
        sent = received() - before
        assert w.counted("store_operations_total", operation="save", outcome="ok") >= PAIRS
        size = sum(len(as_json(item)) for item in items)
        assert size <= sent <= SENT_PER_BYTE_MAX * size, sent / size

        w.upstream.answers(whole(b"{}"))
        calls = [item for item in items if item["type"] == "function_call"]
        results = [RESULT | {"call_id": call["call_id"]} for call in calls]
        got = await w.turn(ASK, *calls, *results)
        assert got.mark == f"injected={PAIRS}"
