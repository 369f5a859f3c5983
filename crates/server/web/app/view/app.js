// @ts-check
// The frame around the views.
import { useState } from '../../vendor/hooks.js';
import * as api from '../api.js';
import * as daemon from '../daemon.js';
import { html, useValue } from '../html.js';
import { active, chooseWorkspace, workspace } from '../page.js';
import { parts, partsMissing } from '../parts.js';
import { pathOf, route } from '../router.js';
import { baseName, timeOfDay } from '../words.js';
import { Icon } from './icons.js';
import { Inbox } from './inbox.js';
import { NewSession, Sessions, stateOf } from './sessions.js';
import { Settings } from './settings.js';

export function App() {
  const at = useValue(route);
  const locked = useValue(daemon.locked);
  if (locked) return html`<${Login} />`;
  return html`<div class=${`app at-${at.view}`}>
    <button type="button" class="skip" onClick=${toMain}>To the content</button>
    <${Side} at=${at} />
    ${at.view === 'inbox' && html`<${Inbox} />`}
    ${at.view === 'sessions' && html`<${Sessions} />`}
    ${at.view === 'new' && html`<${NewSession} />`}
    ${at.view === 'settings' && html`<${Settings} />`}
    ${at.view === 'session' && html`<${SessionAt} id=${at.id} />`}
  </div>`;
}

/** @param {{id: string}} props */
function SessionAt({ id }) {
  const there = useValue(parts);
  const missing = useValue(partsMissing);
  const view = useValue(active);
  if (there && view?.id === id) return html`<${there.view.Session} key=${id} view=${view} />`;
  if (!missing) return html`<main class="session" id="main"></main>`;
  return html`<main class="session" id="main"><div class="empty"><h1>This part of the page could not be loaded</h1><p>The daemon may have been updated, or be away.</p><p><button type="button" onClick=${() => location.reload()}>Load the page again</button></p></div></main>`;
}

function toMain() {
  const main = document.getElementById('main');
  if (!main) return;
  main.tabIndex = -1;
  main.focus();
}

/** @param {{at: import('../router.js').Route}} props */
function Side({ at }) {
  const open = useValue(daemon.openCount);
  const rows = useValue(daemon.sessions);
  const lost = useValue(daemon.lostSince);
  const now = useValue(daemon.now);
  const known = useValue(daemon.capabilities);
  const only = useValue(workspace);
  const questions = useValue(daemon.questions);
  const places = /** @type {{cwd: string}[]} */ (known?.workspaces ?? []);
  const here = (/** @type {boolean} */ yes) => (yes ? 'page' : undefined);
  return html`<nav class="side" aria-label="Main">
    <p class="brand"><span class="mark" aria-hidden="true"></span>Holdpoint</p>
    ${places.length > 1 && html`<label class="place"><span class="skip">Workspace</span><select value=${only ?? ''} onChange=${(/** @type {any} */ event) => chooseWorkspace(event.target.value || null)}><option value="">All workspaces</option>${places.map((place) => html`<option value=${place.cwd}>${baseName(place.cwd)}</option>`)}</select></label>`}
    <div class="links">
      <a data-in href="/" aria-current=${here(at.view === 'inbox')}><${Icon} name="inbox" /><span>Inbox</span>${open > 0 && html`<span class="badge" aria-label=${`${open} open`}>${open}</span>`}</a>
      <a data-in href="/#sessions" aria-current=${here(at.view === 'sessions')}><${Icon} name="sessions" /><span>Sessions</span></a>
      <a data-in href="/#new" aria-current=${here(at.view === 'new')}><${Icon} name="plus" /><span>New session</span></a>
      <a data-in href="/#settings" class="to-settings" aria-current=${here(at.view === 'settings')}><${Icon} name="gear" /><span>Settings</span></a>
    </div>
    <div class="recent">${rows && rows.length > 0 && html`<h2>Recent</h2>`}<ul>${rows?.filter((row) => only === null || row.workspaceCwd === only).slice(0, 40).map((row) => {
    const { tone, text } = stateOf(row, questions);
    return html`<li key=${row.sessionId}><a data-in href=${pathOf(row.sessionId)} aria-current=${here(at.view === 'session' && at.id === row.sessionId)} title=${`${row.displayName ?? ''} · ${text}`}><span class=${`dot ${tone}`} aria-hidden="true"></span><span class="title">${row.displayName || 'Untitled session'}</span>${tone === 'waits' && html`<span class="skip">waits for you</span>`}</a></li>`;
  })}</ul></div>
    <p class=${`connection${lost === null ? '' : ' lost'}`}><span class="dot" aria-hidden="true"></span>${lost === null ? 'Connected' : `Not connected since ${timeOfDay(lost, now)}`}</p>
  </nav>`;
}

function Login() {
  const [error, fail] = useState('');
  /** @param {any} event */
  const enter = async (event) => {
    event.preventDefault();
    try {
      const given = String(new FormData(event.target).get('token') ?? '');
      await api.login({ token: given, code: given });
      daemon.locked.value = false;
      location.reload();
    } catch (problem) {
      fail(api.reason(problem));
    }
  };
  return html`<main class="login" id="main"><form onSubmit=${enter}>
    <p class="brand"><span class="mark" aria-hidden="true"></span>Holdpoint</p>
    <label>Token, or a code of <code>holdpoint open</code><input name="token" type="password" autocomplete="current-password" required autofocus /></label>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    <button type="submit" class="primary">Enter</button>
  </form></main>`;
}
