// Every input of a study in one table: searched, filtered, sorted, a page at a time.

const PAGE = 25;

function inputsPanel(study, open) {
  const table = study.table;
  if (!table.input.length) return null;
  const settings = distinct(table.groups.map((group) => JSON.stringify([group.top_fraction, group.keep_probability])));
  const state = { setting: settings[0], radius: Math.max(0, study.radii.indexOf(study.radius)), search: "", filter: "all", sort: "input", down: false, shown: PAGE };
  const body = make("tbody"), head = make("tr"), foot = make("div", { class: "foot" });
  const inGallery = new Set(study.gallery.map((entry) => entry.input));

  function refresh() {
    const groups = table.groups.filter((group) => JSON.stringify([group.top_fraction, group.keep_probability]) === state.setting);
    const columns = columnsFor(study, groups, state.radius);
    const rows = rowsOf(study, state, columns);
    replaceIn(head, columns.map((column) => headOf(column, state, refresh)));
    replaceIn(body, rows.slice(0, state.shown).map((i) => make("tr", {}, columns.map((column) => cellOf(study, column, i, inGallery, open)))));
    const count = `${plural(rows.length, "input")}${rows.length > state.shown ? `, the first ${state.shown} shown` : ""}`;
    replaceIn(foot, make("p", { role: "status" }, count), rows.length > state.shown
      ? make("button", { type: "button", onclick: () => { state.shown += 4 * PAGE; refresh(); } }, "Show more") : null);
  }
  const set = (name) => (value) => { state[name] = value; state.shown = PAGE; refresh(); };
  const searchId = unique("search");
  const hasRates = table.groups.some((group) => group.rates.length);
  const controls = make("div", { class: "controls" },
    make("div", { class: "field" }, make("label", { for: searchId }, "Search"),
      make("input", { type: "search", id: searchId, placeholder: "name, prediction or label", oninput: (event) => set("search")(event.target.value) })),
    selectOf("Show", filtersOf(study), "all", set("filter")),
    settings.length > 1 ? selectOf("Setting", settings.map((text) => [text, settingWords(JSON.parse(text))]), state.setting, set("setting")) : null,
    hasRates && study.radii.length > 1 ? selectOf("At radius", study.radii.map((radius, i) => [i, String(radius)]), state.radius, set("radius")) : null);
  refresh();
  return make("section", { class: "panel", "aria-labelledby": `inputs-${study.id}` },
    make("h3", { id: `inputs-${study.id}` }, "Every input"),
    make("p", { class: "lead" }, study.table_lead), controls,
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Every input" },
      make("table", { class: "inputs" }, make("caption", { class: "unseen" }, "Inputs, their predictions and the rates of their explanations"),
        make("thead", {}, head), body)), foot);
}

const settingWords = ([fraction, keep]) => `top ${100 * fraction}%${keep === 1 ? "" : `, smoothed λ = ${keep}`}`;

function filtersOf(study) {
  const has = (name) => study.table[name].some((value) => value !== null);
  return [["all", "all inputs"], ["unstable", "some explanation below 90%"], ["wrongly", "some explanation predicted unlike its input"],
    ...(has("right") ? [["misclassified", "misclassified"]] : []), ...(study.gallery.length ? [["gallery", "under “A closer look”"]] : [])];
}

/** What the table shows: facts of the input, then a rate per method, then the smallest witness. */
function columnsFor(study, groups, radius) {
  const table = study.table;
  const plain = (key, words) => ({ key, words, value: (i) => table[key][i], text: (i) => table[key][i] ?? "–" });
  const rates = groups.filter((group) => group.rates.length).map((group) => ({ key: `rate ${group.method}`, words: methodLabel(study, group.method), group,
    rate: true, value: (i) => group.rates[radius][i], text: (i) => percent(group.rates[radius][i]) }));
  const witnesses = groups.filter((group) => group.witness);
  const least = (i) => witnesses.reduce((best, group) => (group.witness[i] !== null && (best === null || group.witness[i] < best) ? group.witness[i] : best), null);
  return [plain("input", "#"), plain("name", "input"), plain("prediction", "predicted"),
    ...(table.label.some((label) => label !== null) ? [plain("label", "label")] : []), ...rates,
    ...(witnesses.length ? [{ key: "witness", words: "flipped by", value: least, text: (i) => least(i) ?? "–" }] : [])];
}

/** The rows that are left, in order; what is unknown comes last either way. */
function rowsOf(study, state, columns) {
  const table = study.table;
  const wanted = state.search.trim().toLowerCase();
  const shown = new Set(study.gallery.map((entry) => entry.input));
  const groups = columns.filter((column) => column.rate).map((column) => column.group);
  const tests = {
    all: () => true,
    unstable: (i) => groups.some((group) => group.rates[state.radius][i] !== null && group.rates[state.radius][i] < 0.9),
    wrongly: (i) => (groups.length ? groups : table.groups).some((group) => group.consistent[i] === 0),
    misclassified: (i) => table.right[i] === 0,
    gallery: (i) => shown.has(table.input[i]),
  };
  const matches = (i) => !wanted || [table.input[i], table.name[i], table.prediction[i], table.label[i]]
    .some((value) => value !== null && String(value).toLowerCase().includes(wanted));
  const kept = table.input.map((_, i) => i).filter((i) => tests[state.filter](i) && matches(i));
  const by = columns.find((column) => column.key === state.sort) ?? columns[0];
  return kept.sort((a, b) => compare(by.value(a), by.value(b), state.down) || a - b);
}

function compare(a, b, down) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}

function headOf(column, state, refresh) {
  const active = state.sort === column.key;
  const sort = () => { state.down = active ? !state.down : false; state.sort = column.key; refresh();
    document.querySelector(`th[data-key="${CSS.escape(column.key)}"] button:not([hidden])`)?.focus(); };
  return make("th", { scope: "col", "data-key": column.key, "aria-sort": active ? (state.down ? "descending" : "ascending") : null },
    make("button", { type: "button", class: "sort", onclick: sort }, column.words,
      make("span", { class: "arrow", "aria-hidden": "true" }, active ? (state.down ? "▼" : "▲") : "")));
}

function cellOf(study, column, i, inGallery, open) {
  const table = study.table;
  if (column.key === "name") {
    return make("td", { class: "named" }, make("button", { type: "button", class: "link", "data-input": table.input[i], onclick: () => open(table.input[i]) },
      quoted(table.name[i] ?? `input ${table.input[i]}`)), inGallery.has(table.input[i]) ? make("span", { class: "badge" }, "gallery") : null);
  }
  if (!column.rate) return make("td", { class: column.key }, quoted(column.text(i)));
  const rate = column.value(i);
  const meter = rate === null ? null : draw("svg", { viewBox: "0 0 40 6", class: "meter", "aria-hidden": "true" },
    draw("rect", { width: 40, height: 6, class: "track" }), draw("rect", { width: 40 * rate, height: 6, class: rate < 0.9 ? "low" : "high" }));
  const odd = column.group.consistent[i] === 0;
  return make("td", { class: "rate" }, column.text(i), meter,
    odd ? make("span", { class: "odd", title: "the full input is predicted differently" }, "≠", make("span", { class: "unseen" }, " predicted unlike its input")) : null);
}

/** What is known of an input that is not in the gallery. */
function briefOf(study, input) {
  const i = study.table.input.indexOf(input);
  const chart = chartOf({ title: "Stability rates of this input", xLabel: "radius", yLabel: "share kept", frame: { height: 300 } });
  const groups = study.table.groups.filter((group) => group.rates.length && group.rates[0][i] !== null);
  const keeps = distinct(groups.map((group) => group.keep_probability)), fractions = distinct(groups.map((group) => group.top_fraction));
  const lines = groups.filter((group) => group.keep_probability === keeps[0] && group.top_fraction === fractions[0]).map((group) => ({
    label: methodLabel(study, group.method), color: methodColor(study, group.method), dash: 0, x: study.radii, y: group.rates.map((rates) => rates[i]) }));
  if (lines.length) chart.show(lines, {});
  return make("div", {}, make("p", { class: "facts" }, `Predicted `, quoted(study.table.prediction[i]),
    study.table.label[i] === null ? "." : make("span", {}, ", labelled ", quoted(study.table.label[i]), ".")),
    lines.length ? chart.figure : null, lines.length ? chartTable("Rates by radius", "radius", lines) : null,
    make("p", { class: "small" }, "This page has certificates, draws and witnesses for the inputs under “A closer look” (--set n_gallery=N sets how many). The file of results has them for every input."));
}
