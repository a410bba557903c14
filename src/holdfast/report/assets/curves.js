// The curves of a study: which methods, which certificates, which bands, on which scale.

const KINDS = { soft: "soft", hard: "hard", mus: "MuS" };
const BANDS = [["guaranteed", "guaranteed"], ["bootstrap", "bootstrap (approximate)"], ["none", "none"]];

const kindName = (curve) => (curve.kind === "mus" ? `MuS λ = ${curve.keep}` : KINDS[curve.kind]);
/** What a kind of certificate is, where it is chosen. */
const kindWords = (kind) => ({ soft: "soft (mean rate)", hard: "hard (no draw changed it)" })[kind] ?? `${kind} (proven, smoothed model)`;
const methodLabel = (study, name) => study.methods.find((method) => method.name === name)?.label ?? name;
const methodColor = (study, name) => Math.max(0, study.methods.findIndex((method) => method.name === name)) % 8;
const distinct = (values) => [...new Set(values)];

function curvesPanel(study) {
  const fractions = distinct(study.groups.map((group) => group.top_fraction));
  const keeps = distinct(study.groups.map((group) => group.keep_probability)).sort((a, b) => b - a);
  const kinds = distinct(study.groups.flatMap((group) => group.curves.map(kindName)));
  const hasBootstrap = study.groups.some((group) => group.curves.some((curve) => curve.bootstrap_low));
  const state = { fraction: fractions[0], keep: keeps[0], across: "methods", method: study.methods[0].name, log: false,
    band: "guaranteed", methods: new Set(study.methods.map((method) => method.name)), kinds: new Set([kinds[0]]) };
  const chart = chartOf({ title: `Stability rate by radius, ${study.name}`, xLabel: "radius", yLabel: "share kept" });
  const legend = make("fieldset", { class: "legend" });
  const asTable = make("div");
  const keys = make("div", { class: "legend" }, keeps.map((keep, i) => make("span", { class: "toggle" }, keyOf(i % 8), `λ = ${keep}`)));

  function refresh() {
    chart.show(linesOf(study, state), { log: state.log });
    const smoothing = state.across === "smoothing";
    legend.hidden = smoothing;
    keys.hidden = !smoothing;
    for (const [field, shown] of [[keepField, !smoothing], [methodField, smoothing]]) field.hidden = keeps.length < 2 || !shown;
    replaceIn(asTable, onDemand("The same as a table", () => chartTable("Rates by radius", "radius", linesOf(study, state))));
  }
  const set = (name) => (value) => { state[name] = value; refresh(); };
  const toggle = (chosen, value) => () => { chosen.has(value) ? chosen.delete(value) : chosen.add(value); refresh(); };

  const keepField = selectOf("Keep probability λ", keeps.map((value) => [value, value === 1 ? "1 (the model itself)" : `${value} (smoothed)`]), state.keep, set("keep"));
  const methodField = selectOf("Method", study.methods.map(({ name, label }) => [name, label]), state.method, set("method"));
  replaceIn(legend, make("legend", {}, "Methods"), study.methods.map(({ name, label }) =>
    make("label", { class: "toggle" },
      make("input", { type: "checkbox", checked: true, "data-method": name, onchange: toggle(state.methods, name) }),
      keyOf(methodColor(study, name)), make("span", {}, label))));
  const certificates = kinds.length > 1 && make("fieldset", { class: "legend" }, make("legend", {}, "Certificates"), kinds.map((kind, i) =>
    make("label", { class: "toggle" },
      make("input", { type: "checkbox", checked: state.kinds.has(kind), "data-kind": kind, onchange: toggle(state.kinds, kind) }),
      keyOf(null, i), make("span", {}, kindWords(kind)))));
  const controls = make("div", { class: "controls" },
    keeps.length > 1 ? switchOf("Lines", [["methods", "methods"], ["smoothing", "keep probabilities"]], "methods", set("across")) : null,
    fractions.length > 1 ? selectOf("Selected", fractions.map((value) => [value, `top ${100 * value}%`]), state.fraction, set("fraction")) : null,
    keepField, methodField,
    switchOf("Radius", [["linear", "linear"], ["log", "logarithmic"]], "linear", (value) => set("log")(value === "log")),
    switchOf("Bands", hasBootstrap ? BANDS : BANDS.filter(([name]) => name !== "bootstrap"), "guaranteed", set("band")));
  refresh();
  return make("section", { class: "panel", "aria-labelledby": `curves-${study.id}` },
    make("h3", { id: `curves-${study.id}` }, "How stable the explanations are"),
    make("p", { class: "lead" }, study.curves_lead),
    controls, make("div", { class: "legends" }, legend, keys, certificates || null), chart.figure, asTable,
    make("p", { class: "small" }, study.curves_note));
}

/** The lines that the controls ask for. */
function linesOf(study, state) {
  const many = state.kinds.size > 1;
  const kinds = distinct(study.groups.flatMap((group) => group.curves.map(kindName)));
  const smoothing = state.across === "smoothing";
  const keeps = distinct(study.groups.map((group) => group.keep_probability)).sort((a, b) => b - a);
  return study.groups.filter((group) => group.top_fraction === state.fraction
    && (smoothing ? group.method === state.method : group.keep_probability === state.keep && state.methods.has(group.method)))
    .flatMap((group) => group.curves.filter((curve) => state.kinds.has(kindName(curve)) && curve.mean.length).map((curve) => {
      const name = smoothing ? `λ = ${group.keep_probability}` : methodLabel(study, group.method);
      const band = { guaranteed: [curve.low, curve.high], bootstrap: [curve.bootstrap_low, curve.bootstrap_high] }[state.band] || [];
      return { label: many ? `${name}, ${kindName(curve)}` : name, dash: kinds.indexOf(kindName(curve)), x: study.radii, y: curve.mean,
        color: smoothing ? keeps.indexOf(group.keep_probability) % 8 : methodColor(study, group.method),
        low: band[0] || null, high: band[1] || null };
    }));
}

/** A short piece of a line, as in the chart: its colour and mark, or its dashes. */
function keyOf(color, dash = 0) {
  const name = color === null ? "hue-ink" : `hue-${color}`;
  return draw("svg", { viewBox: "0 0 34 14", class: `key line ${name}`, "aria-hidden": "true" },
    draw("path", { d: "M1 7H33", class: "stroke", "stroke-dasharray": DASHES[dash % DASHES.length] || null }),
    color === null ? null : draw("path", { d: MARKS[color % MARKS.length](17, 7), class: "marks" }));
}

// -- what is certified about the order of the methods -----------------------------------------------------

function rankingPanel(study) {
  const settings = study.rankings.map((one, i) => [i, settingName(study, one)]);
  if (!settings.length) return null;
  const place = make("div");
  const show = (i) => replaceIn(place, rankingOf(study, study.rankings[i]));
  show(0);
  return make("section", { class: "panel", "aria-labelledby": `ranking-${study.id}` },
    make("h3", { id: `ranking-${study.id}` }, "Which method is more stable"),
    make("p", { class: "lead" }, study.ranking_lead),
    settings.length > 1 ? make("div", { class: "controls" }, selectOf("Setting", settings, 0, show)) : null, place);
}

const settingName = (study, one) =>
  `top ${100 * one.top_fraction}%${one.keep_probability === 1 ? "" : `, smoothed λ = ${one.keep_probability}`}, radius ${one.radius}`;

function rankingOf(study, one) {
  const bars = one.order.map((row) => make("li", {},
    make("span", { class: "who" }, methodLabel(study, row.method)),
    rangeOf(row, methodColor(study, row.method)),
    make("span", { class: "number" }, `${percent(row.mean)} `, make("small", {}, between(row.low, row.high)))));
  const claims = one.claims.map((claim) => make("li", {}, make("strong", {}, methodLabel(study, claim.better)),
    " is more stable than ", make("strong", {}, methodLabel(study, claim.worse)),
    ` by ${points(claim.low, claim.high)} percentage points`));
  return make("div", { class: "ranking" },
    make("div", {}, make("h4", {}, `Mean rate at radius ${one.radius}, with its interval`), make("ol", { class: "bars" }, bars)),
    make("div", {}, make("h4", {}, "What is certified"),
      claims.length ? make("ul", { class: "claims" }, claims) : null, make("p", { class: "small" }, one.note)));
}

/** A mean and its interval on a line from 0 to 1. */
function rangeOf({ mean, low, high }, color) {
  return draw("svg", { viewBox: "0 0 200 16", class: `range hue-${color}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("line", { x1: 0, x2: 200, y1: 8, y2: 8, class: "track" }),
    draw("rect", { x: 200 * low, y: 4, width: Math.max(1, 200 * (high - low)), height: 8, class: "span" }),
    draw("rect", { x: 200 * mean - 1.5, y: 1, width: 3, height: 14, class: "mean" }));
}

// -- how many features each method needs --------------------------------------------------------------------

function sizesPanel(study) {
  const found = study.sizes;
  if (!found) return null;
  return make("section", { class: "panel", "aria-labelledby": `sizes-${study.id}` },
    make("h3", { id: `sizes-${study.id}` }, "How many features it takes"), make("p", { class: "lead" }, found.lead), explainedBy(found.explanation),
    tableOf("Features needed", ["method", ...found.radii.map((radius) => `radius ${radius}`)],
      found.rows.map(({ name, cells }) => [name, ...cells])));
}

// -- accuracy against the keep probability -----------------------------------------------------------------

function accuracyPanel(study) {
  const found = study.accuracy;
  if (!found) return null;
  const chart = chartOf({ title: `Accuracy by keep probability, ${study.name}`, xLabel: "keep probability λ", yLabel: "accuracy",
    frame: { height: 300 } });
  const line = { label: "accuracy", color: 0, dash: 0, x: found.keep_probabilities, y: found.accuracy, low: found.low, high: found.high };
  const sorted = found.keep_probabilities.map((_, i) => i).sort((a, b) => line.x[a] - line.x[b]);
  for (const name of ["x", "y", "low", "high"]) if (line[name]) line[name] = sorted.map((i) => line[name][i]);
  chart.show([line], { reversed: true });
  return make("section", { class: "panel", "aria-labelledby": `accuracy-${study.id}` },
    make("h3", { id: `accuracy-${study.id}` }, "What smoothing costs"),
    make("p", { class: "lead" }, found.lead), chart.figure,
    onDemand("The same as a table", () => chartTable("Accuracy by keep probability", "λ", [line])));
}
