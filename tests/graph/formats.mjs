// The text formats of `offshoot graph`, held to what reads them: Mermaid in the browser, and Graphviz.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const CASES = new URL("../../fixtures/cases/", import.meta.url).pathname;
const MERMAID = new URL("node_modules/mermaid/dist/mermaid.min.js", import.meta.url).pathname;

// Each of them means something to one of the two, to HTML, or to a terminal.
const HOSTILE = [
  `</script><img src=x onerror="alert(1)"><b>bold</b>`,
  "end",
  "style end class subgraph graph TD default click",
  "`code` \"`markdown`\" 'single' \"double\" \\\"",
  "**bold** __it__ *em* _x_ ~~s~~",
  "%%{init: {'theme': 'dark'}}%% %% a comment",
  "a; b # c #35; #quot; #lt; &lt; &amp;lt; &#60;",
  "[a](b) {c} |d| ((e)) >f] {{g}} [/h/]",
  "<br/> <script>alert(1)</script>",
  "x --> y -.-> z ==> w ~~~ v@{ shape: x } :::class",
  "$$x^2$$ $y$ $$$$ $",
  "fa:fa-car fab:fa-github icon:name mdi:home",
  "a\\nb \\N \\G \\l \\L \\E \\T \\\\n \\",
  "line one\nline two\r\n\n\tline four",
  "1. one\n- two\n# three\n> four",
  "🙂👩\u200d👩\u200d👧 字 עברית \u202e rtl \u2066 é e\u0301 ½",
  "http://example.com/a_b_c?d=e&f=g#h",
  "\u001b[31mred\u001b[0m \u0007 \u0085 \u2028 \ufeff",
  "...",
  "\"];\n x [label=\\N]; click n0 call alert(1)",
];

/** What the first line of a node says. */
function first({ role, text = "" }) {
  const shown = [...text];
  return `${role}${shown.length > 0 ? ": " : ""}${shown.slice(0, 60).join("")}${shown.length > 60 ? "..." : ""}`;
}

/** A label without what is invisible in it, and without gaps, which SVG text has in its places alone. */
const seen = (text) => text.replaceAll(/[\s\u2060]+/gu, "");

/** Every session of the cases. */
function sessions() {
  const folders = (agent) => readdirSync(join(CASES, agent), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const files = (agent) => folders(agent).flatMap(({ name }) =>
    readdirSync(join(CASES, agent, name)).filter((file) => file.endsWith(".jsonl")).map((file) => ({ agent, name, path: join(CASES, agent, name, file) })));
  const logs = folders("reasonix/sessions-v4").map(({ name }) => ({ agent: "reasonix", name, path: join(CASES, "reasonix/sessions-v4", name) }));
  return [...files("claude"), ...files("qwen"), ...logs];
}

export function formatTests({ test, run, home, record, few, many, page }) {
  const hostile = join(home, "hostile.jsonl");
  const texts = HOSTILE.map((text, n) => record(`h${n}`, "r", "user", text));
  writeFileSync(hostile, `${[record("r", null, "user", "the root"), ...texts].join("\n")}\n`);
  const graphOf = (path, agent = "auto") => JSON.parse(run("graph", path, "--agent", agent, "--json"));
  // Sessions that cannot be read, by design, have none.
  const cases = sessions().filter(({ agent, path }) => {
    try {
      return graphOf(path, agent).nodes.length > 0;
    } catch {
      return false;
    }
  });

  /** A page in which Mermaid waits. */
  async function mermaid(configuration = {}) {
    const file = join(home, "mermaid.html");
    writeFileSync(file, `<!doctype html><meta charset="utf-8"><body><div id="host"></div><script src="file://${MERMAID}"></script><script>
      mermaid.initialize({ startOnLoad: false, ...${JSON.stringify(configuration)} });
      window.drawn = 0;
      async function draw(text) {
        await mermaid.parse(text);
        const { svg } = await mermaid.render("drawn-" + ++window.drawn, text);
        host.innerHTML = svg;
        return {
          nodes: [...host.querySelectorAll("g.node")].map((node) => node.textContent),
          edges: host.querySelectorAll(".edgePaths path").length,
          labels: [...host.querySelectorAll("g.edgeLabel")].map((label) => label.textContent).filter((text) => text !== ""),
          markup: [...host.querySelectorAll("img, script, a, b, i, em, strong, code, math")].map((found) => found.localName),
        };
      }
      document.body.dataset.painted = 1;
    </script></body>`);
    const opened = await page(file);
    return { close: () => opened.close(), trouble: opened.trouble, parse: (text) => opened.value(`mermaid.parse(${JSON.stringify(text)}).then(() => null)`), draw: (text) => opened.value(`draw(${JSON.stringify(text)})`) };
  }

  function same({ nodes, edges, labels, markup }, graph, name) {
    assert.equal(nodes.length, graph.nodes.length, `${name}: nodes`);
    graph.nodes.forEach((node, at) => {
      const label = seen(nodes[at]);
      assert.ok(label.startsWith(seen(first(node))), `${name}: ${JSON.stringify(label)} is not ${JSON.stringify(first(node))}`);
      assert.ok(label.endsWith(seen(node.uuid ?? "")), `${name}: ${label}`);
    });
    assert.equal(edges, graph.edges.length, `${name}: edges`);
    const counts = graph.edges.filter(({ records }) => records > 0).map(({ records }) => (records === 1 ? "1record" : `${records}records`));
    assert.deepEqual(labels.map(seen).sort(), counts.sort(), `${name}: labels of edges`);
    assert.deepEqual(markup, [], `${name}: markup`);
  }

  test("Mermaid draws every case with the texts as they were", async () => {
    const opened = await mermaid();
    for (const { agent, path, name } of [...cases, { agent: "qwen", path: few.session, name: "small" }]) {
      const drawn = await opened.draw(run("graph", path, "--agent", agent, "--format", "mermaid"));
      same(drawn, graphOf(path, agent), name);
    }
    for (const agent of ["claude", "qwen", "reasonix"]) assert.ok(cases.some((found) => found.agent === agent), agent);
    assert.deepEqual(opened.trouble, []);
    await opened.close();
  });

  test("Mermaid takes no text for anything else", async () => {
    const [opened, graph] = [await mermaid(), graphOf(hostile)];
    same(await opened.draw(run("graph", hostile, "--format", "mermaid")), graph, "as HTML");
    await opened.close();
    // As SVG text Mermaid itself shows some entities twice escaped; nothing becomes markup there either.
    const other = await mermaid({ htmlLabels: false });
    const drawn = await other.draw(run("graph", hostile, "--format", "mermaid"));
    assert.deepEqual([drawn.nodes.length, drawn.edges, drawn.markup], [graph.nodes.length, graph.edges.length, []]);
    assert.deepEqual([opened.trouble, other.trouble], [[], []]);
    await other.close();
  });

  test("what is too large for Mermaid is what the warning is of", async () => {
    const warned = (path) => execFileSync("sh", ["-c", '"$0" "$@" 2>&1 >/dev/null', run.program, "graph", path, "--format", "mermaid"], { env: run.env, encoding: "utf8" });
    const star = (leaves, text) => {
      const path = join(home, `star-${leaves}.jsonl`);
      const records = Array.from({ length: leaves }, (_, n) => record(`l${n}`, "r", "user", text));
      writeFileSync(path, `${[record("r", null, "user", "the root"), ...records].join("\n")}\n`);
      return path;
    };
    const opened = await mermaid();
    const text = (path) => run("graph", path, "--format", "mermaid");
    const [most, more] = [star(500, ""), star(501, "")];
    assert.equal(warned(most), "");
    await opened.parse(text(most));
    assert.match(warned(more), /501 edges, where Mermaid draws 500 edges/);
    await assert.rejects(opened.parse(text(more)), /Edge limit exceeded/);
    // Characters as JavaScript counts them, not bytes. Of a text that is too long Mermaid draws only that it is.
    const [wide, long] = [star(450, "字".repeat(30)), star(480, "<".repeat(58))];
    assert.ok(Buffer.byteLength(text(wide)) > 50_000 && text(wide).length < 50_000);
    assert.equal(warned(wide), "");
    assert.match(warned(long), /characters, where Mermaid/);
    assert.deepEqual((await opened.draw(text(long))).edges, 0);
    assert.match(warned(many.session), /edges and \d+ characters/);
    await opened.close();
    const raised = await mermaid({ maxEdges: 10_000, maxTextSize: 10_000_000 });
    await raised.parse(text(more));
    await raised.close();
  });

  test("Graphviz draws every case and every hostile text as it was", () => {
    const entities = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };
    const plain = (text) => text.replaceAll(/&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi, (_, dec, hex, name) =>
      name ? entities[name] : String.fromCodePoint(dec ? Number(dec) : Number.parseInt(hex, 16)));
    for (const { agent, path, name } of [...cases, { agent: "qwen", path: few.session, name: "small" }, { agent: "qwen", path: hostile, name: "hostile" }]) {
      const graph = graphOf(path, agent);
      const dot = run("graph", path, "--agent", agent, "--format", "dot");
      const svg = execFileSync("dot", ["-Tsvg"], { input: dot, encoding: "utf8", maxBuffer: 1 << 28 });
      const groups = svg.split('class="node"').slice(1);
      assert.equal(groups.length, graph.nodes.length, name);
      assert.equal(svg.split('class="edge"').length - 1, graph.edges.length, name);
      groups.forEach((group) => {
        const at = Number(group.match(/<title>n(\d+)<\/title>/)[1]);
        const lines = [...group.split("</g>")[0].matchAll(/<text[^>]*>([^<]*)<\/text>/g)].map((line) => seen(plain(line[1])));
        assert.equal(lines[0], seen(first(graph.nodes[at])), name);
        assert.equal(lines.at(-1), seen(graph.nodes[at].uuid ?? lines.at(-1)), name);
      });
      assert.ok(!/<(img|script|a|b)[ >]/.test(svg), name);
    }
  });
}
