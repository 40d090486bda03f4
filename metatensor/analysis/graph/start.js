// Unpacks the libraries, draws everything, and draws again when the colors change.

const narrow = () => window.innerWidth < 760;

function connect() {
  const { cy } = view, graphBox = byId("graph");
  byId("modes").replaceChildren(...modes.map((mode, i) => {
    const input = element("input", { type: "radio", name: "mode", value: mode.id, checked: i === view.mode });
    input.addEventListener("change", () => chooseMode(i));
    return element("label", { title: mode.hint || "colors of kinds of operators" }, input, element("span", {}, mode.name));
  }));
  const nodeOf = (event) => graph.nodes.find((node) => node.id === event.target.id());
  cy.on("tap", "node, edge", (event) => {
    const node = event.target.isEdge() ? groupAt(event.position) : nodeOf(event);
    if (!node) return;
    const box = view.shown.boxes.get(node.id), header = event.position.y < box.y - box.height / 2 + HEAD;
    if (node.kind === "group" && (!isOpen(node) || header)) toggleGroup(node);
    else select(node, false);
  });
  cy.on("tap", (event) => { if (event.target === cy) select(null, false); });
  cy.on("mouseover", "node", (event) => { const node = nodeOf(event); if (!node) return; event.target.addClass("hovered"); graphBox.style.cursor = "pointer"; if (!isOpen(node)) drawTip(node, event.renderedPosition); });
  cy.on("mouseout", "node", (event) => { event.target.removeClass("hovered"); graphBox.style.cursor = ""; drawTip(null); });
  cy.on("mouseover", "edge", (event) => { drawEdgeTip(event.target.id(), event.renderedPosition); });
  cy.on("mouseout", "edge", () => drawTip(null));
  cy.on("viewport", () => drawTip(null));
  graphBox.addEventListener("keydown", keyInGraph);
  document.addEventListener("keydown", keyInPage);
  byId("search").addEventListener("input", search);
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextMatch(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") { event.target.value = ""; search(); graphBox.focus(); } else return;
    event.preventDefault();
  });
  const click = (id, run) => byId(id).addEventListener("click", run);
  click("unfold", () => unfold(false));
  click("unfold-all", () => unfold(true));
  click("fold-all", foldAll);
  click("fit", fitAll);
  click("zoom-in", () => keyInGraph(new KeyboardEvent("keydown", { key: "+" })));
  click("zoom-out", () => keyInGraph(new KeyboardEvent("keydown", { key: "-" })));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolor);
  window.addEventListener("beforeprint", drawPrint);
  window.addEventListener("afterprint", () => byId("print").replaceChildren());
}

function groupAt({ x, y }) { // the innermost open group, where a line is on top
  const around = view.shown.nodes.filter((node) => {
    const box = view.shown.boxes.get(node.id);
    return isOpen(node) && Math.abs(x - box.x) < box.width / 2 && Math.abs(y - box.y) < box.height / 2;
  });
  return around[around.length - 1];
}

function drawEdgeTip(id, at) {
  const found = graph.nodes.filter((node) => node.level).flatMap((node) => node.level.edges).find((edge) => edge.id === id);
  if (!found) return;
  drawTip(graph.root, at);
  byId("tip").textContent = found.values.slice(0, 8).map((value) => `${valueName(value)}: ${typeText(typeOf(value))}`).join("\n") + (found.values.length > 8 ? `\nand ${found.values.length - 8} more` : "");
}

function drawPrint() { // the whole graph as a picture, in the colors of paper
  document.documentElement.classList.add("paper");
  redraw(null);
  const picture = view.cy.png({ full: true, bg: "#ffffff", scale: Math.min(3, 6000 / view.shown.width, 14_000 / view.shown.height) });
  const legend = byId("legend").cloneNode(true);
  legend.id = "print-legend";
  byId("print").replaceChildren(element("img", { src: picture, alt: "The graph as it is unfolded" }), legend);
  document.documentElement.classList.remove("paper");
  redraw(null);
}

function headline() {
  const { root } = graph, facts = [`${wholeText(report.calls.length)} calls of ${report.operators.length} operators`, flopsText(root.flops), `${bytesText(root.made)} made`, `at most ${bytesText(root.used)} in use`];
  byId("facts").textContent = facts.join(" · ");
  if (report.unknown) trouble(`FLOPs and bytes read and written are unknown: ${report.unknown}`);
}

async function main() {
  if (!canUnpack) {
    trouble("This browser is too old for the graph: it needs Chrome 80, Firefox 113 or Safari 16.4.");
    return;
  }
  await unpack("libraries");
  buildGraph();
  indexValues();
  openSmall();
  startDrawing();
  connect();
  redraw(null);
  if (isTrainingStep() && wholeZoom() < 0.6) foldAll(); // else only a corner of it would be seen
  fit();
  headline();
  drawPanel();
  drawCount();
  document.documentElement.dataset.ready = "true";
}

main().catch((error) => { trouble(`The graph could not be drawn: ${error.message}`); console.error(error); });
