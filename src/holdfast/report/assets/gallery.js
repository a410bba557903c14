// A few inputs, chosen by a rule that the page states: the input, the explanation, and what flips it.

function galleryPanel(study, open) {
  if (!study.gallery.length) return null;
  const state = { method: mostFlipped(study) };
  const cards = make("ul", { class: "cards" });
  const show = () => replaceIn(cards, study.gallery.map((entry) => cardOf(study, entry, state.method, open)));
  show();
  const methods = study.methods.map(({ name, label }) => [name, label]);
  return make("section", { class: "panel", "aria-labelledby": `gallery-${study.id}` },
    make("h3", { id: `gallery-${study.id}` }, "A closer look"),
    make("p", { class: "lead" }, study.gallery_lead),
    make("p", { class: "keys" }, make("mark", { class: "selected" }, "selected"), " is the explanation, ",
      make("mark", { class: "added" }, "added"), " is what changes the prediction, ",
      make("span", { class: "hidden" }, "hidden"), " is what the model does not see."),
    methods.length > 1 ? make("div", { class: "controls" }, selectOf("Explained by", methods, state.method, (value) => { state.method = value; show(); })) : null,
    cards);
}

/** The method with the most changes to show, a random selection aside; the first where several have as many. */
function mostFlipped(study) {
  const flips = (method) => study.gallery.filter((entry) => entry.explanations.some((one) => one.method === method && one.witness?.found)).length;
  const names = study.methods.map((method) => method.name);
  const meant = names.filter((name) => name !== "random");
  return [...(meant.length ? meant : names)].sort((a, b) => flips(b) - flips(a))[0];
}

const explanationOf = (entry, method) => entry.explanations.find((one) => one.method === method) ?? entry.explanations[0];

function cardOf(study, entry, method, open) {
  const one = explanationOf(entry, method);
  const title = unique("card");
  return make("li", { class: "card" },
    make("div", { class: "card-head" }, make("h4", { id: title }, quoted(entry.title)), make("p", { class: "why" }, entry.why)),
    entry.not_shown ? make("p", { class: "small" }, entry.not_shown) : null,
    make("div", { class: `steps ${entry.picture.kind}` }, stepsOf(entry, one)),
    make("p", { class: "line-of-facts" }, make("span", {}, factsOf(study, one))),
    make("button", { type: "button", class: "more", "aria-describedby": title, "data-input": entry.input, onclick: () => open(entry.input, one.method) }, "Look closer"));
}

function factsOf(study, one) {
  const at = one.radii.indexOf(study.radius);
  const odd = one.consistent ? "" : " The full input is predicted differently.";
  const firm = one.witness?.found ? "" : " No change was found.";
  if (at < 0 || !one.certificates.length) return firm + odd;
  const own = one.certificates[at];
  const share = own.low === own.high ? `exactly ${percent(own.rate)} of cases` : `${percent(own.rate)} of cases ${between(own.low, own.high)}`;
  return `Kept in ${share} at radius ${study.radius}.${firm}${odd}`;
}

/** Input, explanation, and additions that flip it, each with its prediction. */
function stepsOf(entry, one, size = "small") {
  const selected = one.selected;
  const witness = one.witness;
  const steps = [
    stepOf("input", entry.prediction, pictureOf(entry, null, `${entry.title}, the whole input`, size)),
    stepOf(`explanation: ${selected.length} of ${entry.n_features}`, one.prediction,
      pictureOf(entry, statesOf(entry.n_features, selected, []), `Only the features selected by ${one.label}`, size)),
  ];
  if (witness && witness.found) {
    steps.push(stepOf(`+ ${plural(witness.added.length, "feature")}`, witness.prediction,
      pictureOf(entry, statesOf(entry.n_features, selected, witness.added), "The explanation with the additions that flip it", size), "flipped"));
  }
  return steps;
}

function stepOf(words, prediction, picture, name = "") {
  return make("figure", { class: `step ${name}` }, picture,
    make("figcaption", {}, make("span", {}, words), make("strong", {}, "→ ", quoted(prediction))));
}
