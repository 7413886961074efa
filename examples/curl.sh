#!/bin/sh
# curl and jq: two turns of a client that stores nothing and drops the reasoning.
# Run it with:   sh examples/curl.sh      (curl 7.84 or newer, and jq)
set -eu

question='{"role": "user", "content": "I go to Oslo. Will it rain? Use the tool."}'
tools='[{"type": "function", "name": "get_weather",
         "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]'

# Send the history $1; the headers go to the error output, the response to the output.
ask() {
  jq -n --argjson input "$1" --argjson tools "$tools" \
    '{model: "gpt-5.4", store: false, $input, $tools}' |
    curl -sS --fail-with-body "$OPENAI_BASE_URL/responses" --data-binary @- \
      -H "Authorization: Bearer $OPENAI_API_KEY" -H 'Content-Type: application/json' \
      -w '%{stderr}x-reasoning-replay: %header{x-reasoning-replay}
x-reasoning-replay-request-id: %header{x-reasoning-replay-request-id}\n'
}

first=$(ask "[$question]")
history=$(printf '%s' "$first" | jq --argjson question "$question" '
  [.output[] | select(.type == "function_call")] as $calls
  | [$question]
  + [.output[] | select(.type != "reasoning")]
  + [$calls[] | {type: "function_call_output", call_id, output: "7 degrees, rain"}]')
ask "$history" | jq '[.output[].type]'
