// Small tools that every part of the page uses. Data only ever become text nodes and attribute values.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners (on…) and children; texts become text nodes, never markup. */
function make(name, attributes, ...children) {
  return furnish(document.createElement(name), attributes, children);
}

/** The same for a drawing. */
function draw(name, attributes, ...children) {
  return furnish(document.createElementNS(SVG, name), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Text that came with the data: kept apart, so that its direction of writing stays its own. */
function quoted(text, name) {
  return make("bdi", { class: name }, String(text));
}

function replaceIn(place, ...children) {
  place.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

/** What a sentence rests on and what it does not say, folded away. */
function explainedBy(text) {
  return text ? make("details", { class: "explained" }, make("summary", {}, "What this says"), make("p", {}, quoted(text))) : null;
}

/** A share as a percentage; all and nothing are said only of all and nothing. */
function percent(share) {
  if (share === null || share === undefined) return "–";
  if (share < 1 && share >= 0.9995) return ">99.9%";
  if (share > 0 && share < 0.0005) return "<0.1%";
  return `${(100 * share).toFixed(1).replace(/\.0$/, "")}%`;
}
/** The ends of an interval, rounded outwards: what is shown never claims more than what is known. */
const ends = (low, high) => [Math.floor(1000 * low + 1e-6) / 1000, Math.ceil(1000 * high - 1e-6) / 1000].map(percent);
const between = (low, high) => `[${ends(low, high).join(", ")}]`;
/** The ends of a difference between rates, in percentage points: a percentage would read as a ratio. */
const points = (low, high) => [Math.floor(1000 * low + 1e-6) / 10, Math.ceil(1000 * high - 1e-6) / 10]
  .map((end) => end.toFixed(1).replace(/\.0$/, "")).join(" to ");
const whole = (number) => Math.round(number).toLocaleString("en");
const plural = (count, word, ending = "s") => `${whole(count)} ${word}${count === 1 ? "" : ending}`;

let nNames = 0;
/** A name that no other element has. */
const unique = (stem) => `${stem}-${++nNames}`;

/** Radio buttons that look like one switch. `options` are pairs [value, words]. */
function switchOf(legend, options, chosen, onChange) {
  const name = unique("switch");
  const choices = options.map(([value, words]) =>
    make("label", { class: "choice" },
      make("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onChange(value) }),
      make("span", {}, words)));
  return make("fieldset", { class: "switch" }, make("legend", {}, legend), make("div", { class: "choices" }, choices));
}

/** A drop-down list with its label. */
function selectOf(legend, options, chosen, onChange) {
  const id = unique("select");
  const list = make("select", { id, onchange: (event) => onChange(options[event.target.selectedIndex][0]) },
    options.map(([value, words]) => make("option", { selected: value === chosen }, words)));
  return make("div", { class: "field" }, make("label", { for: id }, legend), list);
}

/** What screen readers are told when something changes. */
function say(text) {
  document.getElementById("said").textContent = text;
}

/** A table with a caption; `rows` are lists of cells, the first of which names its row. */
function tableOf(caption, heads, rows) {
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    make("table", { class: "plain" }, make("caption", {}, caption),
      make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, rows.map(([first, ...rest]) =>
        make("tr", {}, make("th", { scope: "row" }, first), rest.map((cell) => make("td", {}, cell)))))));
}

/** Something that is shown when asked for, and only then made. */
function onDemand(words, build) {
  const box = make("details", {}, make("summary", {}, words));
  box.addEventListener("toggle", () => {
    if (box.open && box.children.length === 1) box.append(build());
  });
  return box;
}
