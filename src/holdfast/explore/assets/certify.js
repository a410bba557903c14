// How often the prediction stays: an interval that narrows look by look, and the certificate at the end.

function certifyBlock(side) {
  const status = statusOf(), bar = intervalBar(), words = make("p", { class: "live" }), sentence = make("p", { class: "sentence", hidden: true });
  const terms = make("div"), more = make("div", { class: "tools" }), messages = make("div"), trail = make("div", { class: "trail" });
  const body = make("div", { class: "certified", hidden: true }, make("div", { class: "so-far" }, bar.element, words), trail, make("div", { class: "in-words" }, sentence, terms, more));
  const element = make("div", { class: "block certify-block" }, make("h3", { class: "of-side" }), messages, status.element, body);
  const state = { looks: [], result: null, chart: null, asked: null };
  const block = { element, clear, ready, start, running: () => side.jobs.certify && !side.jobs.certify.ended, result: () => state.result };

  function clear() {
    Object.assign(state, { looks: [], result: null, chart: null });
    replaceIn(messages); replaceIn(trail); replaceIn(terms); replaceIn(more);
    status.show(null);
    body.hidden = sentence.hidden = true;
    words.hidden = false;
  }
  function ready(jobs, asked) {
    state.asked = asked;
    if (jobs.certify) begin(rejoin(jobs.certify, hear));
  }
  function start(options) {
    drop(side.jobs.certify);
    clear();
    side.blocks.exports.clear();
    state.asked = side.asked = options;
    status.show("Certifying …", { cancel: () => cancel(side.jobs.certify) });
    begin(startJob("certify", side.view, options, hear));
  }
  function begin(job) {
    side.jobs.certify = job;
    side.app.jobsChanged();
  }
  function hear(name, data) {
    if (name === "started") remember(side);
    if (name !== "progress") tellWork(status, "Certifying", name, data, () => cancel(side.jobs.certify));
    if (name === "look") look(data);
    if (name === "done") finishWith(data.result);
    if (name === "failed") { status.show(null); complain(messages, data.message); }
    if (name === "cancelled") cancelled();
    if (name === "lost") clear();
    side.app.jobsChanged();
  }
  function look(data) {
    state.looks.push(data);
    status.show("Certifying …", { share: data.n_evaluated / data.n_most, cancel: () => cancel(side.jobs.certify) });
    body.hidden = false;
    bar.show(data.low, data.high, data.rate);
    words.replaceChildren(make("b", {}, data.empty ? "nothing fits" : between(data.low, data.high)), ` so far: ${lookWords(data)}`);
    state.chart = drawTrail(trail, state);
  }
  function cancelled() {
    status.show(null);
    const last = state.looks[state.looks.length - 1];
    sentence.textContent = last ? stoppedWords(last, state.asked) : "Stopped before the first look: nothing is known.";
    body.hidden = sentence.hidden = false;
    words.hidden = !last;
    say(sentence.textContent);
  }
  function finishWith(result) {
    state.result = result;
    status.show(null);
    body.hidden = sentence.hidden = words.hidden = false;
    bar.show(result.low, result.high, result.rate);
    words.replaceChildren(make("b", {}, result.exact ? percent(result.rate) : between(result.low, result.high)), exactWords(result));
    replaceIn(sentence, quoted(result.sentence));
    replaceIn(terms, explainedBy(result.explanation));
    replaceIn(more, result.counterexample ? toolOf("Show additions that change the prediction", () => { change(side, result.counterexample); side.parts.tiles.focus(); }) : null);
    say(`Certified. ${result.sentence}`);
    side.blocks.exports.refresh();
  }
  return block;
}

function exactWords({ exact, proof }) {
  if (!exact) return " certified.";
  return proof ? " exactly: every mask was counted, none was drawn." : " exactly: every mask was tried.";
}

function lookWords({ n_agreed: nAgreed, n_evaluated: n, n_most: most, empty, exact }) {
  if (empty) return "the looks contradict each other, which happens with probability at most 1 − confidence.";
  if (exact) return `${whole(nAgreed)} of ${plural(n, "mask")} kept the prediction; all ${whole(most)} will be tried.`;
  return `${whole(nAgreed)} of ${plural(n, "draw")} kept the prediction; at most ${whole(most)} will be made.`;
}

/** What stays true when the draws are stopped: the interval holds for all looks at once, so also for the last. */
function stoppedWords(last, { radius, confidence }) {
  if (last.empty) return `Stopped after ${plural(last.n_evaluated, "draw")}, whose looks contradict each other.`;
  const [low, high] = ends(last.low, last.high);
  if (last.exact) return `Stopped after ${plural(last.n_evaluated, "mask")} of ${whole(last.n_most)}: the rate at radius ${radius} is between ${low} and ${high}.`;
  return `Stopped after ${plural(last.n_evaluated, "draw")}. The interval so far still holds, as it holds for all looks at once: with confidence ${confidence}, the rate at radius ${radius} is between ${low} and ${high}.`;
}

/** A track from 0 to 100% with the interval on it, and the rate as a tick. */
function intervalBar() {
  const span = make("span", { class: "interval-span" }), tick = make("span", { class: "interval-tick" });
  const element = make("div", { class: "interval", "aria-hidden": "true" }, make("span", { class: "interval-track" }, span, tick),
    make("span", { class: "interval-ends" }, make("span", {}, "0%"), make("span", {}, "share of additions that keep the prediction"), make("span", {}, "100%")));
  function show(low, high, rate) {
    span.style.left = `${100 * Math.min(low, high)}%`;
    span.style.width = `${Math.max(0.6, 100 * (high - low))}%`;
    tick.style.left = `${100 * rate}%`;
  }
  return { element, show };
}

/** The interval over the draws: a funnel that closes. */
function drawTrail(place, { looks, chart }) {
  const drawn = chart ?? chartOf({ title: "The interval so far, by the number of draws", xLabel: "draws", yLabel: "share kept", frame: { width: 400, height: 190, left: 60, right: 22, top: 10, bottom: 40 } });
  if (!chart) place.append(drawn.figure);
  const told = [{ n_evaluated: 0, rate: null, low: 0, high: 1 }, ...looks.filter((one) => !one.empty)];
  const line = { label: "so far", color: 0, dash: 0, x: told.map((one) => one.n_evaluated), y: told.map((one) => one.rate), low: told.map((one) => one.low), high: told.map((one) => one.high) };
  drawn.show([line], { ends: [0, Math.max(looks[looks.length - 1].n_most, told[told.length - 1].n_evaluated)] });
  return drawn;
}
