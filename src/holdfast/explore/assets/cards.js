// The cards below the input: certify, curve, take along. Each asks all sides at once, so that what is
// compared was asked alike.

function cardOf(title, lead, controls) {
  const id = unique("card"), sides = make("div", { class: "sides" });
  const element = make("section", { class: "panel card-wide", "aria-labelledby": id, hidden: true },
    make("h2", { id }, title), lead ? make("p", { class: "lead" }, lead) : null, controls, sides);
  return { element, sides };
}

const actOf = (words, act) => make("button", { type: "button", class: "act", onclick: act }, words);

function certifyCard(app) {
  const { choices, workbench } = app;
  const id = unique("radius"), words = make("output", { for: id });
  const slider = make("input", { type: "range", id, min: 1, max: 1, step: 1, oninput: () => setRadius(Number(slider.value)) });
  const act = actOf("Certify", () => app.eachSide((side) => side.blocks.certify.start({ radius: choices.radius, tolerance: choices.tolerance, confidence: choices.confidence })));
  const controls = make("div", { class: "controls" },
    make("div", { class: "slider wide" }, make("label", { for: id }, "Reveal up to"), slider, words),
    selectOf("Within", withOwn(workbench.tolerances, choices.tolerance).map((value) => [value, `± ${+(100 * value).toFixed(3)} points`]), choices.tolerance, (value) => app.ask({ tolerance: value })),
    selectOf("Confidence", withOwn(workbench.confidences, choices.confidence).map((value) => [value, `${+(100 * value).toFixed(3)}%`]), choices.confidence, (value) => app.ask({ confidence: value })), act);

  function setRadius(radius) {
    app.ask({ radius });
    words.textContent = plural(radius, "more feature");
    slider.setAttribute("aria-valuetext", words.textContent);
  }
  function refresh() {
    const most = Math.max(1, ...app.sides.map((side) => side.explained?.max_radius ?? 1));
    slider.max = String(most);
    slider.value = String(Math.min(choices.radius ?? workbench.radius_default ?? 1, most));
    setRadius(Number(slider.value));
  }
  const card = cardOf("Does it hold fast?", "Reveal more features at random: how often does the prediction stay? The interval narrows as draws come in, and holds at all looks at once with the chosen confidence. The certificate at the end is a second statement with its own guarantee. If holdfast can read the model itself, as with trees, it counts all masks instead.", controls);
  return { ...card, act, refresh, kind: "certify" };
}

function curveCard(app) {
  const chart = chartOf({ title: "Stability rate by radius", xLabel: "radius", yLabel: "share kept", frame: { height: 300 } });
  const key = make("div", { class: "legend" }), table = make("div"), figure = make("div", { hidden: true }, key, chart.figure, table);
  const act = actOf("Draw the curve", () => app.eachSide((side) => side.blocks.curve.start(app.choices)));
  const card = cardOf("At every radius", null, make("div", {}, make("div", { class: "controls" }, act), figure));

  function draw() {
    const lines = app.sides.map((side) => side.blocks.curve.line()).filter(Boolean);
    figure.hidden = !lines.length;
    if (!lines.length) return;
    replaceIn(key, lines.map((line) => make("span", { class: "toggle" }, make("span", { class: `swatch hue-${line.color}` }), line.label)));
    chart.show(lines, {});
    replaceIn(table, onDemand("The same as a table", () => chartTable("Rates by radius", "radius", lines)));
  }
  return { ...card, act, refresh: () => {}, draw, kind: "curve" };
}

function exportsCard() {
  return { ...cardOf("Export", ["The certificate can be checked with ", make("code", {}, "holdfast verify"), "; the script makes the same one again."], null), act: null, refresh: () => {}, kind: "exports" };
}
