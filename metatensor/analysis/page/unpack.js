// Runs a script that the page holds in compressed form, and says what went wrong.

function trouble(text) {
  byId("trouble").hidden = false;
  byId("trouble").textContent = text;
}

const canUnpack = typeof DecompressionStream !== "undefined";

async function unpack(id) {
  const holder = byId(id), packed = Uint8Array.from(atob(holder.textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
  holder.remove();
}
