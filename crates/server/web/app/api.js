// @ts-check
// The daemon's routes. An answer that is not 2xx is an `ApiError`; no answer at all is a `TypeError` of fetch or a time-out.

export class ApiError extends Error {
  /** @param {number} status @param {any} body */
  constructor(status, body) {
    super(typeof body?.error === 'string' ? body.error : `the daemon answered ${status}`);
    this.status = status;
    /** @type {string | undefined} */
    this.code = body?.code;
    this.body = body ?? {};
  }
}

/** Why something was not done, in words. @param {unknown} problem */
export const reason = (problem) => (problem instanceof ApiError ? problem.message : 'The daemon cannot be reached.');

/** Longest wait for an answer, in milliseconds; a load may start an agent. */
const PATIENCE_MS = 15_000;
const LOAD_MS = 75_000;

/** Told whenever the daemon answered, or did not. @type {(reached: boolean) => void} */
let heard = () => {};
/** @param {(reached: boolean) => void} call */
export const onHeard = (call) => { heard = call; };

/** Called when the daemon wants a token. */
let refused = () => {};
/** @param {() => void} call */
export const onRefused = (call) => { refused = call; };

let clientName = '';
/** @param {string} name */
export const nameClient = (name) => { clientName = name; };

/** @param {string | undefined} clientId @returns {Record<string, string>} */
function headers(clientId) {
  return {
    'x-holdpoint-surface': 'web',
    ...(clientName ? { 'x-holdpoint-name': encodeURIComponent(clientName) } : {}),
    ...(clientId ? { 'x-qwen-client-id': clientId } : {}),
  };
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{body?: unknown, clientId?: string, patience?: number, keepalive?: boolean}} [options]
 * @returns {Promise<any>}
 */
export async function call(method, path, { body, clientId, patience = PATIENCE_MS, keepalive = false } = {}) {
  /** @type {Response} */
  let response;
  let text = '';
  try {
    response = await fetch(path, {
      method,
      headers: { ...headers(clientId), ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(patience),
      keepalive,
    });
    text = await response.text();
  } catch (error) {
    heard(false);
    throw error;
  }
  // A proxy that cannot reach the daemon is no daemon.
  heard(response.status !== 502 && response.status !== 504);
  let value;
  try {
    value = text === '' ? undefined : JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (response.status === 401) refused();
  if (!response.ok) throw new ApiError(response.status, value);
  return value;
}

const at = encodeURIComponent;

/** @param {string} id @param {string | undefined} clientId @param {number} historyPageSize */
export const load = (id, clientId, historyPageSize) => call('POST', `/session/${at(id)}/load`, { body: { historyPageSize }, clientId: clientId ?? 'web', patience: LOAD_MS });

/** @param {Record<string, string | number>} query */
export const questions = (query) => call('GET', `/questions?${new URLSearchParams(Object.entries(query).map(([key, value]) => [key, String(value)]))}`);

/** @param {string} id */
export const question = (id) => call('GET', `/questions/${at(id)}`);

/** @param {string} id @param {unknown} body @param {string} [clientId] */
export const answer = (id, body, clientId) => call('POST', `/questions/${at(id)}/answer`, { body, clientId });

/** @param {string} id @param {number} generation */
export const shown = (id, generation) => call('POST', `/questions/${at(id)}/shown`, { body: { surface: 'web', generation } });

/** @param {string} id @param {string} text @param {string} promptId @param {string} [clientId] */
export const prompt = (id, text, promptId, clientId) => call('POST', `/session/${at(id)}/prompt`, { body: { prompt: [{ type: 'text', text }], promptId }, clientId });

/** @param {string} id @param {string | undefined} clientId @param {string} [cause] */
export const cancel = (id, clientId, cause) => call('POST', `/session/${at(id)}/cancel`, { body: cause ? { cause } : {}, clientId });

/** @param {string} id @param {string} promptId @param {string} [clientId] */
export const removePrompt = (id, promptId, clientId) => call('DELETE', `/session/${at(id)}/pending-prompts/${at(promptId)}`, { clientId });

/** @param {string} id */
export const pendingPrompts = (id) => call('GET', `/session/${at(id)}/pending-prompts`);

/** @param {string} id */
export const status = (id) => call('GET', `/session/${at(id)}/status`);

/** @param {string} id @param {string} place as a query: before a record, or at a cursor */
export const olderPage = (id, place) => call('GET', `/session/${at(id)}/transcript?direction=backward&limit=200&${place}`);

/** Whether a session is stored: rejects with 404 when it is not. @param {string} id */
export const exists = (id) => call('GET', `/session/${at(id)}/transcript?direction=backward&limit=1`);

/** @param {string} cwd @param {string} [cursor] */
export const sessions = (cwd, cursor) => call('GET', `/workspace/${at(cwd)}/sessions?size=100${cursor ? `&cursor=${at(cursor)}` : ''}`);

/** @param {{cwd?: string, approvalMode?: string}} body */
export const create = (body) => call('POST', '/session', { body: { ...body, sessionScope: 'thread' }, patience: LOAD_MS });

/** @param {string} id @param {string} displayName */
export const rename = (id, displayName) => call('PATCH', `/session/${at(id)}/metadata`, { body: { displayName } });

/** @param {string} id */
export const remove = (id) => call('POST', '/sessions/delete', { body: { sessionIds: [id] } });

/** @param {string} id @param {string} clientId */
export const detach = (id, clientId) => call('POST', `/session/${at(id)}/detach`, { clientId, keepalive: true });

export const capabilities = () => call('GET', '/capabilities');

/** Exchanges the daemon's token, or a one-time code, for a cookie. @param {{token?: string, code?: string}} what */
export const login = (what) => call('POST', '/login', { body: what });

/**
 * The event stream of a session from a cursor on.
 * @param {string} id
 * @param {{lastEventId: number, epoch: string}} cursor
 * @param {string | undefined} clientId
 * @param {AbortSignal} signal
 */
export async function events(id, { lastEventId, epoch }, clientId, signal) {
  const response = await fetch(`/session/${at(id)}/events`, {
    headers: { ...headers(clientId), accept: 'text/event-stream', 'last-event-id': String(lastEventId), 'x-qwen-event-epoch': epoch },
    signal,
    cache: 'no-store',
  });
  if (!response.ok || !response.body) throw new ApiError(response.status, undefined);
  return response.body;
}
