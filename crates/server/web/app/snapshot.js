// @ts-check
// H1: what a view knows about questions, as one of three words; and the one function that says which running calls
// nothing covers. The first look, the refetch and the last check before a halt all judge by it.

/**
 * A call of `ask_user_question` in progress.
 * @typedef {object} Call
 * @property {string} callId
 * @property {string} [messageId] the model's message that holds the call
 */

/**
 * What the client knows of a question that it has or had before it.
 * @typedef {object} Entry
 * @property {string} questionId
 * @property {string} sessionId
 * @property {string} kind `user_question` or `permission`
 * @property {string} [callId] the call that asks it, where the source says so
 * @property {string} [messageId]
 * @property {boolean} showable whether it can be put before a person now; one that is being settled cannot, and covers its call
 */

/** @typedef {'ready' | 'missingRunning' | 'none'} QuestionState */

/**
 * The calls that no entry covers. An entry that names its call covers that one; one that does not covers any one call.
 * @template {Call} C
 * @param {readonly C[]} calls
 * @param {readonly Entry[]} entries
 * @returns {C[]}
 */
export function uncovered(calls, entries) {
  const questions = entries.filter((entry) => entry.kind === 'user_question');
  const named = questions.filter((entry) => entry.callId !== undefined);
  const left = calls.filter((call) => !named.some((entry) => covers(entry, call)));
  return left.slice(questions.length - named.length);
}

/**
 * @param {Entry} entry
 * @param {Call} call
 */
function covers(entry, call) {
  if (entry.callId !== call.callId) return false;
  return entry.messageId === undefined || call.messageId === undefined || entry.messageId === call.messageId;
}

/**
 * @param {object} view
 * @param {string} view.sessionId the active session
 * @param {readonly string[]} [view.tree] the sessions whose questions it shows; itself unless given
 * @param {readonly Call[]} view.calls its running question calls, however far back
 * @param {readonly Entry[]} view.entries
 * @returns {QuestionState}
 */
export function questionState({ sessionId, tree = [sessionId], calls, entries }) {
  const ours = entries.filter((entry) => tree.includes(entry.sessionId));
  if (ours.some((entry) => entry.showable && entry.kind === 'user_question')) return 'ready';
  const own = ours.filter((entry) => entry.sessionId === sessionId);
  return uncovered(calls, own).length > 0 ? 'missingRunning' : 'none';
}
