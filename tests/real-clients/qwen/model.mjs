// A model server for tests: OpenAI's chat completions on loopback. It streams one reply a request, made of the last
// text it was sent, so that each branch's replies tell where they come from; and it keeps every request body.

import { createServer } from "node:http";
import { SHOWN, commandIn } from "../obey.mjs";

/** The reply to a prompt. */
export const replyTo = (prompt) => `REPLY-TO-${prompt}`;

/** Starts it on a free port. `bodies` grows by one parsed body a request. */
export async function startModel() {
  const bodies = [];
  const server = createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const body = parsed(Buffer.concat(chunks));
      if (request.method !== "POST" || request.url !== "/v1/chat/completions" || !Array.isArray(body?.messages)) {
        response.writeHead(404).end();
        return;
      }
      bodies.push(body);
      stream(response, body.model, answer(body.messages));
    });
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  return {
    bodies,
    url: `http://127.0.0.1:${server.address().port}/v1`,
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

function answer(messages) {
  const last = messages.at(-1);
  if (last.role === "tool") return { content: SHOWN };
  const prompt = texts(last).at(-1);
  const command = commandIn(prompt);
  if (command === null) return { content: replyTo(prompt) };
  const input = JSON.stringify({ command, is_background: false, timeout: 600_000, description: "offshoot" });
  return { tool_calls: [{ index: 0, id: `call_${Date.now()}`, type: "function", function: { name: "run_shell_command", arguments: input } }] };
}

/** The texts of one message, whose content is a string or a list of parts. */
export function texts({ content }) {
  if (typeof content === "string") return [content];
  return (content ?? []).map((part) => (part.type === "text" ? part.text : `[${part.type}]`));
}

function parsed(bytes) {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return null;
  }
}

function stream(response, model, delta) {
  const shared = { id: "chatcmpl-mock", object: "chat.completion.chunk", created: 1767225600, model };
  const event = (delta, finish_reason, more) => {
    const choices = [{ index: 0, delta, finish_reason }];
    response.write(`data: ${JSON.stringify({ ...shared, choices, ...more })}\n\n`);
  };
  response.writeHead(200, { "content-type": "text/event-stream" });
  event({ role: "assistant", ...delta }, null);
  event({}, delta.tool_calls ? "tool_calls" : "stop", { usage: { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 } });
  response.end("data: [DONE]\n\n");
}
