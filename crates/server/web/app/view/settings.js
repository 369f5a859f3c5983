// @ts-check
// What one can set, and what the daemon says of itself.
import { useState } from '../../vendor/hooks.js';
import * as daemon from '../daemon.js';
import { html, useValue } from '../html.js';
import { change, settings } from '../settings.js';

const SHORTCUTS = [
  ['1 – 9', 'choose an option; the number after the last is Other'],
  ['↑ ↓', 'move between options; from the empty message field to the question'], ['← →', 'move between the questions that are asked together'],
  ['Enter', 'choose what the arrows led to; next question, or submit; in the message field: send'], ['Shift+Enter', 'a new line in a message'],
  ['Esc', 'from a question back to the message field; it never declines'],
  ['g i · g s · g n', 'inbox · sessions · new session'],
];

export function Settings() {
  const now = useValue(settings);
  const known = useValue(daemon.capabilities);
  const can = 'Notification' in window;
  const [allowed, allow] = useState(can ? Notification.permission : 'denied');
  const ask = async () => {
    change({ notify: true });
    allow(await Notification.requestPermission());
  };
  return html`<main class="list" id="main">
    <header class="top"><h1>Settings</h1></header>
    <div class="page settings">
      <fieldset><legend>Theme</legend><div class="choice">${/** @type {const} */ ([['auto', 'As the system'], ['light', 'Light'], ['dark', 'Dark']]).map(([value, label]) => html`<label><input type="radio" name="theme" checked=${now.theme === value} onChange=${() => change({ theme: value })} />${label}</label>`)}</div></fieldset>
      <fieldset><legend>Notifications</legend>
        ${!can && html`<p>This browser has none.</p>`}
        ${can && allowed === 'denied' && html`<p>This browser does not allow them for this page; its own settings can.</p>`}
        ${can && allowed === 'default' && html`<p>One for each question that arrives, taken back when it is answered.</p><button type="button" onClick=${() => void ask()}>Allow notifications</button>`}
        ${can && allowed === 'granted' && html`<label class="check"><input type="checkbox" checked=${now.notify} onChange=${() => change({ notify: !now.notify })} />One for each question that arrives, taken back when it is answered</label>`}
      </fieldset>
      <fieldset><legend>Your name</legend><label>Others read it with what you answer here.<input type="text" maxlength="64" autocomplete="name" placeholder="no name" value=${now.name} onInput=${(/** @type {any} */ event) => change({ name: event.target.value })} /></label></fieldset>
      <section class="shortcuts"><h2>Keys</h2><dl class="keys">${SHORTCUTS.map(([key, what]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl></section>
      ${known && html`<section><h2>Daemon</h2><dl class="about">
        <div><dt>Version</dt><dd>${known.holdpointVersion ?? known.qwenCodeVersion ?? ''}</dd></div>
        <div><dt>Workspaces</dt><dd>${known.workspaces.map((/** @type {any} */ place) => place.cwd).join(', ')}</dd></div>
        <div><dt>Who may answer</dt><dd>${known.policy?.permission ?? ''}</dd></div>
        <div><dt>After a restart</dt><dd>${known.restoreAskUserQuestion ? 'open questions are asked again' : 'open questions cannot be asked again: the daemon runs without --restore-ask-user-question'}</dd></div>
      </dl></section>`}
    </div>
  </main>`;
}
