// The nodes of the graph and its groups, and the edges that an open group shows between its parts.
//
// A leaf is an input, a call or an output, in this order. A group is a range of leaves. Inside an open group, what comes from
// outside comes from a port at its top, one for each neighbour outside, and what leaves it goes to ports at its bottom.

const HUB = 8; // of more edges than this from one source, or to one target, the first is drawn; the others when one of their ends is selected
const FEW = 12; // more inputs, outputs or gradients than this are a group

const flopsText = (value) => value === null ? "unknown FLOPs" : scaled(value, "FLOPs");
const graph = { leaves: [], nodes: [], inputs: [], calls: [], root: null };

const shortName = (op) => op.replace(/^nn\.functional\./, "").replace(/^linalg\./, "linalg.");
const valueName = (number) => report.values[number][0];
const typeOf = (number) => report.types[report.values[number][1]];
const shapeText = (shape) => shape.length ? shape.join("×") : "scalar";
const typeText = ([dtype, shape]) => `${dtype}[${shape.join(", ")}]`;
const nodeOfProducer = (producer) => producer < 0 ? graph.inputs[-1 - producer] : graph.calls[producer];

const commonDtype = (() => { // edges name other dtypes than this one
  const counts = new Map();
  for (const [, type] of Object.values(report.values)) counts.set(report.types[type][0], (counts.get(report.types[type][0]) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([dtype]) => dtype)[0] || "";
})();
const edgeText = (number) => { const [dtype, shape] = typeOf(number); return dtype === commonDtype ? shapeText(shape) : `${dtype} ${shapeText(shape)}`; };

function newNode(parent, kind, title, more) {
  const node = { id: `n${graph.nodes.length}`, parent, kind, title, depth: parent ? parent.depth + 1 : 0, parts: [], open: false, ...more };
  graph.nodes.push(node);
  if (parent) parent.parts.push(node);
  if (kind !== "group") {
    node.order = node.first = node.last = graph.leaves.length;
    node.ins = [];
    node.outs = [];
    graph.leaves.push(node);
  }
  return node;
}

function addParts(parent, parts) {
  for (const part of parts) {
    if (typeof part === "number") {
      const row = report.calls[part], [op, kind] = report.operators[row[0]];
      graph.calls[part] = newNode(parent, "call", shortName(op), { call: part, op, family: kind, module: report.modules[row[1]], flops: row[7], read: row[8],
        written: row[9], made: row[10], used: row[11], backward: (row[12] & 1) > 0, path: report.modules[row[1]] });
    } else {
      const [title, path, inner] = part;
      const names = report.phases.includes(path[0]) ? path.slice(1) : path;
      const group = newNode(parent, "group", title, { path: names.join(".") || title, phase: names.length < path.length ? path[0] : "" });
      addParts(group, inner);
    }
  }
}

function addAll(parent, title, rows, make) { // as a group if there are many
  const owner = rows.length > FEW ? newNode(parent, "group", `${rows.length} ${title}`, { path: "", listed: true }) : parent;
  return rows.map((row) => make(owner, row));
}

const flow = (source, target, value) => {
  const made = { source, target, value };
  source.outs.push(made);
  target.ins.push(made);
};

function finish(node, chain) {
  node.chain = chain;
  if (node.kind !== "group") return;
  for (const part of node.parts) finish(part, [...chain, part]);
  node.first = node.parts.length ? node.parts[0].first : 0;
  node.last = node.parts.length ? node.parts[node.parts.length - 1].last : -1;
  const inside = graph.leaves.slice(node.first, node.last + 1).filter((leaf) => leaf.kind === "call");
  const sum = (key) => inside.some((leaf) => leaf[key] === null) ? null : inside.reduce((total, leaf) => total + leaf[key], 0);
  for (const key of ["flops", "read", "written", "made"]) node[key] = sum(key);
  node.used = inside.reduce((most, leaf) => Math.max(most, leaf.used), 0);
  node.count = inside.length;
}

function buildGraph() {
  const root = graph.root = newNode(null, "group", report.model, { path: "", open: true });
  graph.inputs = addAll(root, "inputs", report.inputs, (owner, value) => newNode(owner, "input", valueName(value), { value }));
  addParts(root, report.tree);
  const outputs = addAll(root, "outputs", report.outputs, (owner, [value]) => newNode(owner, "output", "output", { value }));
  const effects = addAll(root, "gradients", report.effects, (owner, [kind, name, value]) =>
    newNode(owner, "output", kind === "grad" ? `${name}.grad` : name, { value, effect: kind }));
  finish(root, [root]);
  report.calls.forEach((row, i) => { for (const [producer, value] of row[5]) flow(nodeOfProducer(producer), graph.calls[i], value); });
  report.outputs.forEach(([value, producer], i) => { if (producer !== null) flow(nodeOfProducer(producer), outputs[i], value); });
  report.effects.forEach(([, , value, producer], i) => { if (producer !== null) flow(nodeOfProducer(producer), effects[i], value); });
  for (const node of graph.nodes) if (node.kind === "group") node.text = `${node.title} ${node.path}`.toLowerCase();
    else node.text = `${node.title} ${node.op || ""} ${node.module || ""} ${node.kind === "call" ? report.calls[node.call][4].map(valueName).join(" ") : ""}`.toLowerCase();
}

// Levels -----------------------------------------------------------------------------------------------------

const inside = (group, leaf) => leaf.order >= group.first && leaf.order <= group.last;
const partWith = (group, leaf) => leaf.chain[group.depth + 1];

function sourceAt(group, leaf) { // what stands for a leaf among the parts and the ports of an open group
  if (inside(group, leaf)) return partWith(group, leaf);
  const far = sourceAt(group.parent, leaf);
  return levelOf(group).entries.get(far.id);
}

function targetAt(group, one) {
  if (inside(group, one.target)) return partWith(group, one.target);
  return levelOf(group).exits.get(targetAt(group.parent, one).id);
}

function levelOf(group) {
  if (group.level) return group.level;
  const level = group.level = { entries: new Map(), exits: new Map(), ports: [], edges: [] };
  const edges = new Map(), leaving = new Map();
  const edge = (source, target, one) => {
    const key = `${source.id}>${target.id}`;
    if (!edges.has(key)) edges.set(key, { id: key, source, target, flows: [], level: group });
    edges.get(key).flows.push(one);
  };
  const port = (side) => {
    const made = { id: `${group.id}${side}${level.ports.length}`, kind: "port", side, owner: group };
    level.ports.push(made);
    return made;
  };
  for (let order = group.first; order <= group.last; order++) {
    const leaf = graph.leaves[order], part = partWith(group, leaf);
    for (const one of leaf.ins) {
      if (inside(group, one.source)) {
        const source = partWith(group, one.source);
        if (source !== part) edge(source, part, one);
      } else {
        const far = sourceAt(group.parent, one.source);
        if (!level.entries.has(far.id)) level.entries.set(far.id, port("in"));
        edge(level.entries.get(far.id), part, one);
      }
    }
    for (const one of leaf.outs) {
      if (inside(group, one.target)) continue;
      const far = targetAt(group.parent, one);
      if (!leaving.has(far.id)) leaving.set(far.id, []);
      leaving.get(far.id).push([part, one]);
    }
  }
  const alike = new Map(); // what the same parts send to several places leaves by one port
  for (const [far, rows] of leaving) {
    const key = [...new Set(rows.map(([, one]) => one.value))].sort((a, b) => a - b).join(" ");
    if (!alike.has(key)) alike.set(key, port("out"));
    level.exits.set(far, alike.get(key));
  }
  for (const [far, rows] of leaving) for (const [part, one] of rows) edge(part, level.exits.get(far), one);
  level.edges = [...edges.values()];
  for (const one of level.edges) {
    one.values = [...new Set(one.flows.map((each) => each.value))];
    one.label = one.values.length === 1 ? edgeText(one.values[0]) : new Set(one.values.map(edgeText)).size === 1 ? `${one.values.length} × ${edgeText(one.values[0])}`
      : `${wholeText(one.values.length)} tensors`;
  }
  for (const port of level.ports) { // a single tensor is named outside
    const own = level.edges.filter((one) => one.source === port || one.target === port);
    if (new Set(own.flatMap((one) => one.values)).size === 1) for (const one of own) one.label = "";
  }
  for (const one of level.edges) one.faint = false;
  for (const end of ["source", "target"]) {
    const by = new Map();
    for (const one of level.edges) by.set(one[end], [...by.get(one[end]) || [], one]);
    for (const alike of by.values()) if (alike.length > HUB) for (const one of alike.slice(1)) one.faint = true;
  }
  return level;
}

const isOpen = (node) => node.kind === "group" && node.open;

function visibleNodes() {
  const found = [], visit = (group) => { for (const part of group.parts) { found.push(part); if (isOpen(part)) visit(part); } };
  visit(graph.root);
  return found;
}

const shownFor = (node) => { // the node itself, or the outermost closed group around it
  const closed = node.chain.slice(1, -1).find((one) => !one.open);
  return closed || node;
};
