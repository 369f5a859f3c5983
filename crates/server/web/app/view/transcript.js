// @ts-check
// The transcript: only the groups of entries near the window are in the document; the others are room of their height.
import { h } from '../../vendor/preact.js';
import { useEffect, useLayoutEffect, useRef, useState } from '../../vendor/hooks.js';
import { html } from '../html.js';
import { Entry } from './entry.js';
import { Icon } from './icons.js';

/** Entries of one group. */
const GROUP = 16;
/** How far outside the window groups are drawn, in pixels: some screens of quick scrolling. */
const MARGIN = 1500;
/** The guess for an entry that was never drawn, in pixels. */
const GUESS = 64;
/** From the end of the transcript at most this far still counts as there, in pixels. */
const NEAR = 48;

/** Heights of groups as they were last seen, by key. @type {Map<string, number>} */
const heights = new Map();

/**
 * @typedef {object} Watch
 * @property {IntersectionObserver} observer
 * @property {Map<Element, (visible: boolean, height: number) => void>} calls
 */

/** @param {{entries: import('../fold.js').Entry[], rev: number, growing: boolean, root: string | null, own: string | undefined, watch: Watch, id: string, first: boolean}} props */
function Group({ entries, growing, root, own, watch, id, first }) {
  const [visible, setVisible] = useState(first);
  const element = useRef(/** @type {HTMLDivElement | null} */ (null));
  useLayoutEffect(() => {
    const { current } = element;
    if (!current) return undefined;
    watch.calls.set(current, (shows, height) => {
      if (!shows && height > 0) heights.set(id, height);
      setVisible(shows);
    });
    watch.observer.observe(current);
    return () => {
      watch.observer.unobserve(current);
      watch.calls.delete(current);
    };
  }, [id]);
  const style = visible ? { height: '' } : { height: `${heights.get(id) ?? entries.length * GUESS}px` };
  return h('div', { class: 'group', ref: element, style }, visible
    ? entries.map((entry, index) => h(Entry, { key: entry.key, entry, rev: entry.rev, growing: growing && index === entries.length - 1, root, own }))
    : null);
}

/** @param {{view: import('../session.js').SessionView, rev: number}} props */
export function Transcript({ view }) {
  const scroller = useRef(/** @type {HTMLDivElement | null} */ (null));
  const content = useRef(/** @type {HTMLDivElement | null} */ (null));
  const stick = useRef(true);
  const before = useRef({ top: 0, height: 0 });
  const [away, setAway] = useState(false);
  /** @type {{current: Watch | null}} */
  const watch = useRef(/** @type {Watch | null} */ (null));
  const nodes = useRef(/** @type {Map<string, {sum: number, node: any, fold: unknown}>} */ (new Map()));
  const [ready, setReady] = useState(false);

  useLayoutEffect(() => {
    const root = scroller.current;
    if (!root) return undefined;
    /** @type {Watch['calls']} */
    const calls = new Map();
    const observer = new IntersectionObserver((seen) => {
      for (const one of seen) calls.get(one.target)?.(one.isIntersecting, one.boundingClientRect.height);
    }, { root, rootMargin: `${MARGIN}px 0px` });
    watch.current = { observer, calls };
    const sizes = new ResizeObserver(() => { if (stick.current) root.scrollTop = root.scrollHeight; });
    sizes.observe(root);
    if (content.current) sizes.observe(content.current);
    setReady(true);
    return () => { observer.disconnect(); sizes.disconnect(); };
  }, []);
  useLayoutEffect(() => {
    const root = scroller.current;
    if (root && stick.current) root.scrollTop = root.scrollHeight;
  });

  const onScroll = () => {
    const root = scroller.current;
    if (!root) return;
    const { scrollTop, scrollHeight, clientHeight } = root;
    const { top, height } = before.current;
    before.current = { top: scrollTop, height: scrollHeight };
    // What grows or shrinks moves the place too; only a move up through the same content is a person's.
    if (scrollHeight - scrollTop - clientHeight < NEAR) stick.current = true;
    else if (scrollTop < top - 2 && scrollHeight >= height) stick.current = false;
    else if (stick.current) root.scrollTop = scrollHeight;
    setAway(!stick.current);
    if (root.scrollTop < 1200 && view.fold.anchor !== '' && !stick.current) {
      // At the very top a browser does not keep its place when something is put before it.
      if (root.scrollTop === 0) root.scrollTop = 1;
      void view.older();
    }
  };
  const { fold } = view;
  const drawn = ready && view.known && fold.entries.length > 0;
  // A short first page may not fill the window. An effect can come late: only what it drew counts.
  useEffect(() => {
    const root = scroller.current;
    if (root && drawn && view.fold === fold && fold.anchor !== '' && root.scrollHeight < root.clientHeight + 200) void view.older();
  });

  const { entries, older, busy } = fold;
  const groups = [];
  if (ready && watch.current) {
    /** @type {typeof nodes.current} */
    const next = new Map();
    // Groups count from the first entry of the snapshot, so that older pages move no boundary.
    const start = older % GROUP === 0 ? 0 : (older % GROUP) - GROUP;
    for (let at = start; at < entries.length; at += GROUP) {
      const some = entries.slice(Math.max(0, at), at + GROUP);
      const head = some[0];
      if (!head) continue;
      const growing = busy && at + GROUP >= entries.length;
      let sum = growing ? 7 : 3;
      for (const entry of some) sum = (sum * 31 + entry.rev + 1) % 1_000_000_007;
      const known = nodes.current.get(head.key);
      const same = known && known.sum === sum && known.fold === view.fold;
      const node = same ? known.node : h(Group, { key: head.key, id: `${view.id} ${head.key}`, entries: some, rev: sum, growing, root: view.workspace, own: view.clientId, watch: watch.current, first: at + 2 * GROUP >= entries.length });
      next.set(head.key, { sum, node, fold: view.fold });
      groups.push(node);
    }
    nodes.current = next;
  }
  return html`<div class="pane"><div class="scroller" ref=${scroller} onScroll=${onScroll} tabindex="0" role="region" aria-label="Transcript">
    <div class="transcript" ref=${content}>
      ${view.fold.anchor !== '' && html`<p class="earlier">${view.loadingOlder ? 'Loading earlier messages…' : html`<button type="button" onClick=${() => void view.older()}>Earlier messages</button>`}</p>`}
      ${view.known && entries.length === 0 && html`<p class="nothing">Nothing has been said yet. Write the first message below.</p>`}
      ${groups}
    </div></div>
    ${away && html`<button type="button" class="latest" onClick=${() => { stick.current = true; setAway(false); const root = scroller.current; if (root) root.scrollTop = root.scrollHeight; }}><${Icon} name="chevron" />Latest</button>`}
  </div>`;
}
