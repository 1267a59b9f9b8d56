// `install`: the slash commands as the client knows them, what its model is sent, and what comes of the answers.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { Failed } from "./matrix.mjs";
import { SHOWN } from "./obey.mjs";

const SESSION = "5e551011-0000-4000-8000-000000c0de00";

/** The row of one client. */
export function commandsRow(client, bench) {
  const check = () => commands(client, bench);
  return { client: `${client.agent} ${client.version}`, session: "its own, with /tree and /pick", leaf: "", seed: "install", check };
}

function holds(what, so, seen) {
  if (!so) throw new Failed(`${what}: ${JSON.stringify(seen)}`);
}

async function commands(client, bench) {
  const place = bench.home();
  client.settle(place);
  const offshoot = bench.offshoot(place);
  const folder = join(place.home, `.${client.agent}`, "commands");
  const before = existsSync(folder);
  const installed = await offshoot.json(["install", client.agent]);
  holds("the files", readdirSync(folder).sort().join() === "pick.md,tree.md", readdirSync(folder));

  const prompt = async (args, text, more) => {
    const got = await client.prompt(place, args, text, more);
    if (got.problem !== null) throw new Failed(`${text}: ${got.problem}`);
    return got;
  };
  await prompt(["--session-id", SESSION], "ONE-Q");
  await prompt(["--resume", SESSION], "TWO-Q");
  const path = client.transcript(place, SESSION);
  const first = client.conversationOf(path).find((record) => record.type === "assistant").uuid;

  // The client tells the model which command to run, and what the user typed; the command finds the session.
  const slash = (text) => prompt([...client.mayRun(installed.program), "--resume", SESSION], text, { requests: 2, printed: `${SHOWN}\n` });
  const called = (got) => got.sent.findLast((line) => line.startsWith("call: "));
  const answered = (got) => got.sent.findLast((line) => line.startsWith("tool: "));
  const whole = readFileSync(path);
  const tree = await slash("/tree");
  const command = `${installed.program} slash tree --agent ${client.agent}`;
  holds("the command of /tree", called(tree).includes(command), called(tree));
  const page = answered(tree);
  holds("the page of /tree", page.includes(`session ${SESSION} (${client.agent}): 1 branch, `), page);
  holds("the rows of /tree", /^\| [0-9a-f]{8,} +\[U\] ONE-Q$/m.test(page) && page.includes("answer by: /pick ID"), page);
  holds("front matter", !tree.raw.includes("slash-command 1 made"), "the marker reached the model");

  // The id that is answered makes a fork, which the client goes on in by the line that was printed.
  const picked = answered(await slash(`/pick ${first}`));
  const resume = new RegExp(`^ {4}cd ${place.project} && ${client.agent} --resume ([0-9a-f-]{36})$`, "m").exec(picked);
  holds("the line to resume by", resume !== null, picked);
  holds("the session only grew", readFileSync(path).subarray(0, whole.length).equals(whole), path);
  const next = await prompt(["--resume", resume[1]], "NEXT");
  const history = ["user: ONE-Q", `assistant: ${client.replyTo("ONE-Q")}`, "user: NEXT"];
  holds("the history of the fork", next.sent.join("\n") === history.join("\n"), next.sent);

  // Neither the client nor its tool runs what was typed as a part of the command, not even for a model that lets it, as long
  // as nobody has allowed more than the file does.
  const untold = { requests: 2, printed: `${SHOWN}\n`, said: client.complaint };
  for (const [at, typed] of ["$(touch FILE)", "!`touch FILE` !{touch FILE}", "x; touch FILE"].entries()) {
    const file = join(dirname(place.home), `typed-${client.agent}-${client.version}-${at}`);
    const got = await prompt(["--resume", SESSION], `/pick ${typed.replace("FILE", file)}`, untold);
    holds(`/pick ${typed}`, !existsSync(file), answered(got));
    holds(`the call of /pick ${typed}`, called(got).includes(file), called(got));
  }

  await offshoot.json(["uninstall", client.agent]);
  holds("the folder after uninstall", existsSync(folder) === before, folder);
  return "listed, forked, resumed";
}
