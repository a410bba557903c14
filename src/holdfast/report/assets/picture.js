// One input with some of its features marked: pixels, words, columns or passages. Selected features are blue with a
// plain outline, additions are yellow and hatched, selected features that were taken away have a broken outline, so
// that none needs its colour to be told apart.

const HIDDEN = 0, SELECTED = 1, ADDED = 2, REMOVED = 3, NOWHERE = 4;

/** What a feature is called. */
const featureName = (entry, i) => entry.feature_names?.[i] ?? `feature ${i}`;

/** What each feature is: selected, added or hidden. */
function statesOf(nFeatures, selected, added) {
  const states = new Uint8Array(nFeatures);
  for (const i of selected) states[i] = SELECTED;
  for (const i of added) states[i] = states[i] === SELECTED ? HIDDEN : ADDED;
  return states;
}

/** The input; with `states`, what is shown of it. `words` says the same to those who do not see it. */
function pictureOf(entry, states, words, size = "") {
  const picture = entry.picture;
  if (picture.kind === "image") return imageOf(picture, states, words, size);
  if (picture.kind === "text") return textOf(picture, states, words, size);
  if (picture.kind === "context") return contextOf(picture, states, words, size);
  return columnsOf(picture, states, words, size);
}

function imageOf(picture, states, words, size) {
  const frame = make("div", { class: `picture ${size}` });
  if (picture.png) {
    const small = picture.width < 64;
    frame.append(make("img", { src: picture.png, alt: words, class: small ? "pixelated" : null }));
  } else {
    frame.append(make("div", { class: "blank", role: "img", "aria-label": words }));
  }
  frame.style.aspectRatio = `${picture.width} / ${picture.height}`;
  if (states && picture.groups) frame.append(overlayOf(picture, states));
  return frame;
}

/** The feature of each pixel of the overlay, from a grid or from runs of equal pixels. */
function mapOf(picture) {
  if (picture.map) return picture.map;
  const { width, height, groups } = picture;
  const map = new Int32Array(width * height);
  if (groups.rows) {
    for (let y = 0; y < height; y++) {
      const row = Math.floor((y * groups.rows) / height) * groups.cols;
      for (let x = 0; x < width; x++) map[y * width + x] = row + Math.floor((x * groups.cols) / width);
    }
  } else {
    let at = 0;
    for (let i = 0; i < groups.runs.length; i += 2) {
      map.fill(groups.runs[i], at, at + groups.runs[i + 1]);
      at += groups.runs[i + 1];
    }
  }
  picture.map = map;
  return map;
}

function overlayOf(picture, states) {
  const scale = Math.max(1, Math.ceil(176 / Math.max(picture.width, picture.height)));
  const canvas = make("canvas", { width: picture.width * scale, height: picture.height * scale, "aria-hidden": "true" });
  paint(canvas, picture, states);
  return canvas;
}

/** Shade what each feature is; a canvas can be painted again. */
function paint(canvas, picture, states) {
  const { width, height } = canvas;
  const scale = width / picture.width;
  const map = mapOf(picture);
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const stateAt = (x, y) => {
    const feature = map[Math.floor(y / scale) * picture.width + Math.floor(x / scale)];
    return feature < 0 ? NOWHERE : states[feature];
  };
  const edge = Math.max(2, Math.round(Math.max(width, height) / 90));
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      image.data.set(shadeOf(stateAt, x, y, edge, width, height), 4 * (y * width + x));
    }
  }
  context.putImageData(image, 0, 0);
}

const BLUE = [0, 114, 178], YELLOW = [250, 200, 0], VEIL = [128, 136, 140];

function shadeOf(stateAt, x, y, edge, width, height) {
  const state = stateAt(x, y);
  if (state === NOWHERE) return [0, 0, 0, 0];
  if (state === HIDDEN) return [...VEIL, 218];
  const other = (dx, dy) => {
    const [i, j] = [x + dx, y + dy];
    return i < 0 || j < 0 || i >= width || j >= height || stateAt(i, j) !== state;
  };
  const color = state === ADDED ? YELLOW : BLUE;
  if (state === REMOVED && (x + y) % (6 * edge) < 3 * edge) return [...VEIL, 218];
  if (other(edge, 0) || other(-edge, 0) || other(0, edge) || other(0, -edge)) return [...color, 255];
  if (state === REMOVED) return [...VEIL, 218];
  if (state === ADDED && (x + y) % 8 < 3) return [...color, 200];
  return [...color, state === SELECTED ? 46 : 90];
}

const NAMES = ["hidden", "selected", "added", "removed"];

function textOf(picture, states, words, size) {
  const parts = picture.parts.map(([text, feature]) => {
    if (feature === null || !states) return text;
    const state = NAMES[states[feature]];
    if (state === "hidden") return make("span", { class: "hidden" }, text);
    const said = state === "added" ? "added: " : "";
    return make("mark", { class: state }, said ? make("span", { class: "unseen" }, said) : null, text);
  });
  const long = size === "" && picture.parts.reduce((sum, [text]) => sum + text.length, 0) > 400;
  return make("div", { class: `words ${size}`, dir: "auto", tabindex: long ? 0 : null, role: long ? "region" : null,
    "aria-label": long ? words : null }, parts);
}

function columnsOf(picture, states, words, size) {
  const shown = picture.columns.map(([name, value], i) => ({ name, value, state: states ? NAMES[states[i]] : "plain" }));
  const order = { selected: 0, added: 1, plain: 2, hidden: 3 };
  const sorted = states ? [...shown].sort((a, b) => order[a.state] - order[b.state]) : shown;
  const most = size === "small" ? 8 : size === "tiny" ? 0 : sorted.length;
  const rows = sorted.slice(0, most || sorted.filter(({ state }) => state === "added").length).map(({ name, value, state }) =>
    make("li", { class: state }, quoted(name), value === null ? null : make("b", {}, quoted(value)),
      state === "added" ? make("span", { class: "unseen" }, " (added)") : null));
  const left = sorted.length - rows.length;
  return make("ul", { class: `columns ${size}`, "aria-label": words, tabindex: size === "" ? 0 : null }, rows,
    left > 0 && size === "small" ? make("li", { class: "more" }, `and ${left} more`) : null);
}

/** A card for each passage, in a small picture for those that are shown; the question is asked of the whole context. */
function contextOf(picture, states, words, size) {
  const state = (i) => (states ? NAMES[states[i]] : "plain");
  const shown = picture.passages.map((text, i) => ({ text, i })).filter(({ i }) => size === "" || state(i) !== "hidden");
  const hidden = picture.passages.length - shown.length;
  const cards = shown.map(({ text, i }) => make("li", { class: `passage ${state(i)}` }, passageParts(picture, text, i),
    states ? make("span", { class: "tag" }, state(i)) : null));
  return make("div", { class: `context ${size}` }, states ? null : questionOf(picture),
    make("ol", { class: "passages", "aria-label": words, tabindex: size === "" ? 0 : null }, cards),
    hidden ? make("p", { class: "small" }, `${hidden} hidden`) : null);
}

const questionOf = ({ question, answer }) => make("div", { class: "asked" }, make("p", { dir: "auto" }, question),
  answer === null ? null : make("p", { class: "small" }, "Answer in the data: ", quoted(answer)));

const passageParts = (picture, text, i) => [picture.numbered ? make("b", { class: "number" }, `[${i + 1}]`) : null,
  make("span", { class: "passage-text", dir: "auto" }, text)];

/** Numbers of the features whose bits are set, from base64. */
function unpack(packed, nFeatures) {
  const bytes = atob(packed);
  const found = [];
  for (let i = 0; i < nFeatures; i++) {
    if (bytes.charCodeAt(i >> 3) & (128 >> (i & 7))) found.push(i);
  }
  return found;
}
