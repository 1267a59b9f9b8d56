// `offshoot probe`: the short form of all this in the binary itself.

import { Failed } from "./matrix.mjs";

/** The row of one client: every behaviour was checked and holds. */
export function probeRow(client, bench) {
  const check = async () => {
    const report = await bench.offshoot(bench.home()).json(["probe", client.agent, "--client", client.program]);
    const wrong = report.behaviours.filter((b) => b.outcome !== "holds");
    if (wrong.length > 0 || report.clientVersion !== client.version) throw new Failed(JSON.stringify(report));
    return `${report.behaviours.length} behaviours hold`;
  };
  return { client: `${client.agent} ${client.version}`, session: "its own", leaf: "", seed: "probe", check };
}
