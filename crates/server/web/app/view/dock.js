// @ts-check
// Where a session's open questions and permissions are answered.
import { useEffect, useLayoutEffect, useRef, useState } from '../../vendor/hooks.js';
import * as daemon from '../daemon.js';
import { touched } from '../form.js';
import { html, useValue } from '../html.js';
import { drafts } from '../page.js';
import { age } from '../words.js';
import { Form, endOf } from './form.js';
import { Icon } from './icons.js';

/** @param {{view: import('../session.js').SessionView, asked: import('../item.js').Item[], dormant: import('../item.js').Item[], toComposer: () => void}} props */
export function Dock({ view, asked, dormant, toComposer }) {
  const [chosen, choose] = useState('');
  const [woken, wake] = useState('');
  const now = useValue(daemon.now);
  const all = woken === '' ? asked : [...asked, ...dormant.filter((item) => item.questionId === woken && !asked.includes(item))];
  const item = all.find((one) => one.questionId === chosen) ?? all[0];
  const id = item?.questionId;
  // Whoever writes keeps the keyboard; whoever has it nowhere, or has come here by a link beside it, gets it here.
  const free = document.activeElement === null || document.activeElement === document.body || document.activeElement.closest('.side') !== null;
  useEffect(() => { if (id === undefined) wake(''); }, [id]);
  // At this moment what goes is still there: the stream may take the form away before its answer's receipt comes.
  const had = document.activeElement instanceof Element && document.activeElement.closest('.dock') !== null;
  useLayoutEffect(() => {
    if (had && id === undefined && document.activeElement === document.body) toComposer();
  }, [id]);
  // A form that somebody was filling in does not go without a word.
  const last = useRef(/** @type {typeof item} */ (undefined));
  useEffect(() => {
    const before = last.current;
    last.current = item;
    if (!before || asked.some((one) => one.questionId === before.questionId) || daemon.endedHere(before.questionId)) return;
    if (touched(drafts.get(before.questionId))) void endOf(before).then((text) => { if (text !== '') { view.notice = text; view.changed(); } });
  }, [id]);
  return html`
    ${view.notice && html`<div class="notice" role="status"><span>${view.notice}</span><button type="button" class="icon-button" aria-label="Dismiss" onClick=${() => { view.notice = ''; view.changed(); toComposer(); }}><${Icon} name="cross" /></button></div>`}
    ${!item && dormant[0] && html`<div class="notice dormant"><${Icon} name="ask" /><span>A question of this session is still open, and nobody is asking it: <b>${dormant[0].title}</b></span><button type="button" onClick=${() => wake(dormant[0]?.questionId ?? '')}>Answer it</button></div>`}
    ${item && html`<section class="dock" aria-label=${item.kind === 'permission' ? 'A permission waits' : 'A question waits'}>
      ${(all.length > 1 || item.askedAt) && html`<header>
        ${all.length > 1 ? html`<nav aria-label="What waits">${all.map((one, index) => html`<button type="button" key=${one.questionId} aria-current=${one === item ? 'true' : undefined} onClick=${() => choose(one.questionId)}><${Icon} name=${one.kind === 'permission' ? 'shield' : 'ask'} />${one.questions[0]?.header || (one.kind === 'permission' ? 'Permission' : `Question ${index + 1}`)}</button>`)}</nav>` : html`<span class="dim"><${Icon} name=${item.kind === 'permission' ? 'shield' : 'ask'} />${item.kind === 'permission' ? 'Asks for permission' : 'Waits for your answer'}</span>`}
        ${item.askedAt && html`<span class="dim age">${age(Date.parse(item.askedAt), now)}</span>`}
      </header>`}
      <${Form} key=${item.questionId} item=${item} clientId=${view.clientId} root=${view.workspace} autofocus=${free || had}
        onDone=${(/** @type {any} */ one, /** @type {any} */ receipt) => view.accept(one, receipt)}
        onOver=${(/** @type {any} */ one, /** @type {string} */ text, /** @type {any} */ outcome) => { view.notice = text; view.closedElsewhere(one, outcome); }}
        onEscape=${toComposer} />
    </section>`}`;
}
