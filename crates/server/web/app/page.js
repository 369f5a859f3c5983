// @ts-check
// What holds the page together: the session that is active, the recovery clock, alerts, the title and the icon.
import { effect, signal, untracked } from '../vendor/signals-core.js';
import { createAlerts } from './alerts.js';
import * as api from './api.js';
import * as daemon from './daemon.js';
import { createDrafts } from './drafts.js';
import { createRecovery } from './recovery.js';
import { go, pathOf, route } from './router.js';
import { SessionView } from './session.js';
import { settings } from './settings.js';
import { baseName } from './words.js';
import { add } from './queue.js';
import { clock, kept, newId, tab, writeJson } from './world.js';

export const drafts = createDrafts(kept, clock.now, newId);

/** The session that is looked at. */
export const active = signal(/** @type {SessionView | null} */ (null));

/** Which workspace the page is about; all of them when null. */
export const workspace = signal(/** @type {string | null} */ (null));

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

/** Deletes a session for good. @param {string} id */
export async function removeSession(id) {
  const report = await api.remove(id);
  const failed = report?.errors?.[0];
  if (failed) throw new Error(failed.error);
  recovery.deleted(id);
  if (active.peek()?.id === id) go('/');
  await Promise.all([daemon.refreshSessions(), daemon.refresh()]);
}

/** @param {string | null} cwd */
export function chooseWorkspace(cwd) {
  workspace.value = cwd;
  const view = active.peek();
  if (cwd === null || !view || view.workspace === cwd) return;
  // What was armed belonged to another workspace.
  recovery.workspaceChanged();
  go('/');
}

/** @param {{cwd?: string, approvalMode?: string}} how @param {string} text */
export async function startSession(how, text) {
  const made = await api.create(how);
  tab.setItem(`holdpoint.client.${made.sessionId}`, made.clientId);
  // The session's view finds it there and sends it.
  if (text.trim() !== '') writeJson(kept, `holdpoint.outbox.${made.sessionId}`, add([], { id: newId(), text, at: clock.now() }));
  void daemon.refreshSessions();
  go(pathOf(made.sessionId));
}

const alerts = createAlerts();
/** @type {Map<string, Notification>} */
const notifications = new Map();

function alertOf() {
  const all = daemon.questions.value;
  if (!all) return;
  const { raise, withdraw } = alerts.update(all.map((question) => question.questionId));
  for (const id of withdraw) {
    notifications.get(id)?.close();
    notifications.delete(id);
  }
  for (const id of raise) {
    const question = all.find((other) => other.questionId === id);
    if (!question || !settings.peek().notify || !('Notification' in window) || Notification.permission !== 'granted') continue;
    // Whoever looks at it needs no alert.
    if (document.hasFocus() && active.peek()?.id === question.sessionId) continue;
    const title = question.kind === 'permission' ? 'An agent asks for permission' : 'An agent has a question';
    try {
      const note = new Notification(title, { body: `${question.title}\n${question.sessionTitle ?? baseName(question.workspaceCwd)}`, tag: id });
      note.onclick = () => { window.focus(); go(pathOf(question.sessionId)); note.close(); };
      notifications.set(id, note);
    } catch {
      // Some phones allow them only to service workers.
    }
  }
}

/** What the icon shows now. */
let drawn = '';

/** The count in the icon. @param {number} count @param {boolean} lost */
function drawIcon(count, lost) {
  if (drawn === `${count} ${lost}`) return;
  drawn = `${count} ${lost}`;
  const link = document.querySelector('link[rel=icon]');
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 64;
  const pen = canvas.getContext('2d');
  if (!(link instanceof HTMLLinkElement) || !pen) return;
  pen.fillStyle = lost ? '#8a8f98' : count > 0 ? '#d97706' : '#2f6f5e';
  pen.beginPath();
  pen.roundRect(2, 2, 60, 60, 16);
  pen.fill();
  pen.fillStyle = '#fff';
  if (count > 0) {
    pen.font = `bold ${count > 9 ? 34 : 44}px system-ui, sans-serif`;
    pen.textAlign = 'center';
    pen.textBaseline = 'middle';
    pen.fillText(count > 99 ? '99' : String(count), 32, 35);
  } else {
    pen.fillRect(20, 18, 8, 28);
    pen.fillRect(36, 18, 8, 28);
  }
  link.href = canvas.toDataURL('image/png');
}

export function startPage() {
  drafts.tidy();
  effect(() => {
    const { value } = route;
    untracked(() => {
      const id = value.view === 'session' ? value.id : null;
      if ((active.peek()?.id ?? null) === id) return;
      leave();
      if (id === null) active.value = null;
      else enter(id);
    });
  });
  effect(alertOf);
  effect(() => {
    const count = daemon.openCount.value;
    const lost = daemon.lostSince.value !== null;
    const view = active.value;
    if (view) void view.rev.value;
    const name = view?.fold.title ? `${view.fold.title} · Holdpoint` : 'Holdpoint';
    const title = `${count > 0 ? `(${count}) ` : ''}${name}`;
    if (document.title !== title) document.title = title;
    untracked(() => drawIcon(count, lost));
  });
  /** @type {unknown} */
  let parking;
  const look = () => {
    clock.clear(parking);
    if (document.visibilityState === 'visible') active.peek()?.look();
    else parking = clock.set(() => active.peek()?.park(), PARK_MS);
  };
  document.addEventListener('visibilitychange', look);
  addEventListener('online', look);
  addEventListener('pageshow', look);
  addEventListener('pagehide', (event) => {
    if (event.persisted) return;
    recovery.close();
    active.peek()?.detach();
    for (const { view } of leaving.values()) view.detach();
  });
}
