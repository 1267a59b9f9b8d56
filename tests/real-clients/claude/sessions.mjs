// The sessions, each with what is known of it by construction: the leaves, what the model must get for each, and under
// which record and with what history the client itself goes on. Nothing here is taken from what `offshoot` says.
//
// A session: {name, session, bytes, leaves: {name: {uuid, sent, gap?, refused?}}, pick: {tail, sent, gap?}, forkable?}.
// `gap` of a leaf: its chain ends at a missing parent; of the pick: the record above which the client loses the history.
// `refused`: by seed, the code of the refusal that is right for it.
// `forkable`: the leaf for which the client's own fork is compared with ours.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { said, uuidOf } from "../names.mjs";
import { chained, records } from "./client.mjs";
import { SUMMARY, conversation, readPrompt } from "./model.mjs";
import { Tree, looked } from "./tree.mjs";

/** The maker of all sessions for one version of the client: `home()` gives a place that was not used before. */
export const sessionsFor = (client) => ({
  async make(home) {
    const { project } = home();
    const tree = (name) => new Tree(name, project, client.version);
    const madeByHand = [
      cutShort, cutBehindTools, twoBranches, pinnedHere, stalePin, pinnedAncestor, explicitAncestor, unknownPin, rewound, parallelTools,
      compacted, voidedPin, beforeTheBoundary, keptMessages, keptAndPinnedBefore, keptAtTheEnd, keptTwice, keptTools, tornTail, missingParent, bridged, progressInChain, neutralTails,
      lastCopy, sidechain,
    ].map((build) => build(tree));
    return [...(await madeByClient(client, home)), ...madeByHand];
  },
});

// Sessions whose every conversation record the client wrote. The first goes on after its first turn, is steered back by
// one line, and goes on from there; in the second the client itself was told to go on from the first turn; the third is what
// two clients leave that both went on from there; in the fourth files were read side by side before the branches; the fifth
// was compacted before them.
async function madeByClient(client, home) {
  const session = uuidOf("session made by the client");
  const write = (bytes, text, right) => written(client, home(), session, bytes, text, right);
  const files = (({ project }) => ["one.txt", "two.txt"].map((name) => join(project, name)))(home());
  for (const [i, file] of files.entries()) writeFileSync(file, `CONTENT-${i}\n`);

  const first = await write(undefined, "ONE");
  const [second, left, right, read] = await Promise.all([
    write(first.bytes, "TWO"),
    write(first.bytes, "LEFT"),
    write(first.bytes, "RIGHT"),
    write(first.bytes, readPrompt(...files), { requests: 2 }),
  ]);
  const [third, again, sideways, compact] = await Promise.all([
    write(steered(second.bytes, session, first.tail), "THREE"),
    write(second.bytes, "AGAIN", { more: ["--resume-session-at", first.leaf] }),
    write(read.bytes, "TWO"),
    write(second.bytes, "/compact", { printed: "\n" }),
  ]);
  const [back, later] = await Promise.all([
    write(steered(sideways.bytes, session, read.tail), "THREE"),
    write(compact.bytes, "TWO"),
  ]);
  const behind = await write(steered(later.bytes, session, compact.tail), "THREE");
  const own = (run) => conversation(run.added.filter((r) => r.message).map((r) => r.message));
  const pick = (run, ...runs) => ({ tail: run.tail, sent: runs.flatMap(own) });
  const leaf = (run, ...runs) => ({ uuid: run.leaf, sent: runs.flatMap(own) });
  const shared = { session };
  const [summary, ...echoes] = own(compact);
  const summed = [summary, own(second).at(-1), ...echoes];
  if (!summary.includes(SUMMARY)) throw new Error("there is no summary");
  if (own(read).filter((line) => line.includes("CONTENT-")).length !== 2) throw new Error("the files were not read");
  return [
    {
      ...shared,
      name: "made by the client",
      bytes: third.bytes,
      leaves: { two: leaf(second, first, second), three: leaf(third, first, third) },
      pick: pick(third, first, third),
      forkable: "two",
    },
    {
      ...shared,
      name: "branched by the client",
      bytes: again.bytes,
      leaves: { two: leaf(second, first, second), again: leaf(again, first, again) },
      pick: pick(again, first, again),
      forkable: "two",
    },
    {
      ...shared,
      name: "two writers",
      bytes: Buffer.concat([first.bytes, Buffer.from(`${interleaved(left.lines, right.lines).join("\n")}\n`)]),
      leaves: { left: leaf(left, first, left), right: leaf(right, first, right) },
      pick: pick(right, first, right),
      forkable: "left",
    },
    {
      ...shared,
      name: "files read by the client",
      bytes: back.bytes,
      leaves: { two: leaf(sideways, first, read, sideways), three: leaf(back, first, read, back) },
      pick: pick(back, first, read, back),
      forkable: "two",
    },
    {
      ...shared,
      name: "compacted by the client",
      bytes: behind.bytes,
      leaves: {
        two: { uuid: later.leaf, sent: [...summed, ...own(later)] },
        three: { uuid: behind.leaf, sent: [...summed, ...own(behind)] },
      },
      pick: { tail: behind.tail, sent: [...summed, ...own(behind)] },
      forkable: "two",
    },
  ];
}

const steered = (bytes, sessionId, leafUuid) =>
  Buffer.concat([bytes, Buffer.from(`${JSON.stringify({ type: "last-prompt", leafUuid, explicit: true, sessionId })}\n`)]);

/** Lets the client write one turn: the file's bytes after it, what it added, its last reply and its last record. */
async function written(client, place, session, bytes, text, { more = [], ...right } = {}) {
  client.settle(place, session, bytes);
  const { problem } = await client.prompt(place, [bytes ? "--resume" : "--session-id", session, ...more], text, right);
  if (problem) throw new Error(`a session could not be made: ${text}: ${problem}`);
  const now = readFileSync(client.transcript(place, session));
  const new_ = records(now.subarray(bytes?.length ?? 0));
  const added = new_.filter(chained);
  const leaf = added.findLast((record) => record.type === "assistant")?.uuid;
  return { bytes: now, added, lines: new_.map((record) => JSON.stringify(record)), leaf, tail: added.at(-1).uuid };
}

// By turns a line of each; but the line that says where the right one goes on comes last of its kind.
function interleaved(left, right) {
  const held = right.findLastIndex((line) => line.startsWith('{"type":"last-prompt"'));
  const early = right.slice(0, held);
  const mixed = [];
  for (let i = 0; i < Math.max(left.length, early.length); i++) mixed.push(...left.slice(i, i + 1), ...early.slice(i, i + 1));
  return [...mixed, ...right.slice(held)];
}

// What the client puts below a prompt without a reply.
const FILLER = "assistant: No response requested.";

const INTERRUPTED =
  "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. " +
  "Check whether it took effect before relying on it or running it again.]";

// Behind results without a reply 2.1.197 puts a prompt of its own, too.
function cutBehindTools(tree) {
  const paths = ["/a.txt", "/b.txt"];
  const t = tree("cut short behind tools").turn("root", null).parallel("left", "roota", paths);
  t.lines.pop();
  t.turn("right", "roota");
  const goOn = t.shared.version === "2.1.197" ? ["user: Continue from where you left off."] : [];
  const sent = [...said("root"), ...looked("left", paths).slice(0, -1), ...goOn, FILLER];
  return finish(t, { leaves: { left: { at: "leftr1", sent }, right: LEFT_AND_RIGHT.right }, pick: "right" });
}

// Branches that were cut short: while a tool ran, and before any answer.
function cutShort(tree) {
  const t = tree("cut short").turn("root", null);
  const call = { id: "toolu_open", name: "Read", input: { file_path: "/a.txt" } };
  t.user("leftq", "roota", "LEFT-Q").assistant("lefta", "leftq", "LEFT-LOOK").assistant("leftc", "lefta", call, { message: "lefta" });
  t.user("askedq", "roota", "ASKED-Q").turn("right", "roota");
  const asked = [...said("root"), "user: ASKED-Q", FILLER];
  // 2.1.197 leaves an open call out, 2.1.332 answers it.
  const answered = [`call: Read ${JSON.stringify(call.input)}`, `tool: ${INTERRUPTED}`, FILLER];
  const left = [...said("root"), "user: LEFT-Q", "assistant: LEFT-LOOK", ...(t.shared.version === "2.1.197" ? [] : answered)];
  return finish(t, {
    leaves: {
      left: { at: "leftc", sent: left, refused: { "in-place": "inside-tool-round" } },
      asked: { at: "askedq", sent: asked },
      right: LEFT_AND_RIGHT.right,
    },
    pick: "right",
  });
}

const LEFT_AND_RIGHT = {
  left: { at: "lefta", sent: said("root", "left") },
  right: { at: "righta", sent: said("root", "right") },
};

const forked = (tree, name) => tree(name).turn("root", null).turn("left", "roota").turn("right", "roota");

function twoBranches(tree) {
  return finish(forked(tree, "two branches"), { leaves: LEFT_AND_RIGHT, pick: "right", forkable: "left" });
}

function pinnedHere(tree) {
  const t = tree("pins of both").turn("root", null).turn("left", "roota").pin("lefta").turn("right", "roota").pin("righta");
  return finish(t, { leaves: LEFT_AND_RIGHT, pick: "right" });
}

// The newest work is on the right, but nothing said so: the client goes on with the left.
function stalePin(tree) {
  const t = tree("stale pin").turn("root", null).turn("left", "roota").pin("lefta").turn("right", "roota");
  return finish(t, { leaves: LEFT_AND_RIGHT, pick: "left" });
}

function pinnedAncestor(tree) {
  return finish(forked(tree, "pin of an ancestor").pin("roota"), { leaves: LEFT_AND_RIGHT, pick: "right" });
}

function explicitAncestor(tree) {
  return finish(forked(tree, "explicit pin of an ancestor").pin("roota", { explicit: true }), {
    leaves: LEFT_AND_RIGHT,
    pick: { tail: "roota", sent: said("root") },
  });
}

function unknownPin(tree) {
  return finish(forked(tree, "unknown pin").pin("lefta").pin("never-written"), { leaves: LEFT_AND_RIGHT, pick: "right" });
}

// A turn, taken back and made anew, as the client writes it: the pin is cleared first.
function rewound(tree) {
  const t = tree("rewound").turn("root", null).turn("left", "roota").pin("lefta");
  t.user("rightq", "roota", "RIGHT-Q");
  t.line({ type: "last-prompt", leafUuid: "00000000-0000-0000-0000-000000000000", explicit: true, sessionId: t.session });
  t.assistant("righta", "rightq", "RIGHT-A");
  return finish(t, { leaves: LEFT_AND_RIGHT, pick: "right", forkable: "left" });
}

// Two tools side by side in the shared part and on each branch: results of their own are no branches.
function parallelTools(tree) {
  const paths = ["/a.txt", "/b.txt"];
  const t = tree("parallel tools");
  for (const [name, parent] of [["root", null], ["left", "roota"], ["right", "roota"]]) t.parallel(name, parent, paths);
  return finish(t, {
    leaves: {
      left: { at: "lefta", sent: [...looked("root", paths), ...looked("left", paths)] },
      right: { at: "righta", sent: [...looked("root", paths), ...looked("right", paths)] },
    },
    pick: "right",
    forkable: "left",
  });
}

const SUMMED_UP = { at: "righta", sent: ["user: SUMMARY", ...said("right")] };

// The left branch stands before the boundary, the right one behind it.
function compacted(tree) {
  const t = tree("compacted").turn("root", null).turn("left", "roota").turn("middle", "roota");
  t.compact("cut", "middlea", "SUMMARY").turn("right", "cuts");
  return finish(t, { leaves: { left: LEFT_AND_RIGHT.left, right: SUMMED_UP }, pick: "right" });
}

// A boundary makes every pin above it void, on whatever branch.
function voidedPin(tree) {
  const t = tree("pin above a boundary").turn("root", null).turn("left", "roota").pin("lefta", { explicit: true });
  t.turn("middle", "roota").compact("cut", "middlea", "SUMMARY").turn("right", "cuts");
  return finish(t, { leaves: { left: LEFT_AND_RIGHT.left, right: SUMMED_UP }, pick: "right" });
}

function beforeTheBoundary(tree) {
  const t = tree("pin below a boundary").turn("root", null).turn("left", "roota").turn("middle", "roota");
  t.compact("cut", "middlea", "SUMMARY").turn("right", "cuts").pin("lefta");
  return finish(t, { leaves: { left: LEFT_AND_RIGHT.left, right: SUMMED_UP }, pick: "left" });
}

// What stands before a boundary that keeps messages is reached by a fork alone.
const BEFORE = { ...LEFT_AND_RIGHT.left, refused: { "in-place": "out-of-reach" } };
const KEPT = ["user: SUMMARY", "assistant: MIDDLE-A"];

// As a compaction by the client leaves it: the last messages before it are told again behind the summary.
function keptMessages(tree) {
  const t = tree("messages kept by a compaction").turn("root", null).turn("left", "roota").turn("middle", "roota");
  t.compact("cut", "middlea", "SUMMARY", ["middlea"]).turn("right", "cuts");
  return finish(t, { leaves: { left: BEFORE, right: { at: "righta", sent: [...KEPT, ...said("right")] } }, pick: "right" });
}

// Then nothing else from before the boundary is loaded, so that a pin there is unknown.
function keptAndPinnedBefore(tree) {
  const t = tree("messages kept, pin before").turn("root", null).turn("left", "roota").turn("middle", "roota");
  t.compact("cut", "middlea", "SUMMARY", ["middlea"]).turn("right", "cuts").pin("lefta", { explicit: true });
  return finish(t, { leaves: { left: BEFORE, right: { at: "righta", sent: [...KEPT, ...said("right")] } }, pick: "right" });
}

// The conversation ends with the compaction, so that the last kept message is what it goes on below.
function keptAtTheEnd(tree) {
  const t = tree("messages kept, then nothing").turn("root", null).turn("left", "roota").turn("middle", "roota");
  t.compact("cut", "middlea", "SUMMARY", ["middleq", "middlea"]);
  const sent = ["user: SUMMARY", ...said("middle")];
  return finish(t, { leaves: { left: BEFORE, cut: { at: "cuts", sent } }, pick: { tail: "middlea", sent } });
}

// One branch goes on below a kept message, the other below the summary; a second compaction keeps a part of that.
function keptTwice(tree) {
  const t = tree("messages kept twice").turn("root", null).turn("middle", "roota");
  t.compact("one", "middlea", "SUMMARY", ["middleq", "middlea"]).turn("left", "middleq").turn("right", "ones");
  t.compact("two", "righta", "SUMMARY-AGAIN", ["middlea", "righta"]).turn("end", "twos");
  const once = ["user: SUMMARY", "user: MIDDLE-Q", ...said("left")];
  const twice = ["user: SUMMARY-AGAIN", "assistant: MIDDLE-A", "assistant: RIGHT-A", ...said("end")];
  return finish(t, {
    leaves: { left: { at: "lefta", sent: once, refused: BEFORE.refused }, end: { at: "enda", sent: twice } },
    pick: "end",
  });
}

// Only a part of a round of tools is kept, as one list and as a segment: the rest of it is not loaded.
function keptTools(tree) {
  const paths = ["/a.txt", "/b.txt"];
  const t = tree("tools kept by a compaction").turn("root", null).parallel("middle", "roota", paths);
  t.compact("cut", "middlea", "SUMMARY", ["middlec1", "middler1", "middlea"]).turn("left", "cuts").turn("right", "cuts");
  const [, , , call, , output, reply] = looked("middle", paths);
  const sent = ["user: SUMMARY", call, output, reply];
  return finish(t, {
    leaves: {
      left: { at: "lefta", sent: [...sent, ...said("left")] },
      right: { at: "righta", sent: [...sent, ...said("right")] },
    },
    pick: "right",
  });
}

// The last line ends inside a string.
function tornTail(tree) {
  const t = forked(tree, "torn tail");
  const whole = t.lines.length;
  t.user("torn", "righta", "TORN-Q");
  const [torn] = t.lines.splice(whole);
  return finish(t, { leaves: LEFT_AND_RIGHT, pick: "right" }, torn.slice(0, torn.indexOf("-Q")));
}

// The record between the shared part and one branch was never written, and nothing else is near in time.
function missingParent(tree) {
  const t = tree("missing parent").turn("root", null).turn("left", "roota").turn("right", "never-written");
  return finish(t, {
    leaves: { left: LEFT_AND_RIGHT.left, right: { at: "righta", sent: said("right"), gap: true } },
    pick: { tail: "righta", sent: said("right"), gap: "rightq" },
  });
}

// The same, but a record of another branch is four seconds older: the client goes on there.
function bridged(tree) {
  const t = tree("missing parent, bridged").turn("root", null).turn("left", "roota");
  t.user("rightq", "never-written", "RIGHT-Q", { after: 4000 }).assistant("righta", "rightq", "RIGHT-A");
  const right = { at: "righta", sent: said("right"), gap: true, refused: { "in-place": "seed-unreachable" } };
  return finish(t, {
    leaves: { left: LEFT_AND_RIGHT.left, right },
    pick: { tail: "righta", sent: said("root", "left", "right") },
  });
}

function progressInChain(tree) {
  const t = tree("progress in the chain").turn("root", null).turn("left", "roota");
  t.add("progress", "roota", { type: "progress", data: { type: "hook_progress" } }).turn("right", "progress");
  return finish(t, { leaves: LEFT_AND_RIGHT, pick: "right" });
}

// What hangs below the last reply and says nothing: the next prompt hangs below that.
function neutralTails(tree) {
  const t = tree("neutral tails").turn("root", null).turn("left", "roota");
  t.system("lefts", "lefta", "turn_duration", { durationMs: 1000 }).turn("right", "roota");
  t.attachment("righto", "righta").system("rights", "righto", "turn_duration", { durationMs: 1000 });
  return finish(t, { leaves: LEFT_AND_RIGHT, pick: { tail: "rights", sent: said("root", "right") } });
}

// One uuid twice: the last copy is what counts, for its text and for its place.
function lastCopy(tree) {
  const t = tree("two copies of a record").turn("root", null).turn("right", "roota").turn("left", "roota");
  t.assistant("righta", "rightq", "RIGHT-AGAIN", { message: "other" });
  return finish(t, {
    leaves: {
      left: LEFT_AND_RIGHT.left,
      right: { at: "righta", sent: [...said("root"), "user: RIGHT-Q", "assistant: RIGHT-AGAIN"] },
    },
    pick: "right",
  });
}

// Records of a subagent in the main file: never a branch, never where the client goes on.
function sidechain(tree) {
  const t = forked(tree, "sidechain");
  const agent = { isSidechain: true, agentId: "a1b2c3d" };
  t.user("agentq", null, "AGENT-Q", agent).assistant("agenta", "agentq", "AGENT-A", agent);
  return finish(t, { leaves: LEFT_AND_RIGHT, pick: "right" });
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
