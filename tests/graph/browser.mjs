// A headless Chromium, spoken to over its debugging pipe: nothing is listened on, nothing but Node is needed.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// What is not there by then does not come. No test passes by waiting for it.
const DEADLINE = 60_000;

export class Browser {
  constructor(program) {
    this.home = mkdtempSync(join(tmpdir(), "offshoot-browser-"));
    const args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
      `--user-data-dir=${this.home}`, "--remote-debugging-pipe", "about:blank"];
    this.child = spawn(program, args, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.asked = new Map();
    this.listeners = [];
    this.next = 1;
    let rest = "";
    this.child.stdio[4].setEncoding("utf8");
    this.child.stdio[4].on("data", (chunk) => {
      const parts = (rest + chunk).split("\0");
      rest = parts.pop();
      for (const part of parts) this.take(JSON.parse(part));
    });
    this.child.on("exit", () => {
      for (const { fail } of this.asked.values()) fail(new Error("the browser ended"));
    });
  }

  take(message) {
    if (message.id === undefined) {
      for (const listener of this.listeners) listener(message);
      return;
    }
    const { done, fail } = this.asked.get(message.id);
    this.asked.delete(message.id);
    if (message.error) fail(new Error(JSON.stringify(message.error)));
    else done(message.result);
  }

  ask(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    return new Promise((done, fail) => {
      this.asked.set(id, { done, fail });
      this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  async page(file, { width = 1280, height = 800, scheme = "light" } = {}) {
    const { targetId } = await this.ask("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.ask("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await page.ask(`${domain}.enable`);
    await page.ask("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
    await page.scheme(scheme);
    await page.ask("Page.navigate", { url: `file://${file}` });
    await page.until("document.body !== null && document.body.dataset.painted > 0");
    return page;
  }

  async close() {
    const ended = new Promise((done) => this.child.on("exit", done));
    this.child.kill();
    await ended;
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }
}

export class Page {
  constructor(browser, sessionId, targetId) {
    this.browser = browser;
    this.sessionId = sessionId;
    this.targetId = targetId;
    this.trouble = [];
    this.requests = [];
    browser.listeners.push((message) => {
      if (message.sessionId !== sessionId) return;
      const { method, params } = message;
      if (method === "Runtime.exceptionThrown") this.trouble.push(params.exceptionDetails);
      if (method === "Log.entryAdded") this.trouble.push(params.entry.text);
      if (method === "Runtime.consoleAPICalled") this.trouble.push(params.args);
      if (method === "Page.javascriptDialogOpening") this.trouble.push("a dialog was opened");
      if (method === "Network.requestWillBeSent") this.requests.push(params.request.url);
    });
  }

  ask(method, params) {
    return this.browser.ask(method, params, this.sessionId);
  }

  async value(expression) {
    const { result, exceptionDetails } = await this.ask("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(`${expression}: ${JSON.stringify(exceptionDetails)}`);
    return result.value;
  }

  // Waits for a rendered value: asked again after each frame, up to the deadline.
  async until(expression) {
    const begun = Date.now();
    while (Date.now() - begun < DEADLINE) {
      const found = await this.value(`(() => { try { return ${expression}; } catch { return null; } })()`);
      if (found) return found;
      await this.value("new Promise((done) => { requestAnimationFrame(done); setTimeout(done, 50); })");
    }
    throw new Error(`never true: ${expression}; last: ${await this.value("document.body.innerText.slice(0, 2000)")}`);
  }

  scheme(name) {
    return this.ask("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: name }] });
  }

  async key(key, more = {}) {
    const text = key.length === 1 ? key : undefined;
    const code = { ArrowDown: 40, ArrowUp: 38, ArrowLeft: 37, ArrowRight: 39, Home: 36, End: 35, Enter: 13, Tab: 9, Escape: 27 }[key];
    const all = { key, text, windowsVirtualKeyCode: code, ...more };
    await this.ask("Input.dispatchKeyEvent", { type: text ? "keyDown" : "rawKeyDown", ...all });
    await this.ask("Input.dispatchKeyEvent", { type: "keyUp", key, windowsVirtualKeyCode: code });
  }

  async type(text) {
    for (const c of text) await this.key(c);
  }

  async middle(selector) {
    return this.value(`(() => { const b = document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect();
      return { x: b.x + b.width / 2, y: b.y + b.height / 2 }; })()`);
  }

  async mouse(type, { x, y }, more = {}) {
    await this.ask("Input.dispatchMouseEvent", { type, x, y, button: "left", buttons: type === "mouseReleased" ? 0 : 1, clickCount: 1, ...more });
  }

  async click(selector) {
    const at = await this.middle(selector);
    await this.mouse("mousePressed", at);
    await this.mouse("mouseReleased", at);
  }

  async shot() {
    return Buffer.from((await this.ask("Page.captureScreenshot", { format: "png" })).data, "base64");
  }

  close() {
    return this.browser.ask("Target.closeTarget", { targetId: this.targetId });
  }
}
