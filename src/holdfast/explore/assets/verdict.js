// What the model says now, next to what it says of the explanation alone: prediction, margin, a bar per class.

const MOST_BARS = 12;

/** `{ element, update(side) }`. */
function verdictOf() {
  const chip = make("p", { class: "chip" });
  const now = make("strong", { class: "now" }), alone = make("dd"), full = make("dd"), counts = make("p", { class: "small counts" });
  const margin = meterOf("margin"), bars = make("ul", { class: "scores", "aria-label": "Score of each class" });
  const element = make("div", { class: "verdict" },
    make("div", { class: "says" }, make("p", { class: "small" }, "The model now says"), now, chip),
    make("dl", { class: "others" }, make("div", {}, make("dt", {}, "of the explanation alone"), alone), make("div", {}, make("dt", {}, "of the whole input"), full)),
    counts, margin.element, bars, make("p", { class: "small tick-note" }, make("span", { class: "tick-key", "aria-hidden": "true" }), "marks the explanation alone"));
  const shown = { bars: null, widest: 0 };

  function update({ explained, now: said }) {
    if (!said) return;
    now.replaceChildren(quoted(said.prediction));
    alone.replaceChildren(quoted(explained.prediction));
    full.replaceChildren(quoted(explained.full_prediction), explained.consistent ? "" : make("span", { class: "odd" }, " ≠ the explanation"));
    chip.className = `chip ${said.agrees ? "kept" : "changed"}`;
    chip.textContent = said.agrees ? "✓ kept" : "✗ changed";
    counts.textContent = countsOf(said);
    margin.update(said.margin, explained.reference.margin);
    fillBars(bars, shown, said, explained.reference);
  }
  return { element, update };
}

function countsOf({ n_added: nAdded, n_hidden: nHidden }) {
  if (!nAdded && !nHidden) return "Only the explanation is shown.";
  const told = [nAdded ? `${plural(nAdded, "feature")} added` : null, nHidden ? `${plural(nHidden, "feature")} of the explanation hidden` : null];
  return `${told.filter(Boolean).join(", ")}.`;
}

/** A bar on a scale that grows when it must; a tick marks the explanation alone. */
function meterOf(words) {
  const value = make("b"), bar = make("span", { class: "bar-fill" }), tick = make("span", { class: "bar-tick" });
  const element = make("div", { class: "margin" }, make("span", { class: "small" }, `${words} over the next class`),
    make("span", { class: "bar-track", "aria-hidden": "true" }, bar, tick), value);
  let widest = 0;
  function update(now, reference) {
    widest = Math.max(widest, now, reference, 1e-9);
    bar.style.width = `${(100 * Math.max(0, now)) / widest}%`;
    tick.style.left = `${(100 * Math.max(0, reference)) / widest}%`;
    value.textContent = digits(now);
  }
  return { element, update };
}

const digits = (number) => (Math.abs(number) >= 100 ? number.toFixed(0) : Math.abs(number) >= 0.01 || number === 0 ? number.toFixed(2) : number.toExponential(1));

/** A row per class, in their order; of many classes those that score highest now or did before. */
function fillBars(list, shown, said, reference) {
  const wanted = classesFor(said.scores, reference.scores);
  const key = wanted.join(" ");
  if (shown.key !== key) {
    shown.key = key;
    shown.rows = wanted.map((i) => barOf(said.scores[i].class));
    replaceIn(list, shown.rows.map((row) => row.element), said.scores.length > wanted.length
      ? make("li", { class: "small" }, `and ${plural(said.scores.length - wanted.length, "class", "es")} with less`) : null);
  }
  wanted.forEach((i, place) => shown.rows[place].update(said.scores[i], reference.scores[i], i === said.class));
}

function classesFor(scores, before) {
  const all = scores.map((_, i) => i);
  if (scores.length <= MOST_BARS) return all;
  const best = (list) => [...all].sort((i, j) => list[j].share - list[i].share || i - j).slice(0, MOST_BARS / 2);
  return [...new Set([...best(scores), ...best(before)])].sort((i, j) => i - j);
}

function barOf(name) {
  const fill = make("span", { class: "bar-fill" }), tick = make("span", { class: "bar-tick" }), value = make("span", { class: "value" }), top = make("span", { class: "unseen" });
  const element = make("li", {}, quoted(name, "class-name"), make("span", { class: "bar-track", "aria-hidden": "true" }, fill, tick), value, top);
  function update(now, before, isTop) {
    element.classList.toggle("top", isTop);
    fill.style.width = `${100 * now.share}%`;
    tick.style.left = `${100 * before.share}%`;
    value.textContent = `${percent(now.share)}`;
    value.title = `score ${digits(now.score)}, ${digits(before.score)} for the explanation alone`;
    top.textContent = isTop ? ", the prediction" : "";
  }
  return { element, update };
}
