// One input in full: its curve, a radius to slide over, what is certified there, draws, the witness, the JSON.

function detailOf(study, entry, method) {
  const state = { which: entry.explanations.findIndex((one) => one.method === method), at: 0 };
  if (state.which < 0) state.which = 0;
  const body = make("div", { class: "detail" });
  const options = entry.explanations.map((one, i) => [i, one.title]);

  function show() {
    const one = entry.explanations[state.which];
    const wanted = one.radii.indexOf(study.radius);
    state.at = wanted >= 0 ? wanted : 0;
    replaceIn(body, make("div", { class: `steps ${entry.picture.kind} large` }, stepsOf(entry, one, "")), ...explanationParts(study, entry, one, state));
  }
  show();
  return make("div", {},
    make("p", { class: "facts" }, entry.facts),
    entry.not_shown ? make("p", { class: "small" }, entry.not_shown) : null,
    options.length > 1 ? make("div", { class: "controls" }, selectOf("Explanation", options, state.which, (value) => { state.which = value; show(); })) : null,
    body);
}

function explanationParts(study, entry, one, state) {
  if (!one.radii.length) return [make("p", {}, "Nothing is certified for this input on its own.")];
  const id = unique("radius");
  const words = make("output", { for: id });
  const sentence = make("p", { class: "sentence" });
  const draws = make("div");
  const json = make("div");
  const slider = make("input", { type: "range", id, min: 0, max: one.radii.length - 1, step: 1, value: state.at,
    oninput: (event) => { state.at = Number(event.target.value); move(); } });

  function move() {
    const radius = one.radii[state.at];
    words.textContent = `radius ${radius}`;
    slider.setAttribute("aria-valuetext", `radius ${radius}`);
    sentence.textContent = one.certificates.length ? one.certificates[state.at].sentence : "";
    replaceIn(draws, drawsOf(study, entry, one, state.at));
    replaceIn(json, one.certificates.length ? onDemand("The certificate as JSON", () => jsonOf(certificateText(one, state.at))) : null);
  }
  move();
  return [
    one.curve.rates.length ? itemChart(study, one) : null,
    make("div", { class: "slider" }, make("label", { for: id }, "Radius"), slider, words),
    sentence, explainedBy(one.says), draws,
    one.witness ? make("div", { class: "witness" }, make("h4", {}, one.witness.title), make("p", {}, quoted(one.witness.sentence)), explainedBy(one.witness.explanation)) : null,
    one.mus.length ? make("div", {}, make("h4", {}, "Hard certificates of the smoothed model"),
      make("p", { class: "small" }, "MuS: a vote over masks that keep each feature with the keep probability λ. Proofs are about that vote, which may differ from the model."),
      make("ul", { class: "claims" }, one.mus.map((text) => make("li", {}, text)))) : null,
    json,
    one.witness?.json ? onDemand("The witness as JSON", () => jsonOf(one.witness.json)) : null,
  ];
}

function itemChart(study, one) {
  const chart = chartOf({ title: `Stability rate of this explanation by ${one.label}`, xLabel: "radius", yLabel: "share kept", frame: { height: 260 } });
  const line = { label: one.label, color: methodColor(study, one.method), dash: 0, x: one.curve.radii, y: one.curve.rates, low: one.curve.low, high: one.curve.high };
  chart.show([line], {});
  return chart.figure;
}

function drawsOf(study, entry, one, at) {
  if (!one.draws) return make("p", { class: "small" }, one.no_draws);
  const drawn = one.draws.at[at];
  const n = drawn.masks.length;
  const kept = drawn.flipped.filter((flip) => flip === null).length;
  const cells = drawn.masks.map((packed, i) => {
    const added = unpack(packed, entry.n_features);
    const flip = drawn.flipped[i] === null ? null : one.draws.classes[drawn.flipped[i]];
    return make("li", { class: flip === null ? "kept" : "flip" },
      drawOf(entry, one, added), make("span", { class: "verdict" }, flip === null ? "kept" : make("span", {}, "flips to ", quoted(flip))));
  });
  return make("div", { class: "draws" }, make("h4", {}, `Sampled ${study.neighborhood}: ${kept} of ${n} keep the prediction`),
    make("p", { class: "small" }, one.draws.note), make("ul", { class: `thumbs ${entry.picture.kind}` }, cells));
}

function drawOf(entry, one, added) {
  const words = `${plural(added.length, "feature")} changed`;
  if (entry.picture.kind === "image") return pictureOf(entry, statesOf(entry.n_features, one.selected, added), words, "tiny");
  if (!added.length) return make("span", { class: "none" }, "nothing changed");
  return make("span", { class: "chips" }, added.map((i) => make("mark", { class: "added" }, quoted(featureName(entry, i)))));
}

/** The text that the certificate's `to_json` wrote, put together from what its curve shares and what is its own. */
function certificateText(one, at) {
  const own = one.certificates[at].json;
  const fields = one.shared.order.map((name) => `${JSON.stringify(name)}: ${own[name] ?? one.shared.fields[name]}`);
  return `{${fields.join(", ")}}`;
}
