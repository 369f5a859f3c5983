// @ts-check
// The session that is looked at: coming to it, leaving it, and the recovery clock over all that were visited.
import * as api from './api.js';
import * as daemon from './daemon.js';
import { active } from './page.js';
import { createRecovery } from './recovery.js';
import { SessionView } from './session.js';
import { clock } from './world.js';

/** Sessions that were left a moment ago: how their questions stood, for their timers. @type {Map<string, import('./snapshot.js').QuestionState>} */
const left = new Map();

/** @param {string} id */
const viewOf = (id) => { const view = active.peek(); return view?.id === id ? view : undefined; };

const recovery = createRecovery({
  clock,
  state: (id) => viewOf(id)?.questionState() ?? left.get(id) ?? 'none',
  busy: (id) => viewOf(id)?.fold.busy ?? true,
  active: () => ({ sessionId: active.peek()?.id ?? null, workspace: active.peek()?.workspace ?? null }),
  list: async (id) => {
    // An answer that the agent does not have yet covers its call: the result is on the way.
    const [open, undelivered] = await Promise.all([
      api.questions({ state: 'open', session: id, limit: 500 }),
      api.questions({ state: 'undelivered', session: id, limit: 500 }),
    ]);
    return { rows: /** @type {import('./daemon.js').Question[]} */ (open.questions), delivering: /** @type {import('./daemon.js').Question[]} */ (undelivered.questions) };
  },
  covered: (id, list) => viewOf(id)?.covered(list) ?? true,
  write: (id, list) => daemon.putRows(id, list.rows),
  halt: async (id) => {
    await api.cancel(id, viewOf(id)?.clientId, 'unreachable_question');
  },
  warn: (message, detail) => console.warn(message, detail),
  say: (id, unreachable) => {
    const view = viewOf(id);
    if (view) {
      view.unreachable = unreachable;
      view.changed();
    }
  },
});

/** @param {SessionView} view */
function changed(view) {
  if (view.condition === 'ended' && view.why === 'gone') {
    recovery.deleted(view.id);
    return;
  }
  if (view.known && active.peek() === view) recovery.observe(view.id, view.questionState());
}

/** How long a session that was left stays attached, in milliseconds: coming back soon finds it as it was. */
const DETACH_MS = 30_000;
/** How long a tab that nobody looks at keeps its stream, in milliseconds. */
const PARK_MS = 60_000;
/** @type {Map<string, {view: SessionView, timer: unknown}>} */
const leaving = new Map();

function leave() {
  const view = active.peek();
  if (!view) return;
  left.set(view.id, view.known ? view.questionState() : 'none');
  view.close();
  const timer = clock.set(() => { leaving.delete(view.id); view.detach(); }, DETACH_MS);
  leaving.set(view.id, { view, timer });
}

/** @param {string} id */
function enter(id) {
  left.delete(id);
  const before = leaving.get(id);
  if (before) {
    clock.clear(before.timer);
    leaving.delete(id);
  }
  recovery.comeBack(id);
  const view = new SessionView(id, changed);
  view.loads = before?.view.loads ?? 0;
  active.value = view;
  view.start();
}

/** Shows a session, or none. @param {string | null} id */
export function show(id) {
  if ((active.peek()?.id ?? null) === id) return;
  leave();
  if (id === null) active.value = null;
  else enter(id);
}

/** A session was deleted here. @param {string} id */
export const deleted = (id) => recovery.deleted(id);

/** What was armed belonged to another workspace. */
export const workspaceChanged = () => recovery.workspaceChanged();

/** @type {unknown} */
let parking;

function look() {
  clock.clear(parking);
  if (document.visibilityState === 'visible') active.peek()?.look();
  else parking = clock.set(() => active.peek()?.park(), PARK_MS);
}
document.addEventListener('visibilitychange', look);
addEventListener('online', look);
addEventListener('pageshow', look);
addEventListener('pagehide', (event) => {
  if (event.persisted) return;
  recovery.close();
  active.peek()?.detach();
  for (const { view } of leaving.values()) view.detach();
});
