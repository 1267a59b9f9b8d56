// Holds `offshoot` to the released clients: `node main.mjs PATH-OF-THE-BINARY [AGENT [SESSION]]`. Prints a table, and ends
// with `N passed, N failed`. A client that is missing or has another version fails; nothing is skipped, but with the name of
// an agent only that agent's clients are run, and with a part of a session's name only such sessions.

import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { claude } from "./claude/client.mjs";
import { rewindRow } from "./claude/rewind.mjs";
import { sessionsFor } from "./claude/sessions.mjs";
import { commandsRow } from "./commands.mjs";
import { Failed, rows } from "./matrix.mjs";
import { offshootAt } from "./offshoot.mjs";
import { probeRow } from "./probe.mjs";
import { endAll, pool } from "./process.mjs";
import * as qwenClient from "./qwen/client.mjs";
import * as qwenSessions from "./qwen/sessions.mjs";
import * as reasonixClient from "./reasonix/client.mjs";
import { forkRow } from "./reasonix/fork.mjs";
import { redactRow } from "./reasonix/redact.mjs";

// Each further client is one entry here: a client and its sessions; `more` are rows of its own.
const SUBJECTS = [
  { client: qwenClient, sessions: qwenSessions, more: [probeRow, commandsRow] },
  ...["2.1.332", "2.1.197"].map(claude).map((client) => ({ client, sessions: sessionsFor(client), more: [rewindRow, probeRow, commandsRow] })),
  // It has no transcripts of ours to resume: a session is made by the client itself.
  { client: reasonixClient, sessions: { make: async () => [] }, more: [forkRow, redactRow] },
];
const [, , , AGENT, SESSION = ""] = process.argv;
const LIMIT_MS = 30 * 60_000;
const WIDTH = Math.max(2, availableParallelism());

const binary = realpathSync(process.argv[2]);
// Its name reaches the model with the working directory, so it must hold no word that is looked for there.
const root = realpathSync(mkdtempSync(join(tmpdir(), "real-clients-")));
const project = join(root, "project");
mkdirSync(project);
let homes = 0;
const bench = {
  home() {
    const home = join(root, `home-${++homes}`);
    mkdirSync(home);
    return { home, project };
  },
  offshoot: (place) => offshootAt(binary, place),
};

function stop(why, code) {
  endAll();
  rmSync(root, { recursive: true, force: true });
  console.log(`${why}\n0 passed, 1 failed`);
  process.exit(code);
}
process.on("SIGINT", () => stop("interrupted", 130));
process.on("SIGTERM", () => stop("terminated", 143));
setTimeout(() => stop("the clients did not end in time", 1), LIMIT_MS).unref();

async function main() {
  const manifest = JSON.parse(readFileSync(new URL("package.json", import.meta.url)));
  const node = manifest.optionalDependencies[`node-${process.platform}-${process.arch}`];
  if (process.version !== `v${node}`) throw new Failed(`this is node ${process.version}, not ${node}`);
  const results = [];
  for (const { client, sessions, more = [] } of SUBJECTS.filter(({ client }) => [undefined, client.agent].includes(AGENT))) {
    const place = bench.home();
    client.settle(place);
    const installed = await client.installedVersion(place);
    if (installed !== client.version || client.pinned(manifest) !== client.version) {
      throw new Failed(`the installed ${client.agent} is ${JSON.stringify(installed)}, not ${client.version}`);
    }
    console.log(`${client.agent} ${installed}, node ${node}`);
    const made = await sessions.make(() => bench.home());
    const every = [...rows(client, made, bench), ...more.map((row) => row(client, bench))];
    const all = every.filter((row) => row.session.includes(SESSION));
    results.push(...(await pool(WIDTH, all.map((row) => () => checked(row)))));
  }
  return results;
}

async function checked(row) {
  const began = performance.now();
  let result;
  let failure = null;
  try {
    result = (await row.check()) ?? "as foretold";
  } catch (error) {
    result = "FAILED";
    failure = error instanceof Failed ? error.message : error.stack;
  }
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  return { ...row, result, failure, seconds };
}

function table(results) {
  const lines = [["client", "session", "leaf", "seed", "s", "result"]];
  for (const r of results) lines.push([r.client, r.session, r.leaf, r.seed, r.seconds, r.result]);
  const widths = [0, 1, 2, 3, 4].map((column) => Math.max(...lines.map((line) => line[column].length)));
  return lines.map((line) => line.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ").trimEnd()).join("\n");
}

const began = performance.now();
let failed = 1;
try {
  const results = await main();
  const failures = results.filter((r) => r.failure !== null);
  console.log(table(results));
  for (const f of failures) console.log(`\n${f.client}: ${f.session}, ${f.leaf || "-"}, ${f.seed}: ${f.failure}`);
  console.log(`${((performance.now() - began) / 1000).toFixed(0)} s`);
  failed = failures.length + (results.length === 0 ? 1 : 0);
  console.log(`${results.length - failures.length} passed, ${failed} failed`);
} catch (error) {
  endAll();
  console.log(`${error instanceof Failed ? error.message : error.stack}\n0 passed, 1 failed`);
}
if (process.env.KEEP === undefined) rmSync(root, { recursive: true, force: true });
else console.log(root);
process.exit(failed > 0 ? 1 : 0);
