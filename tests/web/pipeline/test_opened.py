"""A response that begins and then fails, within the time that its head is held anyway."""

from tests.web.line import line_to
from tests.web.pipeline.test_refused import BODY, taught
from tests.web.scripted import Script, send, wait
from tests.web.wire import END, PAIRING, as_json, chunk, response, stream, stream_head
from tests.web.world import post, world


def event(kind: str, **more: object) -> bytes:
    """Return an event of a stream."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), as_json({"type": kind} | more))


BEGUN = response() | {"status": "in_progress"}
CREATED = event("response.created", response=BEGUN)
PROGRESS = event("response.in_progress", response=BEGUN)
FAILED = event("error", code=None, message=PAIRING, param="input", sequence_number=2)


async def test_a_refusal_after_the_opening_is_healed() -> None:
    """The client sees the stream of the retry alone."""
    async with world() as w:
        await taught(w)
        done = stream([CREATED, event("response.completed", response=response())])
        w.upstream.answers(stream([CREATED, PROGRESS, FAILED]), done)
        got = await w.post(BODY)
        assert (got.status, b"error" in got.body, b"completed" in got.body) == (200, False, True)
        assert len(w.upstream.received) == 2


async def test_an_opening_alone_passes_soon() -> None:
    """The model may work for minutes before the next event."""
    script = Script([send(stream_head() + chunk(CREATED)), wait(), send(END)])
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(post(BODY))
        assert (await line.head()).status == 200
        assert await line.exactly(len(CREATED)) == CREATED
        assert not script.ended.is_set()
        script.go()
        await line.rest()
