// @ts-check
// What only a session needs - its stream, the recovery clock, Markdown - comes when one is opened, or while nothing else
// is to be done, so that the inbox does not wait for it.
import { signal } from '../vendor/signals-core.js';

/** @typedef {{work: typeof import('./work.js'), view: typeof import('./view/session.js')}} Parts */

/** Null until they are there. */
export const parts = signal(/** @type {Parts | null} */ (null));
/** Whether they cannot be had: a page that was open over an update finds the files of its own version gone. */
export const partsMissing = signal(false);

/** @type {Promise<void> | undefined} */
let fetching;

/** @returns {Promise<void>} */
export function fetchParts() {
  fetching ??= Promise.all([import('./work.js'), import('./view/session.js')]).then(
    ([work, view]) => { parts.value = { work, view }; },
    () => { partsMissing.value = true; },
  );
  return fetching;
}

/** Fetches them while nothing else is to be done, so that a session opens at once. */
export function warm() {
  if (typeof requestIdleCallback === 'function') requestIdleCallback(() => void fetchParts(), { timeout: 3000 });
  else setTimeout(() => void fetchParts(), 1000);
}
