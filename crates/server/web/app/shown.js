// @ts-check
// D4: the daemon is told which questions were really put before a person here, each once.
import * as api from './api.js';

/** @type {Set<string>} */
const told = new Set();

/** @param {{questionId: string, generation: number}} question */
export function tellShown({ questionId, generation }) {
  const key = `${questionId}#${generation}`;
  if (told.has(key) || document.visibilityState !== 'visible') return;
  told.add(key);
  api.shown(questionId, generation).catch((error) => {
    // What was not heard is told again with the next drawing; what is over needs no telling.
    if (!(error instanceof api.ApiError) || error.status >= 500) told.delete(key);
  });
}
