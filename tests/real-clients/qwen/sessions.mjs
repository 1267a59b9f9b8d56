// The sessions, each with what is known of it by construction: the leaves, what the model must get for each, and under
// which record and with what history the client itself goes on. Nothing here is taken from what `offshoot` says.
//
// A session: {name, session, bytes, leaves: {name: {uuid, sent, gap?, refused?}}, pick: {tail, sent, gap?}, forkable?}.
// `gap` of a leaf: its chain ends at a missing parent; of the pick: the record above which the client loses the history.
// `refused`: by seed, the code of the refusal that is right for it.
// `forkable`: the leaf for which the client's own fork is compared with ours.

import { readFileSync } from "node:fs";
import { said, uuidOf } from "../names.mjs";
import * as client from "./client.mjs";
import { replyTo } from "./model.mjs";
import { Tree } from "./tree.mjs";

/** Makes all of them. `home()` gives a place that was not used before. */
export async function make(home) {
  const { project } = home();
  const tree = (name) => new Tree(name, project, client.version);
  const madeByHand = [
    twoBranches, rewound, tornTail, artifactInChain, compressed, cutShort, fragments, missingParent,
  ].map((build) => build(tree));
  return [...(await madeByClient(home)), ...madeByHand];
}

// Two sessions whose every record the client wrote. After the first turn the one goes on, gets one record that steers
// back, and goes on from there; the other is what two clients leave that both went on from the first turn.
async function madeByClient(home) {
  const session = uuidOf("session made by the client");
  const first = await written(home(), session, undefined, "ONE");
  const [second, left, right] = await Promise.all([
    written(home(), session, first.bytes, "TWO"),
    written(home(), session, first.bytes, "LEFT"),
    written(home(), session, first.bytes, "RIGHT"),
  ]);
  const { cwd, version } = first.added[0];
  const steer = {
    uuid: uuidOf("the record that steers"),
    parentUuid: first.end,
    sessionId: session,
    timestamp: new Date().toISOString(),
    type: "system",
    provenance: "system",
    cwd,
    version,
  };
  const steered = Buffer.concat([second.bytes, Buffer.from(`${JSON.stringify(steer)}\n`)]);
  const third = await written(home(), session, steered, "THREE");
  const went = (...prompts) => prompts.flatMap((p) => [`user: ${p}`, `assistant: ${replyTo(p)}`]);
  const lines = (run) => run.added.map((record) => JSON.stringify(record));
  return [
    {
      name: "made by the client",
      session,
      bytes: third.bytes,
      leaves: {
        two: { uuid: second.end, sent: went("ONE", "TWO") },
        three: { uuid: third.end, sent: went("ONE", "THREE") },
      },
      pick: { tail: third.end, sent: went("ONE", "THREE") },
      forkable: "two",
    },
    {
      name: "two writers",
      session,
      bytes: Buffer.concat([first.bytes, Buffer.from(`${interleaved(lines(left), lines(right)).join("\n")}\n`)]),
      leaves: {
        left: { uuid: left.end, sent: went("ONE", "LEFT") },
        right: { uuid: right.end, sent: went("ONE", "RIGHT") },
      },
      pick: { tail: right.end, sent: went("ONE", "RIGHT") },
      forkable: "left",
    },
  ];
}

/** Lets the client write one turn: the file's bytes after it, the records it added, and the last of them. */
async function written(place, session, bytes, text) {
  client.settle(place, session, bytes);
  const { problem } = await client.prompt(place, [bytes ? "--resume" : "--session-id", session], text);
  if (problem) throw new Error(`a session could not be made: ${problem}`);
  const path = client.transcript(place, session);
  const added = client.added(path, bytes ?? Buffer.alloc(0));
  return { bytes: readFileSync(path), added, end: added.at(-1).uuid };
}

function interleaved(left, right) {
  const mixed = [];
  for (let i = 0; i < Math.max(left.length, right.length); i++) mixed.push(...left.slice(i, i + 1), ...right.slice(i, i + 1));
  return mixed;
}

function twoBranches(tree) {
  const t = tree("two branches").turn("root", null).turn("left", "roota").turn("right", "roota");
  return finish(t, {
    leaves: { left: { at: "lefta", sent: said("root", "left") }, right: { at: "righta", sent: said("root", "right") } },
    pick: "right",
    forkable: "left",
  });
}

// A turn, taken back and made anew, and taken back again: the last branch ends in the rewind itself.
function rewound(tree) {
  const t = tree("rewound").turn("root", null).turn("old", "roota");
  t.system("back", "roota", "rewind", { truncatedCount: 2 }).turn("new", "back");
  t.system("again", "roota", "rewind", { truncatedCount: 2 });
  return finish(t, {
    leaves: {
      old: { at: "olda", sent: said("root", "old") },
      new: { at: "newa", sent: said("root", "new") },
      again: { at: "again", sent: said("root") },
    },
    pick: "again",
  });
}

// The last line ends inside a string, where the client's next record would be glued to it and lost.
function tornTail(tree) {
  const t = tree("torn tail").turn("root", null).turn("left", "roota").turn("right", "roota");
  const whole = t.lines.length;
  t.user("torn", "righta", "TORN-Q");
  const [torn] = t.lines.splice(whole);
  return finish(
    t,
    {
      leaves: { left: { at: "lefta", sent: said("root", "left") }, right: { at: "righta", sent: said("root", "right") } },
      pick: "right",
    },
    torn.slice(0, torn.indexOf("-Q")),
  );
}

// The client passes over artifact records, so for it a record below one is an orphan. A fork can mend that, an anchor cannot.
function artifactInChain(tree) {
  const t = tree("artifact in the chain").turn("root", null).turn("left", "roota");
  t.system("artifact", "roota", "session_artifact_event", { v: 1, sessionId: t.session, sequence: 1, changes: [] });
  t.turn("right", "artifact");
  return finish(t, {
    leaves: {
      left: { at: "lefta", sent: said("root", "left") },
      right: { at: "righta", sent: said("root", "right"), refused: { "in-place": "seed-unreachable" } },
    },
    pick: { tail: "righta", sent: said("right"), gap: "rightq" },
  });
}

// One compression before the branch point, another on one branch after it.
function compressed(tree) {
  const t = tree("compressed").turn("root", null).compression("early", "roota", "EARLY-SUMMARY");
  t.turn("shared", "early").turn("left", "shareda").compression("late", "lefta", "LATE-SUMMARY").turn("more", "late");
  t.turn("right", "shareda");
  const summary = (text) => [`user: ${text}`, "assistant: Got it."];
  return finish(t, {
    leaves: {
      left: { at: "morea", sent: [...summary("LATE-SUMMARY"), ...said("more")] },
      right: { at: "righta", sent: [...summary("EARLY-SUMMARY"), ...said("shared", "right")] },
    },
    pick: "right",
    forkable: "left",
  });
}

// What the client tells the model of a tool whose result was never written.
const NOT_RECORDED =
  "Tool execution result was not recorded — likely interrupted by network failure, abort, or process exit. " +
  "Treat as failure and retry if needed.";

// Branches that were cut short: while a tool ran, and before any answer. On a third a tool's round is whole.
function cutShort(tree) {
  const call = (id, path) => ({ id, name: "read_file", args: { file_path: path } });
  const [open, closed] = [call("call_open", "/left.txt"), call("call_closed", "/right.txt")];
  const t = tree("cut short").turn("root", null);
  t.user("leftq", "roota", "LEFT-Q").assistant("lefta", "leftq", "LEFT-LOOK", open);
  t.user("askedq", "roota", "ASKED-Q");
  t.user("rightq", "roota", "RIGHT-Q").assistant("rightlook", "rightq", "RIGHT-LOOK", closed);
  t.result("rightresult", "rightlook", closed, "RIGHT-OUTPUT").assistant("righta", "rightresult", "RIGHT-A");
  const looked = (side, path) => [
    `user: ${side}-Q`,
    `assistant: ${side}-LOOK`,
    `call: read_file {"file_path":"${path}"}`,
  ];
  return finish(t, {
    leaves: {
      left: { at: "lefta", sent: [...said("root"), ...looked("LEFT", "/left.txt"), `tool: ${NOT_RECORDED}`] },
      asked: { at: "askedq", sent: [...said("root"), "user: ASKED-Q"] },
      right: {
        at: "righta",
        sent: [...said("root"), ...looked("RIGHT", "/right.txt"), "tool: RIGHT-OUTPUT", "assistant: RIGHT-A"],
      },
    },
    pick: "right",
  });
}

// Two records of one uuid are one message in parts: before the branch point (the second part far behind), and after it.
function fragments(tree) {
  const t = tree("fragments of one uuid").user("rootq", null, "ROOT-Q").assistant("roota", "rootq", "ROOT-A1");
  t.user("leftq", "roota", "LEFT-Q").assistant("lefta", "leftq", "LEFT-A1").assistant("lefta", "leftq", "LEFT-A2");
  t.assistant("roota", "rootq", "ROOT-A2").turn("right", "roota");
  const root = ["user: ROOT-Q", "assistant: ROOT-A1ROOT-A2"];
  return finish(t, {
    leaves: {
      left: { at: "lefta", sent: [...root, "user: LEFT-Q", "assistant: LEFT-A1LEFT-A2"] },
      right: { at: "righta", sent: [...root, ...said("right")] },
    },
    pick: "right",
  });
}

// The record between the shared part and one branch was never written.
function missingParent(tree) {
  const t = tree("missing parent").turn("root", null).turn("left", "never-written").turn("right", "roota");
  return finish(t, {
    leaves: {
      left: { at: "lefta", sent: said("left"), gap: true },
      right: { at: "righta", sent: said("root", "right") },
    },
    pick: "right",
  });
}

function finish(tree, { leaves, pick, forkable }, tail) {
  const named = Object.entries(leaves).map(([name, { at, ...leaf }]) => [name, { uuid: tree.at(at), ...leaf }]);
  const byName = Object.fromEntries(named);
  const ends =
    typeof pick === "string"
      ? { tail: byName[pick].uuid, sent: byName[pick].sent }
      : { tail: tree.at(pick.tail), sent: pick.sent, gap: pick.gap && tree.at(pick.gap) };
  return { name: tree.name, session: tree.session, bytes: tree.bytes(tail), leaves: byName, pick: ends, forkable };
}
