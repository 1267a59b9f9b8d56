// Measures which neutral `system` record says nothing: `node claude/neutral.mjs`. A session of two branches gets one such
// record below its left branch and a line that pins it. The terminal interface, run in tmux, is to show the same as
// without the record, plain and in its detailed view (Ctrl-O), and the model is to get the same messages. Needs tmux.
// Ends with `N passed, N failed`: the first candidate, which our anchor is to be like, must be silent in every version.

import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { run } from "../process.mjs";
import { claude, environment } from "./client.mjs";
import { startModel } from "./model.mjs";
import { Tree } from "./tree.mjs";

const WORD = "WORDOFOURS";
const BLANK = { isMeta: undefined };
const TEXT = { content: WORD, level: "info" };

// Of each: the subtype and the other fields.
const CANDIDATES = [
  [undefined, BLANK],
  ["offshoot", BLANK],
  ["informational", BLANK],
  ["turn_duration", BLANK],
  ["local_command", BLANK],
  [undefined, { content: "", level: "info" }],
  ["offshoot", { content: "", level: "info" }],
  ["informational", { content: "", level: "info" }],
  [undefined, TEXT],
  [undefined, { content: WORD, isMeta: true }],
  ["offshoot", TEXT],
  ["informational", TEXT],
  ["turn_duration", { durationMs: 1000 }],
  ["local_command", TEXT],
  ["stop_hook_summary", TEXT],
  ["api_error", TEXT],
  ["bridge_status", TEXT],
  ["away_summary", TEXT],
];
const CHOSEN = CANDIDATES[0];

class Broken extends Error {}

const root = realpathSync(mkdtempSync(join(tmpdir(), "neutral-")));
const project = join(root, "project");
mkdirSync(project);
let homes = 0;

function settled(client, candidate) {
  const place = { home: join(root, `home-${++homes}`), project };
  mkdirSync(place.home);
  const tree = new Tree("neutral", project, client.version).turn("root", null).turn("left", "roota").turn("right", "roota");
  if (candidate) tree.system("ours", "lefta", ...candidate).pin("ours", { explicit: true });
  else tree.pin("lefta", { explicit: true });
  client.settle(place, tree.session, tree.bytes());
  return { place, session: tree.session };
}

async function asked(client, candidate) {
  const { place, session } = settled(client, candidate);
  const ran = await client.prompt(place, ["--resume", session], "NEXT");
  if (ran.problem) return { problem: ran.problem, messages: null };
  return { problem: null, messages: JSON.parse(ran.raw)[0].messages };
}

async function shown(client, candidate) {
  const { place, session } = settled(client, candidate);
  const model = await startModel();
  const socket = join(place.home, "tmux");
  const tmux = async (...args) =>
    (await run("tmux", ["-S", socket, "-f", "/dev/null", ...args], { cwd: project, env: { PATH: "/usr/bin:/bin", LANG: "C.UTF-8" } })).stdout;
  const env = { ...environment(place.home, model.url), TERM: "xterm-256color", LANG: "C.UTF-8", DISABLE_INSTALLATION_CHECKS: "1" };
  const start = ["env", "-i", ...Object.entries(env).map(([name, value]) => `${name}=${value}`), client.program, "--resume", session];
  try {
    await tmux("new-session", "-d", "-s", "it", "-x", "120", "-y", "60", "-c", project, ...start);
    const plain = await still(tmux);
    await tmux("send-keys", "-t", "it", "C-o");
    const detailed = await still(tmux, plain);
    return { plain: conversationOf(plain), detailed: conversationOf(detailed) };
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    return { plain: [error.message], detailed: [error.message] };
  } finally {
    await tmux("kill-server");
    await model.close();
  }
}

// The screen once the conversation is there, is not `not` any more, and three looks in a row find the same.
async function still(tmux, not) {
  let same = 0;
  let last = null;
  for (let look = 0; look < 100; look++) {
    await pause(150);
    const screen = await tmux("capture-pane", "-p", "-t", "it", "-S", "-500");
    same = screen === last && screen !== not && screen.includes("LEFT-A") ? same + 1 : 0;
    if (same === 3) return screen;
    last = screen;
  }
  const error = last.split("\n").find((line) => line.includes("ERROR"));
  throw new Broken(error ? `it breaks: ${error.trim()}` : `it does not come to rest: ${last.trim()}`);
}

// From the first prompt to the line above the input; blank lines give way where something is shown.
function conversationOf(screen) {
  const lines = screen.split("\n").map((line) => line.trim());
  const begin = lines.findIndex((line) => line.includes("ROOT-Q"));
  const end = lines.findIndex((line, i) => i > begin && line.startsWith("────"));
  return lines.slice(begin, end).filter((line) => line !== "" && !line.includes("/effort"));
}

function difference(found, without) {
  if (isDeepStrictEqual(found, without)) return "nothing";
  const more = found.filter((line) => !without.includes(line));
  return JSON.stringify(more.join(" | ").slice(0, 60));
}

const WIDTHS = [8, 18, 54, 15, 28];
function print(...cells) {
  console.log(cells.map((cell, i) => cell.padEnd(WIDTHS[i] ?? 0)).join("  ").trimEnd());
}

let failed = 0;
let passed = 0;
try {
  print("client", "subtype", "other fields", "the model gets", "the terminal shows", "in detail");
  for (const client of ["2.1.332", "2.1.197"].map(claude)) {
    const bare = { ...(await asked(client)), ...(await shown(client)) };
    for (const candidate of CANDIDATES) {
      const [subtype, fields] = candidate;
      const { problem, messages } = await asked(client, candidate);
      const screen = await shown(client, candidate);
      const model =
        problem ?? (isDeepStrictEqual(messages, bare.messages) ? "nothing" : JSON.stringify(messages).includes(WORD) ? "its text" : "something");
      const found = [model, difference(screen.plain, bare.plain), difference(screen.detailed, bare.detailed)];
      print(client.version, subtype ?? "-", JSON.stringify({ isMeta: false, ...fields }), ...found);
      if (candidate !== CHOSEN) continue;
      if (found.every((what) => what === "nothing")) passed++;
      else failed++;
    }
  }
} catch (error) {
  failed++;
  console.log(error.stack);
}
rmSync(root, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
