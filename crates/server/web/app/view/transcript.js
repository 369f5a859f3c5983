// @ts-check
// The transcript: only the groups of entries near the window are in the document; the others are room of their height.
import { h } from '../../vendor/preact.js';
import { useEffect, useLayoutEffect, useRef, useState } from '../../vendor/hooks.js';
import { GROUP } from '../fold.js';
import { html } from '../html.js';
import { Entry } from './entry.js';
import { Icon } from './icons.js';

/** How far outside the window groups are drawn, in pixels: some screens of quick scrolling. */
const MARGIN = 1500;
/** Characters in a line of prose, roughly. */
const LINE = 95;
/** From the end of the transcript at most this far still counts as there, in pixels. */
const NEAR = 48;

/** Heights of groups as they were last seen, by key. @type {Map<string, number>} */
const heights = new Map();

/** How high an entry that was never drawn will be, roughly, in pixels. @param {import('../fold.js').Entry} entry */
function guess(entry) {
  switch (entry.kind) {
    case 'user': return 40 + 24 * Math.ceil(entry.text.length / 80);
    case 'agent': return 12 + 24 * Math.ceil(entry.text.length / LINE) + 10 * (entry.text.match(/\n\n/g)?.length ?? 0);
    case 'tool': return entry.parts.length > 0 ? 30 + 62 * entry.parts.length : 33 + (entry.content.some((part) => part?.type === 'diff') ? 160 : 0);
    case 'plan': return 12 + 24 * entry.items.length;
    default: return 33;
  }
}

/**
 * @typedef {object} Watch
 * @property {IntersectionObserver} observer
 * @property {Map<Element, (visible: boolean, height: number) => void>} calls
 * @property {() => void} hold keeps what is read where it is, or the end in sight
 * @property {() => void} holdSoon the same, once for several groups that are drawn together
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
  const drawn = useRef(visible);
  useLayoutEffect(() => {
    if (drawn.current !== visible) watch.holdSoon();
    drawn.current = visible;
  }, [visible]);
  const style = visible ? { height: '' } : { height: `${heights.get(id) ?? entries.reduce((sum, entry) => sum + guess(entry), 0)}px` };
  return h('div', { class: 'group', ref: element, style }, visible
    ? entries.map((entry, index) => h(Entry, { key: entry.key, entry, rev: entry.rev, growing: growing && index === entries.length - 1, root, own }))
    : null);
}

/**
 * The entries, and the groups that are not drawn, between two edges, and where they are.
 * @param {HTMLElement} content
 * @param {number} upper
 * @param {number} lower
 */
function seen(content, upper, lower) {
  const groups = content.children;
  const end = (/** @type {Element | undefined} */ one) => (one instanceof HTMLElement ? one.offsetTop + one.offsetHeight : Infinity);
  let at = 0;
  let high = groups.length;
  while (at < high) {
    const middle = (at + high) >> 1;
    if (end(groups[middle]) > upper) high = middle;
    else at = middle + 1;
  }
  const found = [];
  for (; at < groups.length; at += 1) {
    const group = groups[at];
    // What leads to earlier messages stays above them.
    if (!(group instanceof HTMLElement) || group.matches('.earlier')) continue;
    if (group.offsetTop > lower) break;
    const entries = group.children.length > 0 ? [...group.children].filter((one) => end(one) > upper) : [group];
    for (const element of entries) if (element instanceof HTMLElement) found.push({ element, top: element.offsetTop });
  }
  return found;
}

/** @param {{view: import('../session.js').SessionView, rev: number}} props */
export function Transcript({ view }) {
  const scroller = useRef(/** @type {HTMLDivElement | null} */ (null));
  const content = useRef(/** @type {HTMLDivElement | null} */ (null));
  const stick = useRef(true);
  const before = useRef({ top: 0, height: 0 });
  /** What is read now, from above, and where it was. */
  const place = useRef(/** @type {{element: HTMLElement, top: number}[]} */ ([]));
  const [away, setAway] = useState(false);
  /** @type {{current: Watch | null}} */
  const watch = useRef(/** @type {Watch | null} */ (null));
  const nodes = useRef(/** @type {Map<number, {sum: number, head: string, size: number, node: any, fold: unknown}>} */ (new Map()));
  const [ready, setReady] = useState(false);

  useLayoutEffect(() => {
    const root = scroller.current;
    if (!root) return undefined;
    /** @type {Watch['calls']} */
    const calls = new Map();
    const observer = new IntersectionObserver((seen) => {
      for (const one of seen) calls.get(one.target)?.(one.isIntersecting, one.boundingClientRect.height);
    }, { root, rootMargin: `${MARGIN}px 0px` });
    // Browsers keep a place by themselves, but not while groups are drawn beside it, and not all of them do.
    const hold = () => {
      if (stick.current) {
        root.scrollTop = root.scrollHeight;
        return;
      }
      const moved = place.current.find(({ element }) => element.isConnected);
      if (!moved || moved.element.offsetTop === moved.top) return;
      root.scrollTop += moved.element.offsetTop - moved.top;
      for (const one of place.current) one.top = one.element.offsetTop;
    };
    let soon = false;
    const holdSoon = () => {
      if (soon) return;
      soon = true;
      queueMicrotask(() => { soon = false; hold(); });
    };
    watch.current = { observer, calls, hold, holdSoon };
    const sizes = new ResizeObserver(hold);
    sizes.observe(root);
    if (content.current) sizes.observe(content.current);
    setReady(true);
    return () => { observer.disconnect(); sizes.disconnect(); };
  }, []);
  useLayoutEffect(() => watch.current?.hold());

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
    place.current = content.current && !stick.current ? seen(content.current, root.scrollTop, root.scrollTop + clientHeight) : [];
    if (root.scrollTop < 1200 && view.fold.anchor !== '' && !stick.current) void view.older();
  };
  /** What somebody opens stays under their hand, also at the end, which would else be kept in sight. @param {Event} event */
  const onClick = (event) => {
    const root = scroller.current;
    if (!root || !content.current || !(event.target instanceof Element) || !event.target.closest('[aria-expanded]')) return;
    stick.current = false;
    place.current = seen(content.current, root.scrollTop, root.scrollTop + root.clientHeight);
    requestAnimationFrame(() => {
      if (root.scrollHeight - root.scrollTop - root.clientHeight < NEAR) stick.current = true;
      setAway(!stick.current);
    });
  };
  const { fold } = view;
  const drawn = ready && view.known && fold.entries.length > 0;
  // A short first page may not fill the window. An effect can come late: only what it drew counts.
  useEffect(() => {
    const root = scroller.current;
    if (root && drawn && view.fold === fold && fold.anchor !== '' && root.scrollHeight < root.clientHeight + 200) void view.older();
  });

  const { entries, busy } = fold;
  const groups = [];
  if (ready && watch.current) {
    /** @type {typeof nodes.current} */
    const next = new Map();
    for (let at = 0, end = 0; at < entries.length; at = end) {
      const head = /** @type {import('../fold.js').Entry} */ (entries[at]);
      while (end < entries.length && entries[end]?.group === head.group) end += 1;
      const growing = busy && end === entries.length;
      let sum = growing ? 7 : 3;
      for (let index = at; index < end; index += 1) sum = (sum * 31 + (entries[index]?.rev ?? 0) + 1) % 1_000_000_007;
      const known = nodes.current.get(head.group);
      const same = known && known.sum === sum && known.head === head.key && known.size === end - at && known.fold === fold;
      // The last ones are on the screen at first.
      const node = same ? known.node : h(Group, { key: head.group, id: `${view.id} ${head.key}`, entries: entries.slice(at, end), rev: sum, growing, root: view.workspace, own: view.clientId, watch: watch.current, first: entries.length - at < 2 * GROUP });
      next.set(head.group, { sum, head: head.key, size: end - at, node, fold });
      groups.push(node);
    }
    nodes.current = next;
  }
  return html`<div class="pane"><div class="scroller" ref=${scroller} onScroll=${onScroll} tabindex="0" role="region" aria-label="Transcript">
    <div class="transcript" ref=${content} onClickCapture=${onClick}>
      ${view.fold.anchor !== '' && html`<p class="earlier">${view.loadingOlder ? 'Loading earlier messages…' : html`<button type="button" onClick=${() => void view.older()}>Earlier messages</button>`}</p>`}
      ${view.known && entries.length === 0 && html`<p class="nothing">Nothing has been said yet. Write the first message below.</p>`}
      ${groups}
    </div></div>
    ${away && html`<button type="button" class="latest" onClick=${() => { stick.current = true; setAway(false); const root = scroller.current; if (root) root.scrollTop = root.scrollHeight; }}><${Icon} name="chevron" />Latest</button>`}
  </div>`;
}
