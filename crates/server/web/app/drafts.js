// @ts-check
// What a person has filled in and not sent, by question id. A draft outlives reloads and restarts of the daemon; so does
// the response id of an answer that was sent and whose fate is unknown, so that sending it again is the same answer.

/**
 * @typedef {object} Draft
 * @property {Record<string, string[]>} picks labels that are chosen, by answer key
 * @property {Record<string, string>} other free text, by answer key
 * @property {Record<string, boolean>} useOther whether the free text counts
 * @property {number} step the part that is before the person
 * @property {{responseId: string, content: string}} [sent] the last attempt
 * @property {number} at when it was last touched, in milliseconds
 */

const PREFIX = 'holdpoint.draft.';
/** A draft is kept for this long after the last touch, in milliseconds. */
const KEPT_MS = 30 * 24 * 3600 * 1000;
/** Most drafts kept: far more than anybody leaves unsent, and little beside the store's usual 5 MB. */
const MOST = 200;

/** @typedef {{getItem(key: string): string | null, setItem(key: string, value: string): void, removeItem(key: string): void, key(index: number): string | null, readonly length: number}} Store */

/** @returns {Draft} */
export const emptyDraft = () => ({ picks: {}, other: {}, useOther: {}, step: 0, at: 0 });

/**
 * @param {Store} store
 * @param {() => number} now
 * @param {() => string} newId
 */
export function createDrafts(store, now, newId) {
  /** @param {string} questionId @returns {Draft} */
  function get(questionId) {
    try {
      const found = JSON.parse(store.getItem(PREFIX + questionId) ?? 'null');
      return found && typeof found === 'object' ? { ...emptyDraft(), ...found } : emptyDraft();
    } catch {
      return emptyDraft();
    }
  }

  /** @param {string} questionId @param {Draft} draft */
  function put(questionId, draft) {
    try {
      store.setItem(PREFIX + questionId, JSON.stringify({ ...draft, at: now() }));
    } catch {
      // A full or forbidden store loses drafts over a reload, and nothing else.
    }
  }

  return {
    get,
    put,
    /** @param {string} questionId */
    drop(questionId) {
      try {
        store.removeItem(PREFIX + questionId);
      } catch {
        // As above.
      }
    },
    /**
     * The response id to send an answer with: that of the last attempt if it is the same answer, else a new one.
     * @param {string} questionId
     * @param {unknown} answer
     */
    responseId(questionId, answer) {
      const draft = get(questionId);
      const content = JSON.stringify(answer);
      if (draft.sent?.content === content) return draft.sent.responseId;
      const responseId = newId();
      put(questionId, { ...draft, sent: { responseId, content } });
      return responseId;
    },
    /** Forgets what is too old, and the oldest where there are too many. */
    tidy() {
      const found = [];
      try {
        for (let index = 0; index < store.length; index += 1) {
          const key = store.key(index);
          if (key?.startsWith(PREFIX)) found.push({ key, at: get(key.slice(PREFIX.length)).at });
        }
        found.sort((one, other) => other.at - one.at);
        for (const [index, { key, at }] of found.entries()) {
          if (index >= MOST || now() - at > KEPT_MS) store.removeItem(key);
        }
      } catch {
        // As above.
      }
    },
  };
}
