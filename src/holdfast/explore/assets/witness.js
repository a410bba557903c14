// The additions that change the prediction, one step after the other.

function witnessBlock(side) {
  const status = statusOf(), messages = make("div"), body = make("div", { hidden: true });
  const act = make("button", { type: "button", class: "act quiet", onclick: () => start() }, "Find what would change it");
  const element = make("div", { class: "witness-block" }, act, messages, status.element, body);

  function clear() {
    replaceIn(messages); replaceIn(body);
    status.show(null);
    body.hidden = true;
    act.disabled = false;
  }
  function ready(jobs) {
    if (jobs.witness) begin(rejoin(jobs.witness, hear));
  }
  function start() {
    drop(side.jobs.witness);
    clear();
    status.show("Searching …", { cancel: () => cancel(side.jobs.witness) });
    begin(startJob("witness", side.view, { max_radius: side.explained.max_radius }, hear));
  }
  function begin(job) {
    side.jobs.witness = job;
    act.disabled = true;
  }
  function hear(name, data) {
    if (name === "started") remember(side);
    tellWork(status, "Searching", name, data, () => cancel(side.jobs.witness));
    if (name === "done") finishWith(data.result);
    if (name === "failed") { status.show(null); complain(messages, data.message); }
    if (name === "cancelled") status.tell("The search was cancelled.");
    if (name === "lost") clear();
    act.disabled = !side.jobs.witness.ended;
  }
  function finishWith(result) {
    status.show(null);
    body.hidden = false;
    replaceIn(body, make("p", { class: "sentence" }, quoted(result.sentence)), explainedBy(result.explanation), result.found && result.steps.length ? stepperOf(side, result) : null);
    say(result.sentence);
  }
  return { element, clear, ready };
}

/** Step 0 is the explanation alone; each later one reveals one feature more. */
function stepperOf(side, { steps }) {
  const { explained } = side;
  const id = unique("step");
  let at = null;
  const words = make("output", { for: id });
  const slider = make("input", { type: "range", id, min: 0, max: steps.length, step: 1, value: 0, oninput: () => go(Number(slider.value)) });
  const back = toolOf("Previous", () => go(Math.max(0, (at ?? 0) - 1))), next = toolOf("Next", () => go(Math.min(steps.length, (at ?? 0) + 1)));
  const chips = steps.map((step, i) => make("li", {}, make("button", { type: "button", class: `step-chip ${step.agrees ? "keeps" : "flips"}`, onclick: () => go(i + 1) },
    make("span", {}, `${i + 1}. + `, quoted(nameOf(explained, step.added))), make("b", {}, step.agrees ? "✓ " : "✗ ", quoted(step.prediction)))));
  function go(step) {
    at = step;
    slider.value = String(step);
    words.textContent = stepWords(steps, step);
    slider.setAttribute("aria-valuetext", words.textContent);
    back.disabled = step === 0;
    next.disabled = step === steps.length;
    chips.forEach((chip, i) => { chip.firstChild.setAttribute("aria-current", String(i + 1 === step)); });
    const shown = [...explained.selected, ...steps.slice(0, step).map((one) => one.added)];
    change(side, shown, step ? steps[step - 1] : explained.reference);
  }
  words.textContent = `${plural(steps.length, "step")} to a change`;
  return make("div", { class: "stepper" }, make("div", { class: "slider" }, back, make("label", { for: id, class: "unseen" }, "Step of the witness"), slider, next), words, make("ol", { class: "step-chips" }, chips));
}

function stepWords(steps, at) {
  if (at === 0) return "The explanation alone";
  const flip = 1 + steps.findIndex((one) => !one.agrees);
  const told = at === flip ? "the prediction changes" : steps[at - 1].agrees ? "the prediction is kept" : "the prediction stays changed";
  return `Step ${at} of ${steps.length}: ${told}`;
}
