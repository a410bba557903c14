// What to look at: the model, one of its inputs, the method or two, and how features are hidden.

const INPUTS = 48;

function setupCard(app) {
  const place = document.getElementById("setup");
  const fields = make("div", { class: "fields" }), inputs = inputsOf(app);
  place.append(fields, inputs.element);

  function refresh() {
    const { choices, workbench } = app;
    const model = app.model();
    const set = (name, also = {}) => (value) => app.choose({ [name]: value, ...also });
    const methods = model.methods.map((one) => [one.name, one.label]);
    const offered = (method) => [...methods, ...(method === "own" ? [["own", app.labelOf("own")]] : [])];
    replaceIn(fields,
      selectOf("Model", workbench.models.map((one) => [one.spec, one.name]), choices.model, (value) => app.chooseModel(value)),
      selectOf("Method", offered(choices.a), choices.a, set("a")),
      selectOf("Compare with", [[null, "nothing"], ...offered(choices.b)], choices.b, set("b")),
      selectOf("Selected", withOwn(workbench.fractions, choices.fraction).map((value) => [value, `top ${+(100 * value).toFixed(2)}%`]), choices.fraction, set("fraction")),
      numberOf("Seed", choices.seed, set("seed")),
      model.fills.length ? selectOf("Hidden features are", model.fills.map((one) => [one.name, one.label]), choices.fill ?? model.default_fill, set("fill")) : null,
      selectOf("Keep probability λ", withOwn(workbench.keep_probabilities, choices.keep).map((value) => [value, value === 1 ? "1 (the model itself)" : `${value} (smoothed)`]), choices.keep, set("keep")),
      model.note ? make("p", { class: "small note" }, quoted(model.note)) : null);
  }
  return { refresh, showInputs: inputs.show };
}

/** The numbers that are offered, and the one that the address asked for. */
const withOwn = (offered, own) => (offered.includes(own) ? offered : [...offered, own].sort((a, b) => a - b));

/** A whole number that may be typed; what is no such number is left aside. */
function numberOf(legend, value, onChange) {
  const id = unique("number");
  const take = (event) => { if (event.target.checkValidity() && event.target.value !== "") onChange(Number(event.target.value)); };
  return make("div", { class: "field" }, make("label", { for: id }, legend), make("input", { type: "number", id, min: 0, max: 2 ** 31, step: 1, value, onchange: take }));
}

// -- the inputs ------------------------------------------------------------------------------------------------

function inputsOf(app) {
  const list = make("div", { class: "inputs-list" }), count = make("span", { class: "small" });
  const state = { model: null, from: 0, total: 0, round: 0 };
  const turn = (step) => () => guarded(state.model, Math.max(0, state.from + step * INPUTS), app.choices.input);
  const back = make("button", { type: "button", class: "tool", onclick: turn(-1), "aria-label": "Earlier inputs" }, "‹");
  const next = make("button", { type: "button", class: "tool", onclick: turn(1), "aria-label": "Later inputs" }, "›");
  const element = make("fieldset", { class: "inputs" }, make("legend", {}, "Input"), list, make("div", { class: "pager" }, back, count, next));

  /** A page of them; the first is chosen if none is. */
  async function show(model, from, chosen) {
    const round = ++state.round;
    const found = await ask("GET", `/api/inputs?model=${encodeURIComponent(model)}&from=${from}&count=${INPUTS}`);
    if (round !== state.round) return null;
    Object.assign(state, { model, from, total: found.total });
    for (const one of found.inputs) app.inputs.set(`${model} ${one.id}`, one);
    const wanted = chosen ?? found.inputs[0]?.id;
    replaceIn(list, found.inputs.map((one) => inputChoice(one, app, one.id === wanted)));
    count.textContent = `${whole(from + 1)}–${whole(from + found.inputs.length)} of ${whole(found.total)}`;
    back.disabled = from === 0;
    next.disabled = from + found.inputs.length >= found.total;
    revealChosen(list);
    return found.inputs;
  }
  const guarded = (model, from, chosen) => show(model, from, chosen).catch((error) => { complain(document.getElementById("messages"), error.message); return null; });
  return { element, show: guarded };
}

/** Scroll the list, and the list alone, to the input that is looked at. */
function revealChosen(list) {
  const chosen = list.querySelector("input:checked")?.parentElement;
  if (chosen) list.scrollTop = chosen.offsetTop - list.offsetTop - list.clientHeight / 2 + chosen.offsetHeight / 2;
}

function inputChoice(one, app, chosen) {
  const isPicture = typeof one.short === "string" && one.short.startsWith("data:image/png;base64,");
  const words = `${one.name}${one.label === null || one.label === undefined ? "" : `, labelled ${one.label}`}`;
  return make("label", { class: `input-choice ${isPicture ? "thumb" : "line"}`, title: isPicture ? words : null },
    make("input", { type: "radio", name: "input", value: one.id, checked: chosen, onchange: () => app.choose({ input: one.id }), "aria-label": isPicture ? words : null }),
    isPicture ? make("img", { src: one.short, alt: "", class: "pixelated" }) : make("span", { class: "line-text" }, quoted(one.short ?? one.name)));
}
