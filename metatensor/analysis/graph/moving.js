// Selecting, folding, searching, and the keys.

const MOST = 3000; // nodes that "Unfold all" shows

function select(node, move) {
  view.selected = node;
  if (node && node !== graph.root) {
    const closed = node.chain.slice(1, -1).filter((one) => !one.open);
    if (closed.length) {
      for (const one of closed) one.open = true;
      redraw(closed[0]);
    }
  }
  mark();
  drawPanel();
  if (move && node && node !== graph.root) center(node);
  drawCount();
}

function center(node) { // bring a node into view, with a zoom at which it can be read
  const { cy, shown } = view, box = shown.boxes.get(node.id);
  if (!box) return;
  if (cy.zoom() < 0.6) cy.zoom({ level: 0.9, position: box });
  const zoom = cy.zoom(), pan = cy.pan(), x = box.x * zoom + pan.x, top = (box.y - box.height / 2) * zoom + pan.y;
  const bottom = isOpen(node) ? top + HEAD * zoom : top + box.height * zoom, half = Math.min(box.width * zoom / 2, cy.width() / 2 - 40), edge = 40;
  const dx = x - half < edge ? edge - x + half : x + half > cy.width() - edge ? cy.width() - edge - x - half : 0;
  const dy = top < edge ? cy.height() / 3 - top : bottom > cy.height() - edge ? cy.height() * 2 / 3 - bottom : 0;
  if (dx || dy) cy.panBy({ x: dx, y: dy });
}

function toggleGroup(node) {
  if (node.kind !== "group" || node === graph.root) return;
  node.open = !node.open;
  view.selected = node;
  redraw(node);
  drawPanel();
  drawCount();
}

// Unfold one level more, or level by level as much as is drawn quickly.
function unfold(all) {
  const still = view.selected && view.shown.boxes.has(view.selected.id) ? view.selected : null;
  let level = view.shown.nodes.filter((node) => node.kind === "group" && !node.open && !node.listed), count = view.shown.nodes.length;
  while (level.length) {
    const more = level.flatMap((node) => node.parts);
    if (all && count + more.length > MOST && count > 100) break;
    for (const node of level) node.open = true;
    count += more.length;
    level = all ? more.filter((node) => node.kind === "group" && !node.open) : [];
  }
  redraw(still);
  if (!still) fit();
  drawPanel();
  drawCount();
  if (all && level.length) byId("count").textContent += `; ${wholeText(level.length)} groups stay folded`;
}

function foldAll() {
  for (const node of graph.nodes) if (node.kind === "group" && node !== graph.root) node.open = false;
  if (view.selected) view.selected = shownFor(view.selected);
  redraw();
  fit();
  drawPanel();
  drawCount();
}

function openAlone() { // a group that is the only one, as long as there is little else
  for (let group = graph.root; ;) {
    const groups = group.parts.filter((part) => part.kind === "group" && !part.listed);
    if (groups.length !== 1 || group.parts.length > 6 || groups[0].parts.length > 40) return;
    groups[0].open = true;
    [group] = groups;
  }
}

const isTrainingStep = () => graph.root.parts.some((node) => node.kind === "group" && node.title === "backward");

function openSmall() {
  if (graph.leaves.length > 60) return openAlone();
  for (const node of graph.nodes) if (node.kind === "group") node.open = true;
  return undefined;
}

function drawCount() {
  const query = byId("search").value.trim();
  byId("count").textContent = query ? `${wholeText(view.matches.length)} found` : `${wholeText(view.shown.nodes.filter((node) => !isOpen(node)).length)} of ${wholeText(graph.leaves.length)} shown`;
}

// Search -----------------------------------------------------------------------------------------------------

function search() {
  const words = byId("search").value.trim().toLowerCase().split(/\s+/).filter((word) => word);
  view.matches = words.length ? graph.nodes.filter((node) => node !== graph.root && words.every((word) => node.text.includes(word))) : [];
  view.match = -1;
  view.found = new Set(view.matches.map(shownFor));
  mark();
  drawCount();
  byId("results").hidden = !view.matches.length;
  const shown = view.matches.slice(0, 200);
  byId("results").replaceChildren(...shown.map((node, i) => {
    const item = element("button", { type: "button", class: "result" }, element("b", {}, node.title), ` ${node.kind === "group" ? `${wholeText(node.count)} calls` : node.path || ""}`);
    item.addEventListener("click", () => { view.match = i; select(node, true); });
    return element("li", {}, item);
  }), ...(view.matches.length > shown.length ? [element("li", { class: "sub" }, `and ${wholeText(view.matches.length - shown.length)} more`)] : []));
}

function nextMatch(step) {
  if (!view.matches.length) return;
  view.match = (view.match + step + view.matches.length) % view.matches.length;
  select(view.matches[view.match], true);
  const item = byId("results").children[view.match];
  if (item) item.scrollIntoView({ block: "nearest" });
}

// Keys -------------------------------------------------------------------------------------------------------

function neighbour(node, key) {
  const boxes = view.shown.boxes, box = boxes.get(node.id);
  const at = (one) => boxes.get(one.id);
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const sign = key === "ArrowLeft" ? -1 : 1;
    const beside = node.parent.parts.filter((one) => one !== node && (at(one).x - box.x) * sign > 1)
      .map((one) => [Math.abs(at(one).x - box.x) + 4 * Math.abs(at(one).y - box.y), one]).sort((a, b) => a[0] - b[0]);
    return beside.length ? beside[0][1] : null;
  }
  const down = key === "ArrowDown";
  if (down && isOpen(node)) return node.parts[0]; // into the group
  for (let group = node; group !== graph.root; group = group.parent) { // along a line of the drawing, or out of the group
    const next = levelOf(group.parent).edges.filter((one) => (down ? one.source : one.target) === group && (down ? one.target : one.source).kind !== "port")
      .map((one) => down ? one.target : one.source);
    if (next.length) return next.sort((a, b) => Math.abs(at(a).x - at(group).x) - Math.abs(at(b).x - at(group).x) || (down ? a.first - b.first : b.first - a.first))[0];
    if (!down && group.parent !== graph.root) return group.parent;
  }
  const order = view.shown.nodes, i = order.indexOf(node) + (down ? 1 : -1);
  return order[i] || null;
}

function keyInGraph(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const node = view.selected && view.selected !== graph.root ? shownFor(view.selected) : null, { cy } = view;
  const middle = { renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } }, nodes = view.shown.nodes;
  if (event.key.startsWith("Arrow")) {
    const next = node ? neighbour(node, event.key) : nodes[0];
    if (next) select(next, true);
  } else if (event.key === "Home") select(nodes[0], true);
  else if (event.key === "End") select(nodes[nodes.length - 1], true);
  else if ((event.key === "Enter" || event.key === " ") && node) { toggleGroup(node); center(node); }
  else if (event.key === "Escape" || event.key === "Backspace") {
    if (!node) return;
    select(node.parent === graph.root ? null : node.parent, true);
  } else if (event.key === "+" || event.key === "=") cy.zoom({ level: cy.zoom() * 1.25, ...middle });
  else if (event.key === "-") cy.zoom({ level: cy.zoom() / 1.25, ...middle });
  else if (event.key === "0") fitAll();
  else if (event.key === "c") chooseMode((view.mode + 1) % modes.length);
  else return;
  event.preventDefault();
}

function keyInPage(event) {
  if (event.key !== "/" || event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
  byId("search").focus();
  event.preventDefault();
}

function chooseMode(i) {
  view.mode = i;
  byId("modes").children[i].querySelector("input").checked = true;
  recolor();
}
