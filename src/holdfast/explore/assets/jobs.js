// Work that takes a while: started, heard of line by line, cancelled. A browser has six connections to one host,
// and all its tabs share them: three may be streams of events, everybody else asks now and then, hidden tabs seldom.

const STREAMS = 3;
const PAUSE = 300, HIDDEN_PAUSE = 15_000;
const ENDS = new Set(["done", "failed", "cancelled"]);

/** Start a job. `hear(name, data)` is told every event; `failed` also if the server did not take it. */
function startJob(kind, view, options, hear) {
  const job = freshJob(null, hear);
  job.ready = ask("POST", "/api/jobs", { body: { kind, view, options } })
    .then(({ job: id }) => {
      job.id = id;
      if (job.ended) return cancel(job);
      hear("started", { job: id });
      return listen(job);
    })
    .catch((error) => endBadly(job, error));
  return job;
}

/** Listen again to a job that an earlier load of this page started; `lost` if nobody knows it any more. */
function rejoin(id, hear) {
  const job = freshJob(id, hear);
  job.ready = listen(job).catch((error) => (error.status === 404 ? finish(job, "lost", {}) : endBadly(job, error)));
  return job;
}

const freshJob = (id, hear) => ({ id, hear, last: 0, ended: false, abort: new AbortController() });

function endBadly(job, error) {
  if (!job.abort.signal.aborted && !leaving) finish(job, "failed", { message: error.message });
}

function finish(job, name, data) {
  if (job.ended) return;
  job.ended = true;
  job.hear(name, data);
}

/** Ask the server to stop; the job says `cancelled` when it has. */
function cancel(job) {
  if (job?.id) ask("DELETE", `/api/jobs/${job.id}`).catch(() => {});
}

/** Stop a job that nobody wants to hear of any more. */
function drop(job) {
  if (!job || job.ended) return;
  job.ended = true;
  cancel(job);
  job.abort.abort();
}

// -- listening -------------------------------------------------------------------------------------------------

async function listen(job) {
  while (!job.ended) {
    if (document.hidden || !(await withStream(() => stream(job)))) await readAll(job, job.abort.signal, "&seconds=0");
    if (!job.ended) await rest();
  }
}

/** Do it if a stream is free, of the few that all tabs have together; say whether it was. */
async function withStream(act) {
  if (!navigator.locks) return act().then(() => true);
  for (let i = 0; i < STREAMS; i++) {
    const done = await navigator.locks.request(`holdfast-stream-${i}`, { ifAvailable: true }, (lock) => (lock ? act().then(() => true) : false));
    if (done) return true;
  }
  return false;
}

/** A while that ends when the tab is looked at again. */
const rest = () => Promise.race([pause(document.hidden ? HIDDEN_PAUSE : PAUSE),
  new Promise((resolve) => { document.addEventListener("visibilitychange", resolve, { once: true }); })]);

/** Hear events as they come, until the job ends or the tab is hidden. */
async function stream(job) {
  const own = new AbortController();
  const stop = () => own.abort();
  job.abort.signal.addEventListener("abort", stop);
  document.addEventListener("visibilitychange", stop);
  try {
    await readAll(job, own.signal, "");
  } finally {
    document.removeEventListener("visibilitychange", stop);
  }
}

/** Hear what there is to hear; a connection that breaks on the way is taken up again from there. */
async function readAll(job, signal, seconds) {
  try {
    const answer = await send("GET", `/api/jobs/${job.id}/events?after=${job.last}${seconds}`, { signal });
    await hearAll(job, answer);
  } catch (error) {
    if (error instanceof Refused) throw error;
  }
}

async function hearAll(job, answer) {
  for await (const { id, name, data } of eventsIn(answer.body)) {
    if (job.ended) return;
    if (id !== null) job.last = id;
    if (ENDS.has(name)) return finish(job, name, data);
    job.hear(name, data);
  }
}

/** Events of a body: blocks of lines `name: value`, set apart by empty lines. */
async function* eventsIn(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const event = eventOf(block);
      if (event) yield event;
    }
  }
}

function eventOf(block) {
  const fields = {};
  for (const line of block.split("\n")) {
    const found = /^(id|event|data): ?(.*)$/.exec(line);
    if (found) fields[found[1]] = found[2];
  }
  return fields.event ? { id: fields.id ?? null, name: fields.event, data: JSON.parse(fields.data ?? "{}") } : null;
}
