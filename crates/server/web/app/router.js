// @ts-check
// Where the page is. A session has a path, so that it has a link; the other views hang on the root, behind a #.
import { signal } from '../vendor/signals-core.js';

/** @typedef {{view: 'inbox' | 'sessions' | 'new' | 'settings'} | {view: 'session', id: string}} Route */

/** @param {string} at a path, and what is behind a # @returns {Route} */
export function parse(at) {
  const session = /^\/s\/([^/#]+)/.exec(at);
  if (session) return { view: 'session', id: decodeURIComponent(/** @type {string} */ (session[1])) };
  switch (at) {
    case '/#sessions': return { view: 'sessions' };
    case '/#new': return { view: 'new' };
    case '/#settings': return { view: 'settings' };
    default: return { view: 'inbox' };
  }
}

const here = () => location.pathname + location.hash;

export const route = signal(parse(here()));

/** @param {string} path */
export function go(path) {
  if (path !== here()) history.pushState(null, '', path);
  route.value = parse(path);
}

/** Where a session lives. @param {string} id */
export const pathOf = (id) => `/s/${encodeURIComponent(id)}`;

export function startRouter() {
  addEventListener('popstate', () => { route.value = parse(here()); });
  // Links inside the page do not load it again.
  document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a[data-in]') : null;
    if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    const { pathname, hash } = new URL(link.href);
    go(pathname + hash);
  });
}
