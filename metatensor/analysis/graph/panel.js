// The panel: what is selected, or the program if nothing is.

const link = (node, text) => {
  const button = element("button", { type: "button", class: "link", title: node.kind === "call" ? `call ${node.call + 1}: ${node.op}` : node.title }, text || node.title);
  button.addEventListener("click", () => select(node, true));
  return button;
};
const rows = (...pairs) => element("dl", { class: "rows" }, ...pairs.filter((pair) => pair).flatMap(([name, ...what]) => [element("dt", {}, name), element("dd", {}, ...what)]));
const titled = (title, ...content) => element("section", {}, element("h3", {}, title), ...content);
const makers = new Map(); // of values, by number
const nameNumbers = new Map();
const modulesText = (node) => node.path || "(outside of modules)";

function indexValues() {
  for (const number of Object.keys(report.values)) nameNumbers.set(valueName(number), Number(number));
  report.inputs.forEach((value, i) => makers.set(value, graph.inputs[i]));
  report.calls.forEach((row, i) => { for (const value of row[4]) if (!makers.has(value)) makers.set(value, graph.calls[i]); });
}
const heldByNumber = new Map(report.held.map((row) => [row[2], row]));

function argumentItem(text, producers) {
  const parts = text.split(/(\b[A-Za-z_]\w*\b)/).map((part) => {
    const number = nameNumbers.get(part);
    if (number === undefined) return part;
    const held = heldByNumber.get(number), maker = producers.get(number) || makers.get(number);
    const type = element("span", { class: "type" }, typeText(typeOf(number)));
    if (maker) return element("span", {}, link(maker, part), " ", type);
    return element("span", {}, held ? `${held[1]} ${held[0]}` : part, " ", type);
  });
  return element("li", {}, ...parts);
}

function breadcrumbs(node) {
  const chain = node.chain.slice(1, -1);
  return chain.length ? [element("p", { class: "path" }, ...chain.flatMap((one, i) => [i ? " › " : "", link(one)]))] : [];
}

function figureRows(node) {
  return rows(["FLOPs", node.flops === null ? "unknown" : wholeText(node.flops)], ["bytes read", node.read === null ? "unknown" : bytesText(node.read)],
    ["bytes written", node.written === null ? "unknown" : bytesText(node.written)], ["memory made", bytesText(node.made)],
    [node.kind === "group" ? "most in use" : "in use at its end", bytesText(node.used)]);
}

function listed(title, items, most = 12) {
  if (!items.length) return "";
  const list = element("ul", {}, ...items.slice(0, most));
  if (items.length > most) {
    const more = element("button", { type: "button", class: "link" }, `and ${wholeText(items.length - most)} more`);
    more.addEventListener("click", () => list.replaceChildren(...items));
    list.append(element("li", {}, more));
  }
  return titled(title, list);
}

function callPanel(node) {
  const [, module, place, texts, results, sources, writes, , , , , , flags] = report.calls[node.call], producers = new Map(sources.map(([producer, value]) => [value, nodeOfProducer(producer)]));
  const line = place === null ? null : report.places[place];
  const users = [...new Set(node.outs.map((one) => one.target))];
  return [
    element("h2", {}, node.op), ...breadcrumbs(node),
    element("p", { class: "sub" }, `Call ${wholeText(node.call + 1)} of ${wholeText(report.calls.length)}`, node.backward ? ", in the backward pass" : "", flags & 4 ? ", draws random numbers" : "", flags & 2 || report.phases.length ? "" : ", without gradients"),
    rows(["module", report.modules[module] || "(outside of modules)"]),
    line === null ? "" : element("pre", { class: "source" }, element("span", { class: "where" }, relativePlace(line)), `\n${report.source[line] || ""}`),
    listed("Arguments", texts.map((text) => argumentItem(text, producers)), 24),
    listed("Results", results.map((value) => element("li", {}, `${valueName(value)} `, element("span", { class: "type" }, typeText(typeOf(value))), ` ${bytesText(typeOf(value)[2])}`))),
    writes.length ? titled("Writes to", element("p", {}, writes.map((value) => heldByNumber.has(value) ? heldByNumber.get(value)[0] : valueName(value)).join(", "))) : "",
    titled("Costs", figureRows(node)),
    listed("Used by", users.map((user) => element("li", {}, link(user), user.kind === "call" ? ` ${modulesText(user)}` : ""))),
  ];
}

function boundary(node, side) { // the values that enter or leave a group
  const found = new Map();
  for (let order = node.first; order <= node.last; order++) {
    for (const one of side === "ins" ? graph.leaves[order].ins : graph.leaves[order].outs) {
      const other = side === "ins" ? one.source : one.target;
      if (!inside(node, other) && !found.has(one.value)) found.set(one.value, one.source);
    }
  }
  return [...found].map(([value, source]) => element("li", {}, link(source, valueName(value)), " ", element("span", { class: "type" }, typeText(typeOf(value)))));
}

function parametersIn(node) {
  const names = new Map();
  for (let order = node.first; order <= node.last; order++) {
    const leaf = graph.leaves[order];
    if (leaf.kind !== "call") continue;
    for (const text of report.calls[leaf.call][3]) for (const word of text.match(/[A-Za-z_]\w*/g) || []) {
      const held = heldByNumber.get(nameNumbers.get(word));
      if (held) names.set(held[0], held);
    }
  }
  return [...names.values()];
}

function operatorTable(node) {
  const by = new Map();
  for (const leaf of graph.leaves.slice(node.first, node.last + 1)) {
    if (leaf.kind !== "call") continue;
    const row = by.get(leaf.op) || { calls: 0, flops: 0, made: 0 };
    row.calls += 1; row.made += leaf.made; row.flops = leaf.flops === null ? null : row.flops + leaf.flops;
    by.set(leaf.op, row);
  }
  const ordered = [...by].sort(([, a], [, b]) => b.flops - a.flops || b.made - a.made || b.calls - a.calls), body = (count) => ordered.slice(0, count).map(([op, row]) =>
    element("tr", {}, element("th", { scope: "row" }, op), element("td", {}, wholeText(row.calls)), element("td", {}, countText(row.flops)), element("td", {}, bytesText(row.made))));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...["operator", "calls", "FLOPs", "made"].map((text) => element("th", { scope: "col" }, text)))), element("tbody", {}, ...body(10)));
  if (ordered.length <= 10) return [table];
  const more = element("button", { type: "button", class: "link" }, `and ${ordered.length - 10} more operators`);
  more.addEventListener("click", () => { table.querySelector("tbody").replaceChildren(...body(ordered.length)); more.remove(); });
  return [table, more];
}

function groupPanel(node) {
  const held = parametersIn(node), bytes = held.reduce((sum, row) => sum + typeOf(row[2])[2], 0), toggle = element("button", { type: "button" }, isOpen(node) ? "Fold" : "Unfold");
  const elements = held.filter((row) => row[1] === "parameter").reduce((sum, row) => sum + typeOf(row[2])[1].reduce((a, b) => a * b, 1), 0);
  toggle.addEventListener("click", () => toggleGroup(node));
  const root = node === graph.root;
  return [
    element("h2", {}, root ? report.model : node.title), ...(root ? [] : breadcrumbs(node)),
    root ? "" : element("p", {}, toggle),
    root || !node.path || node.path === node.title ? "" : rows(["module", node.path]),
    node.count ? titled("Costs", rows(["calls", wholeText(node.count)], ["parameters", elements ? `${wholeText(elements)}` : "none"], ["tensors held", `${bytesText(bytes)}`]), figureRows(node)) : "",
    listed("Enters", root ? graph.inputs.map((one) => element("li", {}, link(one), " ", element("span", { class: "type" }, typeText(typeOf(one.value))))) : boundary(node, "ins")),
    listed("Leaves", root ? report.outputs.map(([value]) => element("li", {}, valueName(value), " ", element("span", { class: "type" }, typeText(typeOf(value))))) : boundary(node, "outs")),
    node.count ? titled("Operators", ...operatorTable(node)) : "",
    listed("Parameters, buffers and constants", held.map((row) => element("li", {}, `${row[0]} `, element("span", { class: "type" }, typeText(typeOf(row[2])))))),
  ];
}

function endPanel(node) {
  return [element("h2", {}, node.title), element("p", { class: "sub" }, node.kind === "input" ? "An input of the program" : node.effect === "grad" ? "A gradient that a run sets"
    : node.effect ? "A tensor that a run replaces" : "An output of the program"),
  rows(["type", typeText(typeOf(node.value))], ["size", bytesText(typeOf(node.value)[2])]),
  listed("Comes from", node.ins.map((one) => element("li", {}, link(one.source), ` ${modulesText(one.source)}`))),
  listed("Used by", [...new Set(node.outs.map((one) => one.target))].map((user) => element("li", {}, link(user), user.kind === "call" ? ` ${modulesText(user)}` : "")))];
}

function drawPanel() {
  const node = view.selected || graph.root, panel = byId("panel");
  const parts = node.kind === "group" ? groupPanel(node) : node.kind === "call" ? callPanel(node) : endPanel(node);
  panel.replaceChildren(...parts.filter((part) => part !== ""));
  if (node === graph.root && report.reads.length) panel.append(titled("Fixed numbers", element("p", {}, `The run read ${report.reads.length} numbers from tensors (${[...new Set(report.reads.map((row) => row[1]))].join(", ")}); the program has them as fixed numbers.`)));
  panel.scrollTop = 0;
  byId("said").textContent = describe(node);
}

function relativePlace(line) {
  const start = report.directory;
  return line.startsWith(start + "/") || line.startsWith(start + "\\") ? line.slice(start.length + 1) : line;
}

function describe(node) { // in one line, for the tip and for screen readers
  if (node.kind === "group") return `${node.title}: ${isOpen(node) ? "unfolded" : "folded"}, ${wholeText(node.count)} calls, ${flopsText(node.flops)}, makes ${bytesText(node.made)}`;
  if (node.kind !== "call") return `${node.kind} ${node.title}: ${typeText(typeOf(node.value))}`;
  return `${node.op}${node.path ? ` in ${node.path}` : ""}: ${report.calls[node.call][4].map((value) => typeText(typeOf(value))).join(", ")}; ${flopsText(node.flops)}, makes ${bytesText(node.made)}`;
}

function drawTip(node, at) {
  const tip = byId("tip");
  tip.hidden = !node;
  if (!node) return;
  tip.textContent = describe(node);
  const box = byId("graph").getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(at.x + 14, box.width - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(4, Math.min(at.y + 18, box.height - tip.offsetHeight - 8))}px`;
}
