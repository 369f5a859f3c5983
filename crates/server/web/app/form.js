// @ts-check
// The form of a question as a pure function of the question and a draft (H11).
import { byWhom, timeOfDay, why } from './words.js';

/** @typedef {import('./drafts.js').Draft} Draft */
/** @typedef {{question: string, header?: string, options: {label: string, description?: string}[], answerKey: string, multiSelect?: boolean}} Part */

/** What is chosen for one part, free text included; nothing where there is no answer yet. @param {Part} part @param {Draft} draft @returns {string[]} */
export function chosen(part, draft) {
  const key = part.answerKey;
  const picks = part.options.map((option) => option.label).filter((label) => draft.picks[key]?.includes(label));
  const text = (draft.other[key] ?? '').trim();
  if (draft.useOther[key] && text !== '') picks.push(text);
  return picks;
}

/** @param {Part} part @param {Draft} draft @param {string} label @returns {Draft} */
export function pick(part, draft, label) {
  const key = part.answerKey;
  const now = draft.picks[key] ?? [];
  if (part.multiSelect) {
    const next = now.includes(label) ? now.filter((other) => other !== label) : [...now, label];
    return { ...draft, picks: { ...draft.picks, [key]: next } };
  }
  return { ...draft, picks: { ...draft.picks, [key]: [label] }, useOther: { ...draft.useOther, [key]: false } };
}

/** Free text: typing chooses it; on a single choice it takes the place of the option. @param {Part} part @param {Draft} draft @param {string} text @param {boolean} use @returns {Draft} */
export function write(part, draft, text, use) {
  const key = part.answerKey;
  const picks = use && !part.multiSelect ? { ...draft.picks, [key]: [] } : draft.picks;
  return { ...draft, picks, other: { ...draft.other, [key]: text }, useOther: { ...draft.useOther, [key]: use } };
}

/** The first part without an answer, or -1. @param {readonly Part[]} parts @param {Draft} draft */
export const firstMissing = (parts, draft) => parts.findIndex((part) => chosen(part, draft).length === 0);

/** The body's `answers`; undefined while a part has none. @param {readonly Part[]} parts @param {Draft} draft @returns {Record<string, string | string[]> | undefined} */
export function answers(parts, draft) {
  if (firstMissing(parts, draft) >= 0) return undefined;
  return Object.fromEntries(parts.map((part) => {
    const all = chosen(part, draft);
    return [part.answerKey, part.multiSelect ? all : /** @type {string} */ (all[0])];
  }));
}

/** Where one goes after choosing: the next part, or the place itself at the end. @param {readonly Part[]} parts @param {number} step */
export const nextStep = (parts, step) => Math.min(step + 1, parts.length - 1);

/** An answer in words, by the part's header. @param {readonly Part[]} parts @param {unknown} given @returns {{header: string, text: string}[]} */
export function inWords(parts, given) {
  if (!given || typeof given !== 'object') return [];
  return parts.flatMap((part) => {
    const value = /** @type {Record<string, unknown>} */ (given)[part.answerKey];
    const text = Array.isArray(value) ? value.join(', ') : typeof value === 'string' ? value : '';
    return text === '' ? [] : [{ header: part.header || part.question, text }];
  });
}

/** Whether somebody has begun to fill a form in. @param {Draft} draft */
export const touched = (draft) => Object.values(draft.picks).some((picks) => picks.length > 0) || Object.values(draft.other).some((text) => text.trim() !== '');

/** @typedef {{questions: readonly Part[], options: readonly {optionId: string, label: string}[]}} Asked */

/** What was answered, in words; empty where that is not told. @param {Asked} item @param {any} end */
function whatWas({ questions, options }, end) {
  const said = inWords(questions, end?.answers).map(({ header, text }) => `${header}: ${text}`).join(' · ');
  return said || (options.find((one) => one.optionId === end?.optionId)?.label ?? '');
}

/**
 * How a question ended, for somebody who was about to answer it: by whom, when, where and with what, or why.
 * @param {Asked} item
 * @param {any} end an outcome of the inbox, or a refusal's body
 * @param {number} now in milliseconds
 * @param {boolean} [late] whether an answer came second, not only a wish to give one
 */
export function endInWords(item, end, now, late = false) {
  if (end?.answeredBy === undefined && end?.answeredAt === undefined) return `Closed: ${why(end?.cause)}.`;
  const declined = end.declined === true || end.state === 'declined';
  const what = declined ? '' : whatWas(item, end);
  const verb = declined ? 'Declined' : late ? 'Already answered' : 'Answered';
  return `${verb} ${byWhom(end.answeredBy)}${end.answeredAt ? ` at ${timeOfDay(end.answeredAt, now)}` : ''}${what ? ` — ${what}` : ''}.`;
}

/**
 * Whether an answer that was sent, and whose receipt did not come, is the one that ended the question.
 * @param {string | undefined} sent the attempt, as JSON
 * @param {any} end
 */
export function isOwnEnd(sent, end) {
  if (sent === undefined) return false;
  const { answers, optionId, decline } = JSON.parse(sent);
  if (decline === true) return end?.state === 'declined';
  return answers === undefined ? optionId === end?.optionId : JSON.stringify(answers) === JSON.stringify(end?.answers);
}

/** What a receipt says, for whoever gave the answer. @param {Asked} item @param {any} receipt */
export function receiptInWords(item, receipt) {
  const what = whatWas(item, receipt) || (receipt?.status === 'declined' ? 'Declined' : 'Answered');
  switch (receipt?.delivery) {
    case 'delivered': return `${what}. The agent has it.`;
    case 'waking': return `${what}. It is stored, and the session is being woken.`;
    default: return `${what}. It is stored, and on its way to the agent.`;
  }
}
