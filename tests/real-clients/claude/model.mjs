// A model server for tests: Anthropic's Messages API with streaming, on loopback. It makes its reply of the last prompt
// it was sent, so that each branch's replies tell where they come from; and it keeps every request body.

import { createServer } from "node:http";
import { SHOWN, commandIn } from "../obey.mjs";

/** The reply to a prompt. */
export const replyTo = (prompt) => `REPLY-TO-${prompt}`;

/** The reply to the client's own long instruction to summarise. */
export const SUMMARY = "SUMMARY-OF-ALL-BEFORE";

/** A prompt of this form is first answered with one `Read` for each of the files, side by side. */
export const readPrompt = (...files) => `READ ${files.join(" ")}`;

/** A prompt of this form is first answered with a `Write` of the word `text` to the file. */
export const writePrompt = (file, text) => `WRITE ${file} ${text}`;

const LONGEST_PROMPT = 200;

/** Starts it on a free port. `bodies` grows by one parsed body a request. */
export async function startModel() {
  const bodies = [];
  const server = createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const body = parsed(Buffer.concat(chunks));
      if (request.method === "HEAD") response.writeHead(200).end();
      else if (request.method !== "POST" || !/^\/v1\/messages(\?|$)/.test(request.url) || !Array.isArray(body?.messages)) {
        response.writeHead(404, { "content-type": "application/json" });
        response.end('{"type":"error","error":{"type":"not_found_error","message":"not here"}}');
      } else {
        bodies.push(body);
        stream(response, body.model, `msg_mock_${Date.now()}_${bodies.length}`, blocksFor(body.messages));
      }
    });
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  return {
    bodies,
    url: `http://127.0.0.1:${server.address().port}`,
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The blocks of one message, whose content is a string or a list of blocks. */
export const blocks = ({ content }) => (typeof content === "string" ? [{ type: "text", text: content }] : content);

// What the client adds by itself to a message (date, folder, tools) stands in texts of this form.
const ADDED = /^(<system-reminder>(?:(?!<\/system-reminder>)[^])*<\/system-reminder>\s*)+$/;

/**
 * The conversation of a request: one `role: text`, `call: name input` or `tool: text` for each block,
 * without space around the text: the client may end it with a newline before another one.
 */
export function conversation(messages) {
  const sent = [];
  for (const message of messages) {
    if (message.role === "system") continue;
    for (const block of blocks(message)) {
      if (block.type === "text" && !ADDED.test(block.text.trim())) sent.push(`${message.role}: ${block.text.trim()}`);
      else if (block.type === "tool_use") sent.push(`call: ${block.name} ${JSON.stringify(block.input)}`);
      else if (block.type === "tool_result") sent.push(`tool: ${texts(block.content)}`);
      else if (block.type !== "text") sent.push(`${message.role}: [${block.type}]`);
    }
  }
  return sent;
}

const texts = (content) =>
  typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? `[${part.type}]`).join("");

function blocksFor(messages) {
  const sent = conversation(messages);
  const prompt = sent.findLast((line) => line.startsWith("user: ")).slice("user: ".length);
  const command = commandIn(prompt);
  if (command !== null) {
    if (sent.at(-1).startsWith("tool: ")) return [{ type: "text", text: SHOWN }];
    return [{ type: "tool_use", id: `toolu_${Date.now()}_0`, name: "Bash", input: { command, timeout: 600_000, description: "offshoot" } }];
  }
  if (prompt.length > LONGEST_PROMPT) return [{ type: "text", text: `<summary>${SUMMARY}</summary>` }];
  const [word, ...files] = prompt.split(" ");
  if (word === "WRITE" && !sent.at(-1).startsWith("tool: ")) {
    const [file_path, content] = files;
    return [{ type: "tool_use", id: `toolu_${Date.now()}_0`, name: "Write", input: { file_path, content } }];
  }
  if (word !== "READ" || sent.at(-1).startsWith("tool: ")) return [{ type: "text", text: replyTo(prompt) }];
  const calls = files.map((file_path, i) => ({ type: "tool_use", id: `toolu_${Date.now()}_${i}`, name: "Read", input: { file_path } }));
  return [{ type: "text", text: `LOOKING-INTO-${files.length}` }, ...calls];
}

function parsed(bytes) {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return null;
  }
}

function stream(response, model, id, content) {
  const event = (type, data) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
  const usage = { input_tokens: 10, output_tokens: 1 };
  response.writeHead(200, { "content-type": "text/event-stream" });
  event("message_start", {
    message: { id, type: "message", role: "assistant", model, content: [], stop_reason: null, stop_sequence: null, usage },
  });
  for (const [index, block] of content.entries()) {
    const tool = block.type === "tool_use";
    event("content_block_start", { index, content_block: tool ? { ...block, input: {} } : { ...block, text: "" } });
    const delta = tool
      ? { type: "input_json_delta", partial_json: JSON.stringify(block.input) }
      : { type: "text_delta", text: block.text };
    event("content_block_delta", { index, delta });
    event("content_block_stop", { index });
  }
  const stop_reason = content.at(-1).type === "tool_use" ? "tool_use" : "end_turn";
  event("message_delta", { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 3 } });
  event("message_stop", {});
  response.end();
}
