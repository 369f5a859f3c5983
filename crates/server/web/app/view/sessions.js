// @ts-check
// All sessions, and a new one.
import { useState } from '../../vendor/hooks.js';
import * as api from '../api.js';
import * as daemon from '../daemon.js';
import { html, useValue } from '../html.js';
import { removeSession, startSession, workspace } from '../page.js';
import { pathOf } from '../router.js';
import { age, baseName, timeOfDay } from '../words.js';
import { Icon } from './icons.js';

/** What a session does; the inbox knows sooner than the list what waits. @param {import('../daemon.js').SessionRow} row @param {import('../daemon.js').Question[] | undefined} questions */
export function stateOf(row, questions) {
  if (questions ? questions.some((one) => one.sessionId === row.sessionId) : row.pendingInteractionCount > 0) return { tone: 'waits', text: 'waits for you' };
  if (row.hasActivePrompt) return { tone: 'works', text: 'working' };
  return { tone: 'plain', text: row.live ? 'open' : 'stored' };
}

export function Sessions() {
  const all = useValue(daemon.allSessions);
  const now = useValue(daemon.now);
  const more = useValue(daemon.moreSessions);
  const questions = useValue(daemon.questions);
  const only = useValue(workspace);
  const [filter, setFilter] = useState('');
  const [asking, ask] = useState('');
  const [error, fail] = useState('');
  const words = filter.toLowerCase();
  const rows = all?.filter((row) => (only === null || row.workspaceCwd === only) && `${row.displayName ?? ''} ${row.workspaceCwd ?? ''}`.toLowerCase().includes(words));
  /** @param {string} id */
  const remove = async (id) => {
    ask('');
    try {
      await removeSession(id);
    } catch (problem) {
      fail(api.reason(problem));
    }
  };
  return html`<main class="list" id="main">
    <header class="top"><h1>Sessions</h1><a class="button primary" data-in href="/#new"><${Icon} name="plus" />New session</a></header>
    <div class="page">
      <input class="filter" type="search" placeholder="Filter by title or folder" aria-label="Filter sessions" value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.target.value)} />
      ${error && html`<p class="banner lost" role="alert">${error}</p>`}
      ${rows?.length === 0 && html`<div class="empty"><h2>${filter ? 'No session matches' : 'No sessions yet'}</h2></div>`}
      <ul class="rows">${rows?.map((row) => {
    const { tone, text } = stateOf(row, questions);
    return html`<li key=${row.sessionId}>
          <a data-in href=${pathOf(row.sessionId)}><span class=${`dot ${tone}`} aria-hidden="true"></span><span class="main"><span class="title">${row.displayName || 'Untitled session'}</span><span class="meta"><span class=${`state ${tone}`}>${text}</span><span title=${row.workspaceCwd ?? ''}>${baseName(row.workspaceCwd)}</span></span></span><time class="age" datetime=${row.updatedAt} title=${timeOfDay(row.updatedAt, now)}>${age(Date.parse(row.updatedAt), now)}</time></a>
          ${asking === row.sessionId
    ? html`<span class="sure"><button type="button" class="danger" onClick=${() => void remove(row.sessionId)}>Delete for good</button><button type="button" onClick=${() => ask('')}>Keep</button></span>`
    : html`<button type="button" class="icon-button delete" title="Delete" aria-label=${`Delete ${row.displayName || 'session'}`} onClick=${() => ask(row.sessionId)}><${Icon} name="trash" /></button>`}
        </li>`;
  })}</ul>
      ${more && html`<p class="more"><button type="button" onClick=${() => void daemon.olderSessions().catch((problem) => fail(api.reason(problem)))}>Older sessions</button></p>`}
    </div>
  </main>`;
}

export function NewSession() {
  const known = useValue(daemon.capabilities);
  const [cwd, setCwd] = useState('');
  const [mode, setMode] = useState('');
  const [text, setText] = useState('');
  const [error, fail] = useState('');
  const [busy, setBusy] = useState(false);
  const places = /** @type {{cwd: string}[]} */ (known?.workspaces ?? []);
  /** @param {Event} [event] */
  const start = async (event) => {
    event?.preventDefault();
    if (busy) return;
    setBusy(true);
    fail('');
    try {
      await startSession({ ...(cwd ? { cwd } : {}), ...(mode ? { approvalMode: mode } : {}) }, text.trim());
    } catch (problem) {
      fail(problem instanceof api.ApiError ? problem.message : 'The daemon cannot be reached. Nothing was started.');
      setBusy(false);
    }
  };
  return html`<main class="list" id="main">
    <header class="top"><h1>New session</h1></header>
    <form class="page new" onSubmit=${start}>
      <label>What should the agent do?<textarea rows="5" autofocus placeholder="Say it as you would to a colleague" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void start(); }}></textarea></label>
      <div class="fields">
        <label>Folder<select value=${cwd || (known?.workspaceCwd ?? '')} onChange=${(/** @type {any} */ event) => setCwd(event.target.value)}>${places.map((place) => html`<option value=${place.cwd}>${place.cwd}</option>`)}</select></label>
        <label>What runs without asking<select value=${mode} onChange=${(/** @type {any} */ event) => setMode(event.target.value)}>
          <option value="">As the daemon is set</option><option value="plan">Reads only</option><option value="default">Asks before every change</option><option value="auto-edit">Changes files, asks before commands</option><option value="yolo">Everything</option>
        </select></label>
      </div>
      ${error && html`<p class="banner lost" role="alert">${error}</p>`}
      <p class="actions"><span class="dim">Ctrl+Enter starts it</span><button type="submit" class="primary" disabled=${busy}>${busy ? 'Starting…' : 'Start'}</button></p>
    </form>
  </main>`;
}
