// Requests to the server that this page comes from.

/** What went wrong, as a sentence for people. isLost: the server does not answer. */
export class Failure extends Error {
  constructor(message, { isLost = false, needsKey = false } = {}) {
    super(message);
    this.isLost = isLost;
    this.needsKey = needsKey;
  }
}

let key = null; // in memory only

export function setKey(value) {
  key = value || null;
}

async function send(path, body, signal) {
  const headers = key === null ? {} : { authorization: `Bearer ${key}` };
  const options = { signal, headers };
  if (body !== undefined) {
    const wellFormed = (name, value) => typeof value === "string" ? value.toWellFormed() : value;
    Object.assign(options, { method: "POST", body: JSON.stringify(body, wellFormed) });
    headers["content-type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The server does not answer. This page goes on as soon as it is back.", { isLost: true });
  }
  if (response.ok) return response;
  const message = await response.json().then(record => record.error.message, () => `status ${response.status}`);
  if (response.status === 401) throw new Failure("", { needsKey: true });
  throw new Failure(message[0].toUpperCase() + message.slice(1) + ".");
}

/** The JSON that the server answers. Raises Failure, or AbortError. */
export async function ask(path, body, signal) {
  return (await send(path, body, signal)).json();
}

/** The records of a stream of server-sent events, one after another. */
export async function* stream(path, body, signal) {
  const reader = (await send(path, { ...body, stream: true }, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const record = JSON.parse(data);
      if (record.error) throw new Failure(record.error.message);
      yield record;
    }
  }
}

/** Resolves when the server answers again. */
export async function isBack() {
  for (;;) {
    await new Promise(resolve => setTimeout(resolve, 1000));
    const answer = await fetch("/health").catch(() => null);
    if (answer && answer.ok) return;
  }
}
