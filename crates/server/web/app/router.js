// @ts-check
// Where the page is: a path, so that a session has a link.
import { signal } from '../vendor/signals-core.js';

/** @typedef {{view: 'inbox' | 'sessions' | 'new' | 'settings'} | {view: 'session', id: string}} Route */

/** @param {string} path @returns {Route} */
export function parse(path) {
  const session = /^\/s\/([^/]+)$/.exec(path);
  if (session) return { view: 'session', id: decodeURIComponent(/** @type {string} */ (session[1])) };
  if (path === '/sessions') return { view: 'sessions' };
  if (path === '/new') return { view: 'new' };
  if (path === '/settings') return { view: 'settings' };
  return { view: 'inbox' };
}

export const route = signal(parse(location.pathname));

/** @param {string} path */
export function go(path) {
  if (path !== location.pathname) history.pushState(null, '', path);
  route.value = parse(path);
}

/** Where a session lives. @param {string} id */
export const pathOf = (id) => `/s/${encodeURIComponent(id)}`;

export function startRouter() {
  addEventListener('popstate', () => { route.value = parse(location.pathname); });
  // Links inside the page do not load it again.
  document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a[data-in]') : null;
    if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(new URL(link.href).pathname);
  });
}
