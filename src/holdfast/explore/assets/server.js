// Requests to the server that sent the page, and what to do when it has gone. The token travels in a header.

const TOKEN = new URLSearchParams(location.search).get("token") ?? "";
const RETRY = 1500;

/** The server understood, and said no: its sentence, for people. */
class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

let leaving = false;
addEventListener("pagehide", () => { leaving = true; });
addEventListener("pageshow", () => { leaving = false; });

const headersOf = (body) => ({ "X-Holdfast-Token": TOKEN, "X-Holdfast-Tab": tabName(),
  ...(body === undefined ? {} : { "Content-Type": "application/json" }) });

/** An answer of the server. When it cannot be reached, the page says so, waits until it can, and asks again. */
async function send(verb, path, { body, signal } = {}) {
  for (;;) {
    const answer = await attempt(verb, path, body, signal);
    if (answer?.ok) return answer;
    if (answer) throw new Refused(await complaintOf(answer), answer.status);
    await returned();
  }
}

async function attempt(verb, path, body, signal) {
  try {
    return await fetch(path, { method: verb, headers: headersOf(body), signal, cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (signal?.aborted || leaving) throw error;
    return null;
  }
}

const ask = async (verb, path, options) => (await send(verb, path, options)).json();

async function complaintOf(answer) {
  try {
    return (await answer.json()).error.message;
  } catch {
    return answer.status === 403
      ? "This page belongs to an earlier start of `holdfast explore`. Open the address that it printed last."
      : `The server answered with status ${answer.status}.`;
  }
}

// -- a server that has gone ------------------------------------------------------------------------------------

let waiting = null;

/** Fulfilled as soon as the server answers again. */
function returned() {
  waiting ??= knock().finally(() => { waiting = null; });
  return waiting;
}

async function knock() {
  const box = document.getElementById("gone");
  tellGone(box, "The server does not answer. Start `holdfast explore` again; this page keeps trying.");
  for (;;) {
    await pause(RETRY);
    const answer = await attempt("GET", "/api/workbench");
    if (answer?.ok) break;
    if (answer) tellGone(box, await complaintOf(answer));
  }
  box.hidden = true;
  say("The server is back.");
}

function tellGone(box, words) {
  if (!box.hidden && box.textContent === words) return;
  box.textContent = words;
  box.hidden = false;
}

const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
