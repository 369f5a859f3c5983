// @ts-check
// A change of a text, line by line.

/** @typedef {{kind: ' ' | '+' | '-', text: string, old: number | null, now: number | null}} Line */
/** @typedef {{lines: Line[], added: number, removed: number}} Diff */

/** Beyond this many lines of difference the middle is shown as replaced as a whole. */
const MOST = 1500;

/** @param {string | null | undefined} text */
const linesOf = (text) => {
  if (!text) return [];
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines;
};

/** @param {string | null | undefined} before @param {string | null | undefined} after @returns {Diff} */
export function diffLines(before, after) {
  const one = linesOf(before);
  const two = linesOf(after);
  let start = 0;
  while (start < one.length && start < two.length && one[start] === two[start]) start += 1;
  let end = 0;
  while (end < one.length - start && end < two.length - start && one[one.length - 1 - end] === two[two.length - 1 - end]) end += 1;
  const middle = align(one.slice(start, one.length - end), two.slice(start, two.length - end));
  /** @type {Line[]} */
  const lines = [];
  let old = 0;
  let now = 0;
  let added = 0;
  let removed = 0;
  /** @param {Line['kind']} kind @param {string} text */
  const push = (kind, text) => {
    if (kind !== '+') old += 1;
    if (kind !== '-') now += 1;
    if (kind === '+') added += 1;
    if (kind === '-') removed += 1;
    lines.push({ kind, text, old: kind === '+' ? null : old, now: kind === '-' ? null : now });
  };
  for (const text of one.slice(0, start)) push(' ', text);
  for (const [kind, text] of middle) push(kind, text);
  for (const text of one.slice(one.length - end)) push(' ', text);
  return { lines, added, removed };
}

/** The longest common lines, by a table. @param {string[]} one @param {string[]} two @returns {[Line['kind'], string][]} */
function align(one, two) {
  /** @type {[Line['kind'], string][]} */
  const whole = [...one.map((text) => /** @type {[Line['kind'], string]} */ (['-', text])), ...two.map((text) => /** @type {[Line['kind'], string]} */ (['+', text]))];
  if (one.length === 0 || two.length === 0 || one.length > MOST || two.length > MOST) return whole;
  const width = two.length + 1;
  const table = new Uint16Array((one.length + 1) * width);
  const at = (/** @type {number} */ i, /** @type {number} */ j) => /** @type {number} */ (table[i * width + j]);
  for (let i = one.length - 1; i >= 0; i -= 1) {
    for (let j = two.length - 1; j >= 0; j -= 1) {
      table[i * width + j] = one[i] === two[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  /** @type {[Line['kind'], string][]} */
  const out = [];
  let i = 0;
  let j = 0;
  while (i < one.length || j < two.length) {
    if (i < one.length && j < two.length && one[i] === two[j]) {
      out.push([' ', /** @type {string} */ (one[i])]);
      i += 1;
      j += 1;
    } else if (j >= two.length || (i < one.length && at(i + 1, j) >= at(i, j + 1))) {
      out.push(['-', /** @type {string} */ (one[i])]);
      i += 1;
    } else {
      out.push(['+', /** @type {string} */ (two[j])]);
      j += 1;
    }
  }
  return out;
}

/**
 * Only the changes, with some lines around them; `null` stands for lines that are left out.
 * @param {readonly Line[]} lines
 * @param {number} [around]
 * @returns {(Line | null)[]}
 */
export function hunks(lines, around = 3) {
  const keep = new Uint8Array(lines.length);
  for (const [index, line] of lines.entries()) {
    if (line.kind === ' ') continue;
    keep.fill(1, Math.max(0, index - around), Math.min(lines.length, index + around + 1));
  }
  /** @type {(Line | null)[]} */
  const out = [];
  for (const [index, line] of lines.entries()) {
    if (keep[index]) out.push(line);
    else if (out.at(-1) !== null) out.push(null);
  }
  return out;
}
