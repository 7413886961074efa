"""Form: what unknown words refuse is sent in another form, in each dialect."""

import json
from typing import Any

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.anthropic.heal.diagnosis import Diagnosis as MessagesDiagnosis
from reasoning_replay.core.dialects.anthropic.heal.diagnosis import RefusalKind as MessagesKind
from reasoning_replay.core.dialects.base import Bodies, Caller, Cure
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.heal.diagnosis import Diagnosis as ChatDiagnosis
from reasoning_replay.core.dialects.chat.heal.diagnosis import RefusalKind as ChatKind
from reasoning_replay.core.dialects.chat.profiles import GENERIC
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.gemini.heal.diagnosis import Diagnosis as GeminiDiagnosis
from reasoning_replay.core.dialects.gemini.heal.diagnosis import RefusalKind as GeminiKind
from reasoning_replay.core.dialects.lessons import AS_GIVEN, FORM, NO_REASONING, OLDER
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.turns import Lesson
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.dialects.anthropic import tenant as messages
from tests.core.dialects.anthropic.streams import call as tool_call
from tests.core.dialects.anthropic.streams import thought
from tests.core.dialects.chat.heal.requests import ASK as CHAT_ASK
from tests.core.dialects.chat.heal.requests import RESULT as CHAT_RESULT
from tests.core.dialects.chat.heal.requests import body as chat_body
from tests.core.dialects.chat.heal.requests import call as chat_call
from tests.core.dialects.chat.heal.requests import message as chat_message
from tests.core.dialects.gemini import contents as gemini
from tests.core.dialects.responses.exchanges import ASK, C1, R1, SCOPE, decided, engine, found
from tests.core.engines import answered, asked, engine_of
from tests.core.world import body, input_of, output

GIVEN = body([ASK, C1, output(C1)])
NOTHING = LookupResult()


def taught(one: Engine, *lessons: Lesson) -> LookupResult:
    """Return the turn of a conversation, and one after it whose request was healed."""
    (first,) = found(one).turns
    teacher = structs.replace(first, id=b"t" * 16, created_ms=9, items=(), lessons=lessons)
    return LookupResult([first, teacher])


# The lesson, what is sent, and what counts
LESSONS = [
    pytest.param(Lesson(FORM, AS_GIVEN), GIVEN, Outcome.REFUSED, id="as-given"),
    pytest.param(Lesson(FORM, OLDER), None, Outcome.REFUSED, id="older"),
    pytest.param(Lesson(FORM, NO_REASONING), None, Outcome.REFUSED, id="no-reasoning"),
    pytest.param(Lesson(FORM), None, Outcome.INJECTED, id="form"),
]


@pytest.mark.parametrize(("lesson", "sent", "want"), LESSONS)
def test_a_lesson_is_used_before_the_first_attempt(
    lesson: Lesson, sent: bytes | None, want: Outcome
) -> None:
    """What is left out counts as refused."""
    one = engine()
    made = decided(one, GIVEN, taught(one, lesson))
    assert want in made.outcomes
    assert (R1 in input_of(made.body)) == (want is Outcome.INJECTED)
    assert made.is_doubted == (lesson.what == OLDER)
    if sent is not None:
        assert made.body is GIVEN


def test_as_given_changes_no_byte_of_the_client() -> None:
    """Its own reasoning stays, and nothing is added."""
    one = engine()
    given = body([ASK, R1, R1, C1, output(C1)])
    assert decided(one, given, taught(one, Lesson(FORM, AS_GIVEN))).body is given


def test_no_reasoning_takes_out_the_clients() -> None:
    """It is what upstream accepted at last."""
    one = engine()
    given = body([ASK, R1, C1, output(C1)])
    made = decided(one, given, taught(one, Lesson(FORM, NO_REASONING)))
    assert "reasoning" not in [item.get("type") for item in input_of(made.body)]


def test_the_last_attempt_has_no_reasoning() -> None:
    """Whatever the refusal says."""
    one = engine()
    given = body([ASK, R1, C1, output(C1)])
    refusal = one.diagnose(400, b'{"fault":"x"}')
    assert (refusal.kind, one.diagnose(400, b"{}", is_certain=False).kind) == ("form", "other")
    bodies = Bodies(given, given)
    question = one.ask_for_cure(bodies, refusal)
    cured = one.cure(SCOPE, bodies, question, refusal, NOTHING, without_reasoning=True)
    assert cured is not None
    assert "reasoning" not in [item.get("type") for item in input_of(cured.body)]


MESSAGES = messages.body_of(
    [
        messages.user("Weather?"),
        messages.assistant(thought("", "S0"), tool_call("add", "toolu_1")),
        messages.result("toolu_1"),
    ]
)
CHAT = chat_body(CHAT_ASK, chat_message(chat_call(1), reasoning_content="I look."), CHAT_RESULT)
GEMINI = gemini.body_of(
    [
        gemini.user("Weather?"),
        gemini.model(gemini.call(thoughtSignature=gemini.SIG)),
        gemini.output(),
    ]
)
APIS = [
    pytest.param(
        engine_of(messages.dialect_of()),
        MessagesDiagnosis(MessagesKind.FORM),
        MESSAGES,
        id="messages",
    ),
    pytest.param(engine_of(ChatDialect(GENERIC)), ChatDiagnosis(ChatKind.FORM), CHAT, id="chat"),
    pytest.param(
        engine_of(gemini.Client().dialect), GeminiDiagnosis(GeminiKind.FORM), GEMINI, id="gemini"
    ),
]
WORDS = (b'"thinking"', b"reasoning_content", b"thoughtSignature")


def cure_of(one: Engine, refusal: Any, given: bytes, *, without_reasoning: bool) -> Cure | None:
    """Return the cure of a request that came from a client, and of which nothing is known."""
    bodies = Bodies(given, given, "/v1beta/models/gemini-3-pro:generateContent")
    question = one.ask_for_cure(bodies, refusal)
    return one.cure(SCOPE, bodies, question, refusal, NOTHING, without_reasoning=without_reasoning)


@pytest.mark.parametrize(("one", "refusal", "given"), APIS)
def test_the_last_attempt_of_each_api_has_no_reasoning(
    one: Engine, refusal: Any, given: bytes
) -> None:
    """The rest stays; without reasoning, there is none."""
    cured = cure_of(one, refusal, given, without_reasoning=True)
    assert cured is not None
    assert any(word in given for word in WORDS)
    assert not any(word in cured.body for word in WORDS)
    json.loads(cured.body)
    assert cure_of(one, refusal, cured.body, without_reasoning=True) is None


@pytest.mark.parametrize(("one", "refusal", "given"), APIS)
def test_unknown_words_take_out_signatures_that_are_not_known(
    one: Engine, refusal: Any, given: bytes
) -> None:
    """Plain text is no signature: it goes at last only."""
    cured = cure_of(one, refusal, given, without_reasoning=False)
    assert (cured is None) == (one.name == "chat")
    assert cured is None or not any(word in cured.body for word in WORDS)


def test_a_lesson_concerns_the_whole_request() -> None:
    """What was decided before it is not kept."""
    one = engine()
    plain = found(one)
    decided(one, GIVEN, plain)
    caller = Caller(SCOPE, NO_ACCOUNT)
    longer = body([ASK, C1, output(C1), {"role": "user", "content": "More of it, please."}])
    question = asked(one, longer, SCOPE)
    held = taught(one, Lesson(FORM, AS_GIVEN))
    made = answered(one, caller, longer, question, held, is_created=True)
    assert made.body is longer


def test_a_lesson_of_form_finds_nothing_in_a_history_without_reasoning() -> None:
    """The request stays as it is."""
    plain = chat_body(CHAT_ASK)
    held = taught(engine(), Lesson(FORM))
    assert decided(engine_of(ChatDialect(GENERIC)), plain, held).body is plain
