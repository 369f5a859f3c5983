// @ts-check
// The session's view comes with what only it needs (Markdown first of all), so that the inbox does not wait for that.
import { useEffect, useState } from '../../vendor/hooks.js';
import { html } from '../html.js';

/** @type {typeof import('./session.js') | undefined} */
let loaded;

const fetchIt = async () => { loaded ??= await import('./session.js'); };

/** Fetches it while nothing else is to be done, so that a session opens at once. */
export function warm() {
  if (typeof requestIdleCallback === 'function') requestIdleCallback(() => void fetchIt(), { timeout: 3000 });
  else setTimeout(() => void fetchIt(), 1000);
}

/** @param {{view: import('../session.js').SessionView}} props */
export function Lazy({ view }) {
  const [, ready] = useState(loaded !== undefined);
  useEffect(() => {
    if (!loaded) void fetchIt().then(() => ready(true));
  }, []);
  return loaded ? html`<${loaded.Session} view=${view} />` : html`<main class="session" id="main"></main>`;
}
