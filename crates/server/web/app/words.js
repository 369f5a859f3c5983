// @ts-check
// Times and names in words.

/** @param {number} at @param {number} now both in milliseconds */
export function age(at, now) {
  const seconds = Math.max(0, Math.floor((now - at) / 1000));
  if (seconds < 45) return 'just now';
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  if (hours < 36) return `${hours} h`;
  return `${Math.round(hours / 24)} days`;
}

/** A time of day, with the day where it is another one. @param {number | string | undefined} at @param {number} now */
export function timeOfDay(at, now) {
  const date = new Date(at ?? NaN);
  if (Number.isNaN(date.getTime())) return '';
  const time = `${String(date.getHours()).padStart(2, '0')}:${String(date.getMinutes()).padStart(2, '0')}`;
  if (new Date(now).toDateString() === date.toDateString()) return time;
  return `${date.toLocaleDateString(undefined, { day: 'numeric', month: 'short' })}, ${time}`;
}

/** The last part of a path, for people. @param {string | null | undefined} path */
export const baseName = (path) => (path ?? '').replace(/[\\/]+$/, '').split(/[\\/]/).at(-1) || (path ?? '');

/** @type {Record<string, string>} */
const SURFACES = { web: 'in a browser', cli: 'on the command line', slack: 'in Slack', discord: 'in Discord', http: 'over HTTP', form: 'on the answer page', sdk: 'over the SDK', editor: 'in an editor' };

/** Where, in words. @param {string} surface */
export const placeOf = (surface) => SURFACES[surface] ?? `on ${surface}`;

/** By whom, and where: "by Ann in Slack", "in a browser". @param {any} by @param {string} [own] the client that is "you" */
export function byWhom(by, own) {
  if (own !== undefined && by?.clientId === own) return 'by you';
  const name = by?.name ? `by ${by.name}` : '';
  const place = by?.surface ? placeOf(by.surface) : '';
  return [name, place].filter(Boolean).join(' ') || 'by somebody';
}

/** @type {Record<string, string>} */
const CAUSES = {
  cancelled_before_answer: 'the turn was stopped',
  unreachable_question: 'no page could show it, and the turn was stopped',
  timed_out: 'its time ran out',
  orphan_repair: 'the session went on without an answer',
  session_deleted: 'the session was deleted',
  process_restarted: 'the daemon was started again; consent does not outlive that',
  session_closed: 'the session was closed',
  withdrawn: 'the agent took it back',
};

/** Why something ended without an answer. @param {string | undefined} cause */
export const why = (cause) => CAUSES[cause ?? ''] ?? 'it was closed';

/** @param {number} n @param {string} one @param {string} [many] */
export const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;
