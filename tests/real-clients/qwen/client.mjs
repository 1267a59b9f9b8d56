// Qwen Code as it is released: where it keeps a session, how it is started, and what it then tells the model.

import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { run } from "../process.mjs";
import { replyTo, startModel, texts } from "./model.mjs";

export const agent = "qwen";
export const version = "0.24.4";

/** The version that the lock file's package has. */
export const pinned = ({ dependencies }) => dependencies["@qwen-code/qwen-code"];

/** What it says of a tool that it does not run. */
export const complaint = /^Warning: Tool "run_shell_command" was not run: [^\n]*permission[^\n]*\s*$/;

/** How it is told that its shell tool may run this program's slash commands: a terminal would ask. */
export const mayRun = (program) => ["--allowed-tools", `run_shell_command(${program} slash)`];

/** What makes `offshoot` judge as for this version: nothing, since every record names it. */
export const inspectArguments = [];

export { replyTo };

/** How the client is told to fork a session and go on in the fork. */
export const forkArguments = (session) => ["--fork-session", "--resume", session];

const CLIENT = new URL("../node_modules/@qwen-code/qwen-code/cli-entry.js", import.meta.url).pathname;

/** The client as a program of its own, which wants Node on `PATH`. */
export const program = new URL("../node_modules/.bin/qwen", import.meta.url).pathname;

// No memory extraction and no search tool of its own: they cost requests and time, and have no part in resuming.
const SETTINGS = {
  general: { enableAutoUpdate: false },
  memory: { enableManagedAutoMemory: false, enableManagedAutoDream: false, enableAutoSkill: false },
  privacy: { usageStatisticsEnabled: false },
  telemetry: { enabled: false },
  tools: { useBuiltinRipgrep: false, useRipgrep: false },
};

/** Where the client looks for a session's transcript. */
export function transcript(place, session) {
  return join(chats(place), `${session}.jsonl`);
}

/** The ids of the sessions that the client would find. */
export function sessions(place) {
  return readdirSync(chats(place))
    .filter((name) => /^[0-9a-fA-F-]{32,36}\.jsonl$/.test(name))
    .map((name) => name.slice(0, -".jsonl".length));
}

function chats({ home, project }) {
  return join(home, ".qwen/projects", project.replace(/[^A-Za-z0-9]/g, "-"), "chats");
}

/** Makes a home for it, with a transcript in its place if one is given. */
export function settle(place, session, bytes) {
  mkdirSync(chats(place), { recursive: true });
  mkdirSync(join(place.home, "tmp"));
  writeFileSync(join(place.home, ".qwen/settings.json"), JSON.stringify(SETTINGS));
  if (bytes !== undefined) writeFileSync(transcript(place, session), bytes);
}

/** The version that the installed client says it has. */
export async function installedVersion(place) {
  const ran = await start(place, ["--version"], "http://127.0.0.1:9/v1");
  return ran.stdout.trim();
}

/**
 * Gives the client one prompt and lets it run to its end. `args` say which session: `["--resume", id]`.
 * Returns `{sent, raw, problem}`: the conversation that reached the model, one `role: text` for each part; the bodies
 * as text; and what was not as it must be of a good run, or null. `requests`: how many are right; `printed`: what is right
 * on standard output, if it is not the reply; `said`: what is on standard error, where it complains.
 */
export async function prompt(place, args, text, { requests = 1, printed = `${replyTo(text)}\n`, said = /^$/ } = {}) {
  const model = await startModel();
  try {
    const ran = await start(place, [...args, "-p", text], model.url);
    const raw = JSON.stringify(model.bodies);
    const sent = model.bodies.length === requests ? conversation(model.bodies.at(-1)) : [];
    return { sent, raw, screen: ran.stdout + ran.stderr, problem: problem(ran, model.bodies, { requests, printed, said }) };
  } finally {
    await model.close();
  }
}

function problem(ran, bodies, { requests, printed, said }) {
  if (ran.timedOut) return "the client did not end in time";
  if (ran.code !== 0) return `the client ended with ${ran.code ?? ran.signal}: ${ran.stderr.trim()}`;
  if (bodies.length !== requests) return `${bodies.length} requests instead of ${requests}`;
  if (ran.stdout !== printed) return `it printed ${JSON.stringify(ran.stdout)}`;
  if (!said.test(ran.stderr)) return `it said ${JSON.stringify(ran.stderr)}`;
  return null;
}

function start({ home, project }, args, url) {
  const env = {
    HOME: home,
    PATH: "/usr/bin:/bin",
    TMPDIR: join(home, "tmp"),
    NODE_COMPILE_CACHE: join(dirname(home), "compile-cache"),
    OPENAI_API_KEY: "dummy",
    OPENAI_BASE_URL: url,
    OPENAI_MODEL: "mock-model",
    // Else it starts itself a second time, for a larger heap.
    QWEN_CODE_NO_RELAUNCH: "1",
  };
  return run(process.execPath, [CLIENT, "--auth-type", "openai", ...args], { cwd: project, env });
}

// What the client adds by itself to a message (date, tools, folder) stands in parts of this form.
const ADDED = /^<system-reminder>[^]*<\/system-reminder>$/;

function conversation({ messages }) {
  const sent = [];
  for (const message of messages) {
    if (message.role === "system") continue;
    for (const text of texts(message)) {
      if (!ADDED.test(text.trim()) && text !== "") sent.push(`${message.role}: ${text}`);
    }
    for (const call of message.tool_calls ?? []) sent.push(`call: ${call.function.name} ${call.function.arguments}`);
  }
  return sent;
}

/** The complete records of some bytes of a transcript, one or more a line; what is no record is passed over. */
export function records(bytes) {
  const found = [];
  for (const line of bytes.toString("utf8").split("\n")) {
    // The client writes compact records that all begin alike, so a record that is glued to a torn one can be found.
    for (const piece of line.split(/(?=\{"uuid":")/)) {
      try {
        found.push(JSON.parse(piece));
      } catch {
        continue;
      }
    }
  }
  return found;
}

/** The records that the client added to a file since it had these bytes. */
export function added(path, before) {
  const now = readFileSync(path);
  if (!now.subarray(0, before.length).equals(before)) throw new Error(`${path} did not grow at its end`);
  return records(now.subarray(before.length));
}

/** The messages of a linear transcript, as the client stores them. */
export function conversationOf(path) {
  return records(readFileSync(path))
    .filter((record) => record.message !== undefined)
    .map(({ uuid, type, message }) => ({ uuid, type, message }));
}
