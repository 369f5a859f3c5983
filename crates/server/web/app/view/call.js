// @ts-check
// What a tool call holds, for the transcript and for the form that asks for permission.
import { html } from '../html.js';
import { Output } from './code.js';

/** @param {any[]} content */
export const textOf = (content) => content.filter((part) => part?.type === 'content' && part.content?.type === 'text').map((part) => part.content.text).join('\n');
/** @param {any[]} content */
export const diffsOf = (content) => content.filter((part) => part?.type === 'diff');

/** Arguments that a shown change holds. */
const IN_A_CHANGE = new Set(['file_path', 'filePath', 'path', 'content', 'old_string', 'new_string', 'old_text', 'new_text', 'oldText', 'newText']);

/**
 * Arguments that are not shown otherwise: what a change or the title says is not said twice.
 * @param {Record<string, unknown>} input
 * @param {any[]} diffs
 * @param {string} title
 */
function rest(input, diffs, title) {
  /** @param {string} value */
  const changed = (value) => diffs.some((diff) => String(diff.path).endsWith(value) || (diff.newText ?? '').includes(value) || (diff.oldText ?? '').includes(value));
  return Object.entries(input).filter(([key, value]) => {
    if (key === 'command' || value === null || value === '') return false;
    if (typeof value !== 'string') return true;
    return !(key === 'description' && title.includes(value)) && !(IN_A_CHANGE.has(key) && changed(value));
  });
}

/** The arguments of a call, in the form that can be read. @param {{input: any, diffs?: any[], title: string}} props */
export function Input({ input, diffs = [], title }) {
  if (!input || typeof input !== 'object') return null;
  const command = typeof input.command === 'string' ? input.command : '';
  const pairs = rest(input, diffs, title);
  if (command === '' && pairs.length === 0) return null;
  return html`<div class="args">
    ${command !== '' && html`<${Output} text=${`$ ${command}`} lang="sh" label="command" />`}
    ${pairs.length > 0 && html`<dl>${pairs.map(([key, value]) => html`<div><dt>${key}</dt><dd>${isShort(value) ? String(value) : html`<${Output} text=${typeof value === 'string' ? value : JSON.stringify(value, null, 2)} lang=${typeof value === 'string' ? '' : 'json'} label=${key} />`}</dd></div>`)}</dl>`}
  </div>`;
}

/** @param {unknown} value */
const isShort = (value) => typeof value === 'boolean' || typeof value === 'number' || (typeof value === 'string' && !value.includes('\n') && value.length < 200);
