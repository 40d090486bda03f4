// Memory against time, drawn by Plotly, with a line through the layouts for which no other is both faster and smaller.

const config = { displaylogo: false, responsive: true, plotlyServerURL: "", showTips: false, doubleClick: "reset", showSendToCloud: false, showEditInChartStudio: false,
  modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]] };
const palette = ["parameter", "gradient", "saved", "output", "state", "buffer", "input", "temporary"];

function frontOf(those) {
  const sorted = [...those].sort((a, b) => columns.seconds[a] - columns.seconds[b] || columns.peak[a] - columns.peak[b]), found = [];
  let least = Infinity;
  for (const i of sorted) if (columns.peak[i] < least) { least = columns.peak[i]; found.push(i); }
  return found;
}

function drawFront() {
  const groups = new Map();
  for (const i of choice.shown) {
    if (!groups.has(columns.case[i])) groups.set(columns.case[i], []);
    groups.get(columns.case[i]).push(i);
  }
  const traces = [];
  const gigabytes = (i) => columns.peak[i] / 1e9;
  for (const [number, those] of groups) {
    const ink = color(palette[number % palette.length]), front = frontOf(those);
    const text = (i) => `<b>${secondsText(columns.seconds[i])}</b>, ${bytesText(columns.peak[i])}<br>${escapeText(namesOf(i)).replace(/(.{60}\S*) /g, "$1<br>")}`;
    traces.push({ x: those.map(gigabytes), y: those.map((i) => columns.seconds[i]), customdata: those, text: those.map(text), mode: "markers", type: "scatter",
      name: cases[number].title, legendgroup: number, marker: { color: ink, size: 5, opacity: 0.45 }, hovertemplate: "%{text}<extra></extra>" });
    traces.push({ x: front.map(gigabytes), y: front.map((i) => columns.seconds[i]), customdata: front, text: front.map(text), mode: "lines+markers", type: "scatter",
      name: "not surpassed", legendgroup: number, showlegend: false, line: { color: ink, width: 2 }, marker: { color: ink, size: 8 }, hovertemplate: "%{text}<extra></extra>" });
  }
  const i = choice.marked;
  if (i !== null && choice.shown.includes(i)) {
    traces.push({ x: [gigabytes(i)], y: [columns.seconds[i]], mode: "markers", type: "scatter", hoverinfo: "skip", showlegend: false, name: "marked",
      marker: { size: 16, color: "rgba(0,0,0,0)", line: { color: color("accent"), width: 3 } } });
  }
  const axis = (title, extra) => ({ title: { text: title }, gridcolor: color("line"), zerolinecolor: color("line"), linecolor: color("line"), automargin: true, ...extra });
  return Plotly.react(byId("front-chart"), traces, {
    paper_bgcolor: color("back"), plot_bgcolor: color("back"), font: { color: color("text"), family: "system-ui, sans-serif", size: 12 }, margin: { l: 60, r: 12, t: 30, b: 44 },
    xaxis: axis("memory of a device, GB"), yaxis: axis("time of a step, s", { type: "log" }), showlegend: groups.size > 1, legend: { orientation: "h", y: -0.2 },
    hoverlabel: { align: "left", bgcolor: color("panel"), bordercolor: color("line"), font: { color: color("text") } }, hovermode: "closest",
  }, config);
}

async function startFront() {
  await drawFront();
  byId("front-chart").on("plotly_click", (event) => mark(event.points[0].customdata));
  choice.watchers.push(drawFront);
}
