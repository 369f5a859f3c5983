// @ts-check
// A session as a snapshot plus a sequence (H12). Any doubt - a gap, a cursor that the daemon does not know, a connection
// that broke or fell silent - ends in a new snapshot. No clock and no network in here: they come in through `Ports`.

/** Silence after which a connection counts as dead, in milliseconds: the daemon sends a comment every 15 s at the latest. */
export const SILENCE_MS = 20_000;
/** The same once the daemon has shown that it sends its last id every few seconds. */
export const SHORT_SILENCE_MS = 10_000;
/** Waits before the next attempt to connect, in milliseconds; the last one repeats. */
export const BACK_OFF_MS = [0, 250, 500, 1000, 2000, 4000];

/** @typedef {import('./sse.js').Frame} Frame */
/** @typedef {'connecting' | 'live' | 'lost' | 'ended'} Condition */

/**
 * @template S
 * @typedef {object} Ports
 * @property {{now(): number, set(call: () => void, ms: number): unknown, clear(timer: any): void}} clock
 * @property {() => Promise<{snapshot: S, lastEventId: number, epoch: string}>} take a snapshot; rejects with `{gone: true}` when there is no such session
 * @property {(cursor: {lastEventId: number, epoch: string}, signal: AbortSignal, alive: () => void) => Promise<AsyncIterable<Frame[]>>} connect
 * @property {(snapshot: S) => void} reset the view starts over from a snapshot
 * @property {(frames: Frame[]) => void} apply frames in order, without gap
 * @property {(condition: Condition, why?: string) => void} tell
 */

/**
 * Frames in order: what may be applied, and whether something is missing. Id-less frames that carry the last id are the
 * signs of life; one that names an id which never came is a gap.
 * @param {number} cursor
 * @param {readonly Frame[]} frames
 * @returns {{apply: Frame[], cursor: number, doubt?: string, ends?: Frame, beats: boolean}}
 */
export function sequence(cursor, frames) {
  const apply = [];
  let beats = false;
  for (const frame of frames) {
    if (typeof frame.id === 'number') {
      if (frame.id <= cursor) continue;
      if (frame.id > cursor + 1) return { apply, cursor, doubt: `event ${cursor + 1} never came`, beats };
      cursor = frame.id;
      apply.push(frame);
    } else if (frame.type === 'state_resync_required') {
      return { apply, cursor, doubt: String(frame.data?.reason ?? frame.type), beats };
    } else if (frame.type === 'client_evicted' || frame.type === 'stream_error') {
      return { apply, cursor, doubt: frame.type, beats };
    } else {
      const last = frame.data?.lastEventId;
      if (typeof last === 'number' && frame.type !== 'slow_client_warning') {
        beats ||= frame.type !== 'replay_complete';
        if (last > cursor) return { apply, cursor, doubt: `event ${cursor + 1} never came`, beats };
      }
      apply.push(frame);
    }
    if (frame.type === 'session_closed') return { apply, cursor, ends: frame, beats };
  }
  return { apply, cursor, beats };
}

/**
 * @template S
 * @param {Ports<S>} ports
 */
export function createStream(ports) {
  const { clock } = ports;
  let closed = false;
  let failures = 0;
  let beats = false;
  let heard = clock.now();
  /** @type {AbortController | undefined} */
  let connection;
  /** @type {unknown} */
  let timer;
  /** @type {(() => void) | undefined} */
  let wake;
  /** @type {unknown} */
  let watchdog;

  /** @param {number} ms @returns {Promise<void>} */
  const pause = (ms) => new Promise((resolve) => {
    wake = () => { clock.clear(timer); wake = undefined; resolve(); };
    timer = clock.set(() => wake?.(), ms);
  });

  function watch() {
    watchdog = clock.set(() => {
      if (clock.now() - heard > (beats ? SHORT_SILENCE_MS : SILENCE_MS)) connection?.abort();
      watch();
    }, 1000);
  }

  async function run() {
    ports.tell('connecting');
    watch();
    while (!closed) {
      let quick = false;
      try {
        quick = await once();
      } catch (error) {
        if (closed) break;
        if (error && typeof error === 'object' && 'gone' in error) {
          ports.tell('ended', 'gone');
          break;
        }
        ports.tell('lost', error instanceof Error ? error.message : undefined);
      }
      if (closed || ended) break;
      const wait = BACK_OFF_MS[Math.min(failures, BACK_OFF_MS.length - 1)] ?? 0;
      failures += 1;
      await pause(quick && failures < 4 ? 0 : wait);
    }
    clock.clear(watchdog);
  }
  let ended = false;

  /** One snapshot and the stream after it; true when a doubt, not a failure, ended it. */
  async function once() {
    const mine = new AbortController();
    connection = mine;
    heard = clock.now();
    const { snapshot, lastEventId, epoch } = await ports.take();
    if (closed) return false;
    ports.reset(snapshot);
    let cursor = lastEventId;
    heard = clock.now();
    const body = await ports.connect({ lastEventId, epoch }, mine.signal, () => { heard = clock.now(); });
    if (closed) return false;
    ports.tell('live');
    for await (const frames of body) {
      if (closed || mine.signal.aborted) break;
      const read = sequence(cursor, frames);
      cursor = read.cursor;
      beats ||= read.beats;
      // A connection that brings something new is a good one.
      if (read.apply.length > 0) failures = 0;
      if (read.apply.length > 0) ports.apply(read.apply);
      if (read.ends) {
        ended = true;
        mine.abort();
        ports.tell('ended', String(read.ends.data?.reason ?? 'closed'));
        return false;
      }
      if (read.doubt) {
        mine.abort();
        return true;
      }
    }
    mine.abort();
    if (!closed) ports.tell('lost');
    return false;
  }

  return {
    start() {
      void run();
    },
    /** Somebody looks again, or the network is back: a wait ends now, and a silent connection is tried. */
    nudge() {
      failures = 0;
      if (clock.now() - heard > SHORT_SILENCE_MS) connection?.abort();
      wake?.();
    },
    /** A doubt from outside. */
    resnap() {
      failures = 0;
      connection?.abort();
      wake?.();
    },
    close() {
      closed = true;
      connection?.abort();
      clock.clear(watchdog);
      wake?.();
    },
  };
}
