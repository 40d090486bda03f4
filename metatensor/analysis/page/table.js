// The table of modules: a tree that can be folded, sorted and searched. Only the rows in view are elements of the page.

const ROW = 28, PRINTED = 400;
const columns = [
  { key: "path", text: "module", width: "minmax(170px, 2.2fr)" },
  { key: "kind", text: "type", width: "minmax(100px, 1fr)", wide: true },
  { key: "parameters", text: "parameters", width: "130px", format: wholeText },
  { key: "parameter_bytes", text: "size", width: "85px", format: bytesText, title: "size of the parameters, with submodules" },
  { key: "peak_bytes", text: "at peak", width: "90px", format: bytesText, title: "with submodules: what its calls, and the gradients of its operators, had made and was in use at the peak" },
  { key: "made_bytes", text: "made", width: "90px", format: bytesText, title: "with submodules: all that its calls, and the gradients of its operators, made during the run, even if it was freed" },
  { key: "flops", text: "forward FLOPs", width: "125px", format: countText, title: "floating-point operations of the forward pass" },
  { key: "seconds", text: "forward time", width: "115px", format: secondsText, title: "predicted time of the forward pass" },
  { key: "output", text: "output", width: "minmax(140px, 1.4fr)", wide: true },
];
const tree = { nodes: [], shown: [], current: 0, sort: null, down: true, query: "" };

function buildTree() {
  const stack = [];
  tree.nodes = report.modules.map((row, order) => {
    const node = { row, order, children: [], open: false, parent: null };
    stack.length = row.depth;
    node.parent = stack[row.depth - 1] || null;
    if (node.parent) node.parent.children.push(node);
    stack.push(node);
    return node;
  });
  tree.roots = tree.nodes.filter((node) => !node.parent);
  let level = tree.roots, count = level.length; // open as many levels as fit in 40 lines
  while (level.length) {
    const next = level.flatMap((node) => node.children);
    if (count + next.length > 40 && level !== tree.roots) break;
    for (const node of level) node.open = true;
    count += next.length;
    level = next;
  }
}

function shownColumns() {
  return columns.filter((column) => column.key === "path" || report.modules.some((row) => {
    const value = row[column.key];
    return value !== null && value !== undefined && value !== "" && (value !== 0 || column.key === "parameters");
  }));
}

function listRows() {
  const query = tree.query.toLowerCase(), matches = new Set();
  if (query) {
    for (const node of tree.nodes) {
      if (!`${node.row.path} ${node.row.kind}`.toLowerCase().includes(query)) continue;
      node.match = true;
      for (let one = node; one && !matches.has(one); one = one.parent) matches.add(one);
    }
  }
  const key = tree.sort, sign = tree.down ? -1 : 1;
  const order = (nodes) => key === null ? nodes : [...nodes].sort((a, b) => {
    const x = key === "output" ? specText(a.row[key]) : a.row[key], y = key === "output" ? specText(b.row[key]) : b.row[key];
    if (x === y) return a.order - b.order;
    if (x === null || x === undefined) return 1; // what is unknown comes last
    if (y === null || y === undefined) return -1;
    return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y);
  });
  const shown = [], visit = (nodes) => {
    for (const node of order(nodes)) {
      if (query && !matches.has(node)) continue;
      shown.push(node);
      if (query ? !node.closed : node.open) visit(node.children);
    }
  };
  visit(tree.roots);
  tree.shown = shown;
  tree.current = Math.max(0, Math.min(tree.current, shown.length - 1));
  const found = query ? tree.nodes.filter((node) => matches.has(node) && `${node.row.path} ${node.row.kind}`.toLowerCase().includes(query)).length : null;
  byId("module-count").textContent = found === null ? `${wholeText(shown.length)} of ${wholeText(tree.nodes.length)} modules` : `${wholeText(found)} found`;
}

const isOpen = (node) => node.children.length > 0 && (tree.query ? !node.closed : node.open);

function setOpen(node, open) {
  if (tree.query) node.closed = !open;
  else node.open = open;
}

function marked(text) {
  const at = tree.query ? text.toLowerCase().indexOf(tree.query.toLowerCase()) : -1;
  if (at < 0) return [text];
  return [text.slice(0, at), element("mark", {}, text.slice(at, at + tree.query.length)), text.slice(at + tree.query.length)];
}

// Modules with operators whose FLOPs are unknown, and those that contain them.
const lowerBounds = new Set((report.flops_gaps || []).flatMap((gap) => gap.modules).flatMap((path) =>
  ["", ...path.split(".").map((_, i, names) => names.slice(0, i + 1).join("."))]));

function figureText(row, column) {
  const value = row[column.key];
  if (column.key === "seconds" && value === null && row.calls === 0) return "not called";
  return (column.key === "flops" && lowerBounds.has(row.path) ? "≥ " : "") + column.format(value);
}

function rowElement(node, index) {
  const { row } = node, open = isOpen(node);
  const made = element("div", {
    class: `row${index === tree.current ? " current" : ""}`, role: "row", id: `module-${node.order}`, "aria-level": row.depth + 1, "aria-rowindex": index + 2,
    "aria-expanded": node.children.length ? String(open) : null, "aria-selected": String(index === tree.current), style: `top: ${index * ROW}px`,
  });
  for (const column of tree.columns) {
    let content;
    if (column.key === "path") {
      const start = node.parent && node.parent.row.path ? node.parent.row.path.length + 1 : 0;
      const name = tree.query ? row.path || row.kind : row.path.slice(start) || report.model || row.kind;
      content = element("div", { role: "rowheader", title: row.path || row.kind, style: `padding-left: ${0.3 + 1.1 * Math.min(row.depth, 12)}em` },
        element("span", { class: "fold", "aria-hidden": "true" }, node.children.length ? (open ? "▾" : "▸") : ""), ...marked(name));
    } else if (column.format) {
      content = element("div", { role: "gridcell", class: "number" }, figureText(row, column));
    } else {
      const text = column.key === "output" ? specText(row.output) : row.kind;
      content = element("div", { role: "gridcell", title: text }, ...(column.key === "kind" ? marked(text) : [text]));
    }
    made.append(content);
  }
  made.addEventListener("click", (event) => {
    tree.current = index;
    if (node.children.length && (event.target.className === "fold" || event.detail > 1)) setOpen(node, !isOpen(node));
    drawRows(true);
  });
  return made;
}

function drawRows(again) {
  if (again) listRows();
  const table = byId("module-table"), shown = tree.shown;
  tree.body.style.height = `${shown.length * ROW}px`;
  let first = 0, last = Math.min(shown.length, PRINTED);
  if (!tree.printing) {
    first = Math.max(0, Math.floor(table.scrollTop / ROW) - 8);
    last = Math.min(shown.length, Math.ceil((table.scrollTop + table.clientHeight) / ROW) + 8);
  }
  tree.body.replaceChildren(...shown.slice(first, last).map((node, i) => rowElement(node, first + i)));
  if (tree.printing && last < shown.length) tree.body.append(element("p", {}, `and ${wholeText(shown.length - last)} rows more`));
  table.setAttribute("aria-rowcount", shown.length + 1);
  if (shown.length) table.setAttribute("aria-activedescendant", `module-${shown[tree.current].order}`);
}

function reveal() {
  const table = byId("module-table"), top = tree.current * ROW, head = tree.head.offsetHeight;
  if (top < table.scrollTop) table.scrollTop = top;
  else if (top + ROW + head > table.scrollTop + table.clientHeight) table.scrollTop = top + ROW + head - table.clientHeight;
}

function moveInTable(event) {
  if (event.target !== byId("module-table") || event.ctrlKey || event.metaKey || event.altKey || !tree.shown.length) return;
  const node = tree.shown[tree.current], page = Math.max(1, Math.floor(byId("module-table").clientHeight / ROW) - 2);
  const steps = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -Infinity, End: Infinity };
  if (event.key in steps) tree.current = Math.max(0, Math.min(tree.shown.length - 1, tree.current + steps[event.key]));
  else if (event.key === "ArrowRight" && node.children.length && !isOpen(node)) setOpen(node, true);
  else if (event.key === "ArrowRight" && node.children.length) tree.current = Math.min(tree.shown.length - 1, tree.current + 1);
  else if (event.key === "ArrowLeft" && isOpen(node)) setOpen(node, false);
  else if (event.key === "ArrowLeft" && node.parent) tree.current = tree.shown.indexOf(node.parent);
  else if ((event.key === "Enter" || event.key === " ") && node.children.length) setOpen(node, !isOpen(node));
  else if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
  event.preventDefault();
  listRows();
  reveal();
  drawRows(false);
}

function passWheel(event) { // where the table cannot scroll further, the page does
  const table = byId("module-table"), room = event.deltaY > 0 ? table.scrollHeight - table.clientHeight - table.scrollTop : table.scrollTop;
  if (event.ctrlKey || !event.deltaY || Math.abs(event.deltaX) > Math.abs(event.deltaY) || room >= 1) return;
  if (event.cancelable) event.preventDefault();
  window.scrollBy({ top: event.deltaY * [1, 16, window.innerHeight][event.deltaMode], behavior: "instant" });
}

function sortBy(column) {
  if (tree.sort === column.key && tree.down === (column.format !== undefined)) tree.down = !tree.down;
  else if (tree.sort === column.key) { tree.sort = null; }
  else { tree.sort = column.key; tree.down = column.format !== undefined; }
  for (const cell of tree.head.children) {
    const mine = cell.dataset.key === tree.sort;
    cell.setAttribute("aria-sort", mine ? (tree.down ? "descending" : "ascending") : "none");
    cell.firstChild.textContent = cell.dataset.text + (mine ? (tree.down ? " ↓" : " ↑") : "");
  }
  drawRows(true);
}

function drawTable() {
  if (!report.modules || !report.modules.length) return;
  byId("modules").hidden = false;
  buildTree();
  tree.columns = shownColumns();
  columns.find((column) => column.key === "parameters").width = `${Math.max(110, 9 * wholeText(report.modules[0].parameters).length + 20)}px`;
  if (narrow()) tree.columns = tree.columns.filter((column) => !column.wide);
  const table = byId("module-table"), widths = tree.columns.map((column) => column.width);
  table.style.setProperty("--columns", widths.join(" "));
  table.style.setProperty("--width", `${widths.reduce((sum, text) => sum + Number(/\d+/.exec(text)[0]), 0)}px`);
  table.setAttribute("aria-colcount", tree.columns.length);
  tree.head = element("div", { class: "row head", role: "row" }, ...tree.columns.map((column) => {
    const button = element("button", { type: "button", title: column.title || null }, column.text);
    button.addEventListener("click", () => sortBy(column));
    return element("div", { role: "columnheader", class: column.format ? "number" : "", "aria-sort": "none", "data-key": column.key, "data-text": column.text }, button);
  }));
  tree.body = element("div", { class: "body", role: "rowgroup", style: "position: relative" });
  table.replaceChildren(tree.head, tree.body);
  table.addEventListener("scroll", () => { if (!tree.waiting) { tree.waiting = true; requestAnimationFrame(() => { tree.waiting = false; drawRows(false); }); } });
  table.addEventListener("keydown", moveInTable);
  table.addEventListener("wheel", passWheel, { passive: false });
  byId("module-search").addEventListener("input", (event) => {
    tree.query = event.target.value.trim();
    for (const node of tree.nodes) node.closed = false;
    tree.current = 0;
    table.scrollTop = 0;
    drawRows(true);
  });
  byId("unfold-all").addEventListener("click", () => { for (const node of tree.nodes) setOpen(node, true); drawRows(true); });
  byId("fold-all").addEventListener("click", () => { for (const node of tree.nodes) setOpen(node, node.row.depth === 0); table.scrollTop = 0; drawRows(true); });
  window.addEventListener("resize", () => drawRows(false));
  drawRows(true);
}
