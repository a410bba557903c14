// Lines over radii or keep probabilities, drawn as SVG: axes, bands, markers, and a guide that follows
// the pointer or the arrow keys and says what it passes.

const FRAME = innerWidth < 600
  ? { width: 400, height: 300, left: 60, right: 22, top: 12, bottom: 44 }
  : { width: 760, height: 380, left: 64, right: 18, top: 16, bottom: 46 };
const DASHES = ["", "7 4", "2 3", "10 3 2 3", "5 2 1 2 1 2"];
const MARKS = [
  (x, y) => `M${x - 3.5} ${y}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0`,
  (x, y) => `M${x - 3.2} ${y - 3.2}h6.4v6.4h-6.4z`,
  (x, y) => `M${x} ${y - 4.2}l4.2 7.4h-8.4z`,
  (x, y) => `M${x} ${y - 4.6}l4.6 4.6l-4.6 4.6l-4.6 -4.6z`,
  (x, y) => `M${x} ${y + 4.2}l4.2 -7.4h-8.4z`,
  (x, y) => `M${x - 4} ${y - 1.2}h2.8v-2.8h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8z`,
];

/**
 * A chart that can be drawn again with other lines.
 *
 * A line has `label`, `color` (an index of the palette), `dash`, `x`, `y` (null where it is not known), and `low` and `high` for a band.
 */
function chartOf({ title, xLabel, yLabel, frame = FRAME }) {
  const box = { ...FRAME, ...frame };
  const svg = draw("svg", { viewBox: `0 0 ${box.width} ${box.height}`, class: "chart", tabindex: 0, role: "group",
    "aria-roledescription": "chart", "aria-label": `${title}. Left and right arrow keys read the values.` });
  const told = make("div", { class: "told", "aria-hidden": "true", hidden: true });
  const figure = make("div", { class: "figure" }, svg, told);
  let state = null;
  let at = null;

  function show(lines, options) {
    const values = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    state = { lines, values, ...scalesOf(values, { log: false, reversed: false, ...options }, box) };
    at = null;
    svg.replaceChildren(...axesOf(state, box, xLabel, yLabel), ...lines.map((line) => bandOf(line, state)),
      ...lines.map((line) => lineOf(line, state)), draw("g", { class: "guide" }));
    told.hidden = true;
  }

  function point(index) {
    if (!state || !state.values.length) return;
    at = Math.max(0, Math.min(state.values.length - 1, index));
    const value = state.values[at];
    const found = state.lines.map((line) => [line, line.x.indexOf(value)]).filter(([, i]) => i >= 0);
    const guide = svg.querySelector(".guide");
    guide.replaceChildren(
      draw("line", { x1: state.x(value), x2: state.x(value), y1: box.top, y2: box.height - box.bottom }),
      ...found.filter(([line, i]) => line.y[i] !== null).map(([line, i]) => draw("circle", { cx: state.x(value), cy: state.y(line.y[i]), r: 6, class: `hue-${line.color}` })));
    const rows = found.map(([line, i]) => [line, valueText(line, i)]);
    replaceIn(told, make("strong", {}, `${xLabel} ${value}`), rows.map(([line, text]) =>
      make("div", {}, make("span", { class: `swatch hue-${line.color}` }), `${line.label} `, make("b", {}, text))));
    told.hidden = false;
    placeBeside(told, svg, state.x(value) / box.width);
    return `${xLabel} ${value}: ${rows.map(([line, text]) => `${line.label} ${text}`).join("; ")}`;
  }

  const follow = (event) => {
    if (!state) return;
    const area = svg.getBoundingClientRect();
    const wanted = ((event.clientX - area.left) / area.width) * box.width;
    const gaps = state.values.map((value) => Math.abs(state.x(value) - wanted));
    point(gaps.indexOf(Math.min(...gaps)));
  };
  for (const name of ["pointermove", "pointerdown"]) svg.addEventListener(name, follow);
  const leave = () => { told.hidden = true; svg.querySelector(".guide")?.replaceChildren(); };
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const last = state.values.length - 1;
    const next = { ArrowRight: at === null ? 0 : at + 1, ArrowLeft: at === null ? last : at - 1, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    say(point(next));
  });
  return { figure, show };
}

function placeBeside(told, svg, share) {
  const left = share > 0.55;
  told.style.left = left ? "" : `calc(${100 * share}% + 14px)`;
  told.style.right = left ? `calc(${100 * (1 - share)}% + 14px)` : "";
}

function valueText(line, i) {
  const band = line.low ? ` ${between(line.low[i], line.high[i])}` : "";
  return `${percent(line.y[i])}${band}`;
}

/** Positions of values: radii on a line or by their logarithm, rates from 0 to 1; `ends` where the values are yet to come. */
function scalesOf(values, { log, reversed, ends }, box) {
  const place = (value) => (log ? Math.log(Math.max(value, 0.5)) : value);
  const [first, last] = (ends ?? [values[0] ?? 0, values[values.length - 1] ?? 1]).map(place);
  const span = last > first ? last - first : 1;
  const share = (value) => (last > first ? (place(value) - first) / span : 0.5);
  const inner = box.width - box.left - box.right;
  return {
    x: (value) => box.left + inner * (reversed ? 1 - share(value) : share(value)),
    y: (rate) => box.top + (1 - rate) * (box.height - box.top - box.bottom),
  };
}

function axesOf({ x, y, values }, box, xLabel, yLabel) {
  const floor = box.height - box.bottom;
  const parts = [0, 0.25, 0.5, 0.75, 1].flatMap((rate) => [
    draw("line", { x1: box.left, x2: box.width - box.right, y1: y(rate), y2: y(rate), class: rate ? "grid" : "axis" }),
    draw("text", { x: box.left - 8, y: y(rate) + 4, "text-anchor": "end", class: "tick" }, `${100 * rate}%`),
  ]);
  let edge = -Infinity;
  for (const value of [...values].sort((a, b) => x(a) - x(b))) {
    parts.push(draw("line", { x1: x(value), x2: x(value), y1: floor, y2: floor + 4, class: "axis" }));
    if (x(value) - edge < 30) continue;
    edge = x(value);
    parts.push(draw("text", { x: x(value), y: floor + 18, "text-anchor": "middle", class: "tick" }, String(value)));
  }
  const middle = (box.left + box.width - box.right) / 2;
  parts.push(draw("text", { x: middle, y: box.height - 6, "text-anchor": "middle", class: "name" }, xLabel));
  const turn = `rotate(-90 12 ${(box.top + floor) / 2})`;
  parts.push(draw("text", { x: 12, y: (box.top + floor) / 2, "text-anchor": "middle", class: "name", transform: turn }, yLabel));
  return parts;
}

function bandOf(line, { x, y }) {
  if (!line.low) return draw("g");
  const up = line.x.map((value, i) => `${x(value)} ${y(line.high[i])}`);
  const down = line.x.map((value, i) => `${x(value)} ${y(line.low[i])}`).reverse();
  if (line.x.length === 1) {
    return draw("line", { x1: x(line.x[0]), x2: x(line.x[0]), y1: y(line.low[0]), y2: y(line.high[0]), class: `bar hue-${line.color}` });
  }
  return draw("path", { d: `M${[...up, ...down].join("L")}Z`, class: `band hue-${line.color}` });
}

function lineOf(line, { x, y }) {
  const known = line.x.map((value, i) => [x(value), line.y[i]]).filter(([, rate]) => rate !== null).map(([at, rate]) => [at, y(rate)]);
  const d = known.length ? `M${known.map((point) => point.join(" ")).join("L")}` : null;
  const marks = known.map(([at, height]) => MARKS[line.color % MARKS.length](at, height)).join("");
  const dash = DASHES[line.dash % DASHES.length];
  return draw("g", { class: `line hue-${line.color}`, "data-line": line.label },
    draw("path", { d, class: "stroke", "stroke-dasharray": dash || null }), draw("path", { d: marks, class: "marks" }));
}

/** The lines of a chart as a table, for those who would rather read. */
function chartTable(caption, xLabel, lines) {
  const values = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const cell = (line, value) => (line.x.includes(value) ? valueText(line, line.x.indexOf(value)).replace(", ", ",\u00a0") : "–"); // no interval over two lines
  return tableOf(caption, [xLabel, ...lines.map((line) => line.label)],
    values.map((value) => [String(value), ...lines.map((line) => cell(line, value))]));
}
