// Reasonix as it is released: a static binary, told by its configuration where the model is.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run, start } from "../process.mjs";

export const agent = "reasonix";
export const version = "1.38.11";

const PACKAGE = `@reasonix/cli-${process.platform}-${process.arch}`;

/** The version that the lock file's package has. */
export const pinned = ({ optionalDependencies }) => optionalDependencies[PACKAGE];

/** The client as a program of its own. */
export const program = new URL(`../node_modules/${PACKAGE}/bin/reasonix`, import.meta.url).pathname;

/** Makes a home for it, whose model answers at `url`. */
export function settle({ home }, url = "http://127.0.0.1:9/v1") {
  mkdirSync(join(home, ".reasonix"), { recursive: true });
  const config = `default_model = "mock"\n[[providers]]\nname = "mock"\nkind = "openai"\nbase_url = "${url}"\nmodels = ["mock-model"]\nmodel = "mock-model"\napi_key_env = "MOCK_KEY"\n`;
  writeFileSync(join(home, ".reasonix/config.toml"), config);
}

const options = ({ home, project }) => ({ cwd: project, env: { HOME: home, PATH: "/usr/bin:/bin", MOCK_KEY: "dummy" } });

/** The version that the installed client says it has. */
export async function installedVersion(place) {
  const { stdout } = await run(program, ["--version"], options(place));
  return stdout.match(/\d+\.\d+\.\d+/)?.[0];
}

/** One headless turn, in a new session or below the end of one. */
export const turn = (place, prompt, session) =>
  run(program, ["run", ...(session === undefined ? [] : ["--resume", session]), prompt], options(place));

/** Its HTTP service, on a free port. */
export function serve(place, port) {
  return start(program, ["serve", "--addr", `127.0.0.1:${port}`, "--auth", "none"], options(place));
}
