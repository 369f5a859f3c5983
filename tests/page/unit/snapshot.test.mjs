import assert from 'node:assert/strict';
import { test } from 'node:test';

import { questionState, uncovered } from '../../../crates/server/web/app/snapshot.js';

const call = (callId, messageId) => ({ callId, messageId });
const entry = (more = {}) => ({ questionId: 'q', sessionId: 's', kind: 'user_question', showable: true, ...more });
const state = (calls, entries, tree) => questionState({ sessionId: 's', calls, entries, tree });

test('h1_ready_when_a_question_can_be_shown', () => {
  assert.equal(state([call('a')], [entry({ callId: 'a' })]), 'ready');
  assert.equal(state([], [entry()]), 'ready');
});

test('h1_missing_running_when_no_entry_covers_a_running_call', () => {
  assert.equal(state([call('a')], []), 'missingRunning');
  assert.equal(state([call('a')], [entry({ callId: 'b', showable: false })]), 'missingRunning');
});

test('h1_none_without_a_running_call', () => {
  assert.equal(state([], []), 'none');
  assert.equal(state([], [entry({ showable: false })]), 'none');
});

test('h1_ready_wins_over_a_second_call_that_is_missing', () => {
  assert.equal(state([call('a'), call('b')], [entry({ callId: 'a' })]), 'ready');
});

test('h1_an_entry_covers_by_message_and_call', () => {
  const covered = (entryOf) => uncovered([call('a', 'm1')], [entry(entryOf)]).length === 0;
  assert.ok(covered({ callId: 'a', messageId: 'm1' }));
  assert.ok(covered({ callId: 'a' }));
  assert.ok(!covered({ callId: 'a', messageId: 'm2' }));
  assert.ok(!covered({ callId: 'b', messageId: 'm1' }));
});

test('h1_an_entry_without_identity_covers_one_call', () => {
  assert.deepEqual(uncovered([call('a'), call('b')], [entry()]), [call('b')]);
  assert.deepEqual(uncovered([call('a'), call('b'), call('c')], [entry(), entry({ callId: 'b' })]), [call('c')]);
});

test('h1_a_question_of_another_session_of_the_tree_is_ready_but_covers_nothing_here', () => {
  const child = entry({ sessionId: 'child' });
  assert.equal(state([call('a')], [child], ['s', 'child']), 'ready');
  assert.equal(state([call('a')], [{ ...child, showable: false }], ['s', 'child']), 'missingRunning');
  assert.equal(state([call('a')], [child]), 'missingRunning');
});

test('h1_a_permission_is_no_question', () => {
  assert.equal(state([call('a')], [entry({ kind: 'permission' })]), 'missingRunning');
});

test('h1_a_question_that_is_being_settled_covers_its_call', () => {
  assert.equal(state([call('a')], [entry({ callId: 'a', showable: false })]), 'none');
});
