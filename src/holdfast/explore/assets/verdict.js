// What the model says now, next to what it says of the explanation alone: prediction, margin, a bar per class.

const MOST_BARS = 12;

/** `{ element, update(side) }`. */
function verdictOf() {
  const chip = make("p", { class: "chip" });
  const now = make("strong", { class: "now" }), alone = make("dd"), full = make("dd"), counts = make("p", { class: "small counts" });
  const margin = meterOf(), bars = make("ul", { class: "scores", "aria-label": "Share of each class" });
  const note = make("p", { class: "small tick-note" }, make("span", { class: "tick-key", "aria-hidden": "true" }), "marks the explanation alone");
  const element = make("div", { class: "verdict" },
    make("div", { class: "says" }, make("p", { class: "small" }, "The model now says"), now, chip),
    make("dl", { class: "others" }, make("div", {}, make("dt", {}, "explanation alone"), alone), make("div", {}, make("dt", {}, "whole input"), full)),
    counts, margin.element, bars, note);
  const drawn = { key: null, rows: [] };

  function update({ explained, now: said, shown }) {
    now.replaceChildren(quoted(said.prediction));
    alone.replaceChildren(quoted(explained.prediction));
    replaceIn(full, quoted(explained.full_prediction), explained.consistent ? null : make("span", { class: "odd" }, " ≠ the explanation"));
    chip.className = `chip ${said.agrees ? "kept" : "changed"}`;
    chip.textContent = said.agrees ? "✓ kept" : "✗ changed";
    counts.textContent = countsOf(explained.selected, shown);
    margin.update(said, explained);
    fillBars(bars, drawn, said, explained.reference);
    note.hidden = !said.scores.length;
  }
  /** There is no answer for what is shown: say so, rather than leave an old one. */
  function miss({ explained, shown }) {
    replaceIn(now, "no answer");
    chip.className = "chip unknown";
    chip.textContent = "? unknown";
    counts.textContent = countsOf(explained.selected, shown);
    margin.element.hidden = note.hidden = true;
    replaceIn(bars);
    drawn.key = null;
  }
  return { element, update, miss };
}

function countsOf(selected, shown) {
  const nAdded = shown.filter((i) => !selected.includes(i)).length, nHidden = selected.filter((i) => !shown.includes(i)).length;
  if (!nAdded && !nHidden) return "Only the explanation is shown.";
  const told = [nAdded ? `${plural(nAdded, "feature")} added` : null, nHidden ? `${plural(nHidden, "feature")} of the explanation hidden` : null];
  return `${told.filter(Boolean).join(", ")}.`;
}

/** By how much the class of the explanation leads: to the right of the middle it does, to the left another one does. */
function meterOf() {
  const name = make("bdi"), value = make("b"), bar = make("span", { class: "bar-fill" }), tick = make("span", { class: "bar-tick" });
  const element = make("div", { class: "margin" }, make("span", { class: "class-name" }, "lead of ", name), make("span", { class: "bar-track centred", "aria-hidden": "true" }, bar, tick), value);
  let widest = 0, scaled = null; // to the largest lead of one explanation
  function update({ margin }, { prediction, reference }) {
    element.hidden = margin === null;
    if (margin === null) return;
    if (scaled !== reference) [widest, scaled] = [0, reference];
    widest = Math.max(widest, Math.abs(margin), Math.abs(reference.margin), 1e-9);
    name.textContent = prediction;
    bar.style.left = `${50 + Math.min(0, (50 * margin) / widest)}%`;
    bar.style.width = `${(50 * Math.abs(margin)) / widest}%`;
    bar.classList.toggle("behind", margin < 0);
    tick.style.left = `${50 + (50 * reference.margin) / widest}%`;
    value.textContent = digits(margin);
  }
  return { element, update };
}

const digits = (number) => (number === null ? "unknown" : Math.abs(number) >= 100 ? number.toFixed(0) : Math.abs(number) >= 0.01 || number === 0 ? number.toFixed(2) : number.toExponential(1));

/** A row per class, in their order; of many classes those that score highest now or did before. */
function fillBars(list, drawn, said, reference) {
  const now = new Map(said.scores.map((one) => [one.class, one])), before = new Map(reference.scores.map((one) => [one.class, one]));
  const wanted = classesFor(now, before);
  const key = JSON.stringify(wanted);
  if (drawn.key !== key) {
    Object.assign(drawn, { key, rows: wanted.map(barOf) });
    replaceIn(list, drawn.rows.map((row) => row.element));
  }
  wanted.forEach((name, i) => drawn.rows[i].update(now.get(name), before.get(name), name === said.prediction));
}

function classesFor(now, before) {
  const all = [...new Set([...now.keys(), ...before.keys()])];
  if (all.length <= MOST_BARS) return all;
  const best = (scores) => [...scores.values()].sort((a, b) => b.share - a.share).slice(0, MOST_BARS / 2).map((one) => one.class);
  const chosen = new Set([...best(now), ...best(before)]);
  return all.filter((name) => chosen.has(name));
}

function barOf(name) {
  const fill = make("span", { class: "bar-fill" }), tick = make("span", { class: "bar-tick" }), value = make("span", { class: "value" }), top = make("span", { class: "unseen" });
  const element = make("li", {}, quoted(name, "class-name"), make("span", { class: "bar-track", "aria-hidden": "true" }, fill, tick), value, top);
  function update(now, before, isTop) {
    element.classList.toggle("top", isTop);
    fill.style.width = `${100 * (now?.share ?? 0)}%`;
    tick.hidden = !before;
    tick.style.left = `${100 * (before?.share ?? 0)}%`;
    value.textContent = now ? percent(now.share) : "less";
    value.title = [now ? `score ${digits(now.score)}` : null, before ? `${digits(before.score)} for the explanation alone` : null].filter(Boolean).join(", ");
    top.textContent = isTop ? ", the prediction" : "";
  }
  return { element, update };
}
