// @ts-check
// What holds the page together: the session that is active, alerts, the title and the icon.
import { effect, signal, untracked } from '../vendor/signals-core.js';
import { createAlerts } from './alerts.js';
import * as api from './api.js';
import * as daemon from './daemon.js';
import { createDrafts } from './drafts.js';
import { fetchParts, parts } from './parts.js';
import { add } from './queue.js';
import { go, pathOf, route } from './router.js';
import { settings } from './settings.js';
import { baseName } from './words.js';
import { clock, kept, newId, tab, writeJson } from './world.js';

export const drafts = createDrafts(kept, clock.now, newId);

/** The session that is looked at. */
export const active = signal(/** @type {import('./session.js').SessionView | null} */ (null));

/** Which workspace the page is about; all of them when null. */
export const workspace = signal(/** @type {string | null} */ (null));

/** Deletes a session for good. @param {string} id */
export async function removeSession(id) {
  const report = await api.remove(id);
  const failed = report?.errors?.[0];
  if (failed) throw new api.ApiError(409, failed);
  parts.peek()?.work.deleted(id);
  daemon.forget(id);
  if (active.peek()?.id === id) go('/');
  await Promise.all([daemon.refreshSessions(), daemon.refresh()]);
}

/** @param {string | null} cwd */
export function chooseWorkspace(cwd) {
  workspace.value = cwd;
  const view = active.peek();
  if (cwd === null || !view || view.workspace === cwd) return;
  parts.peek()?.work.workspaceChanged();
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
    const there = parts.value;
    const id = value.view === 'session' ? value.id : null;
    untracked(() => {
      if (there) there.work.show(id);
      else if (id !== null) void fetchParts();
    });
  });
  effect(alertOf);
  // Nobody could take them back later.
  addEventListener('pagehide', () => { for (const note of notifications.values()) note.close(); });
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
}
