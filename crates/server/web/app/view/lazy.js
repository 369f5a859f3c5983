// @ts-check
// The session's view comes with what only it needs (Markdown first of all), so that the inbox does not wait for that.
import { useEffect, useState } from '../../vendor/hooks.js';
import { html } from '../html.js';

/** @type {typeof import('./session.js') | undefined} */
let loaded;

const fetchIt = async () => { loaded ??= await import('./session.js'); };

/** Fetches it while nothing else is to be done, so that a session opens at once. */
export function warm() {
  if (typeof requestIdleCallback === 'function') requestIdleCallback(() => void fetchIt().catch(() => {}), { timeout: 3000 });
  else setTimeout(() => void fetchIt().catch(() => {}), 1000);
}

/** @param {{view: import('../session.js').SessionView}} props */
export function Lazy({ view }) {
  const [state, tell] = useState(loaded ? 'ready' : 'fetching');
  useEffect(() => {
    if (!loaded) void fetchIt().then(() => tell('ready'), () => tell('failed'));
  }, []);
  if (state === 'failed') {
    // A page that was open over an update finds the files of its own version gone.
    return html`<main class="session" id="main"><div class="empty"><h1>This part of the page could not be loaded</h1><p>The daemon may have been updated, or be away.</p><p><button type="button" onClick=${() => location.reload()}>Load the page again</button></p></div></main>`;
  }
  return loaded ? html`<${loaded.Session} view=${view} />` : html`<main class="session" id="main"></main>`;
}
