// Work that takes a while: started, heard of line by line, cancelled. A browser has few connections to one host,
// and all its tabs share them, so a tab listens to two jobs at a time and a hidden tab only asks now and then.

const STREAMS = 2;
const HIDDEN_PAUSE = 15_000;
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

const freshJob = (id, hear) => ({ id, hear, last: null, ended: false, abort: new AbortController(), stream: null });

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

let nStreams = 0;
const queue = [];

async function listen(job) {
  while (!job.ended) {
    await (document.hidden ? peek(job) : stream(job));
    if (!job.ended) await pause(200);
  }
}

/** Keep the job alive without holding a connection, until the tab is looked at again. */
async function peek(job) {
  await ask("GET", `/api/jobs/${job.id}`, { signal: job.abort.signal });
  await Promise.race([pause(HIDDEN_PAUSE), new Promise((resolve) => { document.addEventListener("visibilitychange", resolve, { once: true }); })]);
}

async function stream(job) {
  if (nStreams >= STREAMS) await new Promise((resolve) => { queue.push(resolve); });
  nStreams += 1;
  job.stream = new AbortController();
  const stop = () => job.stream?.abort();
  job.abort.signal.addEventListener("abort", stop);
  document.addEventListener("visibilitychange", stop);
  try {
    if (!job.ended) await readAll(job);
  } catch (error) {
    if (error instanceof Refused) throw error;
  } finally {
    document.removeEventListener("visibilitychange", stop);
    job.stream = null;
    nStreams -= 1;
    queue.shift()?.();
  }
}

async function readAll(job) {
  const after = job.last === null ? "" : `?after=${job.last}`;
  const answer = await send("GET", `/api/jobs/${job.id}/events${after}`, { signal: job.stream.signal });
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
