// The client's HTTP service, and what the checks of Reasonix say when something is otherwise.

import { createServer } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { Failed } from "../matrix.mjs";

/** Starts the service in a place and opens a session in it. Returns what asks it. */
export async function opened(client, place, session, served) {
  const port = await freePort();
  served.child = client.serve(place, port);
  const call = (method, path, body) => fetch(`http://127.0.0.1:${port}${path}`, { method, body: body && JSON.stringify(body),
    headers: { "content-type": "application/json", ...(path.includes("fork") && { "X-Reasonix-Expected-Session-ID": session }) } });
  await up(() => call("GET", "/sessions"));
  await up(() => call("POST", "/resume", { id: session, sessionId: session }));
  await up(() => call("GET", "/fork-targets"));
  return call;
}

export function same(found, expected, what) {
  if (found !== expected) throw new Failed(`${what}: ${found}\nnot ${expected}`);
}

export async function ended(running) {
  const ran = await running;
  if (ran.code !== 0 || ran.timedOut) throw new Failed(`the client ended with ${ran.code}: ${ran.stdout}${ran.stderr}`);
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

async function up(call) {
  for (let tries = 0; tries < 200; tries++) {
    try {
      if ((await call()).ok) return;
    } catch {
      // Not listening yet.
    }
    await pause(50);
  }
  throw new Failed("the client's service does not answer");
}
