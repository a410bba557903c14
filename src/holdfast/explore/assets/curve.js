// The rate at several radii, one line per method.

const MOST_RADII = 10;

/** At most ten radii from 1 to the largest, both among them. */
function radiiUpTo(most) {
  const n = Math.max(1, Math.min(MOST_RADII, most));
  return [...new Set(Array.from({ length: n }, (_, i) => (n > 1 ? Math.round(1 + (i * (most - 1)) / (n - 1)) : 1)))];
}

function curveBlock(side) {
  const status = statusOf(), messages = make("div"), sentence = make("div", { class: "small", hidden: true });
  const element = make("div", { class: "block", hidden: true }, make("h3", { class: "of-side" }), messages, status.element, sentence);
  const state = { result: null };

  function clear() {
    state.result = null;
    replaceIn(messages);
    status.show(null);
    sentence.hidden = element.hidden = true;
    side.app.drawCurves?.();
  }
  function ready(jobs) {
    if (jobs.curve) begin(rejoin(jobs.curve, hear));
  }
  function start({ tolerance, confidence }) {
    drop(side.jobs.curve);
    clear();
    status.show("Certifying every radius …", { cancel: () => cancel(side.jobs.curve) });
    begin(startJob("curve", side.view, { radii: radiiUpTo(side.explained.max_radius), tolerance, confidence }, hear));
  }
  function begin(job) {
    side.jobs.curve = job;
    element.hidden = false;
    side.app.jobsChanged();
  }
  function hear(name, data) {
    if (name === "started") remember(side);
    tellWork(status, "Certifying every radius", name, data, () => cancel(side.jobs.curve));
    if (name === "done") finishWith(data.result);
    if (name === "failed") { status.show(null); complain(messages, data.message); }
    if (name === "cancelled") status.tell("The curve was cancelled.");
    if (name === "lost") clear();
    side.app.jobsChanged();
  }
  function finishWith(result) {
    state.result = result;
    status.show(null);
    sentence.hidden = false;
    replaceIn(sentence, make("p", {}, quoted(result.sentence)), explainedBy(result.explanation));
    side.app.drawCurves();
  }
  return { element, clear, ready, start, running: () => side.jobs.curve && !side.jobs.curve.ended, line: () => lineFor(side, state.result) };
}

function lineFor(side, result) {
  if (!result) return null;
  return { label: side.parts.title.textContent, color: side.place ? 1 : 0, dash: side.place, x: result.radii, y: result.rates, low: result.low, high: result.high };
}
