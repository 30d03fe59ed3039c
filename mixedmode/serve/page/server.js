// Requests to the server. A token is kept in this tab only, and sent as a header: no cookie, so no other site can use it.

const KEY = "mixedmode-token";
let controlToken = "";

export const token = () => sessionStorage.getItem(KEY) ?? "";
export const keepToken = (value) => sessionStorage.setItem(KEY, value);
export const keepControlToken = (value) => { controlToken = value; };

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const headers = (value) => (value ? { authorization: `Bearer ${value}` } : {});

async function checked(answer) {
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text;
  try { message = JSON.parse(text).error.message; } catch { /* not JSON: a proxy answers */ }
  throw new Refused(answer.status, message || `status ${answer.status}`);
}

export async function read(path, job) {
  const separator = path.includes("?") ? "&" : "?";
  const query = job ? `${separator}job=${encodeURIComponent(job)}` : "";
  return (await checked(await fetch(`/api/v1/${path}${query}`, { headers: headers(token()) }))).json();
}

export async function control(operation, body) {
  const sent = { "content-type": "application/json", "x-mixedmode-control": "1", ...headers(controlToken || token()) };
  return (await checked(await fetch(`/api/v1/${operation}`, { method: "POST", headers: sent, body: JSON.stringify(body) }))).json();
}

// Reads Server-Sent Events until the stream ends. EventSource cannot send a header, so the lines are read here.
export async function listen(job, signal, onOpen, onEvent) {
  const query = job ? `?job=${encodeURIComponent(job)}` : "";
  const answer = await checked(await fetch(`/api/v1/events${query}`, { headers: headers(token()), signal }));
  onOpen();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const frames = text.split("\n\n");
    text = frames.pop();
    for (const frame of frames) {
      const name = /^event: (.*)$/m.exec(frame), data = /^data: (.*)$/m.exec(frame);
      if (name && data) onEvent(name[1], JSON.parse(data[1]));
    }
  }
}
