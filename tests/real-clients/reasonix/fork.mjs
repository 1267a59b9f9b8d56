// A session that the client made: its own fork targets and ours, its child and ours, and whether it goes on in ours.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { zstdDecompressSync } from "node:zlib";
import { startModel, texts } from "../qwen/model.mjs";
import { ended, opened, same } from "./service.mjs";

/** The row of the client. */
export function forkRow(client, bench) {
  const check = async () => {
    const place = bench.home();
    const model = await startModel();
    const served = { child: null };
    try {
      client.settle(place, model.url);
      return await forked(client, bench.offshoot(place), place, model, served);
    } finally {
      served.child?.end();
      await model.close();
    }
  };
  return { client: `${client.agent} ${client.version}`, session: "its own", leaf: "", seed: "fork --turn", check };
}

async function forked(client, offshoot, place, model, served) {
  const projects = join(place.home, ".reasonix/projects");
  await ended(client.turn(place, "ONE"));
  const root = join(projects, readdirSync(projects)[0], "sessions-v4");
  const sessions = readdirSync(root).filter((name) => !name.startsWith("."));
  same(sessions.length, 1, "sessions after one run");
  const [session] = sessions;
  await ended(client.turn(place, "TWO", session));
  const log = () => readFileSync(join(root, session, "events.frames"));
  const before = log();

  const ours = await offshoot.json(["targets", session]);
  const first = ours.targets[0];
  const child = (await offshoot.json(["fork", session, "--turn", first.turnId, "--expect", first.anchor])).sessionId;
  same(log().equals(before), true, "the parent's log is untouched");
  const made = records(join(root, child));

  // The client's own view of the same session, and its own child.
  const call = await opened(client, place, session, served);
  const theirs = await (await call("GET", "/fork-targets")).json();
  const short = (t) => [t.turnId, t.turnNumber, t.startSequence ?? t.start, t.endSequence ?? t.end, t.boundarySequence ?? t.boundary, t.status, t.messageId, t.available];
  same(JSON.stringify(ours.targets.map(short)), JSON.stringify(theirs.targets.map(short)), "fork targets");
  const answer = await call("POST", "/fork-session", { sourceSessionId: session, turnId: first.turnId, boundarySequence: first.boundary, operationId: "op-1" });
  const their = (await answer.json()).sessionId;
  same(rebound(made, their).join("\n"), records(join(root, their)).join("\n"), "records of a child");
  const listed = await (await call("GET", "/sessions")).json();
  same(listed.some((s) => s.sessionId === child), true, "the client lists our child");
  served.child.end();

  // It goes on in our child, with the history of the first turn and nothing else.
  await ended(client.turn(place, "THREE", child));
  const said = model.bodies.at(-1).messages.filter((m) => m.role !== "system").map((m) => texts(m).join(""));
  const prompts = said.filter((text) => ["ONE", "TWO", "THREE", "REPLY-TO-ONE", "REPLY-TO-TWO"].includes(text));
  same(prompts.join(" "), "ONE REPLY-TO-ONE THREE", "what the model got");
  const family = await offshoot.json(["inspect", session]);
  same(family.branches.map((b) => b.leafUuid).includes(child), true, "the child is a leaf of the family");
  same((await offshoot.json(["targets", child])).targets.length, 2, "turns of the child");
  return `${ours.targets.length} targets, one child, as foretold`;
}

/** The JSON records of a log. */
function records(folder) {
  const bytes = readFileSync(join(folder, "events.frames"));
  const out = [];
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at + 4);
    out.push(zstdDecompressSync(bytes.subarray(at + 12, at + 12 + length)).toString("utf8"));
    at += 12 + length;
  }
  return out;
}

const sha256 = (text) => createHash("sha256").update(text).digest("hex");

/** Our child's records as they would be for the id of another one: what depends on the id is made anew, all else is kept. */
function rebound(lines, id) {
  const out = [];
  let open = [];
  for (const line of lines) {
    open.push(line);
    if (JSON.parse(line).recordType !== "batch/end") continue;
    const begin = JSON.parse(open[0]);
    const commit = sha256(`fork\0${id}\0${begin.operationId.split(":")[2]}`).slice(0, 32);
    const events = open.slice(1, -1).map((text) => JSON.parse(text).event);
    const hashed = events.map((e) => `{"id":"${e.id}","kind":"${e.kind}"${e.optional ? ',"optional":true' : ""}${
      e.payload ? `,"payload":${Buffer.from(e.payload, "base64").toString("utf8")}` : ""}}`);
    const hash = sha256(`{"sessionId":"${id}","turnId":"${begin.turnId ?? ""}","events":[${hashed.join(",")}]}`);
    const first = open[0].replace(begin.commitId, commit).replace(begin.operationHash, hash);
    const whole = [first, ...open.slice(1, -1)];
    const end = JSON.parse(line);
    out.push(...whole, line.replace(end.commitId, commit).replace(end.sha256, sha256(whole.map((l) => `${l}\0`).join(""))));
    open = [];
  }
  return out;
}
