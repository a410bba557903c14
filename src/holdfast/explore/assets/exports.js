// What can be taken along: the certificate, a picture, and the Python that does the same.

function exportsBlock(side) {
  const messages = make("div"), code = make("div");
  const json = toolOf("Certificate (JSON)", () => saveFile(new Blob([side.blocks.certify.result().text], { type: "application/json" }), `${stemOf(side)}.json`));
  const png = toolOf("Picture (PNG)", () => attemptTo(messages, async () => saveFile(await fetchPicture(side), `${stemOf(side)}.png`)));
  const python = toolOf("Python", () => attemptTo(messages, async () => replaceIn(code, await codeFor(side))));
  const element = make("div", { class: "block" }, make("h3", { class: "of-side" }), messages, make("div", { class: "tools" }, json, png, python), code);

  function refresh() {
    json.disabled = !side.blocks?.certify.result();
    png.disabled = python.disabled = !side.explained;
    json.title = json.disabled ? "Certify first" : "";
  }
  function clear() {
    replaceIn(messages); replaceIn(code);
    refresh();
  }
  refresh();
  return { element, clear, ready: refresh, refresh, running: () => false };
}

async function attemptTo(messages, act) {
  replaceIn(messages);
  try {
    await act();
  } catch (error) {
    complain(messages, error.message);
  }
}

const fetchPicture = async (side) => (await send("POST", "/api/export/png", { body: { view: side.view, shown: side.shown } })).blob();

/** The script of the certificate that is there or on its way; without one, of what would be asked. */
async function codeFor(side) {
  const { certify } = side.blocks;
  const { radius, tolerance, confidence } = certify.result() || certify.running() ? side.asked : side.app.choices;
  const { code } = await ask("POST", "/api/export/python", { body: { view: side.view, radius, tolerance, confidence } });
  return codeOf(code, "Python");
}

const stemOf = (side) => `${side.view.model.split(/[/:]/).pop()}-${side.view.input}-${side.view.method}`.replace(/[^\w.-]+/g, "_").slice(0, 80);

function saveFile(blob, name) {
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  say(`Saved ${name}`);
}
