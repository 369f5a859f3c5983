// @ts-check
// A session's events folded into the entries that a person reads. One fold for the snapshot's replay, for older pages and
// for the stream; it is cheap enough to be done anew from a snapshot at any doubt.

/** Entries of one group: what is drawn, or not, as a whole. */
export const GROUP = 16;

/** @typedef {import('./sse.js').Frame} Frame */
/** @typedef {import('./form.js').Part} Part */

/**
 * @typedef {object} Message
 * @property {'user' | 'agent' | 'thought'} kind
 * @property {string} key stable over snapshots
 * @property {number} rev counts its changes
 * @property {number} group the group that it is drawn with; it stays in it whatever comes before or after
 * @property {string} text
 * @property {string} [promptId]
 * @property {string} [recordId]
 * @property {number} [at] in milliseconds
 *
 * @typedef {object} Tool
 * @property {'tool'} kind
 * @property {string} key
 * @property {number} rev
 * @property {number} group
 * @property {string} callId
 * @property {string} name the tool's name, empty where the agent does not say
 * @property {string} title
 * @property {string} toolKind
 * @property {string} status as on the wire
 * @property {any} input
 * @property {any[]} content
 * @property {any} output
 * @property {string} [cause] who or what is the author of its result (I3)
 * @property {boolean} interrupted the turn ended over it
 * @property {boolean} waits it waits for a person
 * @property {Part[]} parts what it asks, of a question
 * @property {Resolution} [resolution]
 * @property {string} [promptId]
 * @property {string} [recordId]
 * @property {number} [at]
 *
 * @typedef {object} Resolution how a question or a permission ended, as the stream told it
 * @property {any} outcome
 * @property {any} [answeredBy]
 * @property {string} [answeredAt]
 * @property {any} [answers]
 * @property {string} [cause]
 *
 * @typedef {object} Note
 * @property {'note'} kind
 * @property {string} key
 * @property {number} rev
 * @property {number} group
 * @property {string} tone `plain`, `stop` or `error`
 * @property {string} text
 * @property {number} [at]
 *
 * @typedef {object} Plan
 * @property {'plan'} kind
 * @property {string} key
 * @property {number} rev
 * @property {number} group
 * @property {{content: string, status?: string}[]} items
 * @property {string} [promptId]
 *
 * @typedef {Message | Tool | Note | Plan} Entry
 */

/**
 * A question or a permission that a `permission_request` brought.
 * @typedef {object} Asked
 * @property {string} requestId
 * @property {string} questionId
 * @property {number} generation
 * @property {string} sessionId
 * @property {'user_question' | 'permission'} kind
 * @property {string} callId
 * @property {string} [messageId]
 * @property {string} title
 * @property {Part[]} [questions]
 * @property {any} [action]
 * @property {{optionId: string, label: string, kind: string}[]} options
 */

export const QUESTION_TOOL = 'ask_user_question';

export class Fold {
  /** @param {string} sessionId */
  constructor(sessionId) {
    this.sessionId = sessionId;
    /** @type {Entry[]} */
    this.entries = [];
    /** @type {Map<string, Tool>} */
    this.tools = new Map();
    /** Open requests that events brought, by question id. @type {Map<string, Asked>} */
    this.asked = new Map();
    /** Questions that events said are over. @type {Map<string, Resolution & {callId?: string}>} */
    this.settled = new Map();
    /** Prompts that wait for their turn. @type {{promptId: string, text: string, at: number}[]} */
    this.queue = [];
    this.busy = false;
    this.promptId = '';
    this.title = '';
    /** The query for the next older page; empty when there is nothing older. */
    this.anchor = '';
    /** Counts changes of the list as a whole. */
    this.shape = 0;
    /** Tokens that the newest reply used. @type {any} */
    this.usage = null;
    this.#keys = new Map();
  }

  /** The group that the next entry joins, and how many are in it. */
  #group = 0;
  #size = 0;

  /**
   * Calls of which history has told only the end: they stand further up, where their start is, and show once that is read.
   * @type {Set<Tool>}
   */
  #ends = new Set();

  /** @param {Entry} entry */
  #add(entry) {
    if (this.#size >= GROUP) {
      this.#group += 1;
      this.#size = 0;
    }
    entry.group = this.#group;
    this.#size += 1;
    this.entries.push(entry);
    this.shape += 1;
  }

  /** How often a key was asked for. @type {Map<string, number>} */
  #keys;

  /** @param {string} key */
  #unique(key) {
    const n = this.#keys.get(key) ?? 0;
    this.#keys.set(key, n + 1);
    return n === 0 ? key : `${key}~${n}`;
  }

  /** @param {readonly Frame[]} frames */
  apply(frames) {
    for (const frame of frames) this.#one(frame);
    return this;
  }

  /** @param {Frame} frame */
  #one(frame) {
    const { data = {} } = frame;
    const at = frame._meta?.serverTimestamp;
    switch (frame.type) {
      case 'session_update': {
        const update = data.update ?? data;
        this.#update(update, frame.promptId ?? update._meta?.promptId, update._meta?.timestamp ?? update._meta?.serverTimestamp ?? (frame.id ? at : undefined), frame.id !== undefined);
        // History says nothing about now; what streams does.
        if (frame.id !== undefined && frame.promptId) this.#runs(frame.promptId);
        break;
      }
      case 'permission_request': this.#request(frame); break;
      case 'permission_resolved': this.#resolved(data); break;
      case 'permission_already_resolved': this.#over(data.questionId ?? this.#byRequest(data.requestId), data); break;
      case 'pending_prompt_added':
        if (!this.queue.some((item) => item.promptId === data.promptId)) {
          this.queue = [...this.queue, { promptId: data.promptId, text: data.text ?? '', at: data.queuedAt ?? at ?? 0 }];
        }
        break;
      case 'pending_prompt_started':
        this.queue = this.queue.filter((item) => item.promptId !== data.promptId);
        this.#runs(data.promptId);
        break;
      case 'pending_prompt_completed':
        this.queue = this.queue.filter((item) => item.promptId !== data.promptId);
        break;
      case 'turn_complete': this.#ended(data, at, false); break;
      case 'turn_error': this.#ended(data, at, true); break;
      case 'session_metadata_updated': if (typeof data.displayName === 'string') this.title = data.displayName; break;
      case 'history_truncated': this.anchor = data.recordId ? beforeRecord(data.recordId) : ''; break;
      default:
    }
  }

  /** @param {string} promptId */
  #runs(promptId) {
    if (this.#done.has(promptId)) return;
    this.busy = true;
    this.promptId = promptId;
  }
  /** Turns that have ended; a late frame of theirs does not start them again. @type {Set<string>} */
  #done = new Set();

  /** @param {any} update @param {string | undefined} promptId @param {number | undefined} at @param {boolean} live */
  #update(update, promptId, at, live) {
    const recordId = update._meta?.['qwen.session.recordId'];
    const text = update.content?.type === 'text' ? update.content.text : update.content?.text;
    switch (update.sessionUpdate) {
      case 'user_message_chunk': this.#text('user', `u:${promptId ?? recordId ?? ''}`, text ?? blockName(update.content), promptId, recordId, at); break;
      case 'agent_message_chunk':
        if (update._meta?.usage) this.usage = update._meta.usage;
        if (text) this.#text('agent', `a:${recordId ?? promptId ?? ''}`, text, promptId, recordId, at);
        break;
      case 'agent_thought_chunk': if (text) this.#text('thought', `t:${recordId ?? promptId ?? ''}`, text, promptId, recordId, at); break;
      case 'tool_call':
      case 'tool_call_update': this.#tool(update, promptId, recordId, at, live); break;
      case 'plan': this.#plan(update, promptId); break;
      default:
    }
  }

  /** @param {'user' | 'agent' | 'thought'} kind @param {string} base @param {string} text @param {string | undefined} promptId @param {string | undefined} recordId @param {number | undefined} at */
  #text(kind, base, text, promptId, recordId, at) {
    const last = this.entries.at(-1);
    if (last?.kind === kind && last.promptId === promptId && last.recordId === recordId) {
      // Pieces of one message; of what a person sent, each is a block of its own.
      last.text += kind === 'user' ? `\n${text}` : text;
      last.rev += 1;
      return;
    }
    this.#add({ kind, key: this.#unique(base), rev: 0, group: 0, text, promptId, recordId, at });
  }

  /** @param {any} update @param {string | undefined} promptId */
  #plan(update, promptId) {
    const items = Array.isArray(update.entries) ? update.entries : [];
    const found = this.entries.findLast((entry) => entry.kind === 'plan');
    if (found?.kind === 'plan' && found.promptId === promptId) {
      found.items = items;
      found.rev += 1;
      return;
    }
    this.#add({ kind: 'plan', key: this.#unique(`p:${promptId ?? ''}`), rev: 0, group: 0, items, promptId });
  }

  /** @param {any} update @param {string | undefined} promptId @param {string | undefined} recordId @param {number | undefined} at @param {boolean} live */
  #tool(update, promptId, recordId, at, live) {
    const callId = String(update.toolCallId ?? '');
    let tool = this.tools.get(callId);
    if (!tool) {
      tool = {
        kind: 'tool', key: `c:${callId}`, rev: -1, group: 0, callId, name: '', title: '', toolKind: '', status: 'pending', input: undefined,
        content: [], output: undefined, interrupted: false, waits: false, parts: [], promptId, recordId, at,
      };
      this.tools.set(callId, tool);
      const isEnd = !live && update.sessionUpdate === 'tool_call_update' && update.status !== undefined && !isOpen(update.status) && update._meta?.toolName !== QUESTION_TOOL;
      if (isEnd) this.#ends.add(tool);
      else this.#add(tool);
    }
    tool.rev += 1;
    const name = update._meta?.toolName;
    if (typeof name === 'string') tool.name = name;
    if (update.title) tool.title = update.title;
    if (update.kind) tool.toolKind = update.kind;
    if (update.status) {
      // Asked again, by a load: what was interrupted goes on.
      if (isOpen(update.status) && isOpen(tool.status)) tool.interrupted = false;
      tool.status = update.status;
    }
    if (hasFields(update.rawInput)) tool.input = update.rawInput;
    if (Array.isArray(update.content) && (update.content.length > 0 || !isOpen(tool.status))) tool.content = update.content;
    if (update.rawOutput !== undefined) tool.output = update.rawOutput;
    const cause = update._meta?.['holdpoint.cause'];
    if (cause) tool.cause = cause;
    if (update.sessionUpdate === 'tool_call' && recordId) tool.recordId = recordId;
    if (Array.isArray(tool.input?.questions)) tool.parts = partsOf(tool.input.questions);
  }

  /** @param {Frame} frame */
  #request({ data, promptId }) {
    const call = data.toolCall ?? {};
    const meta = call._meta ?? {};
    const isQuestion = meta.qwenInteractionKind === 'user_question' || meta.toolName === QUESTION_TOOL;
    this.#tool({ ...call, status: undefined, title: isQuestion ? undefined : call.title }, promptId, undefined, undefined, true);
    const tool = this.tools.get(String(call.toolCallId ?? ''));
    if (tool) {
      tool.interrupted = false;
      tool.waits = true;
      if (isQuestion && tool.name === '') tool.name = QUESTION_TOOL;
    }
    const questionId = data.questionId ?? data.requestId;
    this.settled.delete(questionId);
    this.asked.set(questionId, {
      requestId: data.requestId,
      questionId,
      generation: data.generation ?? 1,
      sessionId: data.sessionId ?? this.sessionId,
      kind: isQuestion ? 'user_question' : 'permission',
      callId: String(call.toolCallId ?? ''),
      messageId: tool?.recordId,
      title: call.title ?? '',
      questions: isQuestion ? partsOf(meta.qwenQuestions ?? call.rawInput?.questions ?? []) : undefined,
      action: isQuestion ? undefined : { type: call.kind, title: call.title, content: call.content, locations: call.locations, input: call.rawInput },
      options: (data.options ?? []).map((/** @type {any} */ option) => ({ optionId: option.optionId, label: option.name ?? option.label, kind: option.kind })),
    });
    if (promptId) this.#runs(promptId);
  }

  /** @param {string} requestId */
  #byRequest(requestId) {
    for (const asked of this.asked.values()) if (asked.requestId === requestId) return asked.questionId;
    return requestId;
  }

  /** @param {any} data */
  #resolved(data) {
    const id = data.questionId ?? this.#byRequest(data.requestId);
    this.#over(id, data);
  }

  /** @param {string} questionId @param {any} data */
  #over(questionId, data) {
    const asked = this.asked.get(questionId);
    this.asked.delete(questionId);
    /** @type {Resolution & {callId?: string}} */
    const resolution = { outcome: data.outcome, answeredBy: data.answeredBy, answeredAt: data.answeredAt, answers: data.answers, cause: data.cause, callId: asked?.callId };
    this.settled.set(questionId, resolution);
    const tool = asked && this.tools.get(asked.callId);
    if (!tool) return;
    tool.rev += 1;
    tool.waits = false;
    tool.resolution = resolution;
    // Nobody answered, and no result will be written for now (R10, H9).
    if (data.outcome?.outcome === 'cancelled' && !data.answeredBy && isOpen(tool.status)) tool.interrupted = true;
  }

  /** @param {any} data @param {number | undefined} at @param {boolean} failed */
  #ended(data, at, failed) {
    if (data.promptId) this.#done.add(data.promptId);
    this.busy = false;
    this.asked.clear();
    for (const entry of this.entries) {
      if (entry.kind === 'tool' && isOpen(entry.status) && !entry.interrupted) {
        entry.interrupted = true;
        entry.rev += 1;
      }
    }
    const text = failed ? (data.message ?? 'The turn failed.') : ends(data);
    if (text === '') return;
    this.#add({ kind: 'note', key: this.#unique(`n:${data.promptId ?? ''}`), rev: 0, group: 0, tone: failed ? 'error' : 'stop', text, at });
  }

  /**
   * Puts an older page before what is there. A call whose start is in the page and whose end is here becomes one entry.
   * @param {readonly Frame[]} frames
   * @param {string} anchor the query for the next older page; empty when there is none
   */
  prepend(frames, anchor) {
    const older = new Fold(this.sessionId);
    for (const [key, n] of this.#keys) older.#keys.set(key, n);
    older.apply(frames);
    const above = (this.entries[0]?.group ?? 0) - 1 - older.#group;
    for (const entry of older.entries) entry.group += above;
    for (const tool of older.tools.values()) {
      const here = this.tools.get(tool.callId);
      if (here) {
        if (!this.#ends.delete(here)) this.entries.splice(this.entries.indexOf(here), 1);
        const place = older.entries.indexOf(tool);
        older.entries[place] = { ...here, group: tool.group, rev: here.rev + 1, name: here.name || tool.name, title: tool.title || here.title, toolKind: here.toolKind || tool.toolKind, input: here.input ?? tool.input, parts: here.parts.length > 0 ? here.parts : tool.parts, recordId: tool.recordId ?? here.recordId, at: tool.at };
        this.tools.set(tool.callId, /** @type {Tool} */ (older.entries[place]));
      } else {
        this.tools.set(tool.callId, tool);
      }
    }
    for (const tool of older.#ends) this.#ends.add(tool);
    this.#keys = older.#keys;
    this.entries = [...older.entries, ...this.entries];
    this.setAnchor(anchor);
  }

  /**
   * Goes on where another fold of the same session was: its entries stay in their groups, and the older ones that it had
   * loaded are kept, where this one starts within it.
   * @param {Fold} before
   */
  goOnFrom(before) {
    this.#regroup(new Map(before.entries.map((entry) => [entry.key, entry.group])));
    const first = this.entries[0]?.key;
    const place = first === undefined || this.anchor === '' ? -1 : before.entries.findIndex((entry) => entry.key === first);
    if (place <= 0) return;
    const older = before.entries.slice(0, place).filter((entry) => {
      const here = entry.kind === 'tool' ? this.tools.get(entry.callId) : undefined;
      return here === undefined || this.#ends.delete(here);
    });
    for (const entry of older) if (entry.kind === 'tool') this.tools.set(entry.callId, entry);
    this.entries = [...older, ...this.entries];
    this.setAnchor(before.anchor);
  }

  /** @param {Map<string, number>} groups by key, ascending */
  #regroup(groups) {
    let group = groups.get(this.entries[0]?.key ?? '') ?? 0;
    let size = 0;
    for (const entry of this.entries) {
      const known = groups.get(entry.key);
      if (known === undefined ? size >= GROUP : known > group) {
        group = known ?? group + 1;
        size = 0;
      }
      entry.group = group;
      size += 1;
    }
    this.#group = group;
    this.#size = size;
  }

  /** Where older entries go on; with none, what has no start stands first. @param {string} anchor */
  setAnchor(anchor) {
    this.anchor = anchor;
    this.shape += 1;
    if (anchor !== '') return;
    const group = this.entries[0]?.group ?? 0;
    this.entries = [...[...this.#ends].map((tool) => Object.assign(tool, { group })), ...this.entries];
    this.#ends.clear();
  }

  /** H1: the question calls in progress, however far back. @returns {import('./snapshot.js').Call[]} */
  runningQuestions() {
    const calls = [];
    for (const tool of this.tools.values()) {
      if (tool.name === QUESTION_TOOL && isRunning(tool)) calls.push({ callId: tool.callId, messageId: tool.recordId });
    }
    return calls;
  }

  /** What people sent, for the outbox: newest last. */
  prompts() {
    const sent = this.entries.flatMap((entry) => (entry.kind === 'user' ? [{ promptId: entry.promptId, text: entry.text, at: entry.at }] : []));
    return [...sent, ...this.queue];
  }
}

/** The query for the page that ends before a record. @param {string} id */
export const beforeRecord = (id) => `beforeRecordId=${encodeURIComponent(id)}`;

/** The query for the page that a cursor leads to. @param {string | undefined} cursor */
export const atCursor = (cursor) => (cursor ? `cursor=${encodeURIComponent(cursor)}` : '');

/** @param {string} status */
const isOpen = (status) => status === 'pending' || status === 'in_progress';

/** @param {Tool} tool */
export const isRunning = (tool) => isOpen(tool.status) && !tool.interrupted;

/** @param {any} value */
const hasFields = (value) => value && typeof value === 'object' && Object.keys(value).length > 0;

/** @param {any} content */
const blockName = (content) => (content?.type ? `[${content.type}]` : '');

/** @param {any[]} questions @returns {Part[]} */
export const partsOf = (questions) => questions.filter((part) => part && typeof part.question === 'string').map((part, index) => ({
  question: part.question, header: part.header, options: Array.isArray(part.options) ? part.options : [], multiSelect: part.multiSelect === true, answerKey: part.answerKey ?? String(index),
}));

/** How a turn ended, where that says something. @param {any} data */
function ends(data) {
  switch (data.stopReason) {
    case undefined:
    case 'end_turn': return '';
    case 'cancelled': return data.parked && !data.promptCancelled ? 'Interrupted while a question was open' : 'Stopped';
    case 'max_tokens': return 'The model reached its limit of tokens.';
    case 'max_turn_requests': return 'The turn reached its limit of steps.';
    case 'refusal': return 'The model refused to go on.';
    default: return `Ended: ${data.stopReason}`;
  }
}

/**
 * What a call's state is to a person.
 * @param {Tool} tool
 * @returns {'waiting' | 'running' | 'done' | 'declined' | 'interrupted' | 'timed out' | 'not allowed' | 'refused' | 'unknown' | 'failed'}
 */
export function toolState(tool) {
  if (tool.status === 'completed') return 'done';
  if (tool.interrupted) return 'interrupted';
  if (tool.status === 'failed') {
    switch (tool.cause) {
      case 'declined': return 'declined';
      case 'cancelled_before_answer': return 'interrupted';
      case 'timed_out': return 'timed out';
      // A question asked nothing of the world; of another call nobody knows whether it ran (R21).
      case 'orphan_repair': return tool.name === QUESTION_TOOL ? 'interrupted' : 'unknown';
      case 'not_allowed': return 'not allowed';
      case 'policy': return 'refused';
      default: return 'failed';
    }
  }
  return tool.name === QUESTION_TOOL || tool.waits ? 'waiting' : 'running';
}
