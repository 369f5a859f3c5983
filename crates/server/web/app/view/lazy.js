// @ts-check
// The session's view comes with what only it needs (Markdown first of all), so that the inbox does not wait for that.
import { useEffect, useState } from '../../vendor/hooks.js';
import { html } from '../html.js';

/** @type {typeof import('./session.js') | undefined} */
let loaded;

/** @param {{view: import('../session.js').SessionView}} props */
export function Lazy({ view }) {
  const [, ready] = useState(loaded !== undefined);
  useEffect(() => {
    if (!loaded) void import('./session.js').then((module) => { loaded = module; ready(true); });
  }, []);
  return loaded ? html`<${loaded.Session} view=${view} />` : html`<main class="session" id="main"></main>`;
}
