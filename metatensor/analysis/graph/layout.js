// Where everything is: dagre places the parts of each open group, from the innermost. Groups that look alike are placed once.

const FONT = "system-ui, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif";
const HEAD = 34, PADDING = 16, MARGIN = 10;
const placed = new Map(); // what dagre found, by the sizes and edges of a group

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();
function textWidth(text, size, bold) {
  const key = `${bold ? "b" : ""}${size} ${text}`;
  if (!widths.has(key)) {
    pen.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}
const cut = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

const titleText = (node) => node.kind === "group" ? `${isOpen(node) ? "▾" : "▸"} ${cut(node.title, 44)}` : cut(node.title, 40);

function ownSize(node) {
  if (!node.size) {
    const widest = Math.max(...modes.map((mode) => textWidth(mode.line(node), 11, false)));
    node.size = { width: Math.ceil(Math.max(textWidth(titleText(node), 13, true), widest, 56) + 26), height: widest ? 46 : 32 };
  }
  return node.size;
}

function arranged(sizes, edges, tops, bottoms, below) { // by index, so that groups that look alike share it
  const key = JSON.stringify([sizes, edges, tops, bottoms, below]);
  if (placed.has(key)) return placed.get(key);
  const made = new dagre.graphlib.Graph({ multigraph: false });
  made.setGraph({ rankdir: "TB", nodesep: 26, edgesep: 16, ranksep: 30, ranker: sizes.length > 150 ? "longest-path" : "network-simplex" });
  made.setDefaultEdgeLabel(() => ({}));
  sizes.forEach(([width, height], i) => made.setNode(`${i}`, { width, height }));
  for (const [source, target, width] of edges) made.setEdge(`${source}`, `${target}`, { width, height: width ? 16 : 0, labelpos: "c", weight: 1 });
  for (const [source, target] of below) made.setEdge(`${source}`, `${target}`, { width: 0, height: 0, weight: 0 });
  for (const [name, ports] of [["top", tops], ["bottom", bottoms]]) { // ports have one rank
    if (!ports.length) continue;
    made.setNode(name, { width: 1, height: 1 });
    for (const i of ports) made.setEdge(...(name === "top" ? [name, `${i}`] : [`${i}`, name]), { weight: 200, width: 0, height: 0 });
  }
  dagre.layout(made);
  const found = {
    places: sizes.map((_, i) => { const { x, y } = made.node(`${i}`); return [x, y]; }),
    lines: edges.map(([source, target]) => made.edge(`${source}`, `${target}`).points.map(({ x, y }) => [x, y])),
  };
  placed.set(key, found);
  return found;
}

// Parts that have no edges to other parts would stand in one row: rather in as many rows as columns.
function belowEachOther(group, firm, index) {
  const joined = new Set(firm.flatMap(({ source, target }) => source.kind === "port" || target.kind === "port" ? [] : [source, target]));
  const alone = group.parts.filter((part) => !joined.has(part)), columns = Math.ceil(Math.sqrt(alone.length));
  return alone.length <= 4 ? [] : alone.slice(columns).map((part, i) => [index.get(alone[i].id), index.get(part.id)]);
}

function layoutOf(group) {
  const level = levelOf(group), members = [...group.parts, ...level.ports], index = new Map(members.map((one, i) => [one.id, i]));
  const inner = new Map();
  const sizes = members.map((one) => {
    if (one.kind === "port") return [8, 2];
    if (!isOpen(one)) { const { width, height } = ownSize(one); return [width, height]; }
    inner.set(one, layoutOf(one));
    return [inner.get(one).width, inner.get(one).height];
  });
  const firm = level.edges.filter((one) => !one.faint);
  const edges = firm.map((one) => [index.get(one.source.id), index.get(one.target.id), one.label ? Math.ceil(textWidth(one.label, 11, false)) + 8 : 0]);
  const ports = (side) => level.ports.filter((one) => one.side === side).map((one) => index.get(one.id));
  const { places, lines } = arranged(sizes, edges, ports("in"), ports("out"), belowEachOther(group, firm, index));
  let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
  members.forEach((_, i) => {
    const [x, y] = places[i], [width, height] = sizes[i];
    left = Math.min(left, x - width / 2); right = Math.max(right, x + width / 2);
    top = Math.min(top, y - height / 2); bottom = Math.max(bottom, y + height / 2);
  });
  for (const [i, line] of lines.entries()) for (const [x] of line) { left = Math.min(left, x - edges[i][2] / 2); right = Math.max(right, x + edges[i][2] / 2); }
  const isRoot = group === graph.root, head = isRoot ? 0 : HEAD, padding = isRoot ? 0 : PADDING;
  const wanted = isRoot ? 0 : textWidth(titleText(group), 13, true) + 40;
  const extra = Math.max(0, wanted - (right - left + 2 * padding)) / 2;
  const dx = padding - left + extra, dy = head + (isRoot ? 0 : level.ports.some((one) => one.side === "in") ? 0 : MARGIN) - top;
  const width = right - left + 2 * (padding + extra), height = bottom + dy + (isRoot ? 0 : level.ports.some((one) => one.side === "out") ? 2 : MARGIN + 4);
  return {
    width, height, inner, members, firm, sizes, places: places.map(([x, y]) => [x + dx, y + dy]),
    lines: lines.map((line) => line.map(([x, y]) => [x + dx, y + dy])), level,
  };
}

// Absolute places of all that is shown: boxes by id, and the points of each edge.
function placeAll() {
  const boxes = new Map(), edges = [];
  const visit = (group, layout, x, y) => {
    layout.members.forEach((one, i) => {
      const [width, height] = layout.sizes[i], [px, py] = layout.places[i];
      const box = { node: one, x: x + px, y: y + py, width, height };
      if (one.kind === "port") { // at the border
        box.y = one.side === "in" ? y + 1 : y + layout.height - 1;
        box.inside = y + py;
      }
      boxes.set(one.id, box);
    });
    layout.firm.forEach((edge, i) => edges.push({ edge, points: layout.lines[i].map(([px, py]) => [x + px, y + py]) }));
    for (const edge of layout.level.edges) if (edge.faint) edges.push({ edge, points: [] });
    for (const [part, inner] of layout.inner) {
      const box = boxes.get(part.id);
      visit(part, inner, box.x - box.width / 2, box.y - box.height / 2);
    }
  };
  const whole = layoutOf(graph.root);
  visit(graph.root, whole, 0, 0);
  for (const one of edges) one.points = ended(one, boxes);
  return { boxes, edges, width: whole.width, height: whole.height };
}

// The ends of an edge at an open group are at its port there; at a port, the edge goes on to the border.
function ended({ edge, points }, boxes) {
  const from = boxes.get(edge.source.id), to = boxes.get(edge.target.id);
  const line = points.length ? [...points] : [[from.x, from.y + from.height / 2], [to.x, to.y - to.height / 2]];
  if (edge.source.kind === "port") { line[0] = [from.x, from.inside]; line.unshift([from.x, from.y]); }
  else if (isOpen(edge.source)) { const port = boxes.get(levelOf(edge.source).exits.get(edge.target.id).id); line[0] = [port.x, port.y]; }
  if (edge.target.kind === "port") { line[line.length - 1] = [to.x, to.inside]; line.push([to.x, to.y]); }
  else if (isOpen(edge.target)) { const port = boxes.get(levelOf(edge.target).entries.get(edge.source.id).id); line[line.length - 1] = [port.x, port.y]; }
  return line.filter(([x, y], i) => i === 0 || i === line.length - 1 || Math.hypot(x - line[i - 1][0], y - line[i - 1][1]) > 0.5);
}
