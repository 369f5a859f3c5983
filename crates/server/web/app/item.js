// @ts-check
// What can be answered, from whatever source it is known.

/**
 * @typedef {object} Item
 * @property {string} questionId
 * @property {number} generation
 * @property {string} sessionId
 * @property {string} kind
 * @property {string} title
 * @property {import('./form.js').Part[]} questions
 * @property {any} action
 * @property {{optionId: string, label: string, kind: string}[]} options
 * @property {string | undefined} callId
 * @property {string | undefined} messageId
 * @property {string | undefined} askedAt
 */

/** @param {import('./daemon.js').Question} row @returns {Item} */
export function itemOf(row) {
  return {
    questionId: row.questionId, generation: row.generation, sessionId: row.sessionId, kind: row.kind, title: row.title,
    questions: /** @type {any} */ (row.questions ?? []), action: row.action, options: (row.options ?? []).map((/** @type {any} */ option) => ({ optionId: option.optionId, label: option.label ?? option.name, kind: option.kind })),
    callId: row.toolCallId, messageId: row.messageId, askedAt: row.askedAt,
  };
}
