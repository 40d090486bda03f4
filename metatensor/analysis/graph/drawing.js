// The drawing, by Cytoscape.js: boxes and lines where layout.js has put them, and their colors.

const ATONCE = 1500; // with more nodes than this, only their names are drawn
const view = { cy: null, shown: null, mode: 0, theme: "", selected: null, found: new Set(), matches: [], match: -1 };

const figureLine = (key, format) => (node) => {
  if (node.kind === "input" || node.kind === "output") return modes[0].line(node);
  return node[key] === null ? "unknown" : node[key] ? format(node[key]) : "";
};
const modes = [
  { id: "kind", name: "Operators", line: (node) => {
    if (node.kind === "group") return node.count ? `${wholeText(node.count)} calls` : "";
    if (node.kind !== "call") return edgeText(node.value);
    const inner = node.path.startsWith(`${node.parent.path}.`) ? node.path.slice(node.parent.path.length + 1) : node.path === node.parent.path ? "" : node.path;
    return cut(inner, 40);
  } },
  { id: "made", name: "Memory", hint: "memory made: bytes of the storages that a call makes", line: figureLine("made", bytesText) },
  { id: "used", name: "In use", hint: "memory in use: bytes that calls have made and not released, when a call ends; of a group, the most", line: figureLine("used", bytesText) },
  { id: "flops", name: "FLOPs", hint: "FLOPs: floating-point operations; a multiply-add is two", line: figureLine("flops", flopsText) },
];

const FAMILIES = { // of kinds of operators
  products: ["product", "convolution", "attention", "recurrence"], normalization: ["normalization", "softmax"], "element-wise": ["elementwise"],
  reductions: ["reduction", "pooling", "sorting"], lookups: ["gather", "scatter"], random: ["random"], copies: ["copy"], views: ["view"], other: ["other"],
};
const familyOf = (kind) => Object.keys(FAMILIES).find((name) => FAMILIES[name].includes(kind)) || "other";
const mix = (a, b, share) => { // of two colors such as #fff0e0
  const part = (text, i) => parseInt(text.slice(1 + 2 * i, 3 + 2 * i), 16);
  return "#" + [0, 1, 2].map((i) => Math.round(part(a, i) + (part(b, i) - part(a, i)) * share).toString(16).padStart(2, "0")).join("");
};

function mostShown(key) {
  return Math.max(0, ...view.shown.nodes.filter((node) => !isOpen(node) && node[key]).map((node) => node[key]));
}

function colorsOf(node, theme, most) {
  const mode = modes[view.mode];
  if (isOpen(node)) return { bg: node.depth % 2 ? theme.panel : theme.back, border: theme.line, fg: theme.text, dim: theme.dim };
  if (node.kind === "input" || node.kind === "output") return { bg: theme.back, border: theme.text, fg: theme.text, dim: theme.dim };
  if (mode.id !== "kind") {
    const value = node[mode.id], share = value && most ? Math.sqrt(value / most) : 0;
    const bg = value ? mix(theme["heat-low"], theme["heat-high"], share) : theme.back;
    const strong = value && share > 0.62;
    return { bg, border: value ? mix(theme["heat-low"], theme["heat-high"], Math.min(1, share + 0.25)) : theme.line, fg: strong ? theme["heat-text"] : theme.text, dim: strong ? theme["heat-text"] : theme.dim };
  }
  if (node.kind === "group") return { bg: theme.group, border: theme["group-line"], fg: theme.text, dim: theme.dim };
  const own = theme[`family-${familyOf(node.family).replace("-", "")}`];
  return { bg: mix(theme.back, own, theme.tint), border: own, fg: theme.text, dim: theme.dim };
}

function themeNow() {
  const names = ["back", "panel", "text", "dim", "line", "accent", "focus", "group", "group-line", "edge", "heat-low", "heat-high", "heat-text",
    ...Object.keys(FAMILIES).map((name) => `family-${name.replace("-", "")}`)];
  return { ...Object.fromEntries(names.map((name) => [name, color(name)])), tint: Number(color("tint")) };
}

const styles = (theme) => [
  { selector: "node", style: { shape: "round-rectangle", "corner-radius": 6, width: "data(width)", height: "data(height)", "background-color": "data(bg)", "border-color": "data(border)",
    "border-width": 1.25, label: "data(label)", color: "data(fg)", "font-size": 13, "font-weight": 600, "font-family": FONT, "text-valign": "center", "text-halign": "center",
    "text-margin-y": "data(margin)", "min-zoomed-font-size": 5, "z-index-compare": "manual", "z-index": 200, "overlay-opacity": 0 } },
  { selector: "node.input, node.output", style: { "corner-radius": 16, "border-style": "solid" } },
  { selector: "node.view", style: { "border-style": "dashed" } },
  { selector: "node.group", style: { "border-width": 1.75 } },
  { selector: "node.open", style: { "corner-radius": 10, "z-index": "data(depth)", "border-width": 1.25 } },
  { selector: "node.port", style: { shape: "ellipse", width: 5, height: 5, "border-width": 0, "background-color": theme.edge, label: "", events: "no", "z-index": 150 } },
  { selector: "node.second", style: { "background-opacity": 0, "border-width": 0, width: 1, height: 1, events: "no", "font-size": 11, "font-weight": 400, "z-index": 300, color: "data(fg)" } },
  { selector: "node.title", style: { "font-size": 13, "font-weight": 600, "text-halign": "right" } },
  { selector: "node.found", style: { "border-color": theme.accent, "border-width": 3 } },
  { selector: "node.near", style: { "border-style": "solid", "border-color": theme.focus, "border-width": 2 } },
  { selector: "node.hovered", style: { "underlay-color": theme.focus, "underlay-opacity": 0.15, "underlay-padding": 4 } },
  { selector: "node.selected", style: { "border-style": "solid", "border-color": theme.focus, "border-width": 3, "underlay-color": theme.focus, "underlay-opacity": 0.25, "underlay-padding": 5 } },
  { selector: "edge", style: { width: 1.5, "line-color": theme.edge, "target-arrow-color": theme.edge, "target-arrow-shape": "triangle", "arrow-scale": 0.9, "curve-style": "straight",
    label: "data(label)", "font-size": 11, "font-family": FONT, color: theme.dim, "text-background-color": "data(back)", "text-background-opacity": 0.9, "text-background-padding": 2,
    "min-zoomed-font-size": 6, "z-index-compare": "manual", "z-index": 100, "source-endpoint": "data(start)", "target-endpoint": "data(end)", "edge-distances": "endpoints", "overlay-opacity": 0 } },
  { selector: "edge.bent", style: { "curve-style": "round-segments", "segment-weights": "data(weights)", "segment-distances": "data(distances)", "segment-radii": 14 } },
  { selector: "edge.headless", style: { "target-arrow-shape": "none" } },
  { selector: "edge.faint", style: { display: "none", "line-style": "dashed", "line-opacity": 0.8, "z-index": 190 } },
  { selector: "edge.near", style: { display: "element", "line-color": theme.focus, "target-arrow-color": theme.focus, width: 2.5, color: theme.text, "z-index": 195 } },
];

function edgeElement({ edge, points }, boxes, theme) {
  const from = boxes.get(edge.source.id), to = boxes.get(edge.target.id);
  const [start, end] = [points[0], points[points.length - 1]], [dx, dy] = [end[0] - start[0], end[1] - start[1]], length = Math.hypot(dx, dy) || 1;
  const data = { id: edge.id, source: edge.source.id, target: edge.target.id, label: edge.label, back: edge.level.depth % 2 ? theme.panel : theme.back,
    start: `${start[0] - from.x}px ${start[1] - from.y}px`, end: `${end[0] - to.x}px ${end[1] - to.y}px` };
  let bent = false;
  const inner = points.slice(1, -1).map(([x, y]) => [x - start[0], y - start[1]]);
  if (inner.some(([x, y]) => Math.abs(-dy * x + dx * y) / length > 1)) {
    bent = true;
    data.weights = inner.map(([x, y]) => (x * dx + y * dy) / (length * length));
    data.distances = inner.map(([x, y]) => (-dy * x + dx * y) / length);
  }
  return { group: "edges", data, classes: [bent && "bent", edge.faint && "faint", edge.target.kind === "port" && "headless"].filter(Boolean).join(" ") };
}

function nodeElements(box, theme, most, seconds) {
  const { node, x, y, width, height } = box;
  if (node.kind === "port") return [{ group: "nodes", data: { id: node.id, label: "", bg: theme.edge, border: theme.edge, fg: theme.edge, margin: 0, width: 5, height: 5 }, position: { x, y }, classes: "port", selectable: false }];
  const { dim, ...colors } = colorsOf(node, theme, most), open = isOpen(node), line = open || !seconds ? "" : modes[view.mode].line(node);
  const classes = [node.kind, open && "open", node.kind === "call" && familyOf(node.family) === "views" && "view"].filter(Boolean).join(" ");
  const made = [{ group: "nodes", data: { id: node.id, label: open ? "" : titleText(node), width, height, margin: line ? -8 : 0, depth: node.depth, ...colors }, position: { x, y }, classes }];
  const text = (label, fg, place, more) => made.push({ group: "nodes", data: { id: `${node.id}:`, label, bg: theme.back, border: theme.back, fg, margin: 0, width: 1, height: 1 }, position: place, classes: `second ${more}`, selectable: false });
  if (open) text(titleText(node), colors.fg, { x: x - width / 2 + 10, y: y - height / 2 + HEAD / 2 }, "title");
  else if (line) text(line, dim, { x, y: y + 10 }, "");
  return made;
}

// Draw again after groups were opened or closed. What `still` stands for keeps its place on the screen.
function redraw(still) {
  const { cy } = view, before = still && cy.getElementById(still.id);
  const corner = before && before.nonempty() ? { x: before.renderedPosition("x"), y: before.renderedPosition("y") - before.height() * cy.zoom() / 2 } : null;
  const { boxes, edges, width, height } = placeAll(), theme = themeNow();
  view.shown = { boxes, width, height, nodes: visibleNodes() };
  const most = modes[view.mode].id === "kind" ? 0 : mostShown(modes[view.mode].id), seconds = boxes.size <= ATONCE;
  cy.startBatch();
  cy.elements().remove();
  if (JSON.stringify(theme) !== view.theme) cy.style(styles(theme));
  view.theme = JSON.stringify(theme);
  cy.add([...[...boxes.values()].flatMap((box) => nodeElements(box, theme, most, seconds)), ...edges.map((one) => edgeElement(one, boxes, theme))]);
  cy.endBatch();
  if (corner) {
    const box = boxes.get(still.id);
    if (box) cy.pan({ x: corner.x - box.x * cy.zoom(), y: corner.y - (box.y - box.height / 2) * cy.zoom() });
  }
  mark();
  drawLegend(theme, most);
}

function recolor() {
  view.found = new Set();
  redraw(view.selected && shownFor(view.selected));
  search();
}

function mark() { // what is selected, found and near
  const { cy, selected, found } = view;
  cy.startBatch();
  cy.elements(".selected, .near, .found").removeClass("selected near found");
  for (const node of found) if (view.shown.boxes.has(node.id)) cy.getElementById(node.id).addClass("found");
  if (selected && view.shown.boxes.has(selected.id)) {
    const own = cy.getElementById(selected.id).addClass("selected"), lines = own.connectedEdges().addClass("near");
    lines.connectedNodes().not(own).addClass("near");
  }
  cy.endBatch();
}

const room = () => view.cy.height() - byId("legend").offsetHeight - 8; // above the legend

function wholeZoom() { // at which the whole graph is seen
  const { cy, shown } = view;
  return Math.min(cy.width() / (shown.width + 60), room() / (shown.height + 40));
}

function fit() {
  const { cy, shown } = view, all = wholeZoom();
  const zoom = Math.min(1.1, Math.max(all, narrow() ? 0.6 : 0.7));
  const first = graph.inputs.length ? shown.boxes.get(shownFor(graph.inputs[0]).id).x : shown.width / 2;
  cy.zoom(zoom);
  const wide = shown.width * zoom > cy.width() - 20;
  cy.pan({ x: cy.width() / 2 - (wide ? first : shown.width / 2) * zoom, y: all >= zoom ? (room() - shown.height * zoom) / 2 : 24 });
}

function fitAll() {
  const { cy, shown } = view, zoom = Math.min(1.5, (cy.width() - 48) / shown.width, (room() - 32) / shown.height);
  cy.viewport({ zoom, pan: { x: (cy.width() - shown.width * zoom) / 2, y: (room() - shown.height * zoom) / 2 } });
}

function drawLegend(theme, most) {
  const mode = modes[view.mode], legend = byId("legend");
  if (mode.id === "kind") {
    const present = new Set(view.shown.nodes.filter((node) => node.kind === "call").map((node) => familyOf(node.family)));
    legend.replaceChildren(...Object.keys(FAMILIES).filter((name) => present.has(name)).map((name) => element("span", { class: "key" },
      element("i", { style: `background: ${mix(theme.back, theme[`family-${name.replace("-", "")}`], theme.tint)}; border-color: ${theme[`family-${name.replace("-", "")}`]}` }), name)));
  } else {
    const format = mode.id === "flops" ? flopsText : bytesText;
    legend.replaceChildren(element("span", { title: mode.hint }, mode.hint.split(":")[0]), element("span", {}, "0"), element("i", { class: "scale" }), element("span", {}, graph.root[mode.id] === null ? "unknown" : format(most)));
  }
  legend.append(element("span", { class: "note" }, `lines: ${commonDtype} unless they say another dtype`));
}

function startDrawing() {
  view.cy = cytoscape({
    container: byId("graph"), elements: [], layout: { name: "preset" }, minZoom: 0.001, maxZoom: 3, boxSelectionEnabled: false, autoungrabify: true, autounselectify: true,
    textureOnViewport: false, hideEdgesOnViewport: false, style: styles(themeNow()),
  });
  return view.cy;
}
