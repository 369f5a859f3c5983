// @ts-check
// Where one writes (H10): it never locks and never changes its shape. What is written while the agent is busy or gone is
// queued, in plain sight.
import { useLayoutEffect, useRef, useState } from '../../vendor/hooks.js';
import { html } from '../html.js';
import { settle } from '../queue.js';
import { kept } from '../world.js';
import { Icon } from './icons.js';

const key = (/** @type {string} */ id) => `holdpoint.compose.${id}`;
/** The field grows to this many pixels, then it scrolls. */
const MOST = 200;

/** On a phone Enter makes a line, as everywhere there. */
const coarse = matchMedia('(pointer: coarse)');

/** @param {{view: import('../session.js').SessionView, waits: boolean}} props */
export function Composer({ view, waits }) {
  const [text, setText] = useState(() => kept.getItem(key(view.id)) ?? '');
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const grow = () => {
    const area = field.current;
    if (!area) return;
    area.style.height = 'auto';
    area.style.height = `${Math.min(area.scrollHeight + 2, MOST)}px`;
  };
  useLayoutEffect(grow, [text]);
  /** @param {string} next */
  const write = (next) => {
    setText(next);
    try {
      if (next === '') kept.removeItem(key(view.id));
      else kept.setItem(key(view.id), next);
    } catch {
      // It is still in the field.
    }
  };
  const send = () => {
    const { value } = field.current ?? { value: '' };
    if (value.trim() === '') return;
    view.send(value.trim());
    write('');
    field.current?.focus();
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    if (event.key === 'Enter' && !event.shiftKey && !event.altKey && !coarse.matches) {
      event.preventDefault();
      send();
    } else if (event.key === 'ArrowUp' && text === '') {
      const first = document.querySelector('.dock input:checked, .dock .option input, .dock .choices button');
      if (first instanceof HTMLElement) {
        event.preventDefault();
        first.focus();
      }
    }
  };
  const queued = [
    ...view.fold.queue.map((item) => ({ id: item.promptId, text: item.text, state: 'queued', remove: () => void view.unqueue(item.promptId) })),
    ...[...view.accepted].filter(([id]) => !view.fold.queue.some((item) => item.promptId === id) && (view.fold.busy || waits)).map(([id, said]) => ({ id, text: said, state: 'queued', remove: () => void view.unqueue(id) })),
    // The stream may tell of a message before its receipt comes.
    ...view.outbox.filter((item) => item.state !== 'sending' || settle([{ ...item, state: 'unsure' }], view.fold.prompts()).length > 0).map((item) => ({ id: item.id, text: item.text, state: item.state === 'waiting' ? 'not sent yet' : item.state === 'sending' ? 'sending' : 'checking whether it arrived', remove: () => view.unsend(item.id) })),
  ];
  return html`<div class="composer">
    ${queued.length > 0 && html`<ul class="queue" aria-label="Messages that wait">${queued.map((item) => html`<li key=${item.id}><span class="tag">${item.state}</span><span class="text">${item.text}</span><button type="button" class="icon-button" aria-label=${`Remove: ${item.text}`} onClick=${item.remove}><${Icon} name="cross" /></button></li>`)}</ul>`}
    ${view.sendError && html`<p class="error" role="alert">${view.sendError}</p>`}
    <form onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); send(); }}>
      <textarea ref=${field} id="composer" rows="1" placeholder="Message the agent" aria-label="Message" value=${text} onInput=${(/** @type {any} */ event) => write(event.target.value)} onKeyDown=${onKeyDown}></textarea>
      <button type="submit" class="send" aria-label="Send" disabled=${text.trim() === ''}><${Icon} name="send" /></button>
    </form>
  </div>`;
}
