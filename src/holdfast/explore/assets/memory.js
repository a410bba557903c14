// What survives a reload: the view in the fragment of the address, jobs and clicks in the tab's own storage.

const FIELDS = ["model", "input", "a", "b", "fraction", "fill", "keep", "seed", "radius", "tolerance", "confidence"];
const NUMBERS = new Set(["fraction", "keep", "seed", "radius", "tolerance", "confidence"]);

function kept(name) {
  try {
    return JSON.parse(sessionStorage.getItem(`holdfast-${name}`));
  } catch {
    return null;
  }
}

function keep(name, value) {
  try { sessionStorage.setItem(`holdfast-${name}`, JSON.stringify(value)); } catch { /* not every browser keeps things */ }
}

let ownName = null;
/** A name for this tab, so that the server can be fair to all of them. */
function tabName() {
  ownName ??= kept("tab") ?? randomName();
  keep("tab", ownName);
  return ownName;
}

const randomName = () => [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** The choices that the address names; whatever else it says is left aside. */
function choicesOfAddress() {
  const found = {};
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    if (!FIELDS.includes(name)) continue;
    if (!NUMBERS.has(name)) found[name] = text;
    else if (Number.isFinite(Number(text))) found[name] = Number(text);
  }
  return found;
}

function writeAddress(choices) {
  const told = FIELDS.filter((name) => choices[name] !== null && choices[name] !== undefined).map((name) => [name, String(choices[name])]);
  history.replaceState(null, "", `#${new URLSearchParams(told)}`);
}
