// @ts-check
// A small highlighter: enough to read code by, for any language that looks like one of these. It gives pieces of text
// with a class each, never markup.

/** @typedef {[kind: '' | 'k' | 's' | 'c' | 'n' | 'f' | 't' | 'a' | 'd', text: string]} Piece */

const C_WORDS = 'as async await break case catch class const continue default delete do else enum export extends false final finally for from function if implements import in instanceof interface let new null of package private protected public return static struct super switch this throw throws true try type typedef typeof undefined union unsigned using var virtual void volatile while with yield';
/** @type {Record<string, {words: string, line?: string, block?: [string, string], strings: string, raw?: boolean}>} */
const LANGUAGES = {
  js: { words: C_WORDS, line: '//', block: ['/*', '*/'], strings: '"\'`' },
  rust: { words: 'as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while None Some Ok Err', line: '//', block: ['/*', '*/'], strings: '"' },
  python: { words: 'and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield match case self', line: '#', strings: '"\'' },
  go: { words: 'break case chan const continue default defer else fallthrough false for func go goto if import interface map nil package range return select struct switch true type var', line: '//', block: ['/*', '*/'], strings: '"`\'' },
  c: { words: `${C_WORDS} auto char double float int long short signed sizeof bool include define namespace template nullptr override`, line: '//', block: ['/*', '*/'], strings: '"\'' },
  sh: { words: 'if then else elif fi for while until do done case esac in function return exit local export set source echo cd', line: '#', strings: '"\'' },
  sql: { words: 'select from where insert into update delete create table index values set join left right inner outer on and or not null is as order by group having limit offset union distinct primary key references begin commit rollback SELECT FROM WHERE INSERT INTO UPDATE DELETE CREATE TABLE INDEX VALUES SET JOIN LEFT RIGHT INNER OUTER ON AND OR NOT NULL IS AS ORDER BY GROUP HAVING LIMIT OFFSET UNION DISTINCT PRIMARY KEY REFERENCES BEGIN COMMIT ROLLBACK', line: '--', block: ['/*', '*/'], strings: '\'"' },
  json: { words: 'true false null', strings: '"' },
  toml: { words: 'true false', line: '#', strings: '"\'' },
  css: { words: 'important media supports import from to', block: ['/*', '*/'], strings: '"\'' },
  html: { words: '', block: ['<!--', '-->'], strings: '"\'' },
};
/** @type {Record<string, string>} */
const ALIASES = {
  javascript: 'js', mjs: 'js', cjs: 'js', jsx: 'js', ts: 'js', tsx: 'js', typescript: 'js', java: 'js', kotlin: 'js', kt: 'js', swift: 'js', scala: 'js', php: 'js', csharp: 'js', cs: 'js', dart: 'js',
  rs: 'rust', py: 'python', python3: 'python', rb: 'python', ruby: 'python', golang: 'go', h: 'c', cpp: 'c', 'c++': 'c', cc: 'c', hpp: 'c', zig: 'c',
  bash: 'sh', shell: 'sh', zsh: 'sh', console: 'sh', fish: 'sh', dockerfile: 'sh', makefile: 'sh', postgres: 'sql', sqlite: 'sql', jsonc: 'json', json5: 'json', jsonl: 'json',
  yaml: 'toml', yml: 'toml', ini: 'toml', conf: 'toml', scss: 'css', less: 'css', xml: 'html', svg: 'html', vue: 'html',
};
/** Longer texts are shown plain: nobody reads their colours, and everybody waits for them. */
const MOST = 60_000;

const escape = (/** @type {string} */ text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** @type {Map<string, {pattern: RegExp, words: Set<string>}>} */
const built = new Map();

/** @param {string} name */
function grammar(name) {
  const known = built.get(name);
  if (known) return known;
  const language = LANGUAGES[name];
  if (!language) return undefined;
  const parts = [];
  if (language.block) parts.push(`(?<c1>${escape(language.block[0])}[\\s\\S]*?(?:${escape(language.block[1])}|$))`);
  // A comment starts a line or follows a space, so that # in a word or // in an address is none.
  if (language.line) parts.push(`(?<c2>(?<![^\\s;{}(),])${escape(language.line)}[^\\n]*)`);
  for (const [index, quote] of [...language.strings].entries()) {
    const inside = quote === '`' ? '[^\\\\`]' : `[^\\\\\\n${quote}]`;
    parts.push(`(?<s${index}>${quote}(?:${inside}|\\\\[\\s\\S])*${quote})`);
  }
  parts.push('(?<n>\\b(?:0[xob][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\w*)', '(?<a>[#@]!?\\[?[A-Za-z_][\\w:]*)', '(?<w>[A-Za-z_$][\\w$]*)');
  const made = { pattern: new RegExp(parts.join('|'), 'g'), words: new Set(language.words.split(' ')) };
  built.set(name, made);
  return made;
}

/** @param {string} code @param {string} [lang] @returns {Piece[]} */
export function highlight(code, lang = '') {
  const name = lang.toLowerCase().split(/[\s,{:]/)[0] ?? '';
  if (name === 'diff' || name === 'patch') return diffPieces(code);
  const found = code.length > MOST ? undefined : grammar(ALIASES[name] ?? name);
  if (!found) return [['', code]];
  /** @type {Piece[]} */
  const pieces = [];
  let done = 0;
  for (const match of code.matchAll(found.pattern)) {
    const { groups = {}, index } = match;
    const text = match[0];
    /** @type {Piece[0]} */
    let kind = '';
    if (groups.c1 !== undefined || groups.c2 !== undefined) kind = 'c';
    else if (groups.n !== undefined) kind = 'n';
    else if (groups.a !== undefined) kind = 'a';
    else if (groups.w === undefined) kind = 's';
    else if (found.words.has(text)) kind = 'k';
    else if (code[index + text.length] === '(' || code[index + text.length] === '!') kind = 'f';
    else if (/^[A-Z]\w*[a-z]/.test(text)) kind = 't';
    if (kind === '') continue;
    if (index > done) pieces.push(['', code.slice(done, index)]);
    pieces.push([kind, text]);
    done = index + text.length;
  }
  if (done < code.length) pieces.push(['', code.slice(done)]);
  return pieces;
}

/** @param {string} code @returns {Piece[]} */
function diffPieces(code) {
  return code.split(/(?<=\n)/).map((line) => {
    if (line.startsWith('+')) return ['a', line];
    if (line.startsWith('-')) return ['d', line];
    return [line.startsWith('@@') ? 'c' : '', line];
  });
}

/** The language that a file's name suggests. @param {string} path */
export const languageOf = (path) => /\.([A-Za-z0-9]+)$/.exec(path)?.[1] ?? '';
