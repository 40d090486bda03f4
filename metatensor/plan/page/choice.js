// The rows, which of them are shown, and what can be limited.

const { cases, columns, degrees } = report;
const rows = columns.seconds.map((_, i) => i);
const choice = { case: cases.length === 1 ? 0 : null, limits: new Map(), marked: null, shown: rows, watchers: [] };

const joules = known((value) => value >= 3.6e6 ? `${Number((value / 3.6e6).toPrecision(4))} kWh` : scaled(value, "J"));
const percent = known((value) => `${(100 * value).toFixed(1)} %`);
const plain = known((value) => String(Number(value.toPrecision(4))));
const word = (value) => value === true ? "yes" : value === false ? "no" : String(value);
const figures = [
  { name: "seconds", title: "step", values: columns.seconds, text: secondsText }, { name: "peak", title: "memory", values: columns.peak, text: bytesText },
  { name: "mfu", title: "MFU", values: columns.mfu, text: percent }, { name: "exposed", title: "exposed", values: columns.exposed, text: secondsText },
  { name: "bubble", title: "bubble", values: columns.bubble, text: secondsText }, { name: "tokens_per_second", title: "tokens/s", values: columns.tokens_per_second, text: countText },
  { name: "energy", title: "energy", values: columns.energy, text: joules }, { name: "price", title: "price", values: columns.price, text: plain },
].filter((figure) => figure.values.some((value) => value !== null));

// Degrees with one value only tell nothing apart. Their values are places on an axis, numbers in order, words as they come.
const words = Object.entries(degrees).filter(([, values]) => new Set(values).size > 1).map(([name, values]) => {
  const kinds = [...new Set(values)].sort((a, b) => typeof a === "number" ? a - b : 0);
  const places = new Map(kinds.map((kind, i) => [kind, i]));
  return { name, title: name.replaceAll("_", " "), kinds, raw: values, values: values.map((value) => places.get(value)), text: word };
});
const axesShown = [...words, ...figures];

function choose() {
  const limits = [...choice.limits].map(([name, limit]) => [axesShown.find((axis) => axis.name === name), limit]);
  choice.shown = rows.filter((i) => (choice.case === null || columns.case[i] === choice.case)
    && limits.every(([axis, [low, high]]) => axis.values[i] !== null && placeOn(axis, axis.values[i]) >= low && placeOn(axis, axis.values[i]) <= high));
  byId("count").textContent = `${wholeText(choice.shown.length)} of ${wholeText(rows.length)} layouts`;
  for (const watcher of choice.watchers) watcher();
}

function limit(name, range) {
  if (range) choice.limits.set(name, range); else choice.limits.delete(name);
  choose();
}

const namesOf = (i) => words.filter((axis) => axis.raw[i] !== false).map((axis) => axis.raw[i] === true ? axis.title : `${axis.title} ${axis.raw[i]}`).join(", ");
