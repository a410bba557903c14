// One explanation of the input: what is selected, what is shown of it now, and what the model says of that. Two of
// them stand side by side when methods are compared.

const MOST_UNDO = 200;

/** What a side is asked: the choices of the page, with its own method. */
function viewOf(choices, place) {
  const method = place ? choices.b : choices.a;
  const view = { model: choices.model, input: choices.input, method, fraction: choices.fraction, fill: choices.fill ?? null,
    keep_probability: choices.keep, seed: choices.seed };
  return method === "own" ? { ...view, selected: choices.own?.[place] ?? [] } : view;
}

function sideOf(place, app) {
  const side = { place, app, key: null, view: null, explained: null, shown: [], past: [], now: null, jobs: {}, asked: null, wanted: 0, asking: false };
  side.parts = partsOf(side);
  side.element = side.parts.element;
  side.blocks = { certify: certifyBlock(side), witness: witnessBlock(side), curve: curveBlock(side), exports: exportsBlock(side) };
  side.parts.right.append(side.blocks.witness.element);
  return side;
}

function partsOf(side) {
  const title = make("h2", { id: unique("side") }), facts = make("p", { class: "small facts" }), status = statusOf(), messages = make("div"), place = make("div", { class: "stage" });
  const verdict = verdictOf();
  const undo = toolOf("Undo", () => stepBack(side)), reset = toolOf("Reset to the explanation", () => change(side, side.explained.selected));
  const all = toolOf("Show all", () => change(side, range(side.explained.n_features))), none = toolOf("Hide all", () => change(side, []));
  const own = toolOf("Use as the explanation", () => side.app.takeOwn(side));
  const tools = make("div", { class: "tools", role: "group", "aria-label": "What is shown" }, undo, reset, all, none, own);
  const right = make("div", { class: "side-right" }, verdict.element);
  const body = make("div", { class: "side-body", hidden: true }, make("div", { class: "side-input" }, place, tools, keysOf()), right);
  const element = make("section", { class: "panel side", "aria-labelledby": title.id }, title, facts, messages, status.element, body);
  return { element, title, facts, status, messages, place, verdict, undo, reset, own, body, right, tiles: null };
}

const toolOf = (words, act) => make("button", { type: "button", class: "tool", onclick: act }, words);
const range = (n) => Array.from({ length: n }, (_, i) => i);
const same = (a, b) => a.length === b.length && a.every((value, i) => value === b[i]);

const keysOf = () => make("p", { class: "keys" }, make("mark", { class: "selected" }, "selected"), " is the explanation, ", make("mark", { class: "added" }, "added"),
  " is what you revealed, ", make("span", { class: "removed" }, "taken away"), " is what you hid of it, ", make("span", { class: "hidden" }, "hidden"), " is what the model does not see.");

/** A line that says how far some work is, with a bar and a button to cancel it. */
function statusOf() {
  const words = make("span"), bar = make("progress", { max: 1, hidden: true, "aria-label": "Progress" });
  const stop = make("button", { type: "button", class: "tool", hidden: true }, "Cancel");
  const element = make("div", { class: "status", hidden: true }, words, bar, stop);
  let onStop = null;
  stop.addEventListener("click", () => onStop?.());
  function show(text, { share = null, cancel: act = null } = {}) {
    element.hidden = text === null;
    words.textContent = text ?? "";
    bar.hidden = share === null;
    if (share !== null) bar.value = share;
    stop.hidden = act === null;
    onStop = act;
  }
  /** Say how it ended, also to those who do not see it. */
  function tell(text) {
    show(text);
    say(text);
  }
  return { element, show, tell };
}

/** Words for what a job says of itself while it waits or works. */
function tellWork(status, doing, name, data, stop) {
  if (name === "started") say(`${doing} …`);
  if (name === "queued") status.show(data.ahead ? `${doing}: waiting for ${plural(data.ahead, "job")} ahead …` : `${doing} …`, { cancel: stop });
  if (name === "progress") status.show(`${doing}: ${whole(data.done)}${data.total ? ` of ${whole(data.total)}` : ""} masks …`, { share: data.total ? data.done / data.total : null, cancel: stop });
}

function complain(place, message) {
  const box = make("div", { class: "message", role: "alert" }, make("p", {}, message),
    make("button", { type: "button", class: "close", "aria-label": "Dismiss", onclick: () => box.remove() }, "×"));
  replaceIn(place, box);
}

// -- explaining ------------------------------------------------------------------------------------------------

/** Look at another view; the same view again changes nothing. */
function setView(side, view) {
  const key = JSON.stringify(view);
  if (side.key === key) return;
  clearSide(side);
  const memory = kept(`side-${side.place}`);
  const restored = memory?.key === key ? memory : null;
  Object.assign(side, { key, view, asked: restored?.asked ?? null });
  side.parts.title.textContent = side.app.labelOf(view.method);
  explain(side, restored);
}

function clearSide(side) {
  for (const job of Object.values(side.jobs)) drop(job);
  Object.assign(side, { key: null, explained: null, shown: [], past: [], now: null, jobs: {}, wanted: side.wanted + 1 });
  replaceIn(side.parts.messages);
  side.parts.facts.textContent = "";
  side.parts.body.classList.add("stale");
  for (const block of Object.values(side.blocks)) block.clear();
}

function explain(side, restored) {
  const id = restored?.jobs?.explain;
  const hear = (name, data) => hearExplain(side, name, data, restored);
  side.parts.status.show("Explaining …");
  side.jobs.explain = id ? rejoin(id, hear) : startJob("explain", side.view, {}, hear);
}

function hearExplain(side, name, data, restored) {
  const { status } = side.parts;
  tellWork(status, "Explaining", name, data, () => cancel(side.jobs.explain));
  if (name === "started") remember(side);
  if (name === "lost") explain(side, restored && { ...restored, jobs: {} });
  if (name === "done") { status.show(null); setExplained(side, data.result, restored); }
  if (name === "failed") { status.show(null); side.parts.body.hidden = true; complain(side.parts.messages, data.message); }
  if (name === "cancelled") status.tell("The explanation was cancelled. Reload the page or change a setting to start again.");
  if (name === "failed" || name === "cancelled") forget(side);
}

function setExplained(side, explained, restored) {
  const { parts } = side;
  Object.assign(side, { explained, now: explained.reference, shown: restored?.shown ?? explained.selected });
  parts.tiles = tilesOf(explained, `The input: ${plural(explained.n_features, "feature")} to show or hide. Arrow keys move, Space shows or hides.`, (i) => toggle(side, i));
  replaceIn(parts.place, parts.tiles.element);
  replaceIn(parts.facts, factsOf(explained, side.app.inputs.get(`${side.view.model} ${side.view.input}`)));
  parts.element.className = `panel side ${explained.picture.kind}-side`;
  parts.body.hidden = false;
  parts.body.classList.remove("stale");
  remember(side);
  refresh(side);
  if (!same(side.shown, explained.selected)) reveal(side);
  side.app.explained(side);
  for (const block of Object.values(side.blocks)) block.ready(restored?.jobs ?? {}, side.asked);
}

function factsOf(one, input) {
  const told = `${whole(one.selected.length)} of ${plural(one.n_features, "feature")} selected${one.n_calls ? `, ${plural(one.n_calls, "model call")}` : ""}.`;
  if (!input) return [told];
  const name = /^\d+$/.test(input.name) ? `Input ${input.name}` : input.name;
  return [quoted(name, "input-name"), ...(input.label === null ? [] : [", labelled ", quoted(input.label)]), ". ", told];
}

// -- showing and hiding ----------------------------------------------------------------------------------------

function toggle(side, i) {
  change(side, side.shown.includes(i) ? side.shown.filter((one) => one !== i) : [...side.shown, i].sort((a, b) => a - b));
}

/** Show other features; `said` where it is already known what the model says of them. */
function change(side, shown, said = null) {
  side.past = [...side.past.slice(1 - MOST_UNDO), side.shown];
  setShown(side, [...shown].sort((a, b) => a - b), said);
}

function stepBack(side) {
  const before = side.past.pop();
  if (before) setShown(side, before, null);
}

function setShown(side, shown, said) {
  side.shown = shown;
  side.wanted += 1;
  remember(side);
  if (said) heard(side, said);
  else reveal(side);
  refresh(side);
}

/** Ask what the model says now. Clicks that come while it thinks are answered together. */
async function reveal(side) {
  if (side.asking) return;
  side.asking = true;
  side.parts.verdict.element.classList.add("asking");
  try {
    for (let at = null; at !== side.wanted;) {
      at = side.wanted;
      const said = await ask("POST", "/api/reveal", { body: { view: side.view, shown: side.shown } });
      if (at === side.wanted) heard(side, said);
    }
  } catch (error) {
    if (!leaving && side.explained) missed(side, error.message);
  } finally {
    side.asking = false;
    side.parts.verdict.element.classList.remove("asking");
  }
}

function heard(side, said) {
  side.now = said;
  refresh(side);
  say(`${side.app.comparing() ? `${side.parts.title.textContent}: ` : ""}prediction ${said.prediction}, ${said.agrees ? "kept" : "changed"}${said.margin === null ? "" : `, lead ${digits(said.margin)}`}.`);
}

function missed(side, message) {
  side.now = null;
  refresh(side);
  complain(side.parts.messages, message);
}

function refresh(side) {
  const { explained, parts } = side;
  if (!explained) return;
  parts.tiles.update(statesNow(explained.n_features, explained.selected, side.shown));
  if (side.now) parts.verdict.update(side);
  else parts.verdict.miss(side);
  parts.undo.disabled = !side.past.length;
  parts.reset.disabled = parts.own.disabled = same(side.shown, explained.selected);
}

/** An explanation that did not come about is asked for anew when the page is loaded again. */
function forget(side) {
  delete side.jobs.explain;
  remember(side);
}

/** Keep what a reload needs: what is shown, and which jobs to listen to again. */
function remember(side) {
  const jobs = Object.fromEntries(Object.entries(side.jobs).filter(([, job]) => job?.id).map(([kind, job]) => [kind, job.id]));
  const before = kept(`side-${side.place}`);
  const shown = side.explained ? side.shown : before?.key === side.key ? before.shown : null;
  keep(`side-${side.place}`, { key: side.key, shown, jobs, asked: side.asked });
}
