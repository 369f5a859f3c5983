// @ts-check
// One entry of a transcript.
import { useState } from '../../vendor/hooks.js';
import { QUESTION_TOOL, toolState } from '../fold.js';
import { inWords } from '../form.js';
import { html } from '../html.js';
import { languageOf } from '../highlight.js';
import { byWhom, timeOfDay, why } from '../words.js';
import { Input, diffsOf, textOf } from './call.js';
import { Output } from './code.js';
import { Diff } from './diff.js';
import { Icon } from './icons.js';
import { Markdown } from './markdown.js';

/** @typedef {import('../fold.js').Tool} Tool */

/** @param {{entry: import('../fold.js').Entry, rev: number, growing: boolean, root: string | null, own: string | undefined}} props */
export function Entry({ entry, growing, root, own }) {
  switch (entry.kind) {
    case 'user': return html`<article class="entry user" aria-label="You"><div class="bubble">${entry.text}</div></article>`;
    case 'agent': return html`<article class="entry agent" aria-label="Agent"><${Markdown} text=${entry.text} growing=${growing} /></article>`;
    case 'thought': return html`<${Thought} text=${entry.text} growing=${growing} />`;
    case 'plan': return html`<article class="entry plan" aria-label="Plan"><ul>${entry.items.map((item) => html`<li class=${item.status ?? ''}><${Icon} name=${item.status === 'completed' ? 'check' : item.status === 'in_progress' ? 'chevron' : 'dash'} />${item.content}</li>`)}</ul></article>`;
    case 'note': return html`<div class=${`entry note tone-${entry.tone}`} role="note">${entry.text}</div>`;
    case 'tool': return entry.name === QUESTION_TOOL ? html`<${Question} tool=${entry} own=${own} />` : html`<${ToolCall} tool=${entry} root=${root} />`;
    default: return null;
  }
}

/** @param {{text: string, growing: boolean}} props */
function Thought({ text, growing }) {
  const [open, setOpen] = useState(false);
  const line = text.trim().split('\n').at(growing ? -1 : 0) ?? '';
  return html`<article class="entry thought" aria-label="Thought">
    <button type="button" class="row" aria-expanded=${open} onClick=${() => setOpen(!open)}><${Icon} name="think" /><span class="title">${open ? 'Thought' : line.replace(/[*_#`]/g, '')}</span></button>
    ${open && html`<${Markdown} text=${text} growing=${growing} />`}
  </article>`;
}

/** @type {Record<string, string>} */
const KIND_ICONS = { edit: 'edit', read: 'read', search: 'search', execute: 'shell', think: 'think', fetch: 'search', delete: 'cross', move: 'edit' };
/** @type {Record<string, string>} */
const STATE_ICONS = { done: 'check', failed: 'cross', 'not allowed': 'cross', refused: 'cross', declined: 'cross', interrupted: 'dash', 'timed out': 'dash', unknown: 'dash' };
/** @type {Record<string, string>} */
const STATE_WORDS = { done: 'done', running: 'running', waiting: 'waits for permission', failed: 'failed', interrupted: 'interrupted', 'timed out': 'timed out', 'not allowed': 'not allowed', refused: 'refused by the mode', unknown: 'not recorded; it may have run', declined: 'declined' };

/** @param {{tool: Tool, root: string | null}} props */
function ToolCall({ tool, root }) {
  const state = toolState(tool);
  const diffs = diffsOf(tool.content);
  const text = textOf(tool.content);
  // A change is what one wants to see; what was read or found is not.
  const [open, setOpen] = useState(/** @type {boolean | null} */ (null));
  const shows = open ?? ((diffs.length > 0 && state !== 'waiting') || state === 'failed');
  const has = diffs.length > 0 || text !== '' || tool.input !== undefined;
  return html`<article class=${`entry tool is-${state.replaceAll(' ', '-')}`} aria-label=${`${tool.title || tool.name}: ${STATE_WORDS[state]}`}>
    <button type="button" class="row" aria-expanded=${shows} disabled=${!has} onClick=${() => setOpen(!shows)}>
      <${Icon} name=${KIND_ICONS[tool.toolKind] ?? 'tool'} />
      <span class="title">${tool.title || tool.name}</span>
      <span class="state">${state === 'waiting' ? html`<span class="dot waits"></span>` : state === 'running' ? html`<span class="spin" aria-hidden="true"></span>` : html`<${Icon} name=${STATE_ICONS[state] ?? 'dash'} />`}<span class=${state === 'done' || state === 'running' ? 'quiet' : ''}>${STATE_WORDS[state]}</span></span>
    </button>
    ${shows && html`<div class="inside">
      ${diffs.map((diff) => html`<${Diff} path=${diff.path} before=${diff.oldText} after=${diff.newText} root=${root} />`)}
      ${open && html`<${Input} input=${tool.input} diffs=${diffs} title=${tool.title} />`}
      ${text !== '' && html`<${Output} text=${text} lang=${tool.toolKind === 'read' && state === 'done' ? languageOf(tool.title) : ''} label=${`output of ${tool.title}`} />`}
    </div>`}
  </article>`;
}

/** A question is never folded (H13). @param {{tool: Tool, own: string | undefined}} props */
function Question({ tool, own }) {
  const state = toolState(tool);
  const { resolution } = tool;
  // The arguments may never have come; what was answered says what was asked.
  const parts = tool.parts.length > 0 ? tool.parts : (tool.output?.answers ?? []).map((/** @type {any} */ one) => ({ question: one.question }));
  const given = resolution?.answers ? inWords(tool.parts, resolution.answers) : (tool.output?.answers ?? []).map((/** @type {any} */ one, /** @type {number} */ index) => ({ header: tool.parts[index]?.header ?? one.question, text: one.answer }));
  const answered = state === 'done' || (state === 'waiting' && resolution?.answers);
  const by = resolution?.answeredBy ? `${byWhom(resolution.answeredBy, own)}, ${timeOfDay(resolution.answeredAt, Date.now())}` : '';
  /** @type {Record<string, string>} */
  const ends = {
    waiting: 'waits for an answer',
    declined: by ? `declined ${by}` : 'declined',
    interrupted: 'interrupted: cancelled before the user answered',
    'timed out': 'timed out before anybody answered',
    failed: 'could not be asked',
    unknown: 'not answered',
    refused: 'not asked',
    'not allowed': 'not asked',
  };
  return html`<article class=${`entry question is-${answered ? 'answered' : state.replaceAll(' ', '-')}`} aria-label="Question">
    <header><${Icon} name="ask" /><span class="label">${parts.length > 1 ? `${parts.length} questions` : (parts[0]?.header ?? 'Question')}</span><span class="end">${answered ? (by ? `answered ${by}` : 'answered') : ends[state]}</span></header>
    ${parts.map((/** @type {any} */ part, /** @type {number} */ index) => html`<div class="asked"><p class="text">${part.question}</p>${answered && given[index] && html`<p class="answer"><${Icon} name="check" /><span>${given[index].text}</span></p>`}</div>`)}
    ${state === 'failed' && html`<p class="dim">${textOf(tool.content)}</p>`}
    ${!answered && resolution?.cause && state === 'interrupted' && resolution.cause !== 'aborted' && resolution.cause !== 'cancelled_before_answer' && html`<p class="dim">${why(resolution.cause)}</p>`}
  </article>`;
}
