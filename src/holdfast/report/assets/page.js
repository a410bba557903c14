// The page itself: reads the data, builds a panel per study, opens details, prepares for paper.

const DATA = JSON.parse(document.getElementById("data").textContent);
const shell = document.getElementById("studies");
const dialog = document.getElementById("detail");

DATA.studies.forEach((study, i) => { study.id = i; });

function studyPanel(study) {
  const open = (input, method) => openDetail(study, input, method);
  return [
    make("h2", { class: "study-title" }, quoted(study.name)),
    DATA.studies.length > 1 ? make("p", { class: "headline" }, study.headline) : null,
    explainedBy(study.headline_terms),
    study.findings.length ? make("ul", { class: "findings" }, study.findings.map((text) => make("li", {}, text))) : null,
    make("dl", { class: "facts-list" }, study.facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, quoted(value))))),
    study.notes.length ? make("ul", { class: "notes" }, study.notes.map((text) => make("li", {}, text))) : null,
    study.groups.length ? curvesPanel(study) : null, rankingPanel(study), sizesPanel(study), accuracyPanel(study), galleryPanel(study, open), inputsPanel(study, open),
    onDemand("The settings of the study", () => jsonOf(JSON.stringify(study.spec, null, 1))),
  ];
}

// -- tabs: one study at a time ------------------------------------------------------------------------------

const tabs = make("div", { role: "tablist", "aria-label": "Studies", class: "tabs" });
const panels = DATA.studies.map((study) => make("div", { role: "tabpanel", id: `panel-${study.id}`, "aria-labelledby": `tab-${study.id}`,
  class: "study", hidden: true, tabindex: -1 }));

function build(study) {
  const panel = panels[study.id];
  if (!panel.childElementCount) replaceIn(panel, studyPanel(study));
  return panel;
}

function choose(id, focus) {
  DATA.studies.forEach((study) => {
    panels[study.id].hidden = study.id !== id;
    tabs.children[study.id].setAttribute("aria-selected", String(study.id === id));
    tabs.children[study.id].tabIndex = study.id === id ? 0 : -1;
  });
  build(DATA.studies[id]);
  if (focus) tabs.children[id].focus();
}

DATA.studies.forEach((study) => tabs.append(make("button", { role: "tab", type: "button", id: `tab-${study.id}`, "aria-controls": `panel-${study.id}`,
  onclick: () => choose(study.id) }, quoted(study.name))));
tabs.addEventListener("keydown", (event) => {
  const now = [...tabs.children].indexOf(document.activeElement), last = panels.length - 1;
  const next = { ArrowRight: now === last ? 0 : now + 1, ArrowLeft: now === 0 ? last : now - 1, Home: 0, End: last }[event.key];
  if (next === undefined || now < 0) return;
  event.preventDefault();
  choose(next, true);
});
shell.append(...(DATA.studies.length > 1 ? [tabs] : []), ...panels);
if (DATA.studies.length === 1) {
  tabs.hidden = true;
  panels[0].removeAttribute("role");
  panels[0].removeAttribute("aria-labelledby");
}
choose(0);

// -- one input ------------------------------------------------------------------------------------------------

function openDetail(study, input, method) {
  const entry = study.gallery.find((one) => one.input === input);
  const i = study.table.input.indexOf(input);
  const title = entry ? entry.title : study.table.name[i] ?? `input ${input}`;
  replaceIn(dialog,
    make("div", { class: "dialog-head" }, make("h2", { id: "detail-title" }, quoted(title)),
      make("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => dialog.close() }, "×")),
    make("div", { class: "dialog-body" }, entry ? detailOf(study, entry, method) : briefOf(study, input)));
  dialog.showModal();
  dialog.scrollTop = 0;
}
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

// -- paper ---------------------------------------------------------------------------------------------------

let before = null;
addEventListener("beforeprint", () => {
  before = panels.map((panel) => panel.hidden);
  document.querySelector(".hero details").open = true;
  DATA.studies.forEach((study) => { build(study).hidden = false; });
});
addEventListener("afterprint", () => { if (before) panels.forEach((panel, i) => { panel.hidden = before[i]; }); });
document.documentElement.dataset.ready = "true";
