// The official JavaScript client against a running node; prints what it saw as JSON. Run by tests/clients/test_openai.py.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.EXO_BASE_URL, apiKey: "unused", maxRetries: 0, timeout: 120000 });
const model = process.env.EXO_MODEL;
const messages = [{ role: "user", content: "Name a colour." }];

const whole = await client.chat.completions.create({ model, messages, max_tokens: 12, temperature: 0 });
let streamed = "";
for await (const chunk of await client.chat.completions.create({ model, messages, max_tokens: 12, temperature: 0, stream: true })) {
  streamed += chunk.choices[0]?.delta?.content ?? "";
}

const errors = [];
for (const body of [
  { model: "nobody/nothing", messages },
  { model, messages, temperature: 9 },
  { model, messages: [{ role: "user", content: "word ".repeat(20000) }] },
]) {
  try {
    await client.chat.completions.create(body);
    errors.push("none");
  } catch (error) {
    errors.push(error.constructor.name + (error.code === "context_length_exceeded" ? " " + error.code : ""));
  }
}

const endless = [{ role: "user", content: "Count from 1 to 100000, one number a line." }];
const stream = await client.chat.completions.create({ model, messages: endless, max_tokens: 8000, temperature: 0, stream: true });
let seen = 0;
for await (const _ of stream) {
  if (++seen === 5) break; // the client closes the connection
}
const begin = Date.now();
await client.chat.completions.create({ model, messages, max_tokens: 1 });

console.log(JSON.stringify({ whole: whole.choices[0].message.content, streamed, errors, afterDisconnectMs: Date.now() - begin }));
