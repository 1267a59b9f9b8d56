// Whether the client can take back the changes of files in a fork of ours: it needs the lines that tell of them, and the
// backups that these name, under the child's id.

import { chmodSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Failed } from "../matrix.mjs";
import { run } from "../process.mjs";
import { environment, records } from "./client.mjs";
import { startModel, writePrompt } from "./model.mjs";

const SESSION = "5e551011-0000-4000-8000-00000000f11e";

/** The row of one version of the client. */
export function rewindRow(client, bench) {
  const check = () => rewound(client, bench);
  return { client: `${client.agent} ${client.version}`, session: "a file that was changed", leaf: "its only", seed: "fork", check };
}

async function rewound(client, bench) {
  const place = bench.home();
  client.settle(place);
  const model = await startModel();
  const start = async (...args) => {
    const env = { ...environment(place.home, model.url), CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING: "1" };
    const ran = await run(client.program, ["--permission-mode", "acceptEdits", ...args], { cwd: place.project, env });
    if (ran.timedOut || ran.code !== 0) throw new Failed(`${args.join(" ")}: ended with ${ran.code}: ${ran.stdout}${ran.stderr}`);
  };
  // The folder is shared by all rows.
  const file = join(place.project, `rewound-by-${client.version}.sh`);
  try {
    writeFileSync(file, "BEFORE");
    chmodSync(file, 0o755);
    await start("--session-id", SESSION, "-p", `READ ${file}`);
    await start("--resume", SESSION, "-p", writePrompt(file, "AFTER"));
    if (readFileSync(file, "utf8") !== "AFTER") throw new Failed("the client did not change the file");
    const path = client.transcript(place, SESSION);
    const prompt = records(readFileSync(path)).findLast((r) => r.type === "user" && typeof r.message.content === "string");

    const { seed } = await bench.offshoot(place).json(["resume", path, "--seed", "fork"]);
    // The child has what it needs of its own.
    rmSync(join(place.home, ".claude/file-history", SESSION), { recursive: true });
    await start("--resume", seed.sessionId, "--rewind-files", prompt.uuid);
    const [text, mode] = [readFileSync(file, "utf8"), statSync(file).mode & 0o777];
    if (text !== "BEFORE" || mode !== 0o755) throw new Failed(`the file has ${JSON.stringify(text)}, mode ${mode.toString(8)}`);
    return "rewound in the fork";
  } finally {
    rmSync(file, { force: true });
    await model.close();
  }
}
