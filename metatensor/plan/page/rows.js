// The table of the layouts that are shown.

const tableView = { by: "seconds", down: false, count: 50 };
const tableColumns = [{ name: "case", title: "plan", word: true, values: columns.case, text: (value) => cases[value].title }, ...words.map((axis) => ({ ...axis, word: typeof axis.raw[0] === "string" })), ...figures];

function sortedRows() {
  const { values } = tableColumns.find((column) => column.name === tableView.by), sign = tableView.down ? -1 : 1;
  return [...choice.shown].sort((a, b) => (values[a] === null) - (values[b] === null) || sign * (values[a] - values[b]) || columns.seconds[a] - columns.seconds[b]);
}

function drawRows() {
  const shown = cases.length === 1 ? tableColumns.slice(1) : tableColumns;
  const heads = shown.map((column) => {
    const button = element("button", { type: "button" }, column.title + (tableView.by === column.name ? (tableView.down ? " ▼" : " ▲") : ""));
    button.addEventListener("click", () => {
      tableView.down = tableView.by === column.name && !tableView.down;
      tableView.by = column.name;
      drawRows();
    });
    return element("th", { scope: "col", class: column.word ? "word" : "", "aria-sort": tableView.by === column.name ? (tableView.down ? "descending" : "ascending") : null }, button);
  });
  byId("table").tHead.replaceChildren(element("tr", {}, element("td", {}), ...heads));
  const all = sortedRows();
  byId("table").tBodies[0].replaceChildren(...all.slice(0, tableView.count).map((i) => {
    const cells = shown.map((column) => element("td", { class: column.word ? "word" : "" }, column.text(column.raw ? column.raw[i] : column.values[i])));
    const row = element("tr", { class: i === choice.marked ? "marked" : "", id: `row-${i}` }, element("td", { title: columns.best[i] ? "no other layout is both faster and smaller" : null }, columns.best[i] ? "★" : ""), ...cells);
    row.addEventListener("click", () => mark(i));
    return row;
  }));
  byId("more").hidden = all.length <= tableView.count;
}

function mark(i) {
  choice.marked = i;
  const place = sortedRows().indexOf(i);
  if (place >= tableView.count) tableView.count = place + 1;
  for (const watcher of choice.watchers) watcher();
  byId(`row-${i}`)?.scrollIntoView({ block: "nearest" });
}

function startRows() {
  byId("more").addEventListener("click", () => { tableView.count += 200; drawRows(); });
  choice.watchers.push(drawRows);
}
