// Claude Code as it is released: where it keeps a session, how it is started, and what it then tells the model.

import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../process.mjs";
import { conversation, replyTo, startModel } from "./model.mjs";

/** One released version of it. The versions stand side by side, each under an alias of the package with its binary. */
export function claude(version) {
  const installed = `claude-${version}-${process.platform}-${process.arch}`;
  const program = new URL(`../node_modules/${installed}/claude`, import.meta.url).pathname;
  const start = ({ home, project }, args, url) =>
    run(program, args, { cwd: project, env: environment(home, url) });

  return {
    agent: "claude",
    version,
    program,
    transcript,
    sessions,
    added,
    conversationOf,
    told,
    replyTo,

    /** The version that the lock file's package has. */
    pinned: ({ optionalDependencies }) => optionalDependencies[installed]?.split("@").at(-1),

    /** How the client is told to fork a session and go on in the fork. */
    forkArguments: (session) => ["--fork-session", "--resume", session],

    /** How it is told that its shell tool may run this program's slash commands: their files say so. */
    mayRun: () => [],

    /** What makes `offshoot` judge as for this version. */
    inspectArguments: ["--client-version", version],

    /** Makes a home for it, with a transcript in its place if one is given. */
    settle(place, session, bytes) {
      mkdirSync(folder(place), { recursive: true });
      mkdirSync(join(place.home, "tmp"));
      writeFileSync(join(config(place.home), ".claude.json"), JSON.stringify(settled(version, place.project)));
      if (bytes !== undefined) writeFileSync(transcript(place, session), bytes);
    },

    /** The version that the installed client says it has. */
    async installedVersion(place) {
      const ran = await start(place, ["--version"], "http://127.0.0.1:9");
      return ran.stdout.trim().replace(/ \(Claude Code\)$/, "");
    },

    /**
     * Gives the client one prompt and lets it run to its end. `args` say which session: `["--resume", id]`.
     * Returns `{sent, raw, screen, problem}`: the conversation that reached the model, with the last request; the bodies
     * as text; what was printed; and what was not as it must be of a good run, or null. `requests`: how many are right;
     * `printed`: what is right on standard output, if it is not the reply.
     */
    async prompt(place, args, text, { requests = 1, printed = `${replyTo(text)}\n` } = {}) {
      const model = await startModel();
      try {
        const ran = await start(place, [...args, "-p", text], model.url);
        const sent = conversation(model.bodies.at(-1)?.messages ?? []);
        const screen = ran.stdout + ran.stderr;
        return { sent, raw: JSON.stringify(model.bodies), screen, problem: problem(ran, model.bodies, requests, printed) };
      } finally {
        await model.close();
      }
    },
  };
}

function problem(ran, bodies, requests, printed) {
  if (ran.timedOut) return "the client did not end in time";
  if (ran.code !== 0) return `the client ended with ${ran.code ?? ran.signal}: ${ran.stdout}${ran.stderr.trim()}`;
  if (bodies.length !== requests) return `${bodies.length} requests instead of ${requests}`;
  if (ran.stdout !== printed) return `it printed ${JSON.stringify(ran.stdout)}`;
  if (ran.stderr !== "") return `it said ${JSON.stringify(ran.stderr)}`;
  return null;
}

/** The whole environment of the client: nothing else may be reached than the model at `url`. */
export function environment(home, url) {
  return {
    HOME: home,
    PATH: "/usr/bin:/bin",
    TMPDIR: join(home, "tmp"),
    CLAUDE_CONFIG_DIR: config(home),
    ANTHROPIC_API_KEY: "dummy",
    ANTHROPIC_BASE_URL: url,
    HTTP_PROXY: "http://127.0.0.1:9",
    HTTPS_PROXY: "http://127.0.0.1:9",
    NO_PROXY: "127.0.0.1",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
    DISABLE_TELEMETRY: "1",
    DISABLE_ERROR_REPORTING: "1",
  };
}

// Without these answers its terminal interface asks for them at the first start.
function settled(version, project) {
  return {
    hasCompletedOnboarding: true,
    theme: "dark",
    lastOnboardingVersion: version,
    lastReleaseNotesSeen: version,
    customApiKeyResponses: { approved: ["dummy"], rejected: [] },
    projects: { [project]: { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true, allowedTools: [] } },
  };
}

const config = (home) => join(home, ".claude");

const folder = ({ home, project }) => join(config(home), "projects", project.replace(/[^A-Za-z0-9]/g, "-"));

/** Where the client looks for a session's transcript. */
function transcript(place, session) {
  return join(folder(place), `${session}.jsonl`);
}

/** The ids of the sessions that the client would find. */
function sessions(place) {
  return readdirSync(folder(place))
    .filter((name) => /^[0-9a-fA-F-]{36}\.jsonl$/.test(name))
    .map((name) => name.slice(0, -".jsonl".length));
}

/** The records of some bytes of a transcript that stand in a line of their own. */
export function records(bytes) {
  const found = [];
  for (const line of bytes.toString("utf8").split("\n")) {
    try {
      found.push(JSON.parse(line));
    } catch {
      continue;
    }
  }
  return found;
}

const CHAINED = new Set(["user", "assistant", "system", "attachment"]);

/** Whether a record is one that others can hang below. */
export const chained = (record) => CHAINED.has(record.type) && record.uuid !== undefined;

/** The chained records that the client added to a file since it had these bytes. */
function added(path, before) {
  const now = readFileSync(path);
  if (!now.subarray(0, before.length).equals(before)) throw new Error(`${path} did not grow at its end`);
  return records(now.subarray(before.length)).filter(chained);
}

/** The messages of a linear transcript, as the client stores them. */
function conversationOf(path) {
  return records(readFileSync(path))
    .filter((record) => record.uuid !== undefined && record.message !== undefined)
    .map(({ uuid, type, message }) => ({ uuid, type, message }));
}

/**
 * What the records of a chain are to the model, with those beside it, which come where the file has them, or at the end.
 * Of two copies of a record the last one counts.
 */
function told(path, uuids, attached) {
  const last = new Map();
  for (const [at, record] of records(readFileSync(path)).entries()) last.set(record.uuid, { at, record });
  // What a compaction keeps stands before the chain, and is told behind the summary that it ends with.
  const kept = attached.map((uuid) => last.get(uuid)).filter(({ at }) => at < last.get(uuids[0]).at);
  const beside = attached.map((uuid) => last.get(uuid)).filter((entry) => !kept.includes(entry));
  const all = [];
  for (const next of uuids.map((uuid) => last.get(uuid))) {
    while (beside.length > 0 && next.at > beside[0].at) all.push(beside.shift());
    all.push(next);
  }
  return conversation([...all, ...beside, ...kept].map(({ record }) => record.message).filter(Boolean));
}
