// @ts-check
// One session that is looked at: its snapshot and stream, what it asks, what is to be sent to it.
import { signal } from '../vendor/signals-core.js';
import * as api from './api.js';
import * as daemon from './daemon.js';
import { Fold, QUESTION_TOOL, atCursor, beforeRecord, isRunning } from './fold.js';
import { receiptInWords } from './form.js';
import { itemOf } from './item.js';
import * as queue from './queue.js';
import { questionState, uncovered } from './snapshot.js';
import { frames } from './sse.js';
import { createStream } from './stream.js';
import { clock, kept, newId, readJson, tab, writeJson } from './world.js';

/** Records of history that a snapshot brings; older ones come by pages when they are scrolled to. */
const PAGE = 200;
/** How long a receipt is told, in milliseconds. */
const RECEIPT_MS = 5000;

export class SessionView {
  /** @param {string} id @param {(view: SessionView) => void} onChange told at once; `rev` is for drawing */
  constructor(id, onChange) {
    this.id = id;
    this.onChange = onChange;
    this.fold = new Fold(id);
    /** Counts what there is to draw. */
    this.rev = signal(0);
    /** @type {import('./stream.js').Condition} */
    this.condition = 'connecting';
    this.why = '';
    /** Whether a snapshot has been taken at all. */
    this.known = false;
    this.workspace = /** @type {string | null} */ (null);
    this.mode = '';
    /** @type {{id: string, name: string, description?: string}[]} */
    this.modes = [];
    /** @type {import('./queue.js').Outbox} */
    this.outbox = queue.revive(readJson(kept, `holdpoint.outbox.${id}`));
    /** Accepted, and not on the stream yet. @type {Map<string, string>} */
    this.accepted = new Map();
    /** What could not be sent, and why. */
    this.sendError = '';
    /** What became of a question that somebody here was answering. */
    this.notice = '';
    /** What became of an answer that was given here, for a moment. */
    this.receipt = '';
    this.stopping = false;
    this.loadingOlder = false;
    /** Answered here; covers its call until the result comes. @type {Map<string, string | undefined>} */
    this.answered = new Map();
    /** Closed by a look at the question itself. @type {Map<string, any>} */
    this.outcomes = new Map();
    this.unreachable = false;
    this.clientId = tab.getItem(`holdpoint.client.${id}`) ?? undefined;
    this.loads = 0;
    this.pumping = false;
    this.closed = false;
    this.parked = false;
    this.stream = this.#open();
    this.offInbox = daemon.onInbox(() => { this.#vanished(); this.changed(); });
  }

  start() {
    this.stream.start();
    return this;
  }

  close() {
    this.closed = true;
    this.offInbox();
    this.stream.close();
  }

  /** Gives the attachment back, once for each load. */
  detach() {
    const { clientId } = this;
    if (!clientId) return;
    for (let n = Math.min(this.loads, 8); n > 0; n -= 1) void api.detach(this.id, clientId).catch(() => {});
    this.loads = 0;
  }

  async #take() {
    let loaded;
    try {
      loaded = await api.load(this.id, this.clientId, PAGE);
    } catch (error) {
      if (error instanceof api.ApiError && (error.code === 'session_not_found' || error.code === 'invalid_session_id')) throw Object.assign(error, { gone: true });
      throw error;
    }
    this.loads += 1;
    this.clientId = loaded.clientId;
    tab.setItem(`holdpoint.client.${this.id}`, loaded.clientId);
    // Without it nobody can say which messages have arrived; a session that closed again meanwhile has none.
    const waiting = await api.pendingPrompts(this.id).catch((error) => {
      if (error instanceof api.ApiError && error.status === 404) return { pendingPrompts: [] };
      throw error;
    });
    return { snapshot: { loaded, waiting: waiting.pendingPrompts }, lastEventId: loaded.lastEventId, epoch: loaded.eventEpoch };
  }

  /** @param {{loaded: any, waiting: any[]}} snapshot */
  #reset({ loaded, waiting }) {
    const fold = new Fold(this.id);
    fold.apply(loaded.compactedReplay ?? []).apply(loaded.liveJournal ?? []);
    fold.busy = loaded.hasActivePrompt === true;
    fold.title = loaded.displayName ?? fold.title;
    fold.queue = waiting.filter((item) => item.state === 'queued').map((item) => ({ promptId: item.promptId, text: item.text, at: item.queuedAt }));
    // Who answered what is told only once, by the stream.
    for (const [callId, tool] of fold.tools) {
      const before = this.fold.tools.get(callId);
      if (before?.resolution && !tool.resolution) tool.resolution = before.resolution;
    }
    fold.setAnchor(!loaded.historyHasMore ? '' : loaded.historyAnchorRecordId ? beforeRecord(loaded.historyAnchorRecordId) : fold.anchor);
    fold.goOnFrom(this.fold);
    this.fold = fold;
    this.known = true;
    this.workspace = loaded.workspaceCwd ?? null;
    this.mode = loaded.state?.modes?.currentModeId ?? '';
    this.modes = loaded.state?.modes?.availableModes ?? [];
    this.stopping = false;
    this.#setOutbox(queue.settle(this.outbox, [...fold.prompts(), ...waiting.map((item) => ({ promptId: item.promptId, text: item.text, at: item.queuedAt }))]));
    this.accepted.clear();
    void daemon.refresh();
    void this.#recall(fold);
    this.changed();
    this.pump();
  }

  /** Who answered the questions of the history, where the daemon's rows name their calls. @param {Fold} fold */
  async #recall(fold) {
    const bare = () => [...fold.tools.values()].filter((tool) => tool.name === QUESTION_TOOL && !isRunning(tool) && !tool.resolution);
    if (bare().length === 0) return;
    const list = await api.questions({ state: 'settled', session: this.id, limit: 500 }).catch(() => undefined);
    if (!list || fold !== this.fold) return;
    for (const tool of bare()) {
      const row = list.questions.find((/** @type {import('./daemon.js').Question} */ one) => one.toolCallId === tool.callId);
      if (!row?.outcome?.answeredBy) continue;
      tool.resolution = { outcome: undefined, answeredBy: row.outcome.answeredBy, answeredAt: row.outcome.answeredAt, answers: row.outcome.answers };
      tool.rev += 1;
    }
    this.changed();
  }

  /** @param {import('./sse.js').Frame[]} all */
  #apply(all) {
    this.fold.apply(all);
    for (const frame of all) {
      if (frame.type === 'permission_request' || frame.type.startsWith('permission_')) void daemon.refresh();
      if (frame.type === 'turn_complete' || frame.type === 'turn_error') this.stopping = false;
      if (frame.type.startsWith('turn_') || frame.type === 'session_metadata_updated') void daemon.refreshSessions();
      if (frame.promptId) this.accepted.delete(frame.promptId);
    }
    this.changed();
    this.pump();
  }

  /** A question that the list no longer has is looked at itself: an event that said so may have been lost. */
  #vanished() {
    const rows = daemon.questions.peek() ?? [];
    for (const asked of this.fold.asked.values()) {
      if (rows.some((row) => row.questionId === asked.questionId) || this.answered.has(asked.questionId) || this.#looking.has(asked.questionId)) continue;
      this.#looking.add(asked.questionId);
      api.question(asked.questionId).then((found) => {
        if (found.state === 'answered' || found.state === 'declined') this.answered.set(asked.questionId, asked.callId);
        else if (found.state !== 'open') this.outcomes.set(asked.questionId, found);
      }, (error) => {
        if (error instanceof api.ApiError && (error.status === 404 || error.status === 410)) this.outcomes.set(asked.questionId, { state: 'closed' });
      }).finally(() => {
        this.#looking.delete(asked.questionId);
        this.changed();
      });
    }
  }
  /** @type {Set<string>} */
  #looking = new Set();

  /** @param {string} questionId */
  #isOver(questionId) {
    return this.fold.settled.has(questionId) || this.answered.has(questionId) || this.outcomes.has(questionId);
  }

  /**
   * What is asked now, and what is open and asked by nobody (a turn that was stopped): the first goes into the dock.
   * @returns {{asked: import('./item.js').Item[], dormant: import('./item.js').Item[]}}
   */
  items() {
    const rows = (daemon.questions.peek() ?? []).filter((row) => row.sessionId === this.id && !this.answered.has(row.questionId) && !this.outcomes.has(row.questionId));
    /** @type {import('./item.js').Item[]} */
    const asked = [];
    for (const one of this.fold.asked.values()) {
      if (this.#isOver(one.questionId)) continue;
      const row = rows.find((other) => other.questionId === one.questionId);
      asked.push({ ...one, questions: one.questions ?? [], messageId: one.messageId, askedAt: row?.askedAt, title: one.kind === 'permission' ? one.title : (row?.title ?? one.title), action: one.action });
    }
    const rest = rows.filter((row) => !asked.some((item) => item.questionId === row.questionId) && !this.fold.settled.has(row.questionId));
    for (const row of rest) if (row.live) asked.push(itemOf(row));
    // One that nobody asks at the moment, but whose call runs: its agent is being started again. It can be answered.
    const left = uncovered(this.fold.runningQuestions(), [...this.#covering(), ...asked.map((item) => ({ ...item, showable: true }))]).length;
    const sleeping = rows.filter((row) => !row.live && !asked.some((item) => item.questionId === row.questionId));
    const revived = sleeping.filter((row) => row.kind === 'user_question' && row.answerable !== false).slice(0, left);
    for (const row of revived) asked.push(itemOf(row));
    asked.sort((one, other) => (one.askedAt ?? '9').localeCompare(other.askedAt ?? '9'));
    return { asked, dormant: sleeping.filter((row) => !revived.includes(row)).map(itemOf) };
  }

  /** Entries that cannot be shown any more and whose result is on its way. */
  #covering() {
    const over = [...[...this.fold.settled].map(([questionId, { callId }]) => ({ questionId, callId })), ...[...this.answered].map(([questionId, callId]) => ({ questionId, callId }))];
    return over.filter((one) => one.callId !== undefined || this.answered.has(one.questionId))
      .map((one) => ({ ...one, sessionId: this.id, kind: 'user_question', showable: false }));
  }

  /** H1. @returns {import('./snapshot.js').QuestionState} */
  questionState() {
    const entries = [...this.#covering(), ...this.items().asked.map((item) => ({ ...item, showable: true }))];
    return questionState({ sessionId: this.id, calls: this.fold.runningQuestions(), entries });
  }

  /** Whether a list of the daemon's covers every running call. @param {{rows: import('./daemon.js').Question[], delivering: import('./daemon.js').Question[]}} list */
  covered({ rows, delivering }) {
    const entries = [...rows, ...delivering].filter((row) => row.sessionId === this.id).map((row) => ({ ...itemOf(row), showable: true }));
    return uncovered(this.fold.runningQuestions(), [...this.#covering(), ...entries]).length === 0;
  }

  /** An answer was accepted. @param {import('./item.js').Item} item @param {any} receipt */
  accept(item, receipt) {
    this.notice = '';
    const text = receiptInWords(item, receipt);
    this.receipt = text;
    clock.set(() => {
      if (this.receipt !== text) return;
      this.receipt = '';
      this.changed();
    }, RECEIPT_MS);
    this.settled(item);
  }

  /** Somebody's answer was accepted. @param {import('./item.js').Item} item */
  settled(item) {
    const taken = [...this.answered.values()];
    const free = this.fold.runningQuestions().find((call) => !taken.includes(call.callId));
    this.answered.set(item.questionId, item.callId ?? free?.callId);
    this.changed();
  }

  /** The form of a question says that it is over. @param {import('./item.js').Item} item @param {any} outcome */
  closedElsewhere(item, outcome) {
    // Somebody's answer has its result on the way, and covers its call until then.
    if (outcome?.code === 'already_answered') this.settled(item);
    else {
      this.outcomes.set(item.questionId, outcome);
      this.changed();
    }
  }

  #draw = false;
  changed() {
    if (this.closed) return;
    this.#adopt();
    this.onChange(this);
    if (this.#draw) return;
    this.#draw = true;
    const draw = () => {
      if (!this.#draw) return;
      this.#draw = false;
      this.rev.value += 1;
    };
    // A hidden page has no frames.
    if (document.visibilityState === 'visible') requestAnimationFrame(draw);
    setTimeout(draw, 100);
  }

  /** @param {import('./queue.js').Outbox} next */
  #setOutbox(next) {
    this.outbox = next;
    writeJson(kept, `holdpoint.outbox.${this.id}`, next.length > 0 ? next : null);
  }

  /** Takes a message to be sent: now, or as soon as there is somebody to send it to. @param {string} text */
  send(text) {
    this.sendError = '';
    this.receipt = '';
    this.#setOutbox(queue.add(this.outbox, { id: newId(), text, at: clock.now() }));
    if (this.condition === 'ended' && this.why !== 'gone') this.reopen();
    this.changed();
    this.pump();
  }

  /** @param {string} id */
  unsend(id) {
    this.#setOutbox(queue.drop(this.outbox, id));
    this.changed();
  }

  /** Lets the connection go while nobody looks: a browser has only six for one daemon, whatever the number of tabs. */
  park() {
    if (this.condition === 'ended') return;
    this.parked = true;
    this.stream.close();
  }

  /** Somebody looks again. */
  look() {
    if (this.parked) this.reopen();
    else this.stream.nudge();
  }

  /** Brings a session that was closed to life again. */
  reopen() {
    this.parked = false;
    this.stream.close();
    this.stream = this.#open();
    this.stream.start();
  }

  #open() {
    const stream = createStream({
      clock,
      take: () => this.#take(),
      connect: async (cursor, signal, alive) => frames(await api.events(this.id, cursor, this.clientId, signal), alive),
      reset: (snapshot) => this.#reset(snapshot),
      apply: (all) => this.#apply(all),
      tell: (condition, why) => {
        if (this.stream !== stream) return;
        this.condition = condition;
        this.why = why ?? '';
        this.changed();
        if (condition === 'live') void this.pump();
        if (condition === 'ended' && why !== 'gone') void this.#deleted();
      },
    });
    return stream;
  }

  /** A session that was closed may be about to be deleted (D6); the stream does not say which. */
  async #deleted() {
    for (const wait of [100, 400, 1500, 4000]) {
      await new Promise((resolve) => { clock.set(() => resolve(undefined), wait); });
      if (this.closed || this.condition !== 'ended') return;
      try {
        await api.exists(this.id);
      } catch (error) {
        if (error instanceof api.ApiError && error.status === 404) {
          this.why = 'gone';
          this.changed();
          return;
        }
      }
    }
  }

  /** A call whose arguments never came, and the one question that can be its: the card shows what is asked. */
  #adopt() {
    const bare = [...this.fold.tools.values()].filter((tool) => tool.name === QUESTION_TOOL && tool.parts.length === 0 && isRunning(tool));
    if (bare.length !== 1) return;
    const asked = this.items().asked.filter((item) => item.kind === 'user_question' && (item.callId === undefined || item.callId === bare[0]?.callId));
    if (asked.length !== 1 || !bare[0] || !asked[0]) return;
    bare[0].parts = asked[0].questions;
    bare[0].rev += 1;
  }

  /** Sends what waits, in order, one at a time. */
  async pump() {
    if (this.pumping || this.closed || this.parked || this.condition !== 'live') return;
    this.pumping = true;
    try {
      for (let item = queue.next(this.outbox); item; item = queue.next(this.outbox)) {
        this.#setOutbox(queue.mark(this.outbox, item.id, 'sending'));
        try {
          const { promptId } = await api.prompt(this.id, item.text, item.id, this.clientId);
          if (!this.fold.prompts().some((known) => known.promptId === promptId)) this.accepted.set(promptId, item.text);
          this.#setOutbox(queue.drop(this.outbox, item.id));
        } catch (error) {
          if (!(error instanceof api.ApiError) || error.status >= 500 && error.status !== 503) {
            // It may have arrived. The next snapshot tells.
            this.#setOutbox(queue.mark(this.outbox, item.id, 'unsure'));
            this.stream.resnap();
          } else if (error.code === 'prompt_queue_full' || error.status === 429) {
            this.#setOutbox(queue.mark(this.outbox, item.id, 'waiting'));
            clock.set(() => void this.pump(), 2000);
          } else if (error.status === 503) {
            this.#setOutbox(queue.mark(this.outbox, item.id, 'waiting'));
            clock.set(() => void this.pump(), 3000);
          } else if (error.status === 404 || error.code === 'invalid_client_id') {
            this.#setOutbox(queue.mark(this.outbox, item.id, 'waiting'));
            if (error.code === 'invalid_client_id') this.clientId = undefined;
            clock.set(() => this.stream.resnap(), 500);
          } else {
            this.sendError = error.message;
            this.#setOutbox(queue.drop(this.outbox, item.id));
          }
          break;
        } finally {
          this.changed();
        }
      }
    } finally {
      this.pumping = false;
    }
  }

  async stop() {
    this.stopping = true;
    this.changed();
    try {
      await api.cancel(this.id, this.clientId);
    } catch (error) {
      this.sendError = error instanceof api.ApiError ? error.message : 'The daemon cannot be reached; the turn was not stopped.';
    }
    this.stopping = false;
    this.changed();
  }

  /** @param {string} promptId */
  async unqueue(promptId) {
    try {
      await api.removePrompt(this.id, promptId, this.clientId);
      this.fold.queue = this.fold.queue.filter((item) => item.promptId !== promptId);
    } catch (error) {
      if (error instanceof api.ApiError) this.sendError = error.message;
    }
    this.changed();
  }

  async older() {
    const { anchor } = this.fold;
    if (anchor === '' || this.loadingOlder) return;
    this.loadingOlder = true;
    this.changed();
    try {
      const { fold } = this;
      const page = await api.olderPage(this.id, anchor);
      if (fold === this.fold) fold.prepend(page.events, page.hasMore ? atCursor(page.nextCursor) : '');
    } catch {
      // Scrolling again tries again.
    }
    this.loadingOlder = false;
    this.changed();
  }
}
