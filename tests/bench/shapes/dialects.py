"""All dialects of the bench, by name. A further one needs its builders and an entry."""

from tests.bench.shapes.chat import CHAT
from tests.bench.shapes.dialect import Dialect
from tests.bench.shapes.gemini import GEMINI
from tests.bench.shapes.messages import MESSAGES
from tests.bench.shapes.responses import RESPONSES

DIALECTS: dict[str, Dialect] = {each.name: each for each in (RESPONSES, CHAT, MESSAGES, GEMINI)}
