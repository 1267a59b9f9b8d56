
"use strict";
(() => {
  const CARD = { width: 280, height: 98 };
  const STEP = { x: 375, y: 116 };
  const MARGIN = 40;
  // So many nodes are shown at first; more are a click away.
  const SHOWN = 120;
  const SVG = "http://www.w3.org/2000/svg";
  const at = (id) => document.getElementById(id);
  const data = JSON.parse(at("data").textContent);
  const nodes = data.nodes.map((node, ix) => ({ ...node, ix, children: [], parent: null, folded: 0, leaves: 0 }));
  for (const edge of data.edges) {
    nodes[edge.to].parent = edge.from;
    nodes[edge.to].folded = edge.records;
    nodes[edge.from].children.push(edge.to);
  }
  const roots = nodes.filter((node) => node.parent === null).map((node) => node.ix);
  // A node stands behind its parent, so that going backwards sums up.
  for (let ix = nodes.length - 1; ix >= 0; ix--) {
    const node = nodes[ix];
    if (node.children.length === 0) node.leaves = 1;
    if (node.parent !== null) nodes[node.parent].leaves += node.leaves;
  }

  const collapsed = new Set();
  const drawn = new Map();
  const matches = { list: [], set: new Set(), current: -1 };
  const place = { scale: 1, x: 0, y: 0 };
  let order = [];
  let selected = -1;
  let pending = 0;

  const plural = (n, one, many) => (n === 1 ? `1 ${one}` : `${n.toLocaleString("en")} ${many}`);
  const element = (name, kind, text) => {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  function marks(node) {
    const found = [];
    if (node.clientPick) found.push(["pick", "client pick"]);
    if (node.recorded) found.push(["recorded", "recorded"]);
    if (node.rewind) found.push(["rewind", "rewind"]);
    if (node.gap) found.push(["gap", "parent missing"]);
    if (node.label) found.push(["label", node.label]);
    if (node.branches > 0) found.push(["branches", plural(node.branches, "branch", "branches")]);
    if (node.continuedIn) found.push(["went", "went on elsewhere"]);
    if (node.leaf) found.push(["leaf", "leaf"]);
    if (node.root && !node.gap) found.push(["root", "root"]);
    return found;
  }

  function spoken(node) {
    return [node.role, node.text || "", ...marks(node).map((mark) => mark[1])].filter((part) => part).join(", ");
  }

  // The first branch of a point goes on in its row, each other one gets a row of its own.
  function layout() {
    order = [];
    let row = -1;
    const stack = [...roots].reverse().map((ix) => [ix, 0, false]);
    while (stack.length > 0) {
      const [ix, column, goesOn] = stack.pop();
      if (!goesOn) row += 1;
      const node = nodes[ix];
      node.column = column;
      node.row = row;
      node.x = column * STEP.x + MARGIN;
      node.y = row * STEP.y + MARGIN;
      node.order = order.length;
      order.push(ix);
      if (!collapsed.has(ix)) {
        for (let i = node.children.length - 1; i >= 0; i--) stack.push([node.children[i], column + 1, i === 0]);
      }
    }
    for (const ix of drawn.keys()) if (!visible(ix)) remove(ix);
    draw();
  }

  const visible = (ix) => order[nodes[ix].order] === ix;

  function remove(ix) {
    drawn.get(ix).remove();
    drawn.delete(ix);
  }

  function card(node) {
    const made = element("div", "node");
    made.id = `node-${node.ix}`;
    made.dataset.ix = node.ix;
    made.setAttribute("role", "treeitem");
    made.classList.add(["user", "assistant", "tool", "system", "sidechain"].includes(node.role) ? node.role : "system");
    for (const [kind, flag] of [["pick", node.clientPick], ["recorded", node.recorded], ["rewind", node.rewind]]) {
      if (flag) made.classList.add(kind);
    }
    const text = element("span", "text");
    text.append(element("span", "role", node.role), node.text || (node.text === undefined ? "(text left out)" : "(no text)"));
    made.append(text);
    const found = marks(node);
    if (found.length > 0) {
      made.classList.add("marked");
      const line = element("span", "marks");
      for (const [kind, words] of found) line.append(element("span", `mark ${kind}`, words));
      made.append(line);
    }
    made.style.left = `${node.x}px`;
    made.style.top = `${node.y}px`;
    made.setAttribute("aria-label", spoken(node));
    made.setAttribute("aria-level", node.column + 1);
    return made;
  }

  function refresh(ix) {
    const node = nodes[ix];
    const made = drawn.get(ix);
    made.style.left = `${node.x}px`;
    made.style.top = `${node.y}px`;
    made.setAttribute("aria-selected", ix === selected);
    if (node.children.length > 0) made.setAttribute("aria-expanded", !collapsed.has(ix));
    made.classList.toggle("match", matches.set.has(ix));
  }

  function draw() {
    if (pending === 0) {
      pending = requestAnimationFrame(() => {
        pending = 0;
        paint();
      });
    }
  }

  function paint() {
    const view = at("view").getBoundingClientRect();
    const left = (-place.x - 300) / place.scale;
    const right = (view.width - place.x + 300) / place.scale;
    const top = (-place.y - 200) / place.scale;
    const bottom = (view.height - place.y + 200) / place.scale;
    const near = (node) =>
      node.x + CARD.width > left && node.x < right && node.y + CARD.height > top && node.y < bottom;
    at("canvas").style.transform = `translate(${place.x}px, ${place.y}px) scale(${place.scale})`;
    at("zoom").textContent = `${Math.round(place.scale * 100)}%`;
    const lines = [];
    for (const ix of order) {
      const node = nodes[ix];
      if (near(node) || ix === selected) {
        if (!drawn.has(ix)) {
          drawn.set(ix, card(node));
          at("tree").append(drawn.get(ix));
        }
        refresh(ix);
      } else if (drawn.has(ix)) {
        remove(ix);
      }
      edges(node, left, right, top, bottom, lines);
    }
    at("edges").replaceChildren(...lines);
    const current = drawn.get(selected);
    if (current) at("tree").setAttribute("aria-activedescendant", current.id);
    else at("tree").removeAttribute("aria-activedescendant");
    document.body.dataset.painted = Number(document.body.dataset.painted || 0) + 1;
  }

  // A stub from the trunk to the node, and for a point with several branches the trunk itself.
  function edges(node, left, right, top, bottom, lines) {
    const middle = node.y + CARD.height / 2;
    const path = (d) => {
      const made = document.createElementNS(SVG, "path");
      made.setAttribute("d", d);
      lines.push(made);
    };
    const label = (x, y, words) => {
      const made = document.createElementNS(SVG, "text");
      made.setAttribute("x", x);
      made.setAttribute("y", y);
      made.textContent = words;
      lines.push(made);
    };
    const end = node.x + CARD.width;
    const trunk = end + 22;
    if (node.parent !== null && middle > top && middle < bottom && node.x > left && node.x - STEP.x < right) {
      const parent = nodes[node.parent];
      const from = parent.row === node.row ? parent.x + CARD.width : parent.x + CARD.width + 22;
      path(`M${from} ${middle}H${node.x}`);
      if (node.folded > 0) label((parent.x + CARD.width + 22 + node.x) / 2, middle - 5, `+${node.folded.toLocaleString("en")}`);
    }
    if (node.children.length === 0 || end < left || node.x > right) return;
    if (collapsed.has(node.ix)) {
      if (middle > top && middle < bottom) {
        path(`M${end} ${middle}H${end + 14}`);
        label(end + 52, middle + 4, plural(node.leaves, "leaf", "leaves"));
      }
    } else if (node.children.length > 1) {
      const last = nodes[node.children[node.children.length - 1]].y + CARD.height / 2;
      if (last > top && middle < bottom) path(`M${trunk} ${middle}V${last}`);
    }
  }

  function reveal(ix) {
    let changed = false;
    for (let up = nodes[ix].parent; up !== null; up = nodes[up].parent) changed = collapsed.delete(up) || changed;
    if (changed || order.length === 0) layout();
  }

  function select(ix, how) {
    if (ix < 0 || ix >= nodes.length) return;
    reveal(ix);
    selected = ix;
    if (how === "center") center(ix);
    else follow(ix);
    tell(nodes[ix]);
    draw();
  }

  function center(ix) {
    const view = at("view").getBoundingClientRect();
    place.x = view.width / 2 - (nodes[ix].x + CARD.width / 2) * place.scale;
    place.y = view.height / 2 - (nodes[ix].y + CARD.height / 2) * place.scale;
  }

  // Moves the view no further than is needed to see the node.
  function follow(ix) {
    const view = at("view").getBoundingClientRect();
    const keep = (start, length, room, by) => {
      const from = start * place.scale + by;
      const to = (start + length) * place.scale + by;
      if (from < 20) return by + 20 - from;
      if (to > room - 20) return by + room - 20 - to;
      return by;
    };
    place.x = keep(nodes[ix].x, CARD.width, view.width, place.x);
    place.y = keep(nodes[ix].y, CARD.height, view.height, place.y);
  }

  const quoted = (word) => (/^[\w.:-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

  function tell(node) {
    at("what").textContent = [node.role, ...marks(node).map((mark) => mark[1])].join(" \u00b7 ");
    at("said").textContent = node.text || (node.text === undefined ? "(text left out)" : "(no text)");
    const facts = at("facts");
    facts.replaceChildren();
    const fact = (name, words, code) => {
      if (words === undefined || words === null || words === "") return;
      facts.append(element("dt", "", name), element("dd", code ? "code" : "", words));
    };
    fact("Record", node.uuid, true);
    fact("Time", node.time);
    fact("Name", node.label);
    if (node.parent !== null) fact("Before it", plural(node.folded, "record", "records"));
    if (node.children.length > 0) fact("Below it", plural(node.leaves, "leaf", "leaves"));
    fact("Went on in", node.continuedIn, true);
    if (node.leaf && node.uuid) {
      fact("Resume", `offshoot resume ${quoted(data.sessionId)} --leaf ${quoted(node.uuid)}`, true);
    }
  }

  function toggle(ix) {
    if (nodes[ix].children.length === 0) return;
    if (!collapsed.delete(ix)) collapsed.add(ix);
    layout();
  }

  function zoom(by, x, y) {
    const view = at("view").getBoundingClientRect();
    const [px, py] = [x ?? view.width / 2, y ?? view.height / 2];
    const scale = Math.min(2, Math.max(0.05, place.scale * by));
    place.x = px - ((px - place.x) * scale) / place.scale;
    place.y = py - ((py - place.y) * scale) / place.scale;
    place.scale = scale;
    draw();
  }

  function fit() {
    const view = at("view").getBoundingClientRect();
    let [width, height] = [1, 1];
    for (const ix of order) {
      width = Math.max(width, nodes[ix].x + CARD.width + 110);
      height = Math.max(height, nodes[ix].y + CARD.height + MARGIN);
    }
    place.scale = Math.min(1, Math.max(0.05, Math.min(view.width / width, view.height / height)));
    place.x = 0;
    place.y = Math.max(0, (view.height - height * place.scale) / 2);
    draw();
  }

  function search() {
    const wanted = at("query").value.trim().toLowerCase();
    matches.list = [];
    if (wanted !== "") {
      const holds = (text) => text !== undefined && text !== null && text.toLowerCase().includes(wanted);
      matches.list = nodes.filter((n) => holds(n.text) || holds(n.uuid) || holds(n.label)).map((n) => n.ix);
    }
    matches.set = new Set(matches.list);
    matches.current = -1;
    step(1);
  }

  function step(by) {
    const count = matches.list.length;
    at("next").disabled = at("previous").disabled = count === 0;
    if (count === 0) {
      at("found").textContent = at("query").value.trim() === "" ? "" : "none";
      draw();
      return;
    }
    matches.current = (matches.current + by + count) % count;
    at("found").textContent = `${matches.current + 1} of ${count}`;
    select(matches.list[matches.current], "center");
  }

  function key(event) {
    const typing = event.target === at("query");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (typing) {
      if (event.key === "Escape") at("tree").focus();
      else if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
      else return;
      event.preventDefault();
      return;
    }
    const onButton = event.target instanceof HTMLButtonElement;
    const node = nodes[selected];
    const keys = {
      "/": () => at("query").focus(),
      n: () => step(1),
      N: () => step(-1),
      p: pick,
      "+": () => zoom(1.25),
      "=": () => zoom(1.25),
      "-": () => zoom(0.8),
      0: fit,
    };
    const inTree = {
      ArrowDown: () => select(order[Math.min(order.length - 1, node.order + 1)]),
      ArrowUp: () => select(order[Math.max(0, node.order - 1)]),
      ArrowRight: () => {
        if (collapsed.has(selected)) toggle(selected);
        else if (node.children.length > 0) select(node.children[0]);
      },
      ArrowLeft: () => {
        if (node.children.length > 1 && !collapsed.has(selected)) toggle(selected);
        else if (node.parent !== null) select(node.parent);
      },
      Home: () => select(order[0]),
      End: () => select(order[order.length - 1]),
      Enter: () => toggle(selected),
      " ": () => toggle(selected),
    };
    const act = keys[event.key] || (!onButton && node ? inTree[event.key] : undefined);
    if (!act) return;
    event.preventDefault();
    act();
  }

  function pick() {
    const found = nodes.findIndex((node) => node.clientPick);
    if (found >= 0) select(found, "center");
  }

  // All of it as a list: paper has no window to pan.
  function list() {
    const lines = [];
    const stack = [...roots].reverse().map((ix) => [ix, 0]);
    while (stack.length > 0) {
      const [ix, depth] = stack.pop();
      const node = nodes[ix];
      const line = element("li", "", `${node.role}: ${node.text || ""}`);
      line.style.marginLeft = `${Math.min(depth, 20) * 10}px`;
      line.append(element("small", "", [...marks(node).map((mark) => mark[1]), node.uuid || "", node.time || ""].filter((w) => w).join(" \u00b7 ")));
      lines.push(line);
      for (let i = node.children.length - 1; i >= 0; i--) stack.push([node.children[i], depth + (node.children.length > 1 ? 1 : 0)]);
    }
    at("print").replaceChildren(...lines);
  }

  function begin() {
    at("title").textContent = `${data.sessionId || "session without an id"} (${data.agent})`;
    document.title = at("title").textContent;
    at("summary").textContent = [
      plural(data.branches, "branch", "branches"),
      plural(data.records, "record", "records"),
    ].join(", ");
    at("next").disabled = at("previous").disabled = true;
    at("pick").disabled = !nodes.some((node) => node.clientPick);
    at("empty").hidden = nodes.length > 0;
    at("tree").tabIndex = 0;
    collapse();
    const first = nodes.findIndex((node) => node.clientPick);
    fit();
    // What is smaller cannot be read.
    if (place.scale < 0.7) {
      place.scale = 0.8;
      place.x = place.y = 0;
    }
    if (nodes.length > 0) select(Math.max(0, first));
    else draw();
  }

  // Opened from the roots on until enough is shown, with the ways to what is marked.
  function collapse() {
    collapsed.clear();
    let room = SHOWN;
    const queue = [...roots];
    for (let i = 0; i < queue.length; i++) {
      const node = nodes[queue[i]];
      room -= 1;
      if (node.children.length > 1 && room < node.children.length) collapsed.add(node.ix);
      else queue.push(...node.children);
    }
    for (const node of nodes) {
      if (!node.clientPick && !node.recorded) continue;
      for (let up = node.parent; up !== null; up = nodes[up].parent) {
        if (nodes[up].children.length <= SHOWN) collapsed.delete(up);
      }
    }
    layout();
  }

  document.addEventListener("keydown", key);
  at("query").addEventListener("input", search);
  at("find").addEventListener("submit", (event) => event.preventDefault());
  at("next").addEventListener("click", () => step(1));
  at("previous").addEventListener("click", () => step(-1));
  at("pick").addEventListener("click", pick);
  at("open").addEventListener("click", () => {
    collapsed.clear();
    layout();
    if (selected >= 0) follow(selected);
  });
  at("close").addEventListener("click", () => {
    for (const node of nodes) if (node.children.length > 1 && node.parent !== null) collapsed.add(node.ix);
    while (selected >= 0 && nodes[selected].parent !== null && hiddenAbove(selected)) selected = nodes[selected].parent;
    layout();
    if (selected >= 0) select(selected);
  });
  at("larger").addEventListener("click", () => zoom(1.25));
  at("smaller").addEventListener("click", () => zoom(0.8));
  at("fit").addEventListener("click", fit);
  at("tree").addEventListener("click", (event) => {
    const hit = event.target.closest(".node");
    if (!hit) return;
    const ix = Number(hit.dataset.ix);
    if (ix === selected) toggle(ix);
    else select(ix);
    at("tree").focus({ preventScroll: true });
  });
  window.addEventListener("beforeprint", list);
  window.addEventListener("resize", draw);

  function hiddenAbove(ix) {
    for (let up = nodes[ix].parent; up !== null; up = nodes[up].parent) if (collapsed.has(up)) return true;
    return false;
  }

  const view = at("view");
  let held = null;
  view.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest(".node")) return;
    held = { x: event.clientX - place.x, y: event.clientY - place.y };
    view.setPointerCapture(event.pointerId);
    view.classList.add("held");
  });
  view.addEventListener("pointermove", (event) => {
    if (!held) return;
    place.x = event.clientX - held.x;
    place.y = event.clientY - held.y;
    draw();
  });
  for (const name of ["pointerup", "pointercancel"]) {
    view.addEventListener(name, () => {
      held = null;
      view.classList.remove("held");
    });
  }
  view.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const box = view.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey) {
        zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
      } else {
        place.x -= event.shiftKey ? event.deltaY : event.deltaX;
        place.y -= event.shiftKey ? 0 : event.deltaY;
        draw();
      }
    },
    { passive: false },
  );

  begin();
})();
