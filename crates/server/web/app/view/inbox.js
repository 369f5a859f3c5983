// @ts-check
// Everything that waits for a person, oldest first.
import { useEffect, useRef, useState } from '../../vendor/hooks.js';
import * as daemon from '../daemon.js';
import { receiptInWords, touched } from '../form.js';
import { html, useValue } from '../html.js';
import { itemOf } from '../item.js';
import { drafts, workspace } from '../page.js';
import { pathOf } from '../router.js';
import { tellShown } from '../shown.js';
import { age, baseName, placeOf, timeOfDay } from '../words.js';
import { Form, endOf } from './form.js';
import { Icon } from './icons.js';

export function Inbox() {
  const all = useValue(daemon.questions);
  const error = useValue(daemon.inboxError);
  const lost = useValue(daemon.lostSince);
  const now = useValue(daemon.now);
  const only = useValue(workspace);
  const [chosen, choose] = useState(/** @type {string | null} */ (null));
  const [notice, say] = useState({ text: '', path: '', stays: false });
  useEffect(() => {
    if (notice.text === '' || notice.stays) return undefined;
    const timer = setTimeout(() => say({ text: '', path: '', stays: false }), 8000);
    return () => clearTimeout(timer);
  }, [notice]);
  const rows = all?.filter((row) => only === null || row.workspaceCwd === only);
  const open = rows?.some((row) => row.questionId === chosen) ? chosen : chosen === '' ? '' : (rows?.[0]?.questionId ?? '');
  // A form that somebody was filling in does not go without a word.
  const before = useRef(/** @type {daemon.Question[]} */ ([]));
  useEffect(() => {
    const gone = before.current.find((row) => !all?.some((one) => one.questionId === row.questionId) && !daemon.endedHere(row.questionId) && touched(drafts.get(row.questionId)));
    before.current = all ?? [];
    if (gone) void endOf(itemOf(gone)).then((text) => { if (text !== '') say({ text, path: pathOf(gone.sessionId), stays: true }); });
  }, [all]);
  return html`<main class="inbox" id="main">
    <header class="top"><h1>Inbox</h1><span class="dim" role="status">${rows && rows.length > 0 ? (rows.length === 1 ? 'one waits' : `${rows.length} wait, oldest first`) : ''}</span>${lost !== null && html`<span class="away" role="status"><span class="dot" aria-hidden="true"></span>Not connected since ${timeOfDay(lost, now)}${all ? '; this is what waited then' : ''}</span>`}</header>
    <div class="page">
      ${error && html`<p class="banner lost" role="alert">${error}</p>`}
      ${rows?.length === 0 && html`<div class="empty"><${Icon} name="check" /><h2>Nothing waits for you</h2><p>When an agent has a question or wants permission, it shows here, whatever its session.</p></div>`}
      <ol class="waiting">${rows?.map((row) => html`<${Row} key=${row.questionId} row=${row} now=${now} open=${row.questionId === open} reached=${chosen === row.questionId} toggle=${() => choose(row.questionId === open ? '' : row.questionId)} say=${say} />`)}</ol>
    </div>
    <div class="toast" role="status">${notice.text && html`<div class="notice"><span>${notice.text}</span>${notice.path && html`<a data-in href=${notice.path}>Open the session</a>`}<button type="button" class="icon-button" aria-label="Dismiss" onClick=${() => say({ text: '', path: '', stays: false })}><${Icon} name="cross" /></button></div>`}</div>
  </main>`;
}

/** Where a question was shown; it is here, now. @param {daemon.Question} row */
function shownIn({ shown }) {
  const surfaces = new Set([...shown.map((one) => one.surface), 'web']);
  return `shown ${[...surfaces].map(placeOf).join(', ')}`;
}

/** The same with the times. @param {daemon.Question} row @param {number} now */
const shownWhen = ({ shown }, now) => shown.map(({ surface, at }) => `${placeOf(surface)} at ${timeOfDay(at, now)}`).join(', ');

/** Whoever answered with the keyboard goes on with the next. @param {string} from */
function toNext(from) {
  if (!document.activeElement?.closest('.case')) return;
  setTimeout(() => {
    const next = [...document.querySelectorAll('.case > .head')].find((head) => head.id !== from);
    if (next instanceof HTMLElement) next.focus();
  });
}

/** Up and down along the rows. @param {KeyboardEvent} event */
function alongRows(event) {
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
  const heads = /** @type {HTMLElement[]} */ ([...document.querySelectorAll('.case > .head')]);
  const at = heads.indexOf(/** @type {HTMLElement} */ (event.currentTarget));
  const next = heads[at + (event.key === 'ArrowDown' ? 1 : -1)];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

/** @param {{row: import('../daemon.js').Question, now: number, open: boolean, reached: boolean, toggle: () => void, say: (notice: {text: string, path: string, stays: boolean}) => void}} props */
function Row({ row, now, open, reached, toggle, say }) {
  const item = itemOf(row);
  const id = `row-${row.questionId}`;
  useEffect(() => tellShown(item), [row.questionId, row.generation]);
  const lead = () => { document.getElementById(id)?.focus(); };
  const title = row.kind === 'permission' ? (/** @type {any} */ (row.action)?.title ?? row.title) : row.title;
  return html`<li class=${`case${open ? ' open' : ''}`}>
    <button type="button" class="head" id=${id} aria-expanded=${open} onClick=${toggle} onKeyDown=${alongRows}>
      <${Icon} name=${row.kind === 'permission' ? 'shield' : 'ask'} />
      <span class="title">${title}</span>
      <time class="age" datetime=${row.askedAt} title=${timeOfDay(row.askedAt, now)}>${age(Date.parse(row.askedAt), now)}</time>
      <span class="meta"><span class="session">${row.sessionTitle || 'Untitled session'}</span><span title=${row.workspaceCwd ?? ''}>${baseName(row.workspaceCwd)}</span><span>by ${row.agent}</span>${!row.live && html`<span>${row.answerable === false ? 'cannot be answered now' : 'asked again when answered'}</span>`}${row.unseen ? html`<span class="unseen">nobody has seen it</span>` : html`<span title=${shownWhen(row, now)}>${shownIn(row)}</span>`}</span>
    </button>
    <a class="icon-button to-session" data-in href=${pathOf(row.sessionId)} aria-label=${`Open the session: ${row.sessionTitle || 'Untitled session'}`} title="Open the session"><${Icon} name="open" /></a>
    ${open && html`<div class="inside">
      <${Form} item=${item} root=${row.workspaceCwd} autofocus=${reached} onDone=${(/** @type {any} */ one, /** @type {any} */ receipt) => { say({ text: receiptInWords(one, receipt), path: pathOf(row.sessionId), stays: false }); toNext(id); }} onOver=${(/** @type {any} */ _, /** @type {string} */ text) => { say({ text, path: '', stays: true }); toNext(id); }} onEscape=${lead} />
    </div>`}
  </li>`;
}
