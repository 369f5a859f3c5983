// @ts-check
// A session that one can work in.
import { useState } from '../../vendor/hooks.js';
import * as api from '../api.js';
import * as daemon from '../daemon.js';
import { html, useValue } from '../html.js';
import { baseName, count, timeOfDay } from '../words.js';
import { Composer } from './composer.js';
import { Dock } from './dock.js';
import { Icon } from './icons.js';
import { Transcript } from './transcript.js';

const toComposer = () => { document.getElementById('composer')?.focus(); };

/** @param {{view: import('../session.js').SessionView}} props */
export function Session({ view }) {
  const rev = useValue(view.rev);
  useValue(daemon.questions);
  const rows = useValue(daemon.sessions);
  const lost = useValue(daemon.lostSince);
  const open = useValue(daemon.openCount);
  const now = useValue(daemon.now);
  if (view.condition === 'ended' && view.why === 'gone') {
    return html`<main class="session" id="main"><div class="empty"><h1>This session is gone</h1><p>It was deleted, or the link is wrong. Its questions were closed with it.</p><p><a class="button" data-in href="/">To the inbox</a></p></div></main>`;
  }
  const row = rows?.find((one) => one.sessionId === view.id);
  const { asked, dormant } = view.items();
  const state = view.questionState();
  const { text, tone } = words({ view, asked, state, lost, now });
  const others = row ? row.clientCount - 1 : 0;
  const names = row?.clients?.map((client) => client.name || client.surface).filter(Boolean).join(', ');
  const elsewhere = open - asked.length;
  return html`<main class="session" id="main">
    <header class="top">
      <a class="icon-button back" data-in href="/" aria-label=${elsewhere > 0 ? `Back; ${count(elsewhere, 'other question')} wait` : 'Back to the inbox'}><${Icon} name="back" />${elsewhere > 0 && html`<span class="badge">${elsewhere}</span>`}</a>
      <${Title} view=${view} title=${view.fold.title || row?.displayName || (view.known ? 'Untitled session' : '')} />
      <span class="where" title=${view.workspace ?? ''}><${Icon} name="folder" />${baseName(view.workspace)}</span>
      ${view.mode && html`<span class="tag mode" title=${view.modes.find((mode) => mode.id === view.mode)?.description ?? ''}>${view.modes.find((mode) => mode.id === view.mode)?.name ?? view.mode}</span>`}
      <span class="attached" title=${names ?? ''}>${others > 0 && html`<${Icon} name="people" />${names || `${count(others, 'other')} here`}`}</span>
    </header>
    <${Transcript} view=${view} rev=${rev} />
    <div class="bottom">
      <${Dock} view=${view} asked=${asked} dormant=${dormant} toComposer=${toComposer} />
      <div class="status">
        <span class=${`words ${tone}`} role="status"><span class="dot" aria-hidden="true"></span>${text}</span>
        ${view.condition === 'ended' && html`<button type="button" onClick=${() => view.reopen()}>Open again</button>`}
        <button type="button" class="stop" disabled=${!view.fold.busy || view.stopping || view.condition !== 'live'} onClick=${() => void view.stop()}><${Icon} name="stop" />${view.stopping ? 'Stopping…' : 'Stop'}</button>
      </div>
      <${Composer} view=${view} waits=${asked.length > 0} key=${view.id} />
    </div>
  </main>`;
}

/**
 * The state in words. H10, H12.
 * @param {{view: import('../session.js').SessionView, asked: import('../session.js').Item[], state: string, lost: number | null, now: number}} about
 * @returns {{text: string, tone: string}}
 */
function words({ view, asked, state, lost, now }) {
  if (lost !== null) return { text: `Not connected since ${timeOfDay(lost, now)}. What you write is kept and sent later.`, tone: 'lost' };
  if (view.unreachable) return { text: 'A question waits, and the daemon cannot be reached.', tone: 'lost' };
  if (view.condition === 'lost') return { text: 'Connecting again…', tone: 'lost' };
  if (view.condition === 'ended') return { text: 'This session was closed. A message opens it again.', tone: 'plain' };
  if (!view.known) return { text: 'Opening…', tone: 'plain' };
  if (state === 'missingRunning') return { text: 'A question waits; fetching it…', tone: 'waits' };
  if (asked.length > 0) {
    const first = asked[0]?.kind === 'permission' ? 'The agent waits for permission' : 'The agent waits for your answer';
    return { text: asked.length > 1 ? `${first}; ${asked.length} are open` : first, tone: 'waits' };
  }
  if (view.fold.busy) return { text: 'Working', tone: 'works' };
  return { text: 'Ready', tone: 'plain' };
}

/** @param {{view: import('../session.js').SessionView, title: string}} props */
function Title({ view, title }) {
  const [editing, edit] = useState(false);
  /** @param {any} event */
  const save = async (event) => {
    event.preventDefault();
    const name = new FormData(event.target).get('title');
    edit(false);
    if (typeof name !== 'string' || name.trim() === '' || name === title) return;
    try {
      await api.rename(view.id, name.trim());
      view.fold.title = name.trim();
    } catch (error) {
      view.sendError = error instanceof api.ApiError ? error.message : 'The daemon cannot be reached.';
    }
    view.changed();
  };
  if (editing) {
    return html`<form class="title" onSubmit=${save}><input name="title" aria-label="Title of the session" value=${title} maxlength="256" ref=${(/** @type {HTMLInputElement | null} */ field) => field?.focus()} onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Escape') edit(false); }} onBlur=${() => edit(false)} /></form>`;
  }
  return html`<h1 class="title"><button type="button" title="Rename" onClick=${() => edit(true)}>${title || ' '}</button></h1>`;
}
