// The timeline of ranks, drawn on a canvas: operators and communication of each class of ranks on an axis of seconds.

const ranks = report.ranks || null;
const lanes = { from: 0, to: 1, row: 0, hit: null, drag: null, height: 20, left: 110, top: 26 };
const PHASE_COLORS = ["parameter", "gradient", "state"];

function rowHeight() { return 2 * lanes.height + 12; }
const toX = (seconds, width) => lanes.left + (seconds - lanes.from) / (lanes.to - lanes.from) * (width - lanes.left - 8);
const toSeconds = (x, width) => lanes.from + (x - lanes.left) / (width - lanes.left - 8) * (lanes.to - lanes.from);

function drawRanks() {
  if (!ranks) return;
  const canvas = byId("ranks-chart"), width = canvas.parentElement.clientWidth, height = lanes.top + ranks.classes.length * rowHeight() + 8;
  const ratio = window.devicePixelRatio || 1;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  lanes.left = narrow() ? 64 : 110;
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = color("back");
  pen.fillRect(0, 0, width, height);
  drawAxis(pen, width, height);
  ranks.classes.forEach((one, row) => drawRow(pen, one, row, width));
  if (lanes.hit) outlineBar(pen, lanes.hit, width);
}

function drawAxis(pen, width, height) {
  const step = niceStep((lanes.to - lanes.from) / (narrow() ? 3 : 7));
  pen.textAlign = "center";
  for (let at = Math.ceil(lanes.from / step) * step; at <= lanes.to; at += step) {
    const x = toX(at, width);
    pen.strokeStyle = color("line");
    pen.beginPath();
    pen.moveTo(x, lanes.top - 6);
    pen.lineTo(x, height);
    pen.stroke();
    pen.fillStyle = color("dim");
    pen.fillText(at === 0 ? "0" : secondsText(Number(at.toPrecision(12))), x, lanes.top - 10);
  }
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}

function drawRow(pen, one, row, width) {
  const y = lanes.top + row * rowHeight();
  pen.textAlign = "right";
  pen.fillStyle = row === lanes.row ? color("text") : color("dim");
  pen.fillText(shorten(one.name, narrow() ? 8 : 16), lanes.left - 8, y + lanes.height + 4);
  pen.save();
  pen.beginPath();
  pen.rect(lanes.left, y, width - lanes.left - 8, rowHeight());
  pen.clip();
  for (const [start, end, phase] of one.operators) {
    if (end >= lanes.from && start <= lanes.to) bar(pen, start, end, y, color(PHASE_COLORS[phase]), width);
  }
  for (const [start, end, , exposed] of one.operations) {
    if (end < lanes.from || start > lanes.to) continue;
    bar(pen, start, end, y + lanes.height + 2, color("buffer"), width);
    if (exposed > 0) bar(pen, Math.max(start, end - exposed), end, y + lanes.height + 2, color("accent"), width);
  }
  pen.restore();
}

const shorten = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;

function bar(pen, start, end, y, fill, width) {
  const x = toX(start, width), wide = Math.max(0.6, toX(end, width) - x);
  pen.fillStyle = fill;
  pen.fillRect(x, y, wide, lanes.height);
}

function outlineBar(pen, hit, width) {
  const y = lanes.top + hit.row * rowHeight() + (hit.lane ? lanes.height + 2 : 0);
  const x = Math.max(lanes.left, toX(hit.bar[0], width)), end = Math.min(width - 8, toX(hit.bar[1], width));
  pen.strokeStyle = color("text");
  pen.lineWidth = 1.5;
  if (end >= x) pen.strokeRect(x - 1, y - 1, Math.max(2, end - x + 2), lanes.height + 2);
}

function barAt(x, y, width) {
  const row = Math.floor((y - lanes.top) / rowHeight()), one = ranks.classes[row];
  if (!one || x < lanes.left) return null;
  const lane = (y - lanes.top) % rowHeight() > lanes.height + 1 ? 1 : 0, bars = lane ? one.operations : one.operators;
  const at = toSeconds(x, width), near = toSeconds(x + 3, width) - at;
  let best = null, least = near;
  for (const each of bars) {
    const distance = at < each[0] ? each[0] - at : at > each[1] ? at - each[1] : 0;
    if (distance <= least) { best = each; least = distance; if (!distance && !lane) break; }
  }
  return best ? { row, lane, bar: best } : { row, lane, bar: null };
}

function showBar(hit) {
  const detail = byId("ranks-detail");
  detail.replaceChildren();
  if (!hit) return;
  lanes.row = hit.row;
  const one = ranks.classes[hit.row], lines = [];
  if (hit.bar && hit.lane) {
    const [start, end, label, exposed, overlap, bytes, route] = hit.bar;
    lines.push(`Ranks ${one.name}: ${ranks.labels[label]}, ${bytesText(bytes)}`, `${secondsText(end - start)} from ${secondsText(start)} on, over ${ranks.labels[route]}`,
      exposed > 0 ? `${secondsText(exposed)} of it exposed; it can hide behind ${secondsText(overlap)} of operators` : `hidden behind ${secondsText(overlap)} of operators`);
  } else if (hit.bar) {
    const [start, end, phase, label] = hit.bar;
    lines.push(`Ranks ${one.name}: ${ranks.labels[label]}, ${ranks.phases[phase]}`, `${secondsText(end - start)} from ${secondsText(start)} on`);
  } else {
    lines.push(`Ranks ${one.name}: operators ${secondsText(one.compute)}, communication ${secondsText(one.communication)}`,
      `exposed ${secondsText(one.exposed)}, waiting for other ranks ${secondsText(one.idle)}`);
  }
  for (const text of lines) detail.append(element("p", {}, text));
}

function zoomRanks(factor, at) {
  const span = Math.min(ranks.end, Math.max(ranks.end * 1e-6, (lanes.to - lanes.from) * factor));
  const share = (at - lanes.from) / (lanes.to - lanes.from);
  showSeconds(at - share * span, span);
}

function showSeconds(from, span) {
  lanes.from = Math.min(Math.max(0, from), ranks.end - span);
  lanes.to = lanes.from + span;
  drawRanks();
}

function startRanks() {
  if (!ranks) return;
  lanes.to = ranks.end || 1;
  ranks.end = ranks.end || 1;
  const legend = byId("ranks-legend"), canvas = byId("ranks-chart");
  for (const [name, text] of [...PHASE_COLORS.map((name, phase) => [name, ranks.phases[phase]]), ["buffer", "hidden communication"], ["accent", "exposed communication"]]) {
    legend.append(element("span", { class: "key", style: `--key: var(--${name})` }, text));
  }
  const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top, box.width]; };
  const point = (event) => { lanes.hit = barAt(...place(event)); showBar(lanes.hit); if (lanes.hit && !lanes.hit.bar) lanes.hit = null; drawRanks(); };
  canvas.addEventListener("pointerdown", (event) => { lanes.drag = event.pointerType === "mouse" ? { x: event.clientX, from: lanes.from } : null; point(event); });
  canvas.addEventListener("pointermove", (event) => {
    if (!lanes.drag) { point(event); return; }
    const [, , width] = place(event), span = lanes.to - lanes.from;
    showSeconds(lanes.drag.from - (event.clientX - lanes.drag.x) / (width - lanes.left - 8) * span, span);
  });
  window.addEventListener("pointerup", () => { lanes.drag = null; });
  canvas.addEventListener("wheel", (event) => {
    const [x, , width] = place(event);
    event.preventDefault();
    zoomRanks(event.deltaY > 0 ? 1.25 : 0.8, toSeconds(Math.max(lanes.left, x), width));
  }, { passive: false });
  canvas.addEventListener("dblclick", () => showSeconds(0, ranks.end));
  canvas.addEventListener("keydown", moveInRanks);
  window.addEventListener("resize", drawRanks);
  showBar({ row: 0, lane: 0, bar: null });
  drawRanks();
}

function moveInRanks(event) {
  const span = lanes.to - lanes.from, middle = (lanes.from + lanes.to) / 2;
  const moves = { ArrowLeft: () => showSeconds(lanes.from - span / 10, span), ArrowRight: () => showSeconds(lanes.from + span / 10, span),
    "+": () => zoomRanks(0.5, middle), "=": () => zoomRanks(0.5, middle), "-": () => zoomRanks(2, middle), Home: () => showSeconds(0, ranks.end),
    ArrowUp: () => chooseRow(-1), ArrowDown: () => chooseRow(1) };
  if (!moves[event.key]) return;
  event.preventDefault();
  moves[event.key]();
}

function chooseRow(by) {
  lanes.row = Math.min(Math.max(0, lanes.row + by), ranks.classes.length - 1);
  lanes.hit = null;
  showBar({ row: lanes.row, lane: 0, bar: null });
  drawRanks();
}
