// Vercel AI SDK, Chat Completions: its provider for OpenAI keeps no reasoning of such a model.
// Run it with:   npm install --no-save --prefix examples openai ai @ai-sdk/openai zod && node examples/vercel_ai_sdk.mjs

import { openai } from "@ai-sdk/openai"; // reads OPENAI_BASE_URL and OPENAI_API_KEY
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const get_weather = tool({
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `${city}: 7 degrees, rain`,
});
const messages = [];
let id;
for (const question of ["I go to Oslo and Bodø. Where will it rain?", "Which trip should I move?"]) {
  messages.push({ role: "user", content: question });
  const result = await generateText({
    model: openai.chat("deepseek-v4-flash"),
    tools: { get_weather },
    stopWhen: stepCountIs(8),
    messages,
    onStepFinish: ({ response }) => {
      console.log("x-reasoning-replay:", response.headers["x-reasoning-replay"]);
      id = response.headers["x-reasoning-replay-request-id"];
    },
  });
  console.log(result.text);
  messages.push(...result.response.messages);
}
console.log("x-reasoning-replay-request-id:", id);
