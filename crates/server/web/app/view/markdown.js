// @ts-check
// Markdown to nodes. The lexer gives tokens, and each becomes a node; HTML in it is shown as the text that it is.
import { useMemo } from '../../vendor/hooks.js';
import { h } from '../../vendor/preact.js';
import { lexer } from '../../vendor/marked.js';
import { Code } from './code.js';

/** @typedef {import('../../vendor/marked.js').Token} Token */
/** @typedef {import('../../vendor/preact.js').Child} Child */

/** @type {Record<string, string>} */
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', hellip: '…', mdash: '—', ndash: '–', copy: '©', rarr: '→', larr: '←' };

/** @param {string} text */
const decode = (text) => text.replace(/&(#x[\da-f]+|#\d+|\w+);/gi, (whole, name) => {
  if (name[0] !== '#') return ENTITIES[name] ?? whole;
  const code = /^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
  return code > 0 && code < 0x110000 ? String.fromCodePoint(code) : whole;
});

/** Whether a link may be followed: nothing runs, and nothing of this page is reached. @param {string} href */
const isOutside = (href) => /^(https?:|mailto:)/i.test(href);

/** @param {Token[] | undefined} tokens @returns {Child} */
const all = (tokens) => (tokens ?? []).map(node);

/** @param {Token} token @returns {Child} */
function node(token) {
  switch (token.type) {
    case 'space':
    case 'def': return null;
    case 'heading': return h(`h${Math.min((token.depth ?? 1) + 2, 6)}`, null, all(token.tokens));
    case 'paragraph': return h('p', null, all(token.tokens));
    case 'text': return token.tokens ? all(token.tokens) : decode(token.text ?? '');
    case 'escape': return token.text ?? '';
    case 'strong': return h('strong', null, all(token.tokens));
    case 'em': return h('em', null, all(token.tokens));
    case 'del': return h('del', null, all(token.tokens));
    case 'codespan': return h('code', null, token.text ?? '');
    case 'br': return h('br', null);
    case 'hr': return h('hr', null);
    case 'code': return h(Code, { text: token.text ?? '', lang: token.lang ?? '' });
    case 'blockquote': return h('blockquote', null, all(token.tokens));
    case 'list': return h(token.ordered ? 'ol' : 'ul', token.ordered && token.start !== 1 ? { start: token.start } : null, (token.items ?? []).map(item));
    case 'table': return table(token);
    case 'link': return link(token.href ?? '', all(token.tokens));
    case 'image': return link(token.href ?? '', token.text || 'image');
    default: return token.raw;
  }
}

/** @param {Token} token */
function item(token) {
  const inside = all((token.tokens ?? []).filter((part) => part.type !== 'checkbox'));
  if (!token.task) return h('li', null, inside);
  return h('li', { class: 'task' }, h('span', { role: 'img', 'aria-label': token.checked ? 'done' : 'open', class: 'box' }, token.checked ? '☑' : '☐'), ' ', inside);
}

/** @param {string} href @param {Child} inside */
function link(href, inside) {
  if (!isOutside(href)) return h('span', { title: href }, inside);
  return h('a', { href, target: '_blank', rel: 'noopener noreferrer' }, inside);
}

/** @param {Token} token */
function table(token) {
  /** @param {import('../../vendor/marked.js').Cell} cell @param {string} tag */
  const cell = (cell, tag) => h(tag, cell.align ? { class: `to-${cell.align}` } : null, all(cell.tokens));
  return h('div', { class: 'table', tabIndex: 0, role: 'group', 'aria-label': 'table' }, h('table', null,
    h('thead', null, h('tr', null, (token.header ?? []).map((one) => cell(one, 'th')))),
    h('tbody', null, (token.rows ?? []).map((row) => h('tr', null, row.map((one) => cell(one, 'td')))))));
}

/**
 * Where a growing text can be cut so that what is before it will not change: the last blank line outside a fence, if
 * what follows starts a block of its own.
 * @param {string} text
 */
export function stableEnd(text) {
  let fence = '';
  let stable = 0;
  let at = 0;
  let blank = false;
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark && fence === '') fence = mark;
    else if (mark && fence !== '' && line.trim().startsWith(fence) && line.trim().replace(/[`~]/g, '') === '') fence = '';
    if (blank && fence === (mark ?? '') && /^(?![\s>*+\-]|\d+[.)])/.test(line) && line !== '') stable = at;
    blank = fence === '' && line.trim() === '';
    at += line.length + 1;
  }
  return stable;
}

/** Parsed texts, newest last: scrolling back and forth parses nothing anew. @type {Map<string, Token[]>} */
const cache = new Map();
const MOST = 400;

/** @param {string} text @param {boolean} keep */
function parsed(text, keep) {
  const known = cache.get(text);
  if (known) return known;
  /** @type {Token[]} */
  let tokens;
  try {
    tokens = lexer(text, { gfm: true, breaks: false });
  } catch {
    tokens = [{ type: 'text', raw: text, text }];
  }
  if (keep) {
    cache.set(text, tokens);
    if (cache.size > MOST) cache.delete(/** @type {string} */ (cache.keys().next().value));
  }
  return tokens;
}

/** A long text is parsed in pieces of about this many characters. */
const PIECE = 4000;

/** A text in pieces that will not change when it grows, the last one excepted. @param {string} text @returns {string[]} */
export function pieces(text) {
  const all = [];
  let rest = text;
  while (rest.length > 2 * PIECE) {
    // A cut inside what is known to be stable; a single block may be longer than a piece.
    const end = stableEnd(rest.slice(0, PIECE)) || stableEnd(rest);
    if (end === 0) break;
    all.push(rest.slice(0, end));
    rest = rest.slice(end);
  }
  all.push(rest);
  return all;
}

/** @param {{text: string, growing?: boolean}} props */
export function Markdown({ text, growing = false }) {
  const all = pieces(text);
  const last = all.length - 1;
  // What is finished is parsed once, and nodes that were drawn are not drawn again.
  return h('div', { class: 'prose' }, all.map((piece, index) => h(Fixed, { text: piece, keep: !growing || index < last, key: index })));
}

/** @param {{text: string, keep: boolean}} props */
function Fixed({ text, keep }) {
  return useMemo(() => all(parsed(text, keep)), [text]);
}
