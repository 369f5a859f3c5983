// @ts-check
// Elements without a build step: htm's templates make Preact's nodes. Text is always text; there is no way to HTML here.
import htm from '../vendor/htm.js';
import { h } from '../vendor/preact.js';
import { useLayoutEffect, useReducer } from '../vendor/hooks.js';

export const html = htm.bind(h);

/**
 * The value of a signal, and a new rendering whenever it changes.
 * @template T
 * @param {import('../vendor/signals-core.js').ReadonlySignal<T>} source
 * @returns {T}
 */
export function useValue(source) {
  const [, again] = useReducer((/** @type {number} */ n) => n + 1, 0);
  const value = source.peek();
  // Before the paint: what comes meanwhile is in the first picture.
  useLayoutEffect(() => {
    let seen = value;
    return source.subscribe((now) => {
      if (now !== seen) {
        seen = now;
        again(undefined);
      }
    });
    // The value seen at rendering is compared once, when the subscription starts.
  }, [source]);
  return value;
}
