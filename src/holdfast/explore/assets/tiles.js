// The input as something to click on: every patch, word, column or passage is a button that shows or hides it. One of them can
// be reached with Tab, the others from there with the arrow keys.

const STATE_WORDS = ["hidden", "shown, part of the explanation", "shown, added", "hidden, part of the explanation"];

/** What each feature is, given what is selected and what is shown. */
function statesNow(nFeatures, selected, shown) {
  const states = new Uint8Array(nFeatures);
  for (const i of selected) states[i] = REMOVED;
  for (const i of shown) states[i] = states[i] === REMOVED ? SELECTED : ADDED;
  return states;
}

/** `{ element, update(states), focus() }` of an explained input; `toggle(feature)` is told what was clicked. */
function tilesOf(explained, words, toggle) {
  const picture = explained.picture;
  const kinds = { text: wordTiles, context: passageTiles };
  const build = picture.kind === "image" && picture.groups ? imageTiles : kinds[picture.kind] ?? columnTiles;
  const { element, buttons, repaint } = build(explained, words, toggle);
  rove(element, buttons, picture.kind === "text");
  function update(states) {
    repaint?.(states);
    for (const [i, button] of buttons) dress(button, explained, i, states[i]);
  }
  return { element, update, focus: () => element.querySelector("[tabindex='0']")?.focus() };
}

function dress(button, explained, i, state) {
  button.setAttribute("aria-pressed", String(state === SELECTED || state === ADDED));
  button.setAttribute("aria-label", `${nameOf(explained, i)}, ${STATE_WORDS[state]}`);
  button.dataset.state = NAMES[state];
}

/** What a feature is called, and where it is or what it holds. */
function nameOf(explained, i) {
  const { picture } = explained;
  if (picture.kind === "image" && picture.groups?.cols) {
    return `patch in row ${1 + Math.floor(i / picture.groups.cols)}, column ${1 + (i % picture.groups.cols)}`;
  }
  if (picture.kind === "context") return picture.numbered ? `passage ${i + 1}: ${picture.passages[i]}` : picture.passages[i];
  const name = featureName(explained, i);
  return picture.kind === "table" && picture.columns[i]?.[1] != null ? `${name} = ${picture.columns[i][1]}` : name;
}

const tileOf = (i, toggle, ...children) => make("button", { type: "button", class: "tile", "data-feature": i, tabindex: -1, onclick: () => toggle(i) }, ...children);

// -- patches and segments --------------------------------------------------------------------------------------

function imageTiles(explained, words, toggle) {
  const { picture } = explained;
  const map = mapOf(picture);
  const scale = Math.max(1, Math.ceil(352 / Math.max(picture.width, picture.height)));
  const canvas = make("canvas", { width: picture.width * scale, height: picture.height * scale, "aria-hidden": "true" });
  const frame = make("div", { class: `picture tiles ${picture.groups.cols ? "regular" : "odd-shaped"}`, role: "group", "aria-label": words },
    make("img", { src: picture.png, alt: "", class: picture.width < 64 ? "pixelated" : null }), canvas);
  frame.style.aspectRatio = `${picture.width} / ${picture.height}`;
  const buttons = new Map([...boxesOf(picture, map)].sort(([i], [j]) => i - j).map(([i, box]) => [i, placed(tileOf(i, toggle), box, picture)]));
  frame.append(...buttons.values());
  if (!picture.groups.cols) {
    frame.addEventListener("click", (event) => {
      const feature = featureAt(event, frame, picture, map);
      if (event.target.tagName !== "BUTTON" && feature >= 0) { toggle(feature); buttons.get(feature).focus(); }
    });
  }
  return { element: frame, buttons, repaint: (states) => paint(canvas, picture, states) };
}

/** The smallest box around each feature: left, top, right, bottom, in pixels. */
function boxesOf(picture, map) {
  const boxes = new Map();
  map.forEach((feature, at) => {
    if (feature < 0) return;
    const [x, y] = [at % picture.width, Math.floor(at / picture.width)];
    const [left, top, right, bottom] = boxes.get(feature) ?? [x, y, x, y];
    boxes.set(feature, [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)]);
  });
  return boxes;
}

function placed(button, [left, top, right, bottom], { width, height }) {
  const share = (value, whole) => `${(100 * value) / whole}%`;
  Object.assign(button.style, { left: share(left, width), top: share(top, height), width: share(right + 1 - left, width), height: share(bottom + 1 - top, height) });
  return button;
}

function featureAt(event, frame, picture, map) {
  const area = frame.getBoundingClientRect();
  const at = (value, size, pixels) => Math.max(0, Math.min(pixels - 1, Math.floor((value / size) * pixels)));
  return map[at(event.clientY - area.top, area.height, picture.height) * picture.width + at(event.clientX - area.left, area.width, picture.width)];
}

// -- words and columns -----------------------------------------------------------------------------------------

function wordTiles(explained, words, toggle) {
  const buttons = new Map();
  const parts = explained.picture.parts.map(([text, feature]) => {
    if (feature === null) return make("span", { class: "between" }, text);
    const button = tileOf(feature, toggle, quoted(text));
    buttons.set(feature, button);
    return button;
  });
  const unseen = explained.n_features - buttons.size;
  const note = unseen > 0 ? make("p", { class: "small" }, `The text is long: ${plural(unseen, "feature")} not shown here.`) : null;
  const element = make("div", { class: "tiles" }, make("div", { class: "words", dir: "auto", role: "group", "aria-label": words }, parts), note);
  return { element, buttons };
}

function columnTiles(explained, words, toggle) {
  const columns = explained.picture.columns ?? Array.from({ length: explained.n_features }, (_, i) => [nameOf(explained, i), null]);
  const buttons = new Map(columns.map(([name, value], i) => [i, tileOf(i, toggle, quoted(name), value === null ? null : make("b", {}, quoted(value)))]));
  return { element: make("div", { class: "tiles column-tiles", role: "group", "aria-label": words }, ...buttons.values()), buttons };
}

function passageTiles(explained, words, toggle) {
  const { picture } = explained;
  const buttons = new Map(picture.passages.map((text, i) => [i, tileOf(i, toggle, passageParts(picture, text, i))]));
  for (const button of buttons.values()) button.classList.add("passage");
  const list = make("div", { class: "passages", role: "group", "aria-label": words }, ...buttons.values());
  return { element: make("div", { class: "tiles context-tiles" }, questionOf(picture), list), buttons };
}

// -- keys ------------------------------------------------------------------------------------------------------

/** One stop for Tab; arrows go to the nearest neighbour in their direction, along the text for words. */
function rove(element, buttons, inLine) {
  const all = [...buttons.values()];
  if (!all.length) return;
  all[0].tabIndex = 0;
  element.addEventListener("focusin", (event) => {
    if (!all.includes(event.target)) return;
    for (const one of all) one.tabIndex = one === event.target ? 0 : -1;
  });
  element.addEventListener("keydown", (event) => {
    const next = all.includes(event.target) ? nextTile(all, event.target, event.key, inLine) : null;
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
}

function nextTile(all, from, key, inLine) {
  const at = all.indexOf(from);
  if (key === "Home") return all[0];
  if (key === "End") return all[all.length - 1];
  if (inLine && key === "ArrowRight") return all[at + 1];
  if (inLine && key === "ArrowLeft") return all[at - 1];
  const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key];
  return way ? nearest(all, from, way) : null;
}

function nearest(all, from, [dx, dy]) {
  const middle = (one) => { const box = one.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; };
  const [x, y] = middle(from);
  let [best, least] = [null, Infinity];
  for (const one of all) {
    const [a, b] = middle(one).map((value, i) => value - [x, y][i]);
    const [along, across] = dx ? [a * dx, Math.abs(b)] : [b * dy, Math.abs(a)];
    const cost = along + 3 * across;
    if (along > 1 && cost < least) [best, least] = [one, cost];
  }
  return best;
}
