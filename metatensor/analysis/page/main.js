// Unpacks Plotly, draws everything, and draws again when the colors change.

function drawCharts() {
  if (profile && profile.chart) drawTimeline();
  drawTreemap();
  drawFlame();
  drawRanks();
}

function printing(on) {
  tree.printing = on;
  if (tree.body) drawRows(false);
  if (!window.Plotly) return;
  for (const chart of document.querySelectorAll(".js-plotly-plot")) Plotly.Plots.resize(chart);
}

async function main() {
  drawTable();
  startRanks();
  if (!canUnpack) {
    trouble("This browser is too old for the charts: they need Chrome 80, Firefox 113 or Safari 16.4. The figures are complete without them.");
    return;
  }
  await unpack("plotly");
  drawCharts();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
  matchMedia("print").addEventListener("change", drawCharts);
  window.addEventListener("beforeprint", () => printing(true));
  window.addEventListener("afterprint", () => printing(false));
  document.documentElement.dataset.ready = "true";
}

main().catch((error) => { trouble(`The charts could not be drawn: ${error.message}`); console.error(error); });
