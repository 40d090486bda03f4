// Unpacks Plotly, draws everything, and draws again when the colors change.

async function begin() {
  const select = byId("case");
  if (cases.length > 1) select.append(element("option", { value: "" }, "all plans"));
  cases.forEach((one, i) => select.append(element("option", { value: i }, `${one.title}: ${wholeText(one.fits)} layouts`)));
  select.addEventListener("change", () => { choice.case = select.value === "" ? null : Number(select.value); choose(); });
  byId("clear").addEventListener("click", () => { choice.limits.clear(); choice.marked = null; choice.case = cases.length === 1 ? 0 : null; select.selectedIndex = 0; choose(); });
  byId("nothing").append(...cases.filter((one) => !one.fits).map((one) => element("li", {}, `${one.title}: nothing fits; ${one.advice}`)));
  startAxes();
  startRows();
  choose();
  if (!canUnpack) {
    trouble("This browser is too old for the chart of memory and time: it needs Chrome 80, Firefox 113 or Safari 16.4.");
    return;
  }
  await unpack("plotly");
  await startFront();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { drawFront(); drawAxes(); });
  document.documentElement.dataset.ready = "true";
}

begin().catch((error) => { trouble(`The charts could not be drawn: ${error.message}`); console.error(error); });
