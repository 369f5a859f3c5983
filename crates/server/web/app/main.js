// @ts-check
import { render } from '../vendor/preact.js';
import * as api from './api.js';
import { startDaemon } from './daemon.js';
import { html } from './html.js';
import { startPage } from './page.js';
import { warm } from './parts.js';
import { go, startRouter } from './router.js';
import { applySettings } from './settings.js';
import { App } from './view/app.js';

// The link of `holdpoint open` carries a one-time code in the fragment, which no server and no log sees.
const code = /^#login=(.+)$/.exec(location.hash)?.[1];
if (code) {
  history.replaceState(null, '', location.pathname);
  const known = await api.login({ code: decodeURIComponent(code) }).then(() => true, () => false);
  // What was asked for before it was refused; the page begins anew with the cookie.
  if (known) {
    location.reload();
    await new Promise(() => {});
  }
}

applySettings();
startRouter();
startDaemon();
startPage();
const root = /** @type {HTMLElement} */ (document.getElementById('root'));
root.textContent = '';
render(html`<${App} />`, root);
warm();

// g, then a letter: to a view.
let after = 0;
document.addEventListener('keydown', (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || (event.target instanceof Element && event.target.closest('input, textarea, select'))) return;
  const path = { i: '/', s: '/#sessions', n: '/#new' }[event.key];
  if (event.key === 'g') after = event.timeStamp;
  else if (path && event.timeStamp - after < 1500) {
    event.preventDefault();
    go(path);
  }
});
