import assert from 'node:assert/strict';
import { test } from 'node:test';

import { diffLines, hunks } from '../../../crates/server/web/app/diff.js';
import { Fold, toolState } from '../../../crates/server/web/app/fold.js';
import { highlight } from '../../../crates/server/web/app/highlight.js';
import { pieces, stableEnd } from '../../../crates/server/web/app/view/markdown.js';

const part = { question: 'Which?', header: 'Pick', options: [{ label: 'A', description: 'a' }, { label: 'B', description: 'b' }] };
let ids = 0;
const live = (type, data, promptId = 'p1') => ({ v: 1, id: (ids += 1), type, promptId, data, _meta: { serverTimestamp: 1000 + ids } });
const update = (fields, promptId) => live('session_update', { sessionId: 's', update: fields }, promptId);
const said = (text, promptId = 'p1') => update({ sessionUpdate: 'user_message_chunk', content: { type: 'text', text } }, promptId);
const reply = (text, recordId = 'r1') => update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text }, _meta: { 'qwen.session.recordId': recordId } });
const call = (callId, fields = {}) => update({ sessionUpdate: 'tool_call', toolCallId: callId, status: 'pending', title: 'Ask user 1 question(s)', kind: 'think', content: [], rawInput: {}, _meta: { toolName: 'ask_user_question', 'qwen.session.recordId': 'r1', ...fields._meta }, ...fields });
const request = (callId, questionId = `q-${callId}`) => live('permission_request', { requestId: `x-${callId}`, sessionId: 's', questionId, generation: 1, options: [], toolCall: { toolCallId: callId, status: 'pending', title: 'Ask user 1 question', kind: 'think', rawInput: { questions: [part] }, _meta: { toolName: 'ask_user_question', qwenInteractionKind: 'user_question', qwenQuestions: [part] } } });
const fold = (...frames) => new Fold('s').apply(frames);

test('h1_a_question_call_runs_from_its_first_frame_until_its_end', () => {
  const view = fold(said('ask'), call('c1'));
  assert.deepEqual(view.runningQuestions(), [{ callId: 'c1', messageId: 'r1' }]);
  view.apply([update({ sessionUpdate: 'tool_call_update', toolCallId: 'c1', status: 'completed', content: [] })]);
  assert.deepEqual(view.runningQuestions(), []);
});

test('h1_a_request_whose_call_was_never_seen_still_shows_its_question', () => {
  const view = fold(request('c1'));
  assert.equal(view.asked.get('q-c1').callId, 'c1');
  assert.deepEqual(view.runningQuestions(), [{ callId: 'c1', messageId: undefined }]);
});

test('h9_a_halted_call_is_interrupted_and_never_dismissed', () => {
  for (const cause of ['aborted', 'cancelled_before_answer']) {
    const view = fold(said('ask'), call('c1'), request('c1'),
      live('permission_resolved', { requestId: 'x-c1', questionId: 'q-c1', outcome: { outcome: 'cancelled' }, cause, open: cause === 'aborted' }),
      live('turn_complete', { stopReason: 'cancelled', promptId: 'p1', parked: true, promptCancelled: {} }));
    assert.equal(toolState(view.tools.get('c1')), 'interrupted');
    assert.deepEqual([view.runningQuestions(), view.asked.size, view.busy], [[], 0, false]);
  }
});

test('h9_a_call_without_any_word_of_its_end_is_interrupted_with_its_turn', () => {
  const view = fold(said('ask'), call('c1'), live('turn_complete', { stopReason: 'cancelled', promptId: 'p1' }));
  assert.equal(toolState(view.tools.get('c1')), 'interrupted');
});

test('h9_a_repaired_question_is_interrupted_and_a_declined_one_declined', () => {
  const end = (cause) => toolState(fold(call('c1'), update({ sessionUpdate: 'tool_call_update', toolCallId: 'c1', status: 'failed', content: [], _meta: { 'holdpoint.cause': cause } })).tools.get('c1'));
  assert.deepEqual(['cancelled_before_answer', 'orphan_repair', 'declined', 'timed_out'].map(end), ['interrupted', 'interrupted', 'declined', 'timed out']);
});

test('r21_a_repaired_command_says_that_it_may_have_run', () => {
  const view = fold(call('c1', { _meta: { toolName: 'run_shell_command' } }), update({ sessionUpdate: 'tool_call_update', toolCallId: 'c1', status: 'failed', _meta: { 'holdpoint.cause': 'orphan_repair' } }));
  assert.equal(toolState(view.tools.get('c1')), 'unknown');
});

test('r7_a_question_that_is_asked_again_runs_again', () => {
  const view = fold(call('c1'), request('c1'), live('permission_resolved', { questionId: 'q-c1', outcome: { outcome: 'cancelled' }, open: true }), request('c1'));
  assert.equal(view.runningQuestions().length, 1);
  assert.ok(view.asked.has('q-c1') && !view.settled.has('q-c1'));
});

test('v4_who_answered_is_kept_with_the_call', () => {
  const view = fold(call('c1'), request('c1'), live('permission_resolved', { questionId: 'q-c1', outcome: { outcome: 'selected' }, answeredBy: { surface: 'slack', name: 'Ann' }, answers: { 0: 'A' } }));
  assert.equal(view.tools.get('c1').resolution.answeredBy.name, 'Ann');
  assert.equal(view.tools.get('c1').interrupted, false);
});

test('pieces_of_a_message_become_one_and_a_call_parts_them', () => {
  const view = fold(said('hello'), reply('one '), reply('two'), call('c1'), reply('three'));
  assert.deepEqual(view.entries.map((entry) => entry.text ?? entry.callId), ['hello', 'one two', 'c1', 'three']);
  assert.equal(new Set(view.entries.map((entry) => entry.key)).size, 4);
});

test('usage_and_empty_texts_are_no_entries', () => {
  assert.equal(fold(reply('')).entries.length, 0);
});

test('d5_the_queue_follows_its_events', () => {
  const view = fold(live('pending_prompt_added', { promptId: 'p2', text: 'next', queuedAt: 1 }, 'p2'));
  view.apply([live('pending_prompt_added', { promptId: 'p2', text: 'next', queuedAt: 1 }, 'p2')]);
  assert.equal(view.queue.length, 1);
  view.apply([live('turn_complete', { stopReason: 'end_turn', promptId: 'p1' }), live('pending_prompt_started', { promptId: 'p2', text: 'next' }, 'p2')]);
  assert.deepEqual([view.queue, view.busy], [[], true]);
});

test('i6_a_late_frame_does_not_start_an_ended_turn_again', () => {
  const view = fold(said('x'), live('turn_complete', { stopReason: 'end_turn', promptId: 'p1' }), reply('late'));
  assert.equal(view.busy, false);
});

test('history_and_stream_give_the_same_keys', () => {
  const history = [{ v: 1, type: 'session_update', data: { sessionUpdate: 'user_message_chunk', content: { type: 'text', text: 'hello' }, _meta: { promptId: 'p1', 'qwen.session.recordId': 'r0' } } }, { v: 1, type: 'session_update', data: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'hi' }, _meta: { promptId: 'p1', 'qwen.session.recordId': 'r1' } } }];
  assert.deepEqual(new Fold('s').apply(history).entries.map(({ key }) => key), fold(said('hello'), reply('hi')).entries.map(({ key }) => key));
});

/** History has no ids. */
const past = ({ id: _, ...frame }) => frame;
const end = (callId, name = 'glob') => past(update({ sessionUpdate: 'tool_call_update', toolCallId: callId, status: 'completed', content: [], _meta: { toolName: name } }));
const names = (view) => view.entries.map((entry) => entry.text ?? (entry.title || entry.callId));

test('an_end_stands_where_its_start_is_once_that_is_read', () => {
  const view = fold(end('c1'), past(reply('after', 'r2')));
  view.setAnchor('older');
  // Until then it is not among what is read, so that nothing there moves.
  assert.deepEqual(names(view), ['after']);
  view.prepend([said('before'), call('c1', { title: 'Find', _meta: { toolName: 'glob' } })].map(past), '');
  assert.deepEqual(names(view), ['before', 'Find', 'after']);
  assert.equal(toolState(view.tools.get('c1')), 'done');
  assert.equal(view.tools.size, 1);
});

test('an_end_without_any_start_is_shown_once_there_is_nothing_older', () => {
  const view = fold(end('c1'), past(reply('after', 'r2')));
  view.setAnchor('older');
  view.prepend([end('c2'), past(reply('before', 'r1'))], 'oldest');
  assert.deepEqual(names(view), ['before', 'after']);
  view.prepend([], '');
  assert.deepEqual(names(view).sort(), ['after', 'before', 'c1', 'c2']);
});

test('h1_the_end_of_a_question_and_what_streams_is_never_held_back', () => {
  const view = fold(end('c1', 'ask_user_question'), update({ sessionUpdate: 'tool_call_update', toolCallId: 'c2', status: 'completed', content: [], _meta: { toolName: 'glob' } }));
  view.setAnchor('older');
  assert.deepEqual(names(view), ['c1', 'c2']);
});

test('h13_entries_stay_in_their_groups_whatever_comes_before_or_after', () => {
  const many = (from, to) => Array.from({ length: to - from }, (_, n) => past(reply(`m${from + n}`, `m${from + n}`)));
  const groups = (view) => new Map(view.entries.map((entry) => [entry.key, entry.group]));
  const view = fold(...many(40, 80));
  view.setAnchor('older');
  const first = groups(view);
  assert.deepEqual([...new Set(first.values())], [0, 1, 2]);
  view.prepend(many(10, 40), 'oldest');
  for (const [key, group] of first) assert.equal(groups(view).get(key), group);
  const all = [...groups(view).values()];
  assert.deepEqual(all, [...all].sort((one, other) => one - other));
  assert.equal(new Set(all).size, 5);
  // A snapshot that begins later, and ends later.
  const next = fold(...many(55, 90));
  next.setAnchor('newer');
  const before = groups(view);
  next.goOnFrom(view);
  assert.deepEqual(names(next), Array.from({ length: 80 }, (_, n) => `m${n + 10}`));
  for (const [key, group] of before) assert.equal(groups(next).get(key), group);
  next.apply(many(90, 100));
  const later = [...groups(next).values()];
  assert.deepEqual(later, [...later].sort((one, other) => one - other));
});

test('h12_a_snapshot_keeps_an_older_call_whose_end_it_has', () => {
  const before = fold(past(reply('b', 'r2')));
  before.prepend([past(call('c1', { title: 'Find', _meta: { toolName: 'glob' } })), end('c1')], 'older');
  const after = fold(end('c1'), past(reply('b', 'r2')));
  after.setAnchor('newer');
  after.goOnFrom(before);
  assert.deepEqual([names(after), after.anchor], [['Find', 'b'], 'older']);
});

test('h12_a_snapshot_keeps_the_older_pages_that_were_read', () => {
  const before = fold(reply('b', 'r2'), reply('c', 'r3'));
  before.prepend([reply('a', 'r1')], 'older');
  const after = fold(reply('c', 'r3'), reply('d', 'r4'));
  after.anchor = 'r3';
  after.goOnFrom(before);
  assert.deepEqual([after.entries.map(({ text }) => text), after.anchor], [['a', 'b', 'c', 'd'], 'older']);
});

test('a_diff_is_what_changed', () => {
  const { lines, added, removed } = diffLines('a\nb\nc\n', 'a\nB\nc\nd\n');
  assert.deepEqual(lines.map(({ kind, text }) => kind + text), [' a', '-b', '+B', ' c', '+d']);
  assert.deepEqual([added, removed], [2, 1]);
  assert.deepEqual(diffLines(null, 'x\n').lines.map(({ kind }) => kind), ['+']);
  const long = Array.from({ length: 100 }, (_, n) => `line ${n}`);
  const shown = hunks(diffLines(long.join('\n'), long.with(50, 'changed').join('\n')).lines);
  assert.equal(shown.filter(Boolean).length, 8);
  assert.deepEqual([shown[0], shown.at(-1)], [null, null]);
});

test('highlighting_never_changes_the_text', () => {
  const code = 'fn main() { let x = "a\\"b"; // it\'s\n  call(0xff, 1.5e3); } /* open';
  for (const lang of ['rust', 'js', 'py', 'sh', 'sql', 'json', 'diff', 'unknown', 'html']) assert.equal(highlight(code, lang).map(([, text]) => text).join(''), code, lang);
});

test('a_growing_text_is_cut_where_nothing_before_can_change', () => {
  assert.equal(stableEnd('one\n\ntwo'), 5);
  assert.equal(stableEnd('one\n\n```\na\n\nb'), 5);
  assert.equal(stableEnd('- a\n\n- b'), 0);
  assert.equal(stableEnd('a\n\n    code'), 0);
});

test('a_long_text_is_cut_into_pieces_that_stay_when_it_grows', () => {
  const long = Array.from({ length: 400 }, (_, n) => (n % 7 === 0 ? `\`\`\`\ncode ${n}\n\nmore\n\`\`\`` : `Paragraph ${n}, which says ${'much '.repeat(8)}`)).join('\n\n');
  const all = pieces(long);
  assert.ok(all.length > 3);
  assert.equal(all.join(''), long);
  for (const piece of all) assert.equal((piece.match(/```/g) ?? []).length % 2, 0);
  for (const at of [9000, 15000, 20000]) {
    const some = pieces(long.slice(0, at)).slice(0, -1);
    assert.deepEqual(some, all.slice(0, some.length));
  }
});
