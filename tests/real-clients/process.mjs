// Child processes in bounded time and with a bare environment; and a few tasks at a time.

import { spawn } from "node:child_process";

const LIMIT_MS = 120_000;
const running = new Set();

/** Ends what was started here, each by the id of the group that it leads. */
export function endAll() {
  for (const child of running) kill(child);
}

function kill(child) {
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

/** Runs a program to its end: `{code, signal, stdout, stderr, timedOut}`. Nothing is inherited from our environment. */
export function run(program, args, { cwd, env }) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    child.on("error", reject);
    if (child.pid === undefined) return;
    running.add(child);
    const output = { stdout: [], stderr: [] };
    for (const name of ["stdout", "stderr"]) child[name].on("data", (chunk) => output[name].push(chunk));
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      kill(child);
    }, LIMIT_MS);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      running.delete(child);
      const text = (name) => Buffer.concat(output[name]).toString("utf8");
      resolve({ code, signal, stdout: text("stdout"), stderr: text("stderr"), timedOut });
    });
  });
}

/** Starts a program that goes on until `end` is called. Nothing is inherited from our environment. */
export function start(program, args, { cwd, env }) {
  const child = spawn(program, args, { cwd, env, stdio: "ignore", detached: true });
  child.on("error", () => running.delete(child));
  if (child.pid !== undefined) running.add(child);
  child.on("close", () => running.delete(child));
  return { end: () => void (running.has(child) && kill(child)) };
}

/** Runs the tasks, so many at a time; the results are in the order of the tasks. A task that throws ends everything. */
export async function pool(width, tasks) {
  const results = new Array(tasks.length);
  let next = 0;
  const worker = async () => {
    while (next < tasks.length) {
      const mine = next++;
      results[mine] = await tasks[mine]();
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
  return results;
}
