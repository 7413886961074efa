// Vercel AI SDK, Responses API: an app that prunes the reasoning from its messages to save tokens.
// It gets no error, and the model goes on without its reasoning: this SDK leaves out the ids of items,
// so the API cannot tell that any is missing.

import { openai } from "@ai-sdk/openai"; // reads OPENAI_BASE_URL and OPENAI_API_KEY
import { generateText, pruneMessages, stepCountIs, tool } from "ai";
import { z } from "zod";

const get_weather = tool({
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `${city}: 7 degrees, rain`,
});
let messages = [];
let id;
for (const question of ["I go to Oslo and Bodø. Where will it rain?", "Which trip should I move?"]) {
  messages.push({ role: "user", content: question });
  const result = await generateText({
    model: openai("gpt-5.4"),
    providerOptions: { openai: { store: false } },
    tools: { get_weather },
    stopWhen: stepCountIs(8),
    messages,
    onStepFinish: ({ response }) => {
      console.log("x-reasoning-replay:", response.headers["x-reasoning-replay"]);
      id = response.headers["x-reasoning-replay-request-id"];
    },
  });
  console.log(result.text);
  messages = pruneMessages({ messages: [...messages, ...result.response.messages], reasoning: "all" });
}
console.log("x-reasoning-replay-request-id:", id);
