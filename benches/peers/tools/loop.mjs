// The records of a file, by `JSON.parse`: `loop.mjs FILE`; with `--leaves` also how many no record hangs on. Blocks are
// cut at line feeds by hand: `readline` takes several times as long.

import { openSync, readSync } from "node:fs";

const [file, flag] = process.argv.slice(2);
const leaves = flag === "--leaves";
const ids = new Set();
const parents = new Set();
let records = 0;

const take = (line) => {
  const record = JSON.parse(line);
  records += 1;
  if (leaves) {
    ids.add(record.uuid);
    parents.add(record.parentUuid);
  }
};

const fd = openSync(file);
const block = Buffer.allocUnsafe(4 << 20);
let rest = Buffer.alloc(0);
for (;;) {
  const n = readSync(fd, block);
  if (n === 0) break;
  const bytes = rest.length > 0 ? Buffer.concat([rest, block.subarray(0, n)]) : block.subarray(0, n);
  let from = 0;
  for (let to; (to = bytes.indexOf(10, from)) >= 0; from = to + 1) take(bytes.toString("utf8", from, to));
  rest = Buffer.from(bytes.subarray(from));
}
if (rest.length > 0) take(rest.toString());
parents.forEach((parent) => ids.delete(parent));
console.log(records, leaves ? ids.size : "-");
