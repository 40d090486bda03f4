// The charts, drawn by Plotly: the timeline of memory, the treemap of modules and the chart of predicted time.

const narrow = () => window.innerWidth < 640;
const touch = matchMedia("(hover: none)").matches; // then dragging scrolls the page, and buttons zoom
// Only these buttons: others of Plotly would upload the chart.
const zoomButtons = [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
const config = { displaylogo: false, responsive: true, plotlyServerURL: "", showTips: false, doubleClick: "reset", showSendToCloud: false, showEditInChartStudio: false, modeBarButtons: zoomButtons };

function layout(extra) {
  return {
    paper_bgcolor: color("back"), plot_bgcolor: color("back"), font: { color: color("text"), family: "system-ui, sans-serif", size: narrow() ? 11 : 12 },
    margin: { l: narrow() ? 52 : 70, r: 12, t: 54, b: 44 }, hoverlabel: { align: "left", bgcolor: color("panel"), bordercolor: color("line"),
      font: { color: color("text"), size: narrow() ? 10 : 12 } }, ...extra,
  };
}
const axis = (extra) => ({ gridcolor: color("line"), zerolinecolor: color("line"), linecolor: color("line"), automargin: true, ...extra });
const draw = (id, traces, shape, buttons) => Plotly.react(byId(id), traces, shape, { ...config, modeBarButtons: buttons || zoomButtons });

// Timeline ---------------------------------------------------------------------------------------------------

const timeline = { at: 0, marks: [] };

function placeOf(i) {
  const [operator, module, line] = profile.chart.places[profile.chart.place[i]];
  return { operator: operator || "unknown", module: module || "", line };
}

function aliveAt(i) {
  return profile.chart.alive[i].map(([group, size]) => {
    const [category, operator, line] = profile.chart.groups[group];
    return { size, text: `${bytesText(size)} ${category}${line === null && operator.startsWith("(") ? ", which existed before the run" : `: ${operator}, ${shortLine(line)}`}` };
  });
}

function hoverText(i) {
  const { operator, module, line } = placeOf(i), chart = profile.chart;
  const lines = [`<b>${bytesText(chart.total[i])}</b> after event ${wholeText(chart.event[i] + 1)}, ${chart.phases[chart.phase[i]]}`,
    `${escapeText(operator)}${module ? " in " + escapeText(module) : ""}`, escapeText(shortLine(line))];
  for (const group of aliveAt(i)) {
    lines.push(escapeText(group.text));
  }
  return lines.map((text) => text.length > 90 ? text.slice(0, 88) + "…" : text).join("<br>");
}

function drawTimeline() {
  const chart = profile.chart;
  if (!chart.event.length) return;
  byId("timeline").hidden = false;
  const x = chart.event.map((event) => event + 1);
  const traces = Object.entries(chart.categories).map(([name, sizes]) => ({
    x, y: sizes, name, type: "scatter", mode: "lines", stackgroup: "all", hoverinfo: "skip", line: { width: 0.5, shape: "hv", color: categoryColor(name) },
    fillcolor: categoryColor(name),
  }));
  timeline.text ||= x.map((_, i) => hoverText(i));
  traces.push({ x, y: chart.total, type: "scatter", mode: "lines", name: "total", showlegend: false, line: { width: 1, shape: "hv", color: color("text") },
    text: timeline.text, hovertemplate: "%{text}<extra></extra>" });
  const shapes = [], annotations = [];
  for (let i = 0, first = 0; i < x.length; i++) {
    if (i + 1 < x.length && chart.phase[i + 1] === chart.phase[first]) continue;
    const until = i + 1 < x.length ? x[i + 1] : x[i];
    if (first) shapes.push({ type: "line", xref: "x", yref: "paper", x0: x[first], x1: x[first], y0: 0, y1: 1, line: { color: color("dim"), width: 1, dash: "dot" } });
    if ((until - x[first]) / x[x.length - 1] > (narrow() ? 0.15 : 0.06)) {
      annotations.push({ xref: "x", yref: "paper", x: (x[first] + until) / 2, y: 1, yanchor: "bottom", text: chart.phases[chart.phase[first]],
        showarrow: false, font: { color: color("dim") } });
    }
    first = i + 1;
  }
  if (chart.peak !== null) {
    const marks = timeline.marks = [chart.peak, ...chart.near_peaks], end = x[x.length - 1];
    traces.push({ x: marks.map((at) => x[at]), y: marks.map((at) => chart.total[at]), type: "scatter", mode: "markers", name: "peak", showlegend: false,
      hoverinfo: "skip", marker: { size: marks.map((_, k) => k ? 9 : 11), opacity: 1, color: color("accent"), line: { color: color("back"), width: 2 } } });
    const second = marks.length > 1 ? marks[1] : null;
    const label = (at, text, side, ay) => annotations.push({ x: x[at], y: chart.total[at], text, ax: side * (narrow() ? 60 : 90), ay, arrowhead: 0, standoff: 8,
      arrowcolor: color("accent"), font: { color: color("accent") }, bgcolor: color("back") });
    const edge = narrow() ? 0.4 : 0.16; // labels of peaks there point to the middle
    const outwards = (at) => second === null || x[at] < edge * end || x[at] > (1 - edge) * end ? (x[at] > end / 2 ? -1 : 1) : at === Math.max(chart.peak, second) ? 1 : -1;
    const sides = marks.slice(0, 2).map(outwards), crossing = second !== null && sides[0] === sides[1];
    if (second !== null) label(second, `${marks.length > 2 ? "others within 1%" : "second peak"}, ${bytesText(chart.total[second])}`, sides[1], crossing ? 16 : -14);
    label(chart.peak, `<b>peak ${bytesText(chart.total[chart.peak])}</b>`, sides[0], -14);
  }
  draw("timeline-chart", traces, layout({
    height: narrow() ? 430 : 460, dragmode: touch ? false : "zoom", hovermode: "x", hoverdistance: 50, shapes, annotations, legend: { orientation: "h", y: narrow() ? -0.28 : -0.2, traceorder: "normal" },
    xaxis: axis({ range: [x[0] - 0.5, x[x.length - 1] + 0.5], title: { text: narrow() ? "memory events" : `memory events (${wholeText(chart.all_events)} births, resizes and deaths of storages)` }, tickformat: ",d" }),
    yaxis: axis({ ...byteTicks(Math.max(...chart.total)), range: [0, 1.12 * Math.max(...chart.total)] }),
  })).then((drawn) => {
    if (timeline.ready) return;
    timeline.ready = true;
    const pointed = (event) => {
      const mark = event.event ? markAt(drawn, event.event) : null;
      if (mark !== null) { showMoment(mark, true); return; }
      const point = event.points.find((one) => one.data.name === "total");
      if (point) showMoment(point.pointIndex, false);
    };
    drawn.on("plotly_hover", pointed);
    drawn.on("plotly_click", pointed);
    drawn.addEventListener("mousemove", (event) => { // before Plotly, which takes the nearest event
      const mark = event.buttons ? null : markAt(drawn, event);
      if (mark === null) return;
      event.stopPropagation();
      showMoment(mark, true);
    }, true);
    drawn.addEventListener("keydown", moveInTime);
    showMoment(chart.peak ?? chart.total.length - 1, false);
  });
}

function markAt(drawn, event) { // the peak whose dot is under the pointer
  const place = event.changedTouches ? event.changedTouches[0] : event, box = drawn.getBoundingClientRect(), chart = profile.chart;
  const { xaxis, yaxis } = drawn._fullLayout;
  let found = null, least = touch ? 22 : 9;
  for (const at of timeline.marks) {
    const distance = Math.hypot(box.left + xaxis._offset + xaxis.d2p(chart.event[at] + 1) - place.clientX, box.top + yaxis._offset + yaxis.d2p(chart.total[at]) - place.clientY);
    if (distance < least) { found = at; least = distance; }
  }
  return found;
}

function byteTicks(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(most, 10) / 5));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => most / size <= 6);
  const values = [];
  for (let value = 0; value <= most * 1.12; value += step) values.push(value);
  return { tickvals: values, ticktext: values.map((value) => value ? bytesText(value).replace(/\.0+ /, " ").replace(/(\.\d*?)0+ /, "$1 ") : "0 B") };
}

function showMoment(i, marked) {
  const chart = profile.chart, { operator, module, line } = placeOf(i);
  timeline.at = i;
  const peak = i === chart.peak ? " — the peak" : chart.near_peaks.includes(i) ? " — another peak within 1%" : "";
  const text = line && profile.source[line] ? [element("code", {}, profile.source[line])] : [];
  const first = element("p", {}, element("strong", {}, bytesText(chart.total[i])),
    ` after memory event ${wholeText(chart.event[i] + 1)} of ${wholeText(chart.all_events)}, ${chart.phases[chart.phase[i]]}${peak}`);
  const second = element("p", {}, "operator ", element("code", {}, operator), module ? " in module " : " outside of all modules", ...(module ? [element("code", {}, module)] : []),
    `, ${shortLine(line)} `, ...text);
  const list = element("ul", {}, ...aliveAt(i).map((group) => element("li", {}, group.text)));
  byId("timeline-detail").replaceChildren(first, second, element("p", {}, "What takes most:"), list);
  if (marked) Plotly.Fx.hover(byId("timeline-chart"), [{ curveNumber: Object.keys(chart.categories).length, pointNumber: i }]);
}

function moveInTime(event) {
  const last = profile.chart.total.length - 1, far = Math.max(1, Math.round(last / 25));
  const steps = { ArrowLeft: timeline.at - 1, ArrowRight: timeline.at + 1, PageUp: timeline.at - far, PageDown: timeline.at + far, Home: 0, End: last, p: profile.chart.peak, P: profile.chart.peak };
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in steps) || steps[event.key] === null) return;
  event.preventDefault();
  showMoment(Math.min(last, Math.max(0, steps[event.key])), true);
}

// Treemap ----------------------------------------------------------------------------------------------------

const TILES = 600; // most tiles; the smaller ones of a module are drawn as one
const MEASURES = [
  ["peak_bytes", "made and in use at the peak", "that the run had made and were in use at the peak"], ["parameter_bytes", "parameters", "of parameters"],
  ["made_bytes", "made during the run", "that the run made"], ["buffer_bytes", "buffers", "of buffers"],
];
const treemap = { measure: null };

function parentPath(row, paths) {
  let path = row.path;
  while (path) {
    const dot = path.lastIndexOf(".");
    path = dot < 0 ? "" : path.slice(0, dot);
    if (paths.has(path)) return path;
  }
  return "";
}

// Figures with submodules. Parameters that several modules share count in the first of them, so that the parts add up.
function sizesOf(rows, paths, measure) {
  const size = new Map(rows.map((row) => [row.path, row[measure] || 0]));
  if (measure !== "parameter_bytes" && measure !== "buffer_bytes") return size;
  for (const path of paths) size.set(path, 0);
  for (const row of rows) {
    for (let path = row.path; ; path = parentPath({ path }, paths)) {
      size.set(path, (size.get(path) || 0) + row[`own_${measure}`]);
      if (!path) break;
    }
  }
  return size;
}

function drawTreemap() {
  const rows = report.modules || [];
  const usable = MEASURES.filter(([name]) => rows.length && rows[0][name]);
  if (!usable.length) return;
  byId("treemap").hidden = false;
  if (!treemap.measure) {
    treemap.measure = usable[0][0];
    byId("treemap-what").append(...usable.map(([name, text]) => {
      const input = element("input", { type: "radio", name: "measure", value: name, checked: name === treemap.measure });
      input.addEventListener("change", () => { treemap.measure = name; drawTreemap(); });
      return element("label", {}, input, ` ${text}`);
    }));
  }
  const paths = new Set(rows.map((row) => row.path)), size = sizesOf(rows, paths, treemap.measure);
  const children = new Map();
  for (const row of rows) {
    if (!row.path || !size.get(row.path)) continue;
    const parent = parentPath(row, paths);
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(row);
  }
  const total = size.get(""), kinds = new Map(rows.map((row) => [row.path, row.kind]));
  const ids = ["/"], labels = [report.model || "all"], parents = [""], values = [total], types = [kinds.get("") || ""], names = [report.model || "the whole run"];
  let levels = narrow() ? 2 : 3; // and one more for each module at the top that has nearly everything
  for (let path = "", top; ; path = top.path, levels += 1) {
    top = (children.get(path) || []).reduce((a, b) => a && size.get(a.path) >= size.get(b.path) ? a : b, null);
    if (!top || size.get(top.path) < 0.9 * total) break;
  }
  const open = [""];
  while (open.length) { // breadth first, so that the limit cuts the deepest modules
    const path = open.shift();
    const found = (children.get(path) || []).sort((a, b) => size.get(b.path) - size.get(a.path));
    if (!found.length && path) continue;
    let rest = 0, left = 0;
    const add = (name, value, label, kind) => {
      if (value <= 0) return;
      ids.push(`/${path}/${name}`); labels.push(label); parents.push(`/${path}`); values.push(value); types.push(kind); names.push(path ? `${path}: ${label}` : label);
    };
    const own = size.get(path) - found.reduce((all, row) => all + size.get(row.path), 0);
    const outside = path ? 0 : Math.min(own, ((profile && profile.outside_modules) || {})[treemap.measure] || 0);
    add("outside", outside, "outside of all modules", "the loss, the optimizer and what else no module ran");
    add("itself", own - outside, path ? "itself" : `${report.model || "the run"} itself`, "without its submodules");
    for (const row of found) {
      if (ids.length < TILES) {
        ids.push(`/${row.path}`); labels.push(path ? row.path.slice(path.length + 1) : row.path); parents.push(`/${path}`);
        values.push(size.get(row.path)); types.push(row.kind); names.push(row.path);
        open.push(row.path);
      } else { rest += size.get(row.path); left += 1; }
    }
    if (left) add("rest", rest, `${left} more`, "smaller modules");
  }
  draw("treemap-chart", [{
    type: "treemap", ids, labels, parents, values, branchvalues: "total", level: "/", maxdepth: levels, sort: true, text: values.map(bytesText),
    customdata: types.map((kind, i) => [escapeText(names[i]), escapeText(kind)]), texttemplate: "%{label}<br>%{text}", hovertemplate: `<b>%{customdata[0]}</b><br>%{customdata[1]}<br>%{text} (%{percentRoot:.1%} of the ${bytesText(total)})<extra></extra>`,
    tiling: { pad: 2 }, pathbar: { visible: true, textfont: { color: "#fff" } }, marker: { line: { color: color("back"), width: 1 }, cornerradius: 2 }, root: { color: color("panel") },
  }], layout({ height: narrow() ? 380 : 480, margin: { l: 4, r: 4, t: 40, b: 4 },
    treemapcolorway: ["parameter", "saved", "gradient", "output", "buffer", "state", "input"].map(color), extendtreemapcolors: true }), [["toImage"]]).then((drawn) => {
    treemap.tiles = ids.map((id, i) => ({ id, parent: parents[i], name: names[i], kind: types[i], size: values[i] }));
    treemap.level = "/";
    showTile("/");
    if (treemap.ready) return;
    treemap.ready = true;
    drawn.on("plotly_treemapclick", (event) => { treemap.level = event.nextLevel || "/"; showTile(treemap.level); });
    drawn.addEventListener("keydown", moveInTreemap);
  });
}

const tileOf = (id) => treemap.tiles.find((tile) => tile.id === id);
const insideOf = (id) => treemap.tiles.filter((tile) => tile.parent === id).sort((a, b) => b.size - a.size);

function showTile(id) {
  const tile = tileOf(id), inside = insideOf(id).length;
  const what = MEASURES.find(([name]) => name === treemap.measure)[2];
  const row = report.modules.find((one) => one.path === tile.id.slice(1)), shared = row && (row[treemap.measure] || 0) > tile.size ? `; with what other modules share: ${bytesText(row[treemap.measure])}` : "";
  treemap.at = id;
  byId("treemap-detail").replaceChildren(element("p", {}, element("strong", {}, tile.name), tile.kind && tile.kind !== tile.name ? ` (${tile.kind})` : "",
    `: ${bytesText(tile.size)}, ${(100 * tile.size / tileOf("/").size).toFixed(1)}% of the ${bytesText(tileOf("/").size)} ${what}${inside ? `; ${wholeText(inside)} parts inside` : ""}${shared}`));
}

function openTile(id) {
  treemap.level = id;
  showTile(id);
  return Plotly.restyle(byId("treemap-chart"), { level: id });
}

function moveInTreemap(event) {
  const near = insideOf(treemap.level), at = near.findIndex((tile) => tile.id === treemap.at);
  if (event.key === "ArrowRight" && near.length) showTile(near[Math.min(near.length - 1, at + 1)].id);
  else if (event.key === "ArrowLeft" && near.length) showTile(near[Math.max(0, at - 1)].id);
  else if ((event.key === "Enter" || event.key === "ArrowDown") && insideOf(treemap.at).length) openTile(treemap.at);
  else if ((event.key === "ArrowUp" || event.key === "Escape") && treemap.level !== "/") openTile(tileOf(treemap.level).parent);
  else if (!["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "Enter", "Escape"].includes(event.key)) return;
  event.preventDefault();
}

// Predicted time ---------------------------------------------------------------------------------------------

const flame = { at: 0 };

function drawFlame() {
  const spans = report.time && report.time.spans;
  if (!spans || !spans.name || !spans.name.length) return;
  byId("flame").hidden = false;
  const n = spans.name.length, end = Math.max(...spans.start.map((start, i) => start + spans.seconds[i]));
  const [unit, factor] = end >= 1 ? ["s", 1] : end >= 1e-3 ? ["ms", 1e3] : ["µs", 1e6];
  const deepest = Math.max(...spans.depth), phaseColor = { forward: color("parameter"), backward: color("gradient"), optimizer: color("state") };
  flame.spans = spans; flame.factor = factor; flame.end = end;
  const isOperator = spans.name.map((name, i) => spans.depth[i] > 0 && name !== spans.path[i].split(".").pop());
  draw("flame-chart", [{
    type: "bar", orientation: "h", base: spans.start.map((start) => start * factor), x: spans.seconds.map((seconds) => seconds * factor), y: spans.depth,
    width: 0.96, text: spans.name, textposition: "inside", insidetextanchor: "start", textangle: 0, constraintext: "inside",
    textfont: { size: 11, color: "#fff" },
    marker: { color: spans.phase.map((phase) => phaseColor[phase] || color("temporary")), opacity: isOperator.map((leaf) => leaf ? 0.65 : 0.95), line: { width: n > 300 ? 0.2 : 0.5, color: color("back") } },
    customdata: spans.name.map((_, i) => spanText(i)), hovertemplate: "%{customdata}<extra></extra>", showlegend: false,
  }], layout({
    height: Math.min(620, 118 + 26 * (deepest + 1)) + (touch ? 26 : 0), barmode: "overlay", dragmode: touch ? false : "zoom", uniformtext: { mode: "hide", minsize: 9 }, margin: { l: 8, r: 8, t: touch ? 36 : 10, b: 60 },
    xaxis: axis({ title: { text: `predicted time (${unit}), one operator after the other` }, range: [0, end * factor] }),
    yaxis: axis({ autorange: false, range: [deepest + 0.6, -0.6], visible: false, fixedrange: true }),
  })).then((drawn) => {
    if (flame.ready) return;
    flame.ready = true;
    for (const name of ["plotly_hover", "plotly_click"]) drawn.on(name, (event) => showSpan(event.points[0].pointIndex, false));
    drawn.addEventListener("keydown", moveInSpans);
    showSpan(0, false);
  });
}

function spanText(i) {
  const spans = report.time.spans, where = spans.path[i] ? ` in ${escapeText(spans.path[i])}` : "";
  return `<b>${escapeText(spans.name[i])}</b>${where}<br>${spans.phase[i]}, ${secondsText(spans.seconds[i])}, from ${secondsText(spans.start[i])}<br>${wholeText(spans.calls[i])} operator calls`;
}

function showSpan(i, marked) {
  const spans = flame.spans;
  flame.at = i;
  byId("flame-detail").replaceChildren(
    element("p", {}, element("strong", {}, spans.name[i]), spans.path[i] ? " in " : "", element("code", {}, spans.path[i])),
    element("p", {}, `${spans.phase[i]}, ${secondsText(spans.seconds[i])} (${(100 * spans.seconds[i] / flame.end).toFixed(1)}% of the time shown), ${wholeText(spans.calls[i])} operator calls`));
  if (marked) Plotly.Fx.hover(byId("flame-chart"), [{ curveNumber: 0, pointNumber: i }]);
}

function moveInSpans(event) {
  const { depth, start, seconds } = flame.spans, at = flame.at;
  let next = null;
  const search = (from, step, wanted, stop) => { for (let i = from; i >= 0 && i < depth.length; i += step) { if (depth[i] === wanted) return i; if (stop(depth[i])) return null; } return null; };
  if (event.key === "ArrowRight") next = search(at + 1, 1, depth[at], () => false);
  else if (event.key === "ArrowLeft") next = search(at - 1, -1, depth[at], () => false);
  else if (event.key === "ArrowDown") next = depth[at + 1] === depth[at] + 1 ? at + 1 : null;
  else if (event.key === "ArrowUp") next = search(at - 1, -1, depth[at] - 1, () => false);
  else if (event.key === "Home") next = 0;
  else if (event.key === "Enter") Plotly.relayout(byId("flame-chart"), { "xaxis.range": [start[at] * flame.factor, (start[at] + seconds[at]) * flame.factor] });
  else if (event.key === "Escape") Plotly.relayout(byId("flame-chart"), { "xaxis.range": [0, flame.end * flame.factor] });
  else return;
  event.preventDefault();
  if (next !== null) showSpan(next, true);
}
