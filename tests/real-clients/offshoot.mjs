// The binary under test, in the same bare environment as the client's.

import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { Failed } from "./matrix.mjs";
import { run } from "./process.mjs";

// Beside the system's programs there is Node: a client that `probe` starts may run under it.
/** The binary for one place: what it says as JSON, or the refusal that is right. */
export function offshootAt(binary, { home, project }) {
  const env = { HOME: home, PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, OFFSHOOT_STATE_DIR: join(home, "state") };
  mkdirSync(join(home, "state"), { recursive: true, mode: 0o700 });
  const start = async (args) => {
    const ran = await run(binary, [...args, "--json"], { cwd: project, env });
    if (ran.timedOut) throw new Failed(`offshoot ${args[0]} did not end in time`);
    try {
      return { ...ran, document: JSON.parse(ran.stdout) };
    } catch {
      throw new Failed(`offshoot ${args[0]} ended with ${ran.code}: ${ran.stdout}${ran.stderr}`);
    }
  };
  return {
    /** What it says otherwise than as JSON. */
    async plain(args) {
      const ran = await run(binary, args, { cwd: project, env });
      if (ran.code !== 0) throw new Failed(`offshoot ${args.join(" ")} ended with ${ran.code}: ${ran.stderr}`);
      return ran.stdout;
    },
    async json(args) {
      const ran = await start(args);
      if (ran.code !== 0) throw new Failed(`offshoot ${args.join(" ")} ended with ${ran.code}: ${ran.stdout}`);
      return ran.document;
    },
    async refused(args, code) {
      const { document, ...ran } = await start(args);
      if (ran.code !== 3 || document.refusal?.code !== code) {
        throw new Failed(`offshoot ${args.join(" ")} was to be refused with ${code}: ${ran.code} ${ran.stdout}`);
      }
    },
  };
}
