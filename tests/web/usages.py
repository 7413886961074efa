"""Responses with usage figures."""

from tests.web.wire import CALL, RS, as_json, response, whole

SAID = {
    "input_tokens": 900,
    "input_tokens_details": {"cached_tokens": 768},
    "output_tokens": 120,
    "output_tokens_details": {"reasoning_tokens": 64},
}
TOKENS = {"input": 900, "cached": 768, "output": 120, "reasoning": 64}
BILLED = TOKENS | {"uncached": 900 - 768}
PLAIN = whole(as_json(response(RS, CALL, usage=SAID)))
RS_BYTES = len(as_json(RS))
DONE = whole(b"{}")
