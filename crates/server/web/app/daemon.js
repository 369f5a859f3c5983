// @ts-check
// What the page knows of the daemon as a whole: whether it can be reached, what waits for people, which sessions there
// are. All of it is asked for again and again, so nothing here can stay wrong for long; events only hurry it.
import { batch, computed, signal } from '../vendor/signals-core.js';
import * as api from './api.js';
import { clock } from './world.js';

/** How often the inbox is asked for, in milliseconds: while it is looked at, and while it is not. */
const LOOK_MS = 2000;
const HIDDEN_MS = 5000;
/** The same while the daemon cannot be reached. */
const LOST_MS = 1000;
/** The wait after a refusal for asking too often, where it names none. */
const LIMITED_MS = 10_000;
/** How often the list of sessions is. */
const SESSIONS_MS = 4000;

/** @typedef {import('../../../../tests/page/types/api').components['Question'] & {toolCallId?: string, messageId?: string}} Question */
/** @typedef {import('../../../../tests/page/types/api').components['SessionRow'] & {clients?: {name?: string, surface?: string}[]}} SessionRow */

/** Since when the daemon has not answered, in milliseconds; null while it does. */
export const lostSince = signal(/** @type {number | null} */ (null));
/** Open questions and permissions, oldest first; undefined until the first answer. */
export const questions = signal(/** @type {Question[] | undefined} */ (undefined));
/** Why they cannot be told, where they cannot. */
export const inboxError = signal('');
/** Sessions of all workspaces, newest first; undefined until the first answer. */
export const sessions = signal(/** @type {SessionRow[] | undefined} */ (undefined));
/** Where older sessions of each workspace go on, once the newest are known; empty where there are none. */
const further = signal(/** @type {Map<string, string>} */ (new Map()));
/** Older sessions that were asked for. They are stored ones; what is new about them shows when they are listed anew. */
const older = signal(/** @type {SessionRow[]} */ ([]));
/** Whether there are more than are listed. */
export const moreSessions = computed(() => further.value.size > 0);
/** Those and the newest. */
export const allSessions = computed(() => {
  const newest = sessions.value;
  if (!newest || older.value.length === 0) return newest;
  const known = new Set(newest.map((row) => row.sessionId));
  return [...newest, ...older.value.filter((row) => !known.has(row.sessionId))];
});
export const capabilities = signal(/** @type {any} */ (undefined));
/** Whether the daemon wants a token first. */
export const locked = signal(false);
/** Time for ages and the like; it moves every few seconds. */
export const now = signal(clock.now());

export const openCount = computed(() => questions.value?.length ?? 0);

/** What was answered here: it leaves the inbox at once, and a list that was under way does not bring it back. @type {Set<string>} */
const over = new Set();

/** @type {Set<() => void>} */
const watchers = new Set();
/** Calls back after each reading of the inbox. @param {() => void} call */
export function onInbox(call) {
  watchers.add(call);
  return () => { watchers.delete(call); };
}

/** Rows of one session as they were read for it alone. @param {string} sessionId @param {Question[]} rows */
export function putRows(sessionId, rows) {
  const others = (questions.peek() ?? []).filter((row) => row.sessionId !== sessionId);
  put([...others, ...rows]);
}

/** @param {Question[]} rows */
function put(rows) {
  const next = rows.filter((row) => !over.has(row.questionId)).sort((one, other) => one.askedAt.localeCompare(other.askedAt));
  if (JSON.stringify(next) !== JSON.stringify(questions.peek())) questions.value = next;
  for (const call of watchers) call();
}

/** Whether a question was ended here. @param {string} questionId */
export const endedHere = (questionId) => over.has(questionId);

/** A question is over, as its answer's receipt says. @param {string} questionId */
export function done(questionId) {
  over.add(questionId);
  put(questions.peek() ?? []);
}

/** Until when not to ask, with a rate limit. */
let slowUntil = 0;

/** @type {{promise: Promise<void>, again: boolean} | undefined} */
let reading;

/** Reads the inbox now; one that is being read may be too old, and is read once more. @returns {Promise<void>} */
export function refresh() {
  if (reading) {
    reading.again = true;
    return reading.promise;
  }
  const mine = { again: false, promise: Promise.resolve() };
  reading = mine;
  mine.promise = (async () => {
    do {
      mine.again = false;
      try {
        const list = await api.questions({ state: 'open', limit: 500 });
        batch(() => {
          inboxError.value = '';
          put(list.questions);
        });
      } catch (error) {
        if (error instanceof api.ApiError && error.status === 429) slowUntil = clock.now() + (error.body.retryAfterMs ?? LIMITED_MS);
        else if (error instanceof api.ApiError) inboxError.value = error.message;
      }
    } while (mine.again);
    reading = undefined;
  })();
  return mine.promise;
}

/** @param {SessionRow} one @param {SessionRow} other */
const newestFirst = (one, other) => other.updatedAt.localeCompare(one.updatedAt);

export async function refreshSessions() {
  try {
    capabilities.value ??= await api.capabilities();
    const places = /** @type {{cwd: string}[]} */ (capabilities.value.workspaces);
    const all = await Promise.all(places.map((place) => api.sessions(place.cwd)));
    const rows = all.flatMap((list) => list.sessions).sort(newestFirst);
    batch(() => {
      // Once older ones were asked for, their cursors lead on.
      if (older.peek().length === 0) {
        const next = new Map(all.flatMap((list, index) => (list.nextCursor ? [[/** @type {{cwd: string}} */ (places[index]).cwd, list.nextCursor]] : [])));
        if (next.size > 0 || further.peek().size > 0) further.value = next;
      }
      if (JSON.stringify(rows) !== JSON.stringify(sessions.peek())) sessions.value = rows;
    });
  } catch {
    // The connection's state says it.
  }
}

/** Lists the next older sessions too. */
export async function olderSessions() {
  const pages = await Promise.all([...further.peek()].map(async ([cwd, cursor]) => ({ cwd, ...await api.sessions(cwd, cursor) })));
  batch(() => {
    further.value = new Map(pages.flatMap(({ cwd, nextCursor }) => (nextCursor ? [[cwd, nextCursor]] : [])));
    older.value = [...older.peek(), ...pages.flatMap(({ sessions: rows }) => rows)].sort(newestFirst);
  });
}

/** A session was deleted here. @param {string} id */
export function forget(id) {
  older.value = older.peek().filter((row) => row.sessionId !== id);
}

/** @param {() => Promise<void>} work @param {() => number} pause */
function again(work, pause) {
  /** @type {unknown} */
  let timer;
  const run = async () => {
    clock.clear(timer);
    await work();
    timer = clock.set(() => void run(), Math.max(pause(), slowUntil - clock.now()));
  };
  void run();
  return () => { clock.clear(timer); void run(); };
}

export function startDaemon() {
  api.onHeard((reached) => {
    if (reached) {
      if (lostSince.peek() !== null) {
        lostSince.value = null;
        capabilities.value = undefined;
        void refreshSessions();
      }
    } else {
      lostSince.value ??= clock.now();
    }
  });
  api.onRefused(() => { locked.value = true; });
  const hidden = () => document.visibilityState === 'hidden';
  const inbox = again(refresh, () => (lostSince.peek() !== null ? LOST_MS : hidden() ? HIDDEN_MS : LOOK_MS));
  const list = again(refreshSessions, () => (hidden() ? HIDDEN_MS : SESSIONS_MS));
  const look = () => { if (!hidden()) { now.value = clock.now(); inbox(); list(); } };
  document.addEventListener('visibilitychange', look);
  addEventListener('online', look);
  setInterval(() => { now.value = clock.now(); }, 5000);
}
