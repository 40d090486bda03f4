// Parallel coordinates on a canvas: an axis for each degree with several values and each figure, a line for each layout.

const axesView = { step: 0, width: 0, height: 360, top: 14, bottom: 46, left: 60, drag: null };

function axisScale(axis) {
  if (!axis.scale) {
    const there = axis.values.filter((value) => value !== null);
    let low = Infinity, high = -Infinity;
    for (const value of there) { low = Math.min(low, value); high = Math.max(high, value); }
    if (axis.log = !axis.kinds && low > 0 && high > 20 * low) { low = Math.log(low); high = Math.log(high); }
    axis.scale = { low, high: high > low ? high : low + 1 };
  }
  return axis.scale;
}
// Figures of very different sizes are on a logarithmic axis. Limits are places on the axis.
const placeOn = (axis, value) => { axisScale(axis); return axis.log ? Math.log(value) : value; };

const axisX = (k) => axesView.left + k * axesView.step;
function axisY(axis, value) {
  const { low, high } = axisScale(axis), inside = axesView.height - axesView.top - axesView.bottom;
  return axesView.top + inside * (1 - (value - low) / (high - low));
}
function axisValue(axis, y) {
  const { low, high } = axisScale(axis), inside = axesView.height - axesView.top - axesView.bottom;
  return low + (high - low) * (1 - (y - axesView.top) / inside);
}

function drawAxes() {
  const canvas = byId("axes-chart"), box = byId("axes"), ratio = window.devicePixelRatio || 1;
  axesView.width = Math.max(box.clientWidth, 90 * axesShown.length);
  axesView.step = (axesView.width - axesView.left - 60) / Math.max(axesShown.length - 1, 1);
  canvas.width = axesView.width * ratio; canvas.height = axesView.height * ratio;
  canvas.style.width = `${axesView.width}px`; canvas.style.height = `${axesView.height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "11px system-ui, sans-serif";
  const shown = new Set(choice.shown);
  const line = (i) => {
    pen.beginPath();
    let up = true;
    axesShown.forEach((axis, k) => {
      const value = axis.values[i];
      if (value === null) { up = true; return; }
      const y = axisY(axis, placeOn(axis, value));
      if (up) pen.moveTo(axisX(k), y); else pen.lineTo(axisX(k), y);
      up = false;
    });
    pen.stroke();
  };
  pen.lineWidth = 1;
  pen.globalAlpha = Math.max(0.05, Math.min(0.4, 60 / rows.length));
  pen.strokeStyle = color("line");
  for (const i of rows) if (!shown.has(i)) line(i);
  const order = [...choice.shown].sort((a, b) => columns.seconds[b] - columns.seconds[a]);  // fast ones last, on top
  pen.globalAlpha = Math.max(0.12, Math.min(0.8, 150 / Math.max(order.length, 1)));
  order.forEach((i, k) => { pen.strokeStyle = k > order.length * 0.9 ? color("parameter") : color("temporary"); line(i); });
  if (choice.marked !== null) { pen.globalAlpha = 1; pen.lineWidth = 3; pen.strokeStyle = color("accent"); line(choice.marked); }
  pen.globalAlpha = 1; pen.lineWidth = 1;
  axesShown.forEach((axis, k) => drawAxis(pen, axis, k));
  axesShown.forEach((axis, k) => {
    const key = byId("axes-keys").children[k];
    key.style.left = `${axisX(k)}px`;
    key.className = choice.limits.has(axis.name) ? "limited" : "";
  });
}

function drawAxis(pen, axis, k) {
  const x = axisX(k), { low, high } = axisScale(axis), range = choice.limits.get(axis.name);
  pen.strokeStyle = color("dim"); pen.fillStyle = color("text"); pen.textAlign = "right"; pen.textBaseline = "middle";
  pen.beginPath(); pen.moveTo(x, axesView.top); pen.lineTo(x, axesView.height - axesView.bottom); pen.stroke();
  const marks = axis.kinds ? axis.kinds.map((kind, i) => [i, axis.text(kind)]) : [0, 0.5, 1].map((part) => {
    const place = low + part * (high - low);
    return [place, axis.text(axis.log ? Math.exp(place) : place)];
  });
  for (const [value, text] of marks) {
    const short = text.length > 14 ? text.slice(0, 13) + "…" : text, y = axisY(axis, value), wide = pen.measureText(short).width;
    pen.globalAlpha = 0.8; pen.fillStyle = color("back"); pen.fillRect(x - wide - 7, y - 7, wide + 4, 14);
    pen.globalAlpha = 1; pen.fillStyle = color("text"); pen.fillText(short, x - 5, y);
  }
  if (range) {
    const top = axisY(axis, Math.min(range[1], high)), bottom = axisY(axis, Math.max(range[0], low));
    pen.globalAlpha = 0.35; pen.fillStyle = color("accent"); pen.fillRect(x - 6, Math.min(top, bottom) - 3, 12, Math.abs(bottom - top) + 6); pen.globalAlpha = 1;
  }
}

function stepAxis(axis, by) {
  const count = axis.kinds ? axis.kinds.length : 4, { low, high } = axisScale(axis), range = choice.limits.get(axis.name);
  const size = (high - low) / count;
  const now = !range ? (by > 0 ? -1 : count) : axis.kinds ? Math.round(range[0] + 0.5) : Math.round((range[0] - low) / size);
  const next = now + by;
  if (next < 0 || next >= count) limit(axis.name, null);
  else limit(axis.name, axis.kinds ? [next - 0.5, next + 0.5] : [low + next * size, low + (next + 1) * size]);
}

function startAxes() {
  const canvas = byId("axes-chart");
  for (const axis of axesShown) {
    const key = element("button", { type: "button", "aria-label": `limit ${axis.title}` }, axis.title);
    key.addEventListener("keydown", (event) => {
      if (event.key === "ArrowUp" || event.key === "ArrowDown") { stepAxis(axis, event.key === "ArrowUp" ? 1 : -1); event.preventDefault(); }
      if (event.key === "Escape") limit(axis.name, null);
    });
    key.addEventListener("click", () => limit(axis.name, null));
    byId("axes-keys").append(key);
  }
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    const [x, y] = place(event), k = Math.round((x - axesView.left) / axesView.step);
    if (k < 0 || k >= axesShown.length || Math.abs(x - axisX(k)) > 30) return;
    axesView.drag = { axis: axesShown[k], from: y, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!axesView.drag) return;
    const { axis, from } = axesView.drag, y = place(event)[1];
    if (Math.abs(y - from) < 4 && !axesView.drag.moved) return;
    axesView.drag.moved = true;
    limit(axis.name, [axisValue(axis, Math.max(from, y)), axisValue(axis, Math.min(from, y))]);
  });
  canvas.addEventListener("pointerup", () => {
    if (axesView.drag && !axesView.drag.moved) limit(axesView.drag.axis.name, null);
    axesView.drag = null;
  });
  canvas.addEventListener("pointercancel", () => { axesView.drag = null; });
  choice.watchers.push(drawAxes);
  window.addEventListener("resize", drawAxes);
}
