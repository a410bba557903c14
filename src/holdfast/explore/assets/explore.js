// The page: reads what the server offers, keeps the choices, and builds a side per method with the cards below.

const OWN = "Your own selection";

const app = {
  workbench: null, choices: null, inputs: new Map(), sides: [], cards: [], setup: null,
  model: () => app.workbench.models.find((one) => one.spec === app.choices.model),
  labelOf: (method) => (method === "own" ? OWN : app.model().methods.find((one) => one.name === method)?.label ?? method),
  comparing: () => app.sides.length > 1,
  eachSide: (act) => app.sides.filter((side) => side.explained).forEach(act),
  choose, chooseModel, ask: setQuestion, explained, jobsChanged, drawCurves, takeOwn,
};

open().catch((error) => complain(document.getElementById("messages"), error.message));

async function open() {
  app.workbench = await ask("GET", "/api/workbench");
  for (const model of app.workbench.models) model.methods = model.methods.map((one) => (typeof one === "string" ? { name: one, label: one } : one));
  app.choices = firstChoices(app.workbench);
  app.setup = setupCard(app);
  app.cards = [certifyCard(app), curveCard(app), exportsCard(app)];
  document.getElementById("loading").remove();
  document.getElementById("work").append(make("div", { class: "sides", id: "sides" }), ...app.cards.map((card) => card.element));
  const inputs = await app.setup.showInputs(app.choices.model, pageOf(app.choices.input), app.choices.input);
  app.choices.input ??= inputs?.[0]?.id;
  await settle();
  addEventListener("hashchange", () => readAddress());
  document.documentElement.dataset.ready = "true";
}

/** Follow an address that was typed or pasted. */
async function readAddress() {
  Object.assign(app.choices, firstChoices(app.workbench));
  const inputs = await app.setup.showInputs(app.choices.model, pageOf(app.choices.input), app.choices.input);
  app.choices.input ??= inputs?.[0]?.id;
  await settle();
}

/** The address, where it says something that there is; the server's defaults elsewhere. */
function firstChoices(workbench) {
  const given = workbench.defaults, said = choicesOfAddress();
  const known = workbench.models.some((one) => one.spec === said.model);
  const model = workbench.models.find((one) => one.spec === (known ? said.model : given.model)) ?? workbench.models[0];
  const start = { model: model.spec, input: model.spec === given.model ? given.input : null, a: given.method, b: null, fraction: given.fraction, fill: given.fill ?? null,
    keep: given.keep_probability ?? 1, seed: given.seed ?? 0, radius: workbench.radius_default, tolerance: workbench.tolerance, confidence: workbench.confidence, own: kept("own") ?? {} };
  const choices = { ...start, ...(known || !said.model ? said : {}), model: model.spec };
  return { ...choices, ...methodsFor(model, choices) };
}

/** The methods that were chosen, as far as the model has them. */
function methodsFor(model, { a, b, own }) {
  const has = (method, place) => model.methods.some((one) => one.name === method) || (method === "own" && own?.[place]);
  return { a: has(a, 0) ? a : model.methods[0].name, b: has(b, 1) ? b : null };
}

const pageOf = (input) => (/^\d+$/.test(input ?? "") ? INPUTS * Math.floor(Number(input) / INPUTS) : 0);

// -- choosing --------------------------------------------------------------------------------------------------

function choose(changes) {
  const anew = "input" in changes || "model" in changes;
  Object.assign(app.choices, changes);
  if (anew && (app.choices.a === "own" || app.choices.b === "own")) {
    app.choices.own = {};
    Object.assign(app.choices, methodsFor(app.model(), app.choices));
  }
  return settle();
}

async function chooseModel(spec) {
  const model = app.workbench.models.find((one) => one.spec === spec);
  const inputs = await app.setup.showInputs(spec, 0, null);
  if (!inputs?.length) return;
  app.choices.own = {};
  await choose({ model: spec, input: inputs[0].id, fill: null, ...methodsFor(model, app.choices) });
}

function takeOwn(side) {
  app.choices.own = { ...app.choices.own, [side.place]: side.shown };
  keep("own", app.choices.own);
  choose({ [side.place ? "b" : "a"]: "own" });
}

/** Questions are put when a button is pressed; until then they are only kept. */
function setQuestion(changes) {
  Object.assign(app.choices, changes);
  writeAddress(app.choices);
}

async function settle() {
  writeAddress(app.choices);
  keep("own", app.choices.own);
  refocused(document.getElementById("setup"), () => app.setup.refresh());
  arrange(app.choices.b === null ? 1 : 2);
  app.sides.forEach((side, place) => setView(side, viewOf(app.choices, place)));
}

/** Build lists anew, and leave the focus on the one that had it. */
function refocused(place, build) {
  const fields = () => [...place.querySelectorAll(".fields select, .fields input")];
  const at = fields().indexOf(document.activeElement);
  build();
  if (at >= 0) fields()[at]?.focus();
}

// -- sides and cards -------------------------------------------------------------------------------------------

function arrange(count) {
  while (app.sides.length > count) clearSide(app.sides.pop());
  while (app.sides.length < count) app.sides.push(sideOf(app.sides.length, app));
  replaceChanged(document.getElementById("sides"), app.sides.map((side) => side.element));
  for (const card of app.cards) replaceChanged(card.sides, app.sides.map((side) => side.blocks[card.kind].element));
  document.body.classList.toggle("comparing", count > 1);
  drawCurves();
}

function replaceChanged(place, children) {
  if (!same([...place.children], children)) place.replaceChildren(...children);
}

function explained(side) {
  for (const card of app.cards) { card.element.hidden = false; card.refresh(); }
  for (const block of Object.values(side.blocks)) block.element.querySelector(".of-side")?.replaceChildren(side.parts.title.textContent);
  jobsChanged();
}

function jobsChanged() {
  for (const card of app.cards) {
    if (!card.act) continue;
    card.act.disabled = !app.sides.some((side) => side.explained) || app.sides.some((side) => side.blocks?.[card.kind].running());
  }
}

function drawCurves() {
  app.cards.find((card) => card.kind === "curve")?.draw();
}
