// @ts-check
// A change of a file.
import { useMemo, useState } from '../../vendor/hooks.js';
import { diffLines, hunks } from '../diff.js';
import { languageOf } from '../highlight.js';
import { html } from '../html.js';
import { Pieces } from './code.js';

/** Lines that are shown before the rest is folded. */
const SHOWN = 40;

/** @param {{path: string, before: string | null | undefined, after: string | null | undefined, root?: string | null}} props */
export function Diff({ path, before, after, root }) {
  const [open, setOpen] = useState(false);
  const { lines, added, removed } = useMemo(() => diffLines(before, after), [before, after]);
  const all = useMemo(() => hunks(lines), [lines]);
  const folds = all.length > SHOWN + 10;
  const shown = open || !folds ? all : all.slice(0, SHOWN);
  const lang = languageOf(path);
  const name = root && path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
  return html`<figure class="diff">
    <figcaption><span class="path" title=${path}>${name}</span><span class="plus">+${added}</span>${removed > 0 && html`<span class="minus">−${removed}</span>`}${before === null || before === undefined ? html`<span class="tag">new file</span>` : null}</figcaption>
    <div class="lines" tabindex="0" role="group" aria-label=${`changes of ${name}`}>${shown.map((line, index) => (line === null
    ? (index > 0 || all.length > 1) && html`<div class="line gap" aria-hidden="true"><span class="no"></span><span class="text">⋯</span></div>`
    : html`<div class=${`line ${line.kind === '+' ? 'add' : line.kind === '-' ? 'del' : ''}`}><span class="no" aria-hidden="true">${line.now ?? line.old}</span><span class="sign" aria-hidden=${line.kind === ' '}>${line.kind}</span><span class="text"><${Pieces} text=${line.text} lang=${lang} /></span></div>`))}</div>
    ${folds && html`<button type="button" class="fold" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? 'Show less' : `Show all ${all.length} lines`}</button>`}
  </figure>`;
}
