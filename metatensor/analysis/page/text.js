// Figures as text, and helpers for elements of the page.

const report = JSON.parse(document.getElementById("data").textContent);
const profile = report.kind === "profile" ? report : report.profile || null;
const byId = (id) => document.getElementById(id);

function scaled(value, unit) {
  if (Math.abs(value) < 1000) return `${Math.round(value)}${unit ? " " + unit : ""}`;
  const units = ["", "K", "M", "G", "T", "P", "E"];
  let power = 0;
  while (Math.abs(value) >= 999.5 && power + 1 < units.length) { value /= 1000; power += 1; }
  const digits = Math.abs(value) < 9.995 ? 2 : Math.abs(value) < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[power]}${unit}`;
}
// A value that is not known is null and shown as "unknown", never as 0.
const known = (format) => (value) => value === null || value === undefined ? "unknown" : format(value);
const bytesText = known((value) => scaled(value, "B"));
const countText = known((value) => scaled(value, ""));
const wholeText = known((value) => value.toLocaleString("en-US"));
const secondsText = known((value) => {
  for (const [unit, factor] of [["s", 1], ["ms", 1e3]]) if (value * factor >= 1) return `${Number((value * factor).toPrecision(4))} ${unit}`;
  return `${Number((value * 1e6).toPrecision(3))} µs`;
});

function shortLine(line) {
  if (line === null) return "unknown line";
  const start = profile ? profile.directory : "";
  return start && (line.startsWith(start + "/") || line.startsWith(start + "\\")) ? line.slice(start.length + 1) : line;
}
const escapeText = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

function specText(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return `(${value.map(specText).join(", ")})`;
  if (typeof value === "object") return `{${Object.entries(value).map(([key, item]) => `${key}: ${specText(item)}`).join(", ")}}`;
  return String(value);
}

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") made.className = value;
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const categoryColor = (name) => color({ "optimizer state": "state", "saved for backward": "saved" }[name] || name) || color("temporary");
