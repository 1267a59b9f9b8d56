// What is held against the released clients. Each check is one row: it makes its own home, lets `offshoot` work there
// and then the client, and compares what the client sent to its model with what the session's maker knows.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

/** The rows of one client's sessions: `{client, session, leaf, seed, check}`; `check` throws a `Failed` or returns. */
export function rows(client, sessions, bench) {
  const row = (session, leaf, seed, check) =>
    ({ client: `${client.agent} ${client.version}`, session: session.name, leaf, seed, check });
  return sessions.flatMap((session) => [
    row(session, "", "(as it is)", () => asItIs(client, session, bench)),
    ...Object.keys(session.leaves).flatMap((leaf) =>
      ["fork", "in-place"].map((seed) => row(session, leaf, seed, () => seeded(client, session, leaf, seed, bench))),
    ),
    ...(session.forkable
      ? [
          row(session, session.forkable, "(its own fork)", () => ownFork(client, session, session.forkable, bench)),
        ]
      : []),
    ...(session.forkable && beginsPlainly(session.leaves[session.forkable])
      ? [
          row(session, session.forkable, "truncate", () => truncated(client, session, session.forkable, bench)),
          row(session, session.forkable, "restore", () => restored(client, session, session.forkable, bench)),
        ]
      : []),
  ]);
}

export class Failed extends Error {}

function equal(what, found, expected) {
  if (isDeepStrictEqual(found, expected)) return;
  throw new Failed(`${what}\n    found    ${JSON.stringify(found)}\n    expected ${JSON.stringify(expected)}`);
}

function sameBytes(what, found, expected) {
  if (!found.equals(expected)) throw new Failed(`${what}: ${found.length} bytes, not the ${expected.length} that were there`);
}

function prepared(client, session, bench) {
  const place = bench.home();
  client.settle(place, session.session, session.bytes);
  return { place, path: client.transcript(place, session.session), offshoot: bench.offshoot(place) };
}

// Without any seed: the leaves are right, and the client does what the simulation says of it.
async function asItIs(client, session, bench) {
  const { place, path, offshoot } = prepared(client, session, bench);
  const inspection = await offshoot.json(["inspect", path, ...client.inspectArguments]);
  const uuids = inspection.branches.map((b) => b.leafUuid).sort();
  equal("the leaves", uuids, Object.values(session.leaves).map((l) => l.uuid).sort());
  equal("clientPick.tailUuid", inspection.clientPick?.tailUuid, session.pick.tail);
  equal("the child of the gap", inspection.clientPick.gap?.childUuid, session.pick.gap);
  const picked = Object.values(session.leaves).find((leaf) => leaf.uuid === inspection.clientPick.leafUuid);
  if (client.told && picked && !picked.gap) {
    const chain = await offshoot.json(["chain", path, "--leaf", picked.uuid, ...client.inspectArguments]);
    equal("the chain of the pick", client.told(path, chain.uuids, chain.attached), session.pick.sent);
  }
  await turn(client, { place, path, session: session.session, history: session.pick.sent, offshoot, text: "NEXT", hidden: [] });
}

/** One prompt: the client continues below its pick, sends exactly the history and the prompt, and shows nothing of ours. */
async function turn(client, { place, path, session, history, offshoot, text, hidden, below }) {
  const tail = (await offshoot.json(["inspect", path])).clientPick?.tailUuid;
  if (below !== undefined) equal("where the client's next record will hang", tail, below);
  const before = readFileSync(path);
  const ran = await client.prompt(place, ["--resume", session], text);
  if (ran.problem) throw new Failed(ran.problem);
  equal("what reached the model", ran.sent, [...history, `user: ${text}`]);
  for (const word of hidden) {
    if (ran.raw.includes(word)) throw new Failed(`the request holds ${JSON.stringify(word)}`);
    if (ran.screen.includes(word)) throw new Failed(`the client shows ${JSON.stringify(word)}`);
  }
  const [first] = client.added(path, before);
  equal("the parent of the client's first record", first?.parentUuid, tail);
  return [...history, `user: ${text}`, `assistant: ${client.replyTo(text)}`];
}

async function seeded(client, session, name, seed, bench) {
  const { place, path, offshoot } = prepared(client, session, bench);
  const leaf = session.leaves[name];
  const operation = `op-${session.session.slice(0, 8)}-${name}-${seed}`;
  const choose = ["resume", path, "--leaf", leaf.uuid, "--seed", seed, "--operation-id", operation];
  if (leaf.gap) {
    await offshoot.refused(choose, "chain-broken");
    choose.push("--allow-gap");
  }
  const refusal = leaf.refused?.[seed];
  if (refusal !== undefined) {
    await offshoot.refused(choose, refusal);
    sameBytes("the source", readFileSync(path), session.bytes);
    return `refused: ${refusal}`;
  }
  const answer = await offshoot.json(choose);
  const source = readFileSync(path);
  if (seed === "fork") {
    sameBytes("the source", source, session.bytes);
    if (answer.seed.sessionId === session.session) throw new Failed("the fork has its parent's session id");
  } else {
    sameBytes("the source's beginning", source.subarray(0, session.bytes.length), session.bytes);
    equal("the session", answer.seed.sessionId, session.session);
  }
  equal("where the seed is", answer.seed.transcript, client.transcript(place, answer.seed.sessionId));

  const own = leaf.sent.join("\n");
  const others = Object.values(session.leaves).flatMap((l) => l.sent.map((s) => s.replace(/^\w+: /, "")));
  const hidden = ["offshoot", operation, leaf.uuid, ...others.filter((text) => !own.includes(text))];
  if (answer.seed.anchor) hidden.push(answer.seed.anchor);
  const shared = { place, path: answer.seed.transcript, session: answer.seed.sessionId, offshoot, hidden };
  let history = leaf.sent;
  history = await turn(client, { ...shared, history, text: "NEXT-1", below: answer.seed.parentUuid });
  await turn(client, { ...shared, history, text: "NEXT-2" });

  const audit = await offshoot.json(["audit", "verify", path, "--deep"]);
  equal("the findings of the audit", audit.findings, []);
  equal("the notes of the audit", audit.notes.map((note) => note.code), ["followed"]);
  return answer.seed.mode === "in-place" && answer.seed.anchor === null ? "followed, no anchor was needed" : "followed";
}

/** Whether a leaf begins with a prompt and a reply of one part each: no summary, no round of tool calls. */
const beginsPlainly = ({ sent: [user, assistant, next] }) =>
  /^user: \S+$/.test(user) && /^assistant: \S+$/.test(assistant) && next?.startsWith("user: ");

/** The record of the first reply of a leaf, and what the model has got when it ends there. */
function firstReply(client, path, leaf) {
  const at = leaf.sent.findIndex((said) => said.startsWith("assistant: "));
  const said = leaf.sent[at].replace("assistant: ", "");
  const records = client.conversationOf(path).filter((r) => r.type === "assistant" && JSON.stringify(r).includes(JSON.stringify(said)));
  if (at < 0 || records.length === 0) throw new Failed("the session has no reply to go back to");
  return { uuid: records[0].uuid, sent: leaf.sent.slice(0, at + 1) };
}

async function cut(client, session, name, bench) {
  const made = prepared(client, session, bench);
  const after = firstReply(client, made.path, session.leaves[name]);
  const answer = await made.offshoot.json(["truncate", made.path, "--after", after.uuid]);
  sameBytes("the backup", readFileSync(answer.backup), session.bytes);
  return { ...made, after, answer };
}

// Everything below the first reply is dropped: the client goes on there, with that much of the conversation and no more.
async function truncated(client, session, name, bench) {
  const { place, path, offshoot, after, answer } = await cut(client, session, name, bench);
  const own = after.sent.join("\n");
  const others = Object.values(session.leaves).flatMap((l) => l.sent.map((s) => s.replace(/^\w+: /, "")));
  const hidden = ["offshoot", answer.operationId, ...others.filter((text) => !own.includes(text))];
  const shared = { place, path, session: session.session, offshoot, hidden };
  const history = await turn(client, { ...shared, history: after.sent, text: "NEXT-1", below: answer.parentUuid });
  await turn(client, { ...shared, history, text: "NEXT-2" });
  equal("the findings of the audit", (await offshoot.json(["audit", "verify", path, "--deep"])).findings, []);
  return answer.anchor === null ? "followed, no anchor was needed" : "followed";
}

// And taken back: the file is what it was, and the client does what it would have done.
async function restored(client, session, name, bench) {
  const { place, path, offshoot } = await cut(client, session, name, bench);
  await offshoot.json(["restore", path]);
  sameBytes("the source", readFileSync(path), session.bytes);
  const { sent, tail } = session.pick;
  await turn(client, { place, path, session: session.session, history: sent, offshoot, text: "NEXT", hidden: [], below: tail });
  return "as it was";
}

// The client's own fork reaches only the branch that it would resume, so it is steered there first.
async function ownFork(client, session, name, bench) {
  const { place, path, offshoot } = prepared(client, session, bench);
  const leaf = session.leaves[name];
  const ours = (await offshoot.json(["resume", path, "--leaf", leaf.uuid, "--seed", "fork"])).seed;
  await offshoot.json(["resume", path, "--leaf", leaf.uuid, "--seed", "in-place"]);
  const known = client.sessions(place);
  const ran = await client.prompt(place, client.forkArguments(session.session), "NEXT");
  if (ran.problem) throw new Failed(ran.problem);
  equal("what reached the model", ran.sent, [...leaf.sent, "user: NEXT"]);
  const made = client.sessions(place).filter((id) => !known.includes(id));
  equal("how many sessions the client made", made.length, 1);
  const theirs = client.conversationOf(client.transcript(place, made[0])).slice(0, -2);
  // What a compaction keeps is written behind its summary by the client, without its usage, and by us as it stood.
  const byUuid = (messages) =>
    messages
      .map(({ message: { usage: _, ...message }, ...record }) => ({ ...record, message }))
      .sort((a, b) => (a.uuid < b.uuid ? -1 : 1));
  equal("the messages of our fork", byUuid(client.conversationOf(ours.transcript)), byUuid(theirs));
  return "the same messages";
}
