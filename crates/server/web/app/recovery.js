// @ts-check
// The recovery clock (H2-H8): a session that waits for a question which nobody can see is first looked after, then, once
// and only once, halted. No clock, no network, no page in here: all of it comes in through `Ports`.

/** How long a question may be missing before the session is halted (H3), in milliseconds. */
export const HEAL_DELAY_MS = 3000;
/** How often and how fast the daemon is asked again at first (H2). */
export const REFETCHES = 4;
export const REFETCH_MS = 250;
/** How often a list that cannot be read is tried again within one firing (H5). */
export const MORE_TRIES = 3;

/** @typedef {import('./snapshot.js').QuestionState} QuestionState */

/**
 * @template L what the daemon's list holds
 * @typedef {object} Ports
 * @property {{now(): number, set(call: () => void, ms: number): unknown, clear(timer: any): void}} clock
 * @property {(sessionId: string) => QuestionState} state
 * @property {(sessionId: string) => boolean} busy whether its turn runs or waits (`hasActivePrompt`)
 * @property {() => {sessionId: string | null, workspace: string | null}} active
 * @property {(sessionId: string) => Promise<L>} list the daemon's own list; rejects when it cannot be read
 * @property {(sessionId: string, list: L) => boolean} covered whether a list covers every running call (H1)
 * @property {(sessionId: string, list: L) => void} write puts a list into the state
 * @property {(sessionId: string) => Promise<void>} halt
 * @property {(message: string, detail: Record<string, unknown>) => void} warn
 * @property {(sessionId: string, unreachable: boolean) => void} say whether the daemon cannot be reached, for the status line
 */

/**
 * One stuck event of one session.
 * @typedef {object} Watch
 * @property {number} armedAt
 * @property {number | null} firedAt
 * @property {string | null} workspace
 * @property {unknown} timer
 * @property {unknown} refetch
 */

/**
 * @template L
 * @param {Ports<L>} ports
 */
export function createRecovery(ports) {
  const { clock } = ports;
  /** What is armed or firing. @type {Map<string, Watch>} */
  const watches = new Map();
  /** The edge that each session has used: it must leave `missingRunning` before it can arm again (H7). @type {Set<string>} */
  const spent = new Set();
  let closed = false;

  /** @param {string} sessionId */
  function disarm(sessionId) {
    const watch = watches.get(sessionId);
    if (!watch) return;
    watches.delete(sessionId);
    clock.clear(watch.timer);
    clock.clear(watch.refetch);
    if (watch.firedAt !== null) ports.say(sessionId, false);
  }

  /** @param {string} sessionId */
  function arm(sessionId) {
    spent.add(sessionId);
    /** @type {Watch} */
    const watch = { armedAt: clock.now(), firedAt: null, workspace: ports.active().workspace, timer: null, refetch: null };
    watches.set(sessionId, watch);
    watch.timer = clock.set(() => void fire(sessionId, watch), HEAL_DELAY_MS);
    void refetch(sessionId, watch, 1);
  }

  /** H2: what is found is shown, and nothing else happens; what fails is silent. @param {string} sessionId @param {Watch} watch @param {number} turn */
  async function refetch(sessionId, watch, turn) {
    if (turn < REFETCHES) watch.refetch = clock.set(() => void refetch(sessionId, watch, turn + 1), REFETCH_MS);
    try {
      const list = await ports.list(sessionId);
      if (watches.get(sessionId) === watch && watch.firedAt === null) ports.write(sessionId, list);
    } catch {
      // The clock goes on.
    }
  }

  /** The first three checks (H4), in order. @param {string} sessionId @param {Watch} watch */
  function stands(sessionId, watch) {
    if (ports.state(sessionId) !== 'missingRunning') return false;
    if (!ports.busy(sessionId)) return false;
    const active = ports.active();
    return active.sessionId === sessionId && active.workspace === watch.workspace;
  }

  /** Ends a firing that did not act: it forgets its edge (H8). @param {string} sessionId @param {Watch} watch */
  function leave(sessionId, watch) {
    if (watches.get(sessionId) !== watch) return;
    disarm(sessionId);
    idle.add(sessionId);
  }
  /** Sessions whose last firing did not act, until somebody comes back to them. @type {Set<string>} */
  const idle = new Set();

  /** @param {string} sessionId @param {Watch} watch */
  async function fire(sessionId, watch) {
    watch.firedAt ??= clock.now();
    clock.clear(watch.refetch);
    try {
      await check(sessionId, watch, 0);
    } catch (error) {
      ports.warn('question-recovery: check failed', about(sessionId, watch, error));
      leave(sessionId, watch);
    }
  }

  /** @param {string} sessionId @param {Watch} watch @param {number} tries @returns {Promise<void>} */
  async function check(sessionId, watch, tries) {
    if (!stands(sessionId, watch)) {
      leave(sessionId, watch);
      return;
    }
    /** @type {L} */
    let list;
    try {
      list = await ports.list(sessionId);
    } catch (error) {
      if (watches.get(sessionId) !== watch) return;
      if (tries < MORE_TRIES) {
        ports.say(sessionId, true);
        watch.timer = clock.set(() => void again(sessionId, watch, tries + 1), HEAL_DELAY_MS);
        return;
      }
      if (!stands(sessionId, watch)) {
        leave(sessionId, watch);
        return;
      }
      ports.warn('question-recovery: list unreadable', about(sessionId, watch, error));
      await act(sessionId, watch);
      return;
    }
    // A clean-up that came while the list was read has ended this.
    if (watches.get(sessionId) !== watch) return;
    if (ports.covered(sessionId, list)) {
      leave(sessionId, watch);
      ports.write(sessionId, list);
      return;
    }
    if (!stands(sessionId, watch)) {
      leave(sessionId, watch);
      return;
    }
    await act(sessionId, watch);
  }

  /** @param {string} sessionId @param {Watch} watch @param {number} tries */
  async function again(sessionId, watch, tries) {
    try {
      await check(sessionId, watch, tries);
    } catch (error) {
      ports.warn('question-recovery: check failed', about(sessionId, watch, error));
      leave(sessionId, watch);
    }
  }

  /** H6: once; the watch is gone before anything is awaited. @param {string} sessionId @param {Watch} watch */
  async function act(sessionId, watch) {
    disarm(sessionId);
    try {
      await ports.halt(sessionId);
    } catch (error) {
      ports.warn('question-recovery: halt failed', about(sessionId, watch, error));
    }
  }

  /** @param {string} sessionId @param {Watch} watch @param {unknown} error */
  function about(sessionId, { armedAt, firedAt, workspace }, error) {
    return { sessionId, armedAt, firedAt, workspace, error: error instanceof Error ? error.message : String(error) };
  }

  return {
    /** Tells the clock what a session's snapshot says now. @param {string} sessionId @param {QuestionState} state */
    observe(sessionId, state) {
      if (closed) return;
      if (state !== 'missingRunning') {
        disarm(sessionId);
        spent.delete(sessionId);
        idle.delete(sessionId);
      } else if (!spent.has(sessionId)) {
        arm(sessionId);
      }
    },
    /** Somebody has come back to a session: an edge that was forgotten may arm anew (H8). @param {string} sessionId */
    comeBack(sessionId) {
      if (idle.delete(sessionId)) spent.delete(sessionId);
    },
    /** @param {string} sessionId */
    deleted(sessionId) {
      disarm(sessionId);
      spent.delete(sessionId);
      idle.delete(sessionId);
    },
    /** Everything that was armed belonged to another workspace. */
    workspaceChanged() {
      for (const sessionId of [...watches.keys()]) disarm(sessionId);
      spent.clear();
      idle.clear();
    },
    /** The view is gone; nothing stays armed, and nothing arms again. */
    close() {
      closed = true;
      for (const sessionId of [...watches.keys()]) disarm(sessionId);
    },
    /** How many timers are armed. */
    get armed() {
      return watches.size;
    },
  };
}
