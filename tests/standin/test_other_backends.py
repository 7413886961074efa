"""Other backends on the socket: the content of their responses, and the form of their refusals."""

import json
from typing import Any

import pytest

from tests.standin import Quirks, StandIn
from tests.standin.quirks import RefusesBy
from tests.standin.test_server import events_of, post
from tests.standin.world import ASK, answers, as_input

FOREIGN = "The encrypted content for item"


async def first_output(standin: StandIn, **more: Any) -> list[dict[str, Any]]:
    """Send a first request, and return the output of the response."""
    _, raw = await post(standin, **more)
    output: list[dict[str, Any]] = json.loads(raw)["output"]
    return output


async def test_another_account_rejects_items_and_blobs_of_the_first() -> None:
    """After a pooled gateway switches accounts, it refuses the items and blobs of the first one."""
    async with StandIn() as standin:
        history = [ASK, *as_input(await first_output(standin))]
        assert (await post(standin, input=history))[0] == 200

        standin.behaviour.quirks = Quirks(account="b")

        status, raw = await post(standin, input=history)
        assert (status, FOREIGN.encode() in raw) == (400, True)
        assert (await post(standin, input=[ASK, {"id": history[1]["id"]}]))[0] == 404
        standin.behaviour.quirks = Quirks()
        assert (await post(standin, input=history))[0] == 200


# (the form of the refusal, the types of its events)
FORMS = [
    pytest.param("error", ["error", "response.failed"], id="nested"),
    pytest.param("flat_error", ["error", "response.failed"], id="flat"),
    pytest.param("failed", ["response.failed"], id="failed"),
    pytest.param("late", ["response.created", "error", "response.failed"], id="late"),
]


@pytest.mark.parametrize(("form", "types"), FORMS)
async def test_a_refusal_may_open_a_stream(form: RefusesBy, types: list[str]) -> None:
    """With streaming the refusal follows a status of 200; without streaming it is the status."""
    async with StandIn(quirks=Quirks(refuses_by=form)) as standin:
        _, call = await first_output(standin)
        lost = [ASK, call, *answers([call])]
        status, raw = await post(standin, input=lost, stream=True)
        plainly, _ = await post(standin, input=lost)

    events = events_of(raw)
    assert (status, plainly) == (200, 400)
    assert [event["type"] for event in events] == types
    assert [event["sequence_number"] for event in events] == list(range(len(types)))
    failed = events[-1]["response"]
    assert (failed["status"], failed["output"]) == ("failed", [])
    assert "required 'reasoning' item" in failed["error"]["message"]
    for event in events:
        if event["type"] == "error":
            said = event if form == "flat_error" else event["error"]
            assert said["message"] == failed["error"]["message"]


async def test_a_404_may_be_plain_text() -> None:
    """The body of a plain text 404 is the bare message."""
    async with StandIn(quirks=Quirks(not_found="text")) as standin:
        status, raw = await post(standin, input=[ASK, {"id": "rs_1"}])

    assert status == 404
    assert raw.startswith(b"Item with id 'rs_1' not found. ")


@pytest.mark.parametrize("stream", [True, False])
async def test_reasoning_may_be_text(stream: bool) -> None:
    """Reasoning text is in `content` and in deltas; it has no blob, even if one is asked for."""
    async with StandIn(quirks=Quirks(thinks_aloud=True), always_encrypted=True) as standin:
        _, raw = await post(standin, stream=stream)
        answer = events_of(raw)[-1]["response"] if stream else json.loads(raw)
        thought = answer["output"][0]
        history = [ASK, *as_input(answer["output"])]
        served = (await post(standin, input=history))[0]

    text = thought["content"][0]["text"]
    assert (thought["encrypted_content"], bool(text), served) == (None, True, 200)
    if stream:
        deltas = [
            e["delta"] for e in events_of(raw) if e["type"] == "response.reasoning_text.delta"
        ]
        assert "".join(deltas) == text


async def test_a_backend_may_have_no_blobs() -> None:
    """A backend that does not accept blobs does not issue any."""
    async with StandIn(quirks=Quirks(takes_blobs=False), always_encrypted=True) as standin:
        thought, _ = await first_output(standin)

    assert thought["encrypted_content"] is None


async def test_an_organization_may_store_nothing() -> None:
    """With zero data retention no response can be continued, whatever `store` is."""
    async with StandIn(quirks=Quirks(keeps_nothing=True)) as standin:
        _, raw = await post(standin)
        answer = json.loads(raw)
        status, _ = await post(standin, input="More", previous_response_id=answer["id"])

    assert (answer["store"], status) == (True, 400)


async def test_a_model_with_an_unknown_name_may_not_reason() -> None:
    """A model that no list contains refuses the `include` of encrypted content."""
    async with StandIn() as standin:
        status, raw = await post(standin, model="acme-plain")

    assert (status, b"Encrypted content is not supported with this model." in raw) == (400, True)
