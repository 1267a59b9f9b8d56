// Transcripts in Qwen Code's format, as the released client writes its records, made of a few words each.

import { uuidOf } from "../names.mjs";

/** A session under construction. A record is called by its name; its uuid is `at(name)`. */
export class Tree {
  constructor(name, project, version) {
    this.name = name;
    this.session = uuidOf(`session ${name}`);
    this.shared = { cwd: project, version };
    this.lines = [];
  }

  at(record) {
    return record === null ? null : uuidOf(`${this.name} ${record}`);
  }

  /** Adds a record below another (null: a root), in file order. */
  add(record, parent, fields) {
    const { type, provenance, ...rest } = fields;
    this.lines.push(
      JSON.stringify({
        uuid: this.at(record),
        parentUuid: this.at(parent),
        sessionId: this.session,
        timestamp: new Date(Date.UTC(2026, 0, 1, 0, 0, this.lines.length)).toISOString(),
        type,
        provenance,
        ...this.shared,
        ...rest,
      }),
    );
    return this;
  }

  user(record, parent, text) {
    const message = { role: "user", parts: [{ text }] };
    return this.add(record, parent, { type: "user", provenance: "real_user", message });
  }

  /** An answer; `calls` are `{id, name, args}`. */
  assistant(record, parent, text, ...calls) {
    const parts = [{ text }, ...calls.map((functionCall) => ({ functionCall }))];
    const message = { role: "model", parts };
    return this.add(record, parent, { type: "assistant", provenance: "assistant_output", model: "mock-model", message });
  }

  result(record, parent, { id, name }, output) {
    const parts = [{ functionResponse: { id, name, response: { output } } }];
    const toolCallResult = { callId: id, status: "success", resultDisplay: output };
    const message = { role: "user", parts };
    return this.add(record, parent, { type: "tool_result", provenance: "tool_result", message, toolCallResult });
  }

  system(record, parent, subtype, systemPayload) {
    return this.add(record, parent, { type: "system", provenance: "system", subtype, systemPayload });
  }

  compression(record, parent, summary) {
    const compressedHistory = [
      { role: "user", parts: [{ text: summary }] },
      { role: "model", parts: [{ text: "Got it." }] },
    ];
    const info = { originalTokenCount: 1000, newTokenCount: 100, compressionStatus: 1 };
    return this.system(record, parent, "chat_compression", { info, compressedHistory });
  }

  /** A whole turn `<name>q`, `<name>a`, saying `<NAME>-Q` and `<NAME>-A`. */
  turn(name, parent) {
    const upper = name.toUpperCase();
    return this.user(`${name}q`, parent, `${upper}-Q`).assistant(`${name}a`, `${name}q`, `${upper}-A`);
  }

  bytes(tail = "") {
    return Buffer.from(`${this.lines.join("\n")}\n${tail}`);
  }
}
