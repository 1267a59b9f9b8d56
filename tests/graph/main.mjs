// The page of `offshoot graph --format html` in a browser. See `run`.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Browser } from "./browser.mjs";
import { formatTests } from "./formats.mjs";

const [offshoot, program] = process.argv.slice(2);
const home = mkdtempSync(join(tmpdir(), "offshoot-graph-"));
const env = { PATH: process.env.PATH, HOME: home, OFFSHOOT_STATE_DIR: join(home, "state") };
const run = (...args) => execFileSync(offshoot, args, { env, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] });
Object.assign(run, { program: offshoot, env });

const HOSTILE = `</script><img src=x onerror="alert(1)"><b>bold</b> & "quoted" \\ \u202e\u001b[31m`;

function record(uuid, parent, type, text, more = {}) {
  const parts = [{ text }];
  return JSON.stringify({ uuid, parentUuid: parent, sessionId: "b7e6a9c0-0000-4000-8000-000000000001", type, cwd: "/w", version: "0.24.4",
    timestamp: "2026-01-01T10:00:00.000Z", message: { role: type, parts }, ...more });
}

// A trunk, a branch point with three branches, a second one further down, a rewind, and text that means harm.
function small() {
  const all = [record("t0", null, "user", "Add retries with exponential backoff to the upload client, and tests for the timeouts")];
  for (let n = 1; n < 8; n++) all.push(record(`t${n}`, `t${n - 1}`, n % 2 ? "assistant" : "user", n === 7 ? "The client now retries five times; which of the callers should keep the old behaviour?" : `step ${n}`));
  for (let n = 0; n < 12; n++) all.push(record(`a${n}`, n ? `a${n - 1}` : "t7", n % 2 ? "assistant" : "user", n === 11 ? "All 212 tests pass, and the flaky one was quarantined." : `work ${n}`));
  all.push(record("b0", "t7", "user", HOSTILE), record("b1", "b0", "assistant", HOSTILE));
  all.push(record("w", "t3", "system", "", { subtype: "rewind", systemPayload: {}, message: undefined }));
  all.push(record("c0", "w", "user", "Start again from the configuration, without touching the client"));
  for (let n = 1; n < 4; n++) all.push(record(`c${n}`, `c${n - 1}`, n % 2 ? "assistant" : "user", "more"));
  all.push(record("d0", "c3", "user", "a needle in here"), record("d1", "d0", "assistant", "Found it: the lock file was stale."));
  all.push(record("e0", "c3", "user", "or the other way"), record("e1", "e0", "assistant", "Both ways work; the second one needs no migration."));
  return `${all.join("\n")}\n`;
}

// 5,000 leaves: 100 points in a row with 50 branches each.
function large() {
  const all = [record("r", null, "user", "the root")];
  let above = "r";
  for (let p = 0; p < 100; p++) {
    all.push(record(`p${p}`, above, "assistant", `point ${p}`));
    for (let n = 0; n < 50; n++) all.push(record(`l${p}-${n}`, `p${p}`, "user", `leaf ${p * 50 + n}`));
    above = `p${p}`;
  }
  return `${all.join("\n")}\n`;
}

function drawn(name, text) {
  const [session, page] = [join(home, `${name}.jsonl`), join(home, `${name}.html`)];
  writeFileSync(session, text);
  run("graph", session, "--format", "html", "-o", page);
  return { session, page, graph: JSON.parse(run("graph", session, "--json")) };
}

const selected = `document.querySelector('[aria-selected="true"]')`;
const tests = [];
const test = (name, body) => tests.push({ name, body });
let browser;
const few = drawn("small", small());
run("resume", few.session, "--leaf", "d1", "--seed", "none");
rmSync(few.page);
Object.assign(few, drawn("small", small()));
const many = drawn("large", large());

test("is rendered, asks for nothing else, and logs nothing", async () => {
  const page = await browser.page(few.page);
  assert.equal(await page.value("document.getElementById('summary').textContent"), "4 branches, 31 records");
  assert.equal(await page.value("document.querySelectorAll('[role=treeitem]').length"), few.graph.nodes.length);
  const marked = (kind) => page.value(`[...document.querySelectorAll('.node .mark.${kind}')].map((m) => m.textContent).join()`);
  assert.equal(await marked("pick"), "client pick");
  assert.equal(await marked("recorded"), "recorded");
  assert.equal(await marked("rewind"), "rewind");
  assert.equal(await page.value("[...document.querySelectorAll('#edges text')].map((t) => t.textContent).join(' ')"), "+2 +3 +11 +1 +3 +1 +1");
  assert.deepEqual(page.requests, [`file://${few.page}`]);
  assert.deepEqual(page.trouble, []);
  await page.close();
});

test("hostile text stays text", async () => {
  const page = await browser.page(few.page);
  assert.equal(await page.value("document.querySelectorAll('img, #tree b, aside b').length"), 0);
  const ix = few.graph.nodes.findIndex((node) => node.uuid === "b1");
  assert.ok(await page.value(`document.getElementById('node-${ix}').textContent.includes('</script><img src=x onerror="alert(1)"><b>bold</b> & "quoted"')`));
  await page.click(`#node-${ix}`);
  await page.until("document.getElementById('said').textContent.startsWith('</script><img')");
  assert.equal(await page.value("document.querySelectorAll('img').length"), 0);
  // What a script of a text would need is not allowed either.
  await page.value("document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = true' }))");
  assert.equal(await page.value("window.ran"), undefined);
  assert.equal(page.trouble.length, 1, "the policy's own report");
  await page.close();
});

test("a click selects, a second one collapses", async () => {
  const page = await browser.page(few.page);
  const point = few.graph.nodes.findIndex((node) => node.uuid === "t7");
  await page.click(`#node-${point}`);
  await page.until(`document.getElementById('node-${point}').getAttribute('aria-selected') === 'true'`);
  await page.until("document.getElementById('facts').textContent.includes('t7')");
  assert.equal(await page.value(`document.getElementById('node-${point}').getAttribute('aria-expanded')`), "true");
  await page.click(`#node-${point}`);
  await page.until(`document.getElementById('node-${point}').getAttribute('aria-expanded') === 'false'`);
  await page.until("[...document.querySelectorAll('#edges text')].some((t) => t.textContent === '2 leaves')");
  assert.equal(await page.value("document.querySelectorAll('[role=treeitem]').length"), few.graph.nodes.length - 2);
  await page.click("#open");
  await page.until(`document.querySelectorAll('[role=treeitem]').length === ${few.graph.nodes.length}`);
  await page.close();
});

test("keys walk the tree", async () => {
  const page = await browser.page(few.page);
  const uuid = (wanted) => page.until(`document.querySelector('#facts dd').textContent === ${JSON.stringify(wanted)}`);
  // From the start of the page to the tree by Tab alone, through every control.
  const reached = [];
  for (let i = 0; i < 20 && reached.at(-1) !== "tree"; i++) {
    await page.key("Tab");
    reached.push(await page.value("document.activeElement.id"));
  }
  assert.deepEqual(reached, ["query", "pick", "open", "close", "smaller", "larger", "fit", "tree"]);
  await page.key("Home");
  await uuid("t0");
  await page.key("ArrowRight");
  await uuid("t3");
  await page.key("ArrowDown");
  await uuid("t7");
  await page.key("ArrowLeft");
  await page.until(`${selected}.getAttribute('aria-expanded') === 'false'`);
  await page.key("ArrowLeft");
  await uuid("t3");
  await page.key("ArrowRight");
  await uuid("t7");
  await page.key("ArrowRight");
  await page.until(`${selected}.getAttribute('aria-expanded') === 'true'`);
  await page.key("ArrowRight");
  await uuid("a11");
  await page.key("ArrowUp");
  await uuid("t7");
  await page.key("p");
  await uuid("e1");
  await page.key("End");
  await uuid("e1");
  assert.ok(await page.value("document.getElementById('facts').textContent.includes('offshoot resume b7e6a9c0-0000-4000-8000-000000000001 --leaf e1')"));
  assert.equal(await page.value("document.getElementById('tree').getAttribute('aria-activedescendant')"), await page.value(`${selected}.id`));
  await page.key("-");
  await page.until("document.getElementById('zoom').textContent !== '100%'");
  assert.deepEqual(page.trouble, []);
  await page.close();
});

test("says what it is to a screen reader", async () => {
  const page = await browser.page(few.page);
  const { nodes } = await page.ask("Accessibility.getFullAXTree");
  const named = (role) => nodes.filter((n) => n.role?.value === role && !n.ignored).map((n) => n.name?.value);
  assert.deepEqual(named("tree"), ["Branches of the session"]);
  assert.equal(named("treeitem").length, few.graph.nodes.length);
  assert.ok(named("treeitem").every((name) => name.length > 0));
  assert.ok(named("treeitem").some((name) => name.includes("client pick")));
  assert.ok(named("button").every((name) => name.length > 0));
  assert.deepEqual(named("searchbox"), ["Search texts and ids"]);
  await page.close();
});

test("search goes from match to match and opens what hides one", async () => {
  const page = await browser.page(many.page);
  await page.key("/");
  await page.until("document.activeElement.id === 'query'");
  await page.type("leaf 4321");
  await page.until("document.getElementById('found').textContent === '1 of 1'");
  await page.until(`${selected}.textContent.includes('leaf 4321')`);
  const box = await page.value(`(({ x, y, right, bottom }) => ({ x, y, right, bottom }))(${selected}.getBoundingClientRect())`);
  assert.ok(box.x > 0 && box.y > 0 && box.right < 980 && box.bottom < 800, JSON.stringify(box));
  await page.value("(() => { const q = document.getElementById('query'); q.value = 'LEAF 99'; q.dispatchEvent(new Event('input')); })()");
  await page.until("document.getElementById('found').textContent === '1 of 11'");
  await page.key("Enter");
  await page.until("document.getElementById('found').textContent === '2 of 11'");
  await page.until(`${selected}.classList.contains('match') && ${selected}.textContent.includes('leaf 990')`);
  await page.value("(() => { const q = document.getElementById('query'); q.value = 'nowhere'; q.dispatchEvent(new Event('input')); })()");
  await page.until("document.getElementById('found').textContent === 'none'");
  assert.deepEqual(page.trouble, []);
  await page.close();
});

test("5,000 leaves: only what is seen is drawn", async () => {
  assert.equal(many.graph.branches, 5000);
  const page = await browser.page(many.page);
  const count = () => page.value("document.querySelectorAll('[role=treeitem]').length");
  assert.ok((await count()) < 200, `${await count()} at the start`);
  await page.click("#open");
  await page.click("#tree");
  await page.key("End");
  await page.until(`${selected}.textContent.includes('leaf')`);
  assert.ok((await count()) < 200, `${await count()} when all is open`);
  await page.click("#fit");
  await page.until("document.getElementById('zoom').textContent === '5%'");
  assert.deepEqual(page.trouble, []);
  await page.close();
});

test("is panned by the mouse and zoomed by the wheel", async () => {
  const page = await browser.page(few.page);
  const where = () => page.value("(({ x, y }) => ({ x, y }))(document.getElementById('node-0').getBoundingClientRect())");
  const before = await where();
  const view = await page.value("(({ x, bottom }) => ({ x, bottom }))(document.getElementById('view').getBoundingClientRect())");
  const from = { x: view.x + 30, y: view.bottom - 20 };
  await page.mouse("mousePressed", from);
  await page.mouse("mouseMoved", { x: from.x + 70, y: from.y - 40 });
  await page.mouse("mouseReleased", { x: from.x + 70, y: from.y - 40 });
  await page.until(`Math.abs(document.getElementById('node-0').getBoundingClientRect().x - ${before.x + 70}) < 1`);
  assert.ok(Math.abs((await where()).y - (before.y - 40)) < 1);
  await page.ask("Input.dispatchMouseEvent", { type: "mouseWheel", x: 300, y: 300, deltaX: 0, deltaY: 60 });
  await page.until(`Math.abs(document.getElementById('node-0').getBoundingClientRect().y - ${before.y - 100}) < 1`);
  const zoom = await page.value("document.getElementById('zoom').textContent");
  await page.ask("Input.dispatchMouseEvent", { type: "mouseWheel", x: 300, y: 300, deltaX: 0, deltaY: -90, modifiers: 2 });
  await page.until(`document.getElementById('zoom').textContent !== ${JSON.stringify(zoom)}`);
  await page.close();
});

// The contrast of WCAG between two colours as the browser computes them.
const contrast = `(a, b) => {
  const light = (rgb) => rgb.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
}`;

for (const scheme of ["light", "dark"]) {
  test(`can be read in ${scheme}`, async () => {
    const page = await browser.page(few.page, { scheme });
    const dark = await page.value(`(${contrast})(getComputedStyle(document.body).backgroundColor, 'rgb(0, 0, 0)') < 4`);
    assert.equal(dark, scheme === "dark");
    const poor = await page.value(`(() => { const contrast = ${contrast}; const poor = [];
      const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (c !== "rgba(0, 0, 0, 0)") return c; } return "rgb(255, 255, 255)"; };
      for (const e of document.querySelectorAll(".text, .role, .mark, h1, p, dt, dd, kbd, button:not(:disabled), output")) {
        const ratio = contrast(getComputedStyle(e).color, ground(e));
        if (ratio < 4.5) poor.push([e.className || e.id || e.localName, ratio]);
      }
      return poor; })()`);
    assert.deepEqual(poor, []);
    if (process.env.SHOTS) {
      mkdirSync(process.env.SHOTS, { recursive: true });
      writeFileSync(join(process.env.SHOTS, `small-${scheme}.png`), await page.shot());
      const big = await browser.page(many.page, { scheme });
      writeFileSync(join(process.env.SHOTS, `large-${scheme}.png`), await big.shot());
      const narrow = await browser.page(few.page, { scheme, width: 420, height: 800 });
      writeFileSync(join(process.env.SHOTS, `narrow-${scheme}.png`), await narrow.shot());
    }
    await page.close();
  });
}

test("is printed as a list of everything", async () => {
  const page = await browser.page(few.page);
  const { data } = await page.ask("Page.printToPDF", {});
  assert.ok(Buffer.from(data, "base64").subarray(0, 5).equals(Buffer.from("%PDF-")));
  assert.equal(await page.value("document.querySelectorAll('#print li').length"), few.graph.nodes.length);
  await page.ask("Emulation.setEmulatedMedia", { media: "print" });
  await page.until("getComputedStyle(document.querySelector('main')).display === 'none'");
  assert.notEqual(await page.value("getComputedStyle(document.getElementById('print')).display"), "none");
  assert.ok(await page.value("document.getElementById('print').innerText.includes('a11')"));
  await page.close();
});

test("with --redact it shows the structure and no text", async () => {
  const file = join(home, "redacted.html");
  run("graph", few.session, "--redact", "--format", "html", "-o", file);
  const page = await browser.page(file);
  assert.equal(await page.value("document.querySelectorAll('[role=treeitem]').length"), few.graph.nodes.length);
  assert.ok(!(await page.value("document.documentElement.outerHTML")).includes("retries"));
  await page.close();
});

formatTests({ test, run, home, record, few, many, page: (file) => browser.page(file) });

let [passed, failed] = [0, 0];
browser = new Browser(program);
for (const { name, body } of tests) {
  const begun = performance.now();
  try {
    await body();
    passed += 1;
    console.log(`ok   ${name} (${((performance.now() - begun) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}\n${error.stack}`);
  }
}
await browser.close();
rmSync(home, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
