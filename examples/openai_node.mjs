// OpenAI SDK for JavaScript: an agent loop that stores nothing and drops the reasoning.
// Run it with:   npm install --no-save --prefix examples openai ai @ai-sdk/openai zod && node examples/openai_node.mjs

import OpenAI from "openai";

const client = new OpenAI(); // reads OPENAI_BASE_URL and OPENAI_API_KEY
const tool = {
  type: "function",
  name: "get_weather",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};
const history = [];
let id;
for (const question of ["I go to Oslo, Bergen and Bodø. Where will it rain?", "Which trip should I move?"]) {
  history.push({ role: "user", content: question });
  let calls;
  do {
    const request = { model: "gpt-5.4", input: history, tools: [tool], store: false };
    const { data, response } = await client.responses.create(request).withResponse();
    console.log("x-reasoning-replay:", response.headers.get("x-reasoning-replay"));
    id = response.headers.get("x-reasoning-replay-request-id");
    history.push(...data.output.filter((item) => item.type !== "reasoning")); // what many clients drop
    calls = data.output.filter((item) => item.type === "function_call");
    for (const { call_id, arguments: text } of calls) {
      const output = `${JSON.parse(text).city}: 7 degrees, rain`;
      history.push({ type: "function_call_output", call_id, output });
    }
    if (!calls.length) console.log(data.output_text);
  } while (calls.length);
}
console.log("x-reasoning-replay-request-id:", id);
