// @ts-check
// A session that one can work in.
import { useEffect, useState } from '../../vendor/hooks.js';
import * as api from '../api.js';
import * as daemon from '../daemon.js';
import { html, useValue } from '../html.js';
import { settings } from '../settings.js';
import { baseName, count, placeOf, timeOfDay } from '../words.js';
import { Composer } from './composer.js';
import { Dock } from './dock.js';
import { Icon } from './icons.js';
import { Transcript } from './transcript.js';

/** On a phone the keyboard comes when it is asked for. */
const coarse = matchMedia('(pointer: coarse)');

/** Who else is attached. @param {daemon.SessionRow | undefined} row @param {string} own how this page names itself */
function company(row, own) {
  if (!row) return '';
  const others = [.../** @type {{name?: string, surface?: string}[]} */ (row.clients ?? [])];
  const self = others.findIndex(({ name = '', surface }) => surface === 'web' && name === own);
  // Only their number is known, and this page is one of them.
  if (self < 0) return row.clientCount > 1 ? `${count(row.clientCount - 1, 'other')} here` : '';
  others.splice(self, 1);
  const named = others.map(({ name, surface }) => name || (surface ? `somebody ${placeOf(surface)}` : 'somebody'));
  const words = [...new Set(named)].map((one) => { const n = named.filter((other) => other === one).length; return n > 1 ? `${one} (${n})` : one; });
  return words.length > 0 ? `${words.join(', ')} ${named.length > 1 ? 'are' : 'is'} here` : '';
}

const toComposer = () => { document.getElementById('composer')?.focus(); };

/** @param {{view: import('../session.js').SessionView}} props */
export function Session({ view }) {
  const rev = useValue(view.rev);
  const free = view.known && view.questionState() === 'none' && view.items().asked.length === 0;
  // Whoever comes here and has the keyboard nowhere, or at the link that led here, can write at once.
  useEffect(() => {
    const { activeElement } = document;
    if (free && !coarse.matches && (activeElement === document.body || activeElement?.closest('.side'))) toComposer();
  }, [view.known]);
  useValue(daemon.questions);
  const rows = useValue(daemon.sessions);
  const own = useValue(settings);
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
  const there = company(row, own.name.trim());
  const elsewhere = open - asked.length;
  return html`<main class="session" id="main">
    <header class="top">
      <a class="icon-button back" data-in href="/" aria-label=${elsewhere > 0 ? `Back; ${count(elsewhere, 'other question')} wait` : 'Back to the inbox'}><${Icon} name="back" />${elsewhere > 0 && html`<span class="badge">${elsewhere}</span>`}</a>
      <${Title} view=${view} title=${view.fold.title || row?.displayName || (view.known ? 'Untitled session' : '')} />
      <span class="where" title=${view.workspace ?? ''}><${Icon} name="folder" />${baseName(view.workspace)}</span>
      ${view.mode && html`<span class="tag mode" title=${view.modes.find((mode) => mode.id === view.mode)?.description ?? ''}>${view.modes.find((mode) => mode.id === view.mode)?.name ?? view.mode}</span>`}
      <span class="attached" title=${there}>${there && html`<${Icon} name="people" /><span>${there}</span>`}</span>
    </header>
    <${Transcript} view=${view} rev=${rev} />
    <div class="bottom">
      <${Dock} view=${view} asked=${asked} dormant=${dormant} toComposer=${toComposer} />
      <div class="status">
        <span class=${`words ${tone}`} role="status"><span class="dot" aria-hidden="true"></span>${text}</span>
        ${view.condition === 'ended' && html`<button type="button" onClick=${() => view.reopen()}>Open again</button>`}
        <button type="button" class="stop" disabled=${!view.fold.busy || view.stopping || view.condition !== 'live'} onClick=${() => { void view.stop(); toComposer(); }}><${Icon} name="stop" />${view.stopping ? 'Stopping…' : 'Stop'}</button>
      </div>
      <${Composer} view=${view} waits=${asked.length > 0} key=${view.id} />
    </div>
  </main>`;
}

/**
 * The state in words. H10, H12.
 * @param {{view: import('../session.js').SessionView, asked: import('../item.js').Item[], state: string, lost: number | null, now: number}} about
 * @returns {{text: string, tone: string}}
 */
function words({ view, asked, state, lost, now }) {
  if (lost !== null) return { text: `Not connected since ${timeOfDay(lost, now)}. What you write is kept and sent later.`, tone: 'lost' };
  if (view.unreachable) return { text: 'A question waits, and the daemon cannot be reached.', tone: 'lost' };
  if (view.condition === 'lost') return { text: 'Connecting again…', tone: 'lost' };
  if (view.condition === 'ended') return { text: 'This session was closed. A message opens it again.', tone: 'plain' };
  if (!view.known) return { text: 'Opening…', tone: 'plain' };
  if (state === 'missingRunning') return { text: 'A question waits; fetching it…', tone: 'waits' };
  if (view.receipt && asked.length > 0) return { text: `${view.receipt} ${asked.length === 1 ? 'One more waits.' : `${asked.length} more wait.`}`, tone: 'waits' };
  if (asked.length > 0) {
    const first = asked[0]?.kind === 'permission' ? 'The agent waits for permission' : 'The agent waits for your answer';
    return { text: asked.length > 1 ? `${asked.length} things wait for you` : first, tone: 'waits' };
  }
  if (view.receipt) return { text: view.receipt, tone: 'done' };
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
      view.sendError = api.reason(error);
    }
    view.changed();
  };
  if (editing) {
    return html`<form class="title" onSubmit=${save}><input name="title" aria-label="Title of the session" value=${title} maxlength="256" ref=${(/** @type {HTMLInputElement | null} */ field) => field?.focus()} onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Escape') edit(false); }} onBlur=${() => edit(false)} /></form>`;
  }
  return html`<h1 class="title"><button type="button" title="Rename" onClick=${() => edit(true)}>${title || ' '}</button></h1>`;
}
