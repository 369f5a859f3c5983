// @ts-check
// The form of a question or a permission (H11): what it shows follows from the question; what is its own is a draft and
// one of idle, submitting, closing.
import { useEffect, useLayoutEffect, useRef, useState } from '../../vendor/hooks.js';
import * as api from '../api.js';
import * as daemon from '../daemon.js';
import * as model from '../form.js';
import { html, useValue } from '../html.js';
import { drafts } from '../page.js';
import { tellShown } from '../shown.js';
import { Input, diffsOf, textOf } from './call.js';
import { Output } from './code.js';
import { Diff } from './diff.js';
import { Icon } from './icons.js';

/** @typedef {import('../item.js').Item} Item */
/** @typedef {{item: Item, clientId?: string, root?: string | null, onDone: (item: Item, receipt: any) => void, onOver: (item: Item, text: string, outcome: any) => void, onEscape: () => void, autofocus?: boolean}} Props */

/**
 * What an answer that was refused means, in words.
 * @param {Item} item
 * @param {api.ApiError} error
 * @returns {{over: boolean, text: string}}
 */
function verdict(item, error) {
  const { body } = error;
  const now = Date.now();
  switch (error.code) {
    case 'already_answered':
    case 'closed': return { over: true, text: `${model.endInWords(item, body, now, true)} Your answer was not used.` };
    case 'question_not_found': return { over: true, text: 'This question is gone: its session was deleted.' };
    case 'stale_generation': return { over: false, text: 'The question has changed meanwhile. Look at it once more, then submit.' };
    case 'invalid_answers': return { over: false, text: `Not accepted: ${error.message}` };
    case 'permission_forbidden': return { over: false, text: body.reason === 'remote_not_allowed' ? 'Only somebody at the machine itself may answer this.' : 'You may not answer this: the policy leaves it to others.' };
    case 'restore_disabled':
    case 'ledger_unavailable': return { over: false, text: error.message };
    default:
      if (error.status === 404 || error.status === 409 || error.status === 410) return { over: true, text: error.message };
      return { over: false, text: `Not accepted: ${error.message}` };
  }
}

/**
 * How a question ended under somebody's hands, as the daemon has it; empty where there is nothing to tell: it is open
 * still, or its turn was stopped, which the page shows anyway.
 * @param {Item} item
 */
export async function endOf(item) {
  const { sent } = drafts.get(item.questionId);
  try {
    const { state, outcome } = await api.question(item.questionId);
    // The answer's own receipt, or refusal, came meanwhile.
    if (daemon.endedHere(item.questionId)) return '';
    if (state === 'open' || model.isOwnEnd(sent?.content, { ...outcome, state }) || outcome?.cause === 'cancelled_before_answer') return '';
    return `${model.endInWords(item, { ...outcome, state }, Date.now())} What you had filled in was not used.`;
  } catch (error) {
    return error instanceof api.ApiError && error.status === 404 ? 'This question is gone: its session was deleted.' : '';
  }
}

/** Handlers of the forms on the page, the newest last. @type {((event: KeyboardEvent) => void)[]} */
const handlers = [];

document.addEventListener('keydown', (event) => {
  const { target } = event;
  const handle = handlers.at(-1);
  if (!handle || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || !(target instanceof Element)) return;
  // Who writes, or is at another form or row, is left alone.
  if (target.closest('input, textarea, select, .ask, .case:not(.open)')) return;
  const nowhere = target === document.body || target.closest('.side') !== null;
  if (/^[1-9]$/.test(event.key) || (nowhere && /^Arrow(Up|Down)$/.test(event.key))) handle(event);
});

/** Keys that nobody else has a use for go to the form that is shown: a question can be answered without reaching for it first. @param {(event: KeyboardEvent) => void} handle */
function useFreeKeys(handle) {
  const newest = useRef(handle);
  newest.current = handle;
  useEffect(() => {
    const own = (/** @type {KeyboardEvent} */ event) => newest.current(event);
    handlers.push(own);
    return () => { handlers.splice(handlers.indexOf(own), 1); };
  }, []);
}

/**
 * Sending an answer, once: a repeat after a lost connection carries the same response id.
 * @param {Props} props
 */
function useAnswer({ item, clientId, onDone, onOver }) {
  const [phase, setPhase] = useState(/** @type {'idle' | 'submitting' | 'closing'} */ ('idle'));
  const [message, setMessage] = useState('');
  const lost = useValue(daemon.lostSince);
  /** What is to be sent again once the daemon is back. @type {{current: unknown}} */
  const kept = useRef(/** @type {unknown} */ (undefined));
  const there = useRef(true);
  useEffect(() => { there.current = true; return () => { there.current = false; }; }, []);

  /** @param {Record<string, unknown>} answer */
  const send = async (answer) => {
    setPhase('submitting');
    setMessage('');
    kept.current = undefined;
    try {
      const body = { generation: item.generation, ...answer, responseId: drafts.responseId(item.questionId, answer) };
      const receipt = await api.answer(item.questionId, body, clientId);
      if (receipt?.status === 'recorded') {
        if (!there.current) return;
        setPhase('idle');
        setMessage('Your vote is recorded. More votes are needed before it counts.');
        return;
      }
      drafts.drop(item.questionId);
      if (there.current) setPhase('closing');
      daemon.done(item.questionId);
      onDone(item, receipt);
    } catch (error) {
      if (!(error instanceof api.ApiError)) {
        kept.current = answer;
        if (there.current) setMessage('The daemon cannot be reached. Your answer is kept here and is sent as soon as it is back.');
        return;
      }
      if (error.code === 'response_id_reused') drafts.put(item.questionId, { ...drafts.get(item.questionId), sent: undefined });
      if (error.code === 'invalid_client_id') clientId = undefined;
      const { over, text } = verdict(item, error);
      void daemon.refresh();
      if (over) {
        drafts.drop(item.questionId);
        daemon.done(item.questionId);
        onOver(item, text, error.body);
        return;
      }
      if (!there.current) return;
      setPhase('idle');
      setMessage(text);
    }
  };

  useEffect(() => {
    if (lost === null && kept.current !== undefined) void send(/** @type {any} */ (kept.current));
  }, [lost]);

  return { phase, message, send, takeBack: () => { kept.current = undefined; setPhase('idle'); setMessage(''); }, waits: kept.current !== undefined };
}

/** @param {Props} props */
export function Form(props) {
  const { item } = props;
  useEffect(() => {
    tellShown(item);
    const look = () => tellShown(item);
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, [item.questionId, item.generation]);
  if (item.kind === 'permission') return html`<${Permission} ...${props} />`;
  return item.questions.length > 0 ? html`<${Questions} ...${props} />` : html`<p class="dim">This question has nothing to choose from.</p>`;
}

/** @param {Props} props */
function Questions(props) {
  const { item, onEscape, autofocus } = props;
  const parts = item.questions;
  const [draft, setDraft] = useState(() => drafts.get(item.questionId));
  const { phase, message, send, takeBack, waits } = useAnswer(props);
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  const step = Math.min(draft.step, parts.length - 1);
  const part = /** @type {model.Part} */ (parts[step]);
  const busy = phase !== 'idle';

  /** @param {import('../drafts.js').Draft} next */
  const keep = (next) => {
    // What is being sent stays as it is; disabling it would take the keyboard away.
    if (busy) return;
    setDraft(next);
    drafts.put(item.questionId, { ...next, sent: drafts.get(item.questionId).sent });
  };
  const focusStep = useRef(autofocus ? step : -1);
  useLayoutEffect(() => {
    if (focusStep.current !== step) return;
    focusStep.current = -1;
    const inputs = form.current?.querySelectorAll('.option input');
    const chosen = [...(inputs ?? [])].find((input) => input instanceof HTMLInputElement && input.checked) ?? inputs?.[0];
    if (chosen instanceof HTMLElement) chosen.focus();
  });

  /** @param {number} to */
  const goto = (to) => {
    focusStep.current = to;
    keep({ ...draft, step: to });
  };
  /** @param {import('../drafts.js').Draft} now */
  const submit = (now) => {
    if (busy) return;
    const answers = model.answers(parts, now);
    if (answers) void send({ answers });
    else goto(model.firstMissing(parts, now));
  };
  const forward = () => {
    if (model.chosen(part, draft).length === 0) return;
    if (step < parts.length - 1) goto(model.nextStep(parts, step));
    else submit(draft);
  };
  const otherId = `other-${item.questionId}-${part.answerKey}`;
  const focusOther = () => { const field = document.getElementById(otherId); field?.focus(); };

  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return;
    const { target } = event;
    const writes = target instanceof HTMLInputElement && target.type === 'text';
    if (event.key === 'Escape') {
      event.preventDefault();
      onEscape();
    } else if (busy) {
      return;
    } else if (event.key === 'Enter' && !(target instanceof HTMLButtonElement)) {
      event.preventDefault();
      // The first one chooses what the arrows led to, the next goes on: nothing is sent that was not seen to be chosen.
      const choosable = target instanceof HTMLInputElement && (target.type === 'radio' || (target.type === 'checkbox' && model.chosen(part, draft).length === 0));
      if (choosable && !target.checked) keep(model.pick(part, draft, target.value));
      else forward();
    } else if (!writes && /^[1-9]$/.test(event.key)) {
      const option = part.options[Number(event.key) - 1];
      if (option) {
        event.preventDefault();
        keep(model.pick(part, draft, option.label));
        const input = form.current?.querySelectorAll('.option input')[Number(event.key) - 1];
        if (input instanceof HTMLElement) input.focus();
      } else if (Number(event.key) === part.options.length + 1) {
        event.preventDefault();
        focusOther();
      }
    } else if (!writes && (event.key === 'ArrowLeft' || event.key === 'ArrowRight') && parts.length > 1) {
      event.preventDefault();
      goto(Math.max(0, Math.min(parts.length - 1, step + (event.key === 'ArrowLeft' ? -1 : 1))));
    } else if ((event.key === 'ArrowUp' || event.key === 'ArrowDown')) {
      const fields = /** @type {HTMLElement[]} */ ([...(form.current?.querySelectorAll('.option input, input.other') ?? [])]);
      const at = fields.indexOf(/** @type {HTMLElement} */ (target));
      // From a button of the form nowhere; from outside of it, to its first or last.
      if (at < 0 && form.current?.contains(/** @type {Node} */ (target))) return;
      event.preventDefault();
      if (at < 0) fields.at(event.key === 'ArrowDown' ? 0 : -1)?.focus();
      else fields[(at + (event.key === 'ArrowDown' ? 1 : fields.length - 1)) % fields.length]?.focus();
    } else if (!writes && event.key === ' ' && target instanceof HTMLInputElement && target.type === 'radio') {
      event.preventDefault();
      keep(model.pick(part, draft, target.value));
    }
  };

  useFreeKeys(onKeyDown);
  const picks = model.chosen(part, draft);
  const ready = model.firstMissing(parts, draft) < 0;
  const last = step === parts.length - 1;
  return html`<form class=${`ask${parts.length === 1 ? " single" : ""}`} ref=${form} aria-label="Answer the question" onKeyDown=${onKeyDown} onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); forward(); }}>
    ${parts.length > 1 && html`<nav class="steps" aria-label="Questions">${parts.map((one, index) => html`<button type="button" key=${index} aria-current=${index === step ? 'step' : undefined} onClick=${() => goto(index)}>${model.chosen(one, draft).length > 0 ? html`<${Icon} name="check" />` : html`<span class="n">${index + 1}</span>`}${one.header || `Question ${index + 1}`}</button>`)}</nav>`}
    <fieldset key=${step} aria-busy=${busy}>
      <legend>${parts.length === 1 && part.header && html`<span class="head">${part.header}</span>`}<span class="text">${part.question}</span>${part.multiSelect && html`<span class="hint">Choose one or more</span>`}</legend>
      <div class="options">
        ${part.options.map((option, index) => html`<label class="option" key=${option.label}>
          <input type=${part.multiSelect ? 'checkbox' : 'radio'} name=${`q-${item.questionId}-${part.answerKey}`} value=${option.label} checked=${draft.picks[part.answerKey]?.includes(option.label) ?? false} onChange=${(/** @type {any} */ event) => { if (busy) event.target.checked = !event.target.checked; else keep(model.pick(part, draft, option.label)); }} />
          <span class="key" aria-hidden="true">${index + 1}</span>
          <span class="what"><span class="name">${option.label}</span>${option.description && html`<span class="desc">${option.description}</span>`}</span>
        </label>`)}
        <div class=${`option free${draft.useOther[part.answerKey] && (draft.other[part.answerKey] ?? '').trim() !== '' ? ' on' : ''}`}>
          <span class="key" aria-hidden="true">${part.options.length + 1}</span>
          <input id=${otherId} class="other" type="text" placeholder="Other…" aria-label=${`Other answer to: ${part.question}`} autocomplete="off" value=${draft.other[part.answerKey] ?? ''}
            onInput=${(/** @type {any} */ event) => keep(model.write(part, draft, event.target.value, event.target.value.trim() !== ''))} />
        </div>
      </div>
    </fieldset>
    <p class=${`message${message ? '' : ' none'}`} role="status">${message}</p>
    <footer>
      <button type="button" class="quiet" aria-disabled=${busy} onClick=${() => { if (!busy) void send({ decline: true }); }}>Decline</button>
      <span class="keys" aria-hidden="true">${`1–${part.options.length + 1} choose · Enter ${last ? 'submit' : 'next'} · Esc back`}</span>
      ${waits && html`<button type="button" onClick=${takeBack}>Don’t send</button>`}
      ${parts.length > 1 && step > 0 && html`<button type="button" aria-disabled=${busy} onClick=${() => goto(step - 1)}>Back</button>`}
      ${!last && html`<button type="button" class=${ready ? '' : 'primary'} disabled=${picks.length === 0} aria-disabled=${busy} onClick=${() => goto(step + 1)}>Next</button>`}
      ${(last || ready) && html`<button type="button" class="primary" disabled=${!ready} aria-disabled=${busy} onClick=${() => submit(draft)}>${phase === 'submitting' ? 'Sending…' : 'Submit'}</button>`}
    </footer>
  </form>`;
}

/** @param {Props} props */
function Permission(props) {
  const { item, onEscape, root = null, autofocus } = props;
  const { phase, message, send, takeBack, waits } = useAnswer(props);
  const form = useRef(/** @type {HTMLDivElement | null} */ (null));
  const busy = phase !== 'idle';
  const { action } = item;
  const diffs = diffsOf(action?.content ?? []);
  // A command's preview repeats its arguments.
  const shown = textOf(action?.content ?? []);
  const text = typeof action?.input?.command === 'string' && shown.trim() === `$ ${action.input.command}` ? '' : shown;
  useLayoutEffect(() => {
    if (autofocus) /** @type {HTMLElement | null} */ (form.current?.querySelector('.choices button') ?? null)?.focus();
  }, []);
  const options = [...item.options].sort((one, other) => Number(one.kind?.startsWith('reject')) - Number(other.kind?.startsWith('reject')));
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const buttons = /** @type {HTMLElement[]} */ ([...(form.current?.querySelectorAll('.choices button') ?? [])]);
    if (event.key === 'Escape') {
      event.preventDefault();
      onEscape();
    } else if (/^[1-9]$/.test(event.key) && buttons[Number(event.key) - 1]) {
      event.preventDefault();
      buttons[Number(event.key) - 1]?.focus();
    } else if (event.key.startsWith('Arrow')) {
      const at = buttons.indexOf(/** @type {HTMLElement} */ (event.target));
      if (at < 0) {
        if (!form.current?.contains(/** @type {Node} */ (event.target))) {
          event.preventDefault();
          buttons[0]?.focus();
        }
        return;
      }
      event.preventDefault();
      const by = event.key === 'ArrowRight' || event.key === 'ArrowDown' ? 1 : buttons.length - 1;
      buttons[(at + by) % buttons.length]?.focus();
    }
  };
  useFreeKeys(onKeyDown);
  return html`<div class="ask permission" role="group" aria-label="Permission" ref=${form} onKeyDown=${onKeyDown}>
    <p class="legend"><span class="text">${action?.title || item.title}</span></p>
    <div class="action">
      ${diffs.map((/** @type {any} */ diff) => html`<${Diff} path=${diff.path} before=${diff.oldText} after=${diff.newText} root=${root} />`)}
      <${Input} input=${action?.input} diffs=${diffs} title=${action?.title ?? item.title} />
      ${text !== '' && html`<${Output} text=${text} />`}
    </div>
    <p class=${`message${message ? '' : ' none'}`} role="status">${message}</p>
    <footer class="choices">
      ${options.map((option, index) => html`<button type="button" key=${option.optionId} class=${option.kind?.startsWith('reject') ? 'quiet' : index === 0 ? 'primary' : ''} aria-disabled=${busy}
        onClick=${() => busy || void send(option.kind?.startsWith('reject') && option.optionId === 'cancel' ? { decline: true } : { optionId: option.optionId })}><span class="key" aria-hidden="true">${index + 1}</span>${option.label}</button>`)}
      ${waits && html`<button type="button" onClick=${takeBack}>Don’t send</button>`}
    </footer>
  </div>`;
}
