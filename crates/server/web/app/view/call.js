// @ts-check
// What a tool call holds, for the transcript and for the form that asks for permission.
import { html } from '../html.js';
import { Output } from './code.js';

/** @param {any[]} content */
export const textOf = (content) => content.filter((part) => part?.type === 'content' && part.content?.type === 'text').map((part) => part.content.text).join('\n');
/** @param {any[]} content */
export const diffsOf = (content) => content.filter((part) => part?.type === 'diff');

/** The arguments of a call, in the form that can be read. @param {{input: any, title: string}} props */
export function Input({ input }) {
  if (!input || typeof input !== 'object') return null;
  if (typeof input.command === 'string') {
    return html`<div class="args"><${Output} text=${`$ ${input.command}`} lang="sh" label="command" />${typeof input.directory === 'string' && html`<p class="dim">in ${input.directory}</p>`}</div>`;
  }
  const pairs = Object.entries(input);
  if (pairs.length === 0) return null;
  return html`<dl class="args">${pairs.map(([key, value]) => html`<div><dt>${key}</dt><dd>${typeof value === 'string' && !value.includes('\n') ? value : html`<${Output} text=${typeof value === 'string' ? value : JSON.stringify(value, null, 2)} lang=${typeof value === 'string' ? '' : 'json'} label=${key} />`}</dd></div>`)}</dl>`;
}
