// Plain HTTP and SSE towards a daemon, with every header in the caller's hand.
import { request as httpRequest } from 'node:http';

/** How long anything may take before the suite calls it missing. Generous: the machine may be busy. */
export const PATIENCE = Number(process.env.CONFORMANCE_PATIENCE_MS ?? 45_000);

/** Looks again and again until there is something to see. */
export async function until(what, look, patience = PATIENCE) {
  const end = Date.now() + patience;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function parse(text) {
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}

/** One request; `body` is sent as JSON unless it is a string. */
export function call(base, method, path, { body, clientId, headers = {} } = {}) {
  const url = new URL(base);
  const payload = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
  const sent = { ...headers };
  if (payload !== undefined) sent['content-type'] ??= 'application/json';
  if (clientId !== undefined) sent['x-qwen-client-id'] = clientId;
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      host: url.hostname, port: url.port, method, path, headers: sent, agent: false, timeout: PATIENCE,
    }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => { text += chunk; });
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: parse(text) }));
      response.on('error', reject);
    });
    request.on('timeout', () => request.destroy(new Error(`no answer: ${method} ${path}`)));
    request.on('error', reject);
    request.end(payload);
  });
}

/** An event stream. `events` holds what has come; `wait` gives the first event, from `from` on, that fits. */
export class Stream {
  events = [];
  ended = false;
  #waiting = new Set();

  /** Subscribes. The status is there when this returns; only a 200 has events. */
  static open(base, sessionId, { cursor, epoch, clientId, query = '', headers = {}, paused = false } = {}) {
    const url = new URL(base);
    const sent = { accept: 'text/event-stream', ...headers };
    if (cursor !== undefined) sent['last-event-id'] = String(cursor);
    if (epoch !== undefined) sent['x-qwen-event-epoch'] = epoch;
    if (clientId !== undefined) sent['x-qwen-client-id'] = clientId;
    const stream = new Stream();
    return new Promise((resolve, reject) => {
      stream.request = httpRequest({
        host: url.hostname, port: url.port, path: `/session/${sessionId}/events${query}`, headers: sent, agent: false,
      }, (response) => {
        stream.status = response.statusCode;
        stream.headers = response.headers;
        stream.epoch = response.headers['x-qwen-event-epoch'];
        stream.response = response;
        let text = '';
        response.setEncoding('utf8');
        if (paused) response.pause();
        const read = (chunk) => {
          text += chunk;
          for (;;) {
            const end = text.indexOf('\n\n');
            if (end < 0) break;
            stream.#frame(text.slice(0, end));
            text = text.slice(end + 2);
          }
        };
        const over = () => {
          if (stream.status !== 200) stream.body = parse(text);
          stream.ended = true;
          for (const look of stream.#waiting) look();
          resolve(stream);
        };
        stream.resume = () => { response.on('data', read); response.resume(); };
        if (!paused) response.on('data', read);
        response.on('end', over);
        response.on('close', over);
        response.on('error', over);
        if (stream.status === 200) resolve(stream);
      });
      stream.request.on('error', reject);
      stream.request.end();
    });
  }

  #frame(block) {
    const lines = block.split('\n');
    const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5)).join('\n');
    if (data === '') {
      (this.notes ??= []).push(block);
      return;
    }
    const named = lines.find((line) => line.startsWith('event:'))?.slice(6).trim();
    const id = lines.find((line) => line.startsWith('id:'))?.slice(3).trim();
    const event = JSON.parse(data);
    this.events.push(event);
    (this.framing ??= []).push({ id, named, type: event.type, eventId: event.id });
    for (const look of this.#waiting) look();
  }

  wait(what, fits, from = 0) {
    return new Promise((resolve, reject) => {
      let at = from;
      let timer;
      const done = (act) => { clearTimeout(timer); this.#waiting.delete(look); act(); };
      const seen = () => JSON.stringify(this.events.map((event) => event.type));
      const look = () => {
        for (; at < this.events.length; at += 1) {
          const event = this.events[at];
          if (fits(event)) return done(() => resolve(event));
        }
        if (this.ended) return done(() => reject(new Error(`the stream ended before: ${what}; seen ${seen()}`)));
      };
      timer = setTimeout(() => done(() => reject(new Error(`waited in vain: ${what}; seen ${seen()}`))), PATIENCE);
      this.#waiting.add(look);
      look();
    });
  }

  type(type, from = 0) {
    return this.wait(type, (event) => event.type === type, from);
  }

  of(type) {
    return this.events.filter((event) => event.type === type);
  }

  async end() {
    await until('the stream ends', () => this.ended);
  }

  close() {
    this.request.destroy();
  }
}
