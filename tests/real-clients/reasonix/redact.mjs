// A session that the client made and its redacted form: the client opens that, lists the same turns, and goes on in it.

import { cpSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { startModel, texts } from "../qwen/model.mjs";
import { ended, opened, same } from "./service.mjs";

/** The row of the client. */
export function redactRow(client, bench) {
  const check = async () => {
    const [place, other] = [bench.home(), bench.home()];
    const model = await startModel();
    const served = { child: null };
    try {
      for (const each of [place, other]) client.settle(each, model.url);
      return await redacted(client, bench.offshoot(place), place, other, model, served);
    } finally {
      served.child?.end();
      await model.close();
    }
  };
  return { client: `${client.agent} ${client.version}`, session: "its own", leaf: "", seed: "redact", check };
}

async function redacted(client, offshoot, place, other, model, served) {
  const projects = join(place.home, ".reasonix/projects");
  // The second prompt is long enough to have its payload elsewhere.
  const long = `SECOND ${"Zebra plumage ".repeat(6000)}`;
  await ended(client.turn(place, "FIRST Zebra plumage"));
  const project = readdirSync(projects)[0];
  const root = join(projects, project, "sessions-v4");
  const [session] = readdirSync(root).filter((name) => !name.startsWith("."));
  await ended(client.turn(place, long, session));
  await offshoot.json(["fork", session, "--turn", (await offshoot.json(["targets", session])).targets[0].turnId]);
  const shown = join(place.home, "shown");
  await offshoot.plain(["redact", session, "-o", shown]);
  same(readdirSync(shown).filter((name) => !name.startsWith(".")).length, 2, "sessions in the redacted folder");

  const their = async (at) => {
    const call = await opened(client, at, session, served);
    const { targets } = await (await call("GET", "/fork-targets")).json();
    served.child.end();
    // The client knows replies only of sessions that it opened before, from a cache.
    return JSON.stringify(targets.map(({ messageId, ...rest }) => rest));
  };
  const before = await their(place);
  cpSync(shown, join(other.home, ".reasonix/projects", project, "sessions-v4"), { recursive: true });
  same(await their(other), before, "fork targets");

  await ended(client.turn(other, "THIRD", session));
  const said = model.bodies.at(-1).messages.filter((m) => m.role !== "system").map((m) => texts(m).join(""));
  same(said.some((text) => /zebra|plumage|FIRST|SECOND/i.test(text)), false, "a word of the conversation");
  same(said.some((text) => text.length >= long.length && /^x+ x/.test(text)), true, "a prompt of that length");
  return `${JSON.parse(before).length} targets, as before`;
}
