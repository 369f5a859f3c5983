// @ts-check
// What a person sets, kept on this machine.
import { effect, signal } from '../vendor/signals-core.js';
import { nameClient } from './api.js';
import { kept, readJson, writeJson } from './world.js';

/** @typedef {{theme: 'auto' | 'light' | 'dark', notify: boolean, name: string}} Settings */

const KEY = 'holdpoint.settings';
const stored = readJson(kept, KEY);

export const settings = signal(/** @type {Settings} */ ({ theme: 'auto', notify: true, name: '', ...stored }));

/** @param {Partial<Settings>} change */
export function change(change) {
  settings.value = { ...settings.peek(), ...change };
  writeJson(kept, KEY, settings.peek());
}

export function applySettings() {
  effect(() => {
    const { theme, name } = settings.value;
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    nameClient(name.trim());
  });
}
