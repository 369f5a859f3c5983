// @ts-check
// Time, chance and storage, in one place; pure modules get them from here.

/** The clock that timers go by. */
export const clock = {
  now: () => Date.now(),
  /** @param {() => void} call @param {number} ms */
  set: (call, ms) => setTimeout(call, ms),
  /** @param {any} timer */
  clear: (timer) => { if (timer !== null && timer !== undefined) clearTimeout(timer); },
};

export const newId = () => {
  // Plain http on another host than this machine has no `randomUUID`.
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (/** @type {number} */ (bytes[6]) & 0x0f) | 0x40;
  bytes[8] = (/** @type {number} */ (bytes[8]) & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
};

/** @returns {import('./drafts.js').Store} */
function memory() {
  /** @type {Map<string, string>} */
  const map = new Map();
  return {
    getItem: (key) => map.get(key) ?? null,
    setItem: (key, value) => { map.set(key, value); },
    removeItem: (key) => { map.delete(key); },
    key: (index) => [...map.keys()][index] ?? null,
    get length() { return map.size; },
  };
}

/** @param {() => Storage} get @returns {import('./drafts.js').Store} */
function storage(get) {
  try {
    const store = get();
    store.getItem('holdpoint');
    return store;
  } catch {
    return memory();
  }
}

/** Kept on this machine. */
export const kept = storage(() => localStorage);
/** Kept for this tab. */
export const tab = storage(() => sessionStorage);

/** @param {import('./drafts.js').Store} store @param {string} key @returns {any} */
export function readJson(store, key) {
  try {
    return JSON.parse(store.getItem(key) ?? 'null');
  } catch {
    return null;
  }
}

/** @param {import('./drafts.js').Store} store @param {string} key @param {unknown} value */
export function writeJson(store, key, value) {
  try {
    if (value === null) store.removeItem(key);
    else store.setItem(key, JSON.stringify(value));
  } catch {
    // A full or forbidden store costs what outlives a reload, and nothing else.
  }
}
