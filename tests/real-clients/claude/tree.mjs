// Transcripts in Claude Code's format, as the released client writes its records, made of a few words each.

import { uuidOf } from "../names.mjs";

const START = Date.UTC(2026, 0, 1);
const MINUTE_MS = 60_000;

/** A session under construction. A record is called by its name; its uuid is `at(name)`. */
export class Tree {
  constructor(name, project, version) {
    this.name = name;
    this.session = uuidOf(`session ${name}`);
    this.shared = { userType: "external", entrypoint: "sdk-cli", cwd: project, sessionId: this.session, version, gitBranch: "HEAD" };
    this.lines = [];
    this.clock = START;
  }

  at(record) {
    return record === null ? null : uuidOf(`${this.name} ${record}`);
  }

  /** Adds a record below another (null: a root), in file order, a minute after the last one or `after` milliseconds. */
  add(record, parent, { after = MINUTE_MS, isSidechain = false, ...fields }) {
    this.clock += after;
    const timestamp = new Date(this.clock).toISOString();
    return this.line({ parentUuid: this.at(parent), isSidechain, ...fields, uuid: this.at(record), timestamp, ...this.shared });
  }

  line(fields) {
    this.lines.push(JSON.stringify(fields));
    return this;
  }

  user(record, parent, content, fields) {
    return this.add(record, parent, { type: "user", message: { role: "user", content }, ...fields });
  }

  /** One record of an answer: a text, or a call `{id, name, input}`. Records of one `message` are one answer. */
  assistant(record, parent, said, { message = record, ...fields } = {}) {
    const content = [typeof said === "string" ? { type: "text", text: said } : { type: "tool_use", ...said }];
    const stop_reason = typeof said === "string" ? "end_turn" : "tool_use";
    const id = `msg_${this.at(message)}`;
    const usage = { input_tokens: 5, output_tokens: 5 };
    return this.add(record, parent, {
      type: "assistant",
      requestId: `req_${this.at(message)}`,
      message: { id, type: "message", role: "assistant", model: "mock-model", content, stop_reason, stop_sequence: null, usage },
      ...fields,
    });
  }

  /** The result of a call that the record `parent` holds. */
  result(record, parent, { id }, output) {
    const content = [{ tool_use_id: id, type: "tool_result", content: output }];
    return this.user(record, parent, content, { toolUseResult: output, sourceToolAssistantUUID: this.at(parent) });
  }

  system(record, parent, subtype, fields) {
    return this.add(record, parent, { type: "system", subtype, isMeta: false, ...fields });
  }

  attachment(record, parent) {
    return this.add(record, parent, { type: "attachment", attachment: { type: "date", date: "2026-01-01" } });
  }

  /**
   * A boundary and its summary, as the client writes them after `end`: records `<name>` and `<name>s`. The records that
   * are `kept` are told again after the summary.
   */
  compact(name, end, summary, kept = []) {
    const compactMetadata = { trigger: "manual", preTokens: 1000 };
    const uuids = kept.map((record) => this.at(record));
    const anchorUuid = this.at(`${name}s`);
    if (kept.length > 0) {
      compactMetadata.preservedSegment = { headUuid: uuids[0], anchorUuid, tailUuid: uuids.at(-1) };
      compactMetadata.preservedMessages = { anchorUuid, uuids, allUuids: uuids };
    }
    const boundary = { logicalParentUuid: this.at(end), content: "Conversation compacted", level: "info", compactMetadata };
    this.system(name, null, "compact_boundary", boundary);
    return this.user(`${name}s`, name, summary, { isCompactSummary: true, isVisibleInTranscriptOnly: true });
  }

  /** The line that says where to go on: `at` a record's name, or with `explicit` even above the newest records. */
  pin(record, fields) {
    return this.line({ type: "last-prompt", lastPrompt: "any", leafUuid: this.at(record), ...fields, sessionId: this.session });
  }

  /** A whole turn `<name>q`, `<name>a`, saying `<NAME>-Q` and `<NAME>-A`. */
  turn(name, parent) {
    const upper = name.toUpperCase();
    return this.user(`${name}q`, parent, `${upper}-Q`).assistant(`${name}a`, `${name}q`, `${upper}-A`);
  }

  /** A whole turn in which two tools run side by side: the calls and results hang as the client hangs them. */
  parallel(name, parent, paths) {
    const upper = name.toUpperCase();
    const calls = paths.map((file_path, i) => ({ id: `toolu_${name}_${i}`, name: "Read", input: { file_path } }));
    const shared = { message: `${name}m` };
    this.user(`${name}q`, parent, `${upper}-Q`).assistant(`${name}t`, `${name}q`, `${upper}-LOOK`, shared);
    let above = `${name}t`;
    for (const [i, call] of calls.entries()) {
      this.assistant(`${name}c${i}`, above, call, shared);
      above = `${name}c${i}`;
    }
    for (const [i, call] of calls.entries()) this.result(`${name}r${i}`, `${name}c${i}`, call, `${upper}-OUTPUT-${i}`);
    return this.assistant(`${name}a`, `${name}r${calls.length - 1}`, `${upper}-A`);
  }

  bytes(tail = "") {
    return Buffer.from(`${this.lines.join("\n")}\n${tail}`);
  }
}

/** What a turn of `parallel` is to the model. */
export function looked(name, paths) {
  const upper = name.toUpperCase();
  return [
    `user: ${upper}-Q`,
    `assistant: ${upper}-LOOK`,
    ...paths.map((file_path) => `call: Read ${JSON.stringify({ file_path })}`),
    ...paths.map((_, i) => `tool: ${upper}-OUTPUT-${i}`),
    `assistant: ${upper}-A`,
  ];
}
