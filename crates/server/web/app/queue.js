// @ts-check
// Messages that a person has sent off and that the daemon may not have yet (H10). They leave in order, one at a time. The
// daemon's own queue is durable (D5); this one is for the time without a daemon, and while its queue is full.

/**
 * @typedef {object} Item
 * @property {string} id chosen here; sent as the prompt's id, so that a daemon that knows it takes a repeat as the same one
 * @property {string} text
 * @property {number} at when it was written, in milliseconds
 * @property {'waiting' | 'sending' | 'unsure'} state `unsure`: sent, and whether it arrived is not known
 */

/** @typedef {readonly Item[]} Outbox */

/** @param {Outbox} box @param {{id: string, text: string, at: number}} message @returns {Outbox} */
export const add = (box, { id, text, at }) => [...box, { id, text, at, state: 'waiting' }];

/** @param {Outbox} box @param {string} id @returns {Outbox} */
export const drop = (box, id) => box.filter((item) => item.id !== id);

/** @param {Outbox} box @param {string} id @param {Item['state']} state @returns {Outbox} */
export const mark = (box, id, state) => box.map((item) => (item.id === id ? { ...item, state } : item));

/** What may leave now: the first, unless something is under way or of unknown fate. @param {Outbox} box @returns {Item | undefined} */
export const next = (box) => (box.every((item) => item.state === 'waiting') ? box[0] : undefined);

/** An outbox as it was stored: what was being sent when the page went away may have arrived. @param {unknown} stored @returns {Outbox} */
export function revive(stored) {
  if (!Array.isArray(stored)) return [];
  return stored.flatMap((item) => {
    if (typeof item?.id !== 'string' || typeof item.text !== 'string' || typeof item.at !== 'number') return [];
    return [{ id: item.id, text: item.text, at: item.at, state: item.state === 'waiting' ? 'waiting' : 'unsure' }];
  });
}

/**
 * Settles those of unknown fate against what the daemon has: the same id, or the same text given since. Each thing that the
 * daemon has accounts for one message.
 * @param {Outbox} box
 * @param {readonly {promptId?: string, text: string, at?: number}[]} had prompts that wait, run or are in the transcript
 * @returns {Outbox}
 */
export function settle(box, had) {
  const left = [...had];
  return box.flatMap((item) => {
    if (item.state !== 'unsure') return [item];
    const exact = left.findIndex((other) => other.promptId === item.id);
    // Clocks of two machines differ a little.
    const index = exact >= 0 ? exact : left.findIndex((other) => other.text.trim() === item.text.trim() && (other.at ?? Infinity) >= item.at - 2000);
    if (index < 0) return [{ ...item, state: /** @type {const} */ ('waiting') }];
    left.splice(index, 1);
    return [];
  });
}
