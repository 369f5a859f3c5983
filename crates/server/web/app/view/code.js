// @ts-check
// Code, coloured; long output, folded.
import { useMemo, useState } from '../../vendor/hooks.js';
import { highlight } from '../highlight.js';
import { html } from '../html.js';

/** Lines of output that are shown before the rest is folded. */
const SHOWN = 14;

/** @param {{text: string, lang?: string}} props */
export function Pieces({ text, lang }) {
  const pieces = useMemo(() => highlight(text, lang), [text, lang]);
  return pieces.map(([kind, part]) => (kind === '' ? part : html`<span class=${`hl-${kind}`}>${part}</span>`));
}

/** @param {{text: string}} props */
export function Copy({ text }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      // Not allowed here; the text can be selected.
    }
  };
  return html`<button type="button" class="copy" onClick=${copy}>${copied ? 'Copied' : 'Copy'}</button>`;
}

/** A block of code in a message. @param {{text: string, lang: string}} props */
export function Code({ text, lang }) {
  const name = lang.split(/\s/)[0] ?? '';
  return html`<figure class="code"><figcaption><span>${name}</span><${Copy} text=${text} /></figcaption><pre tabindex="0"><code><${Pieces} text=${text} lang=${lang} /></code></pre></figure>`;
}

/** Output of a tool; long ones are folded. @param {{text: string, lang?: string, label?: string}} props */
export function Output({ text, lang, label = 'output' }) {
  const [open, setOpen] = useState(false);
  const lines = useMemo(() => text.replace(/\n$/, '').split('\n'), [text]);
  const folds = lines.length > SHOWN + 4;
  const shown = open || !folds ? lines.join('\n') : lines.slice(0, SHOWN).join('\n');
  return html`<div class="output">
    <pre tabindex="0" aria-label=${label}><code><${Pieces} text=${shown} lang=${lang} /></code></pre>
    ${folds && html`<button type="button" class="fold" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? 'Show less' : `Show all ${lines.length} lines`}</button>`}
  </div>`;
}
