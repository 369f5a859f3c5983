import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createAlerts } from '../../../crates/server/web/app/alerts.js';
import { createDrafts, emptyDraft } from '../../../crates/server/web/app/drafts.js';
import * as form from '../../../crates/server/web/app/form.js';
import * as queue from '../../../crates/server/web/app/queue.js';

const single = { question: 'Which?', header: 'One', options: [{ label: 'A' }, { label: 'B' }], answerKey: '0' };
const multi = { question: 'Which ones?', header: 'Two', options: [{ label: 'X' }, { label: 'Y' }, { label: 'Z' }], answerKey: '1', multiSelect: true };

class Store {
  map = new Map();
  getItem(key) { return this.map.get(key) ?? null; }
  setItem(key, value) { if (this.full) throw new Error('full'); this.map.set(key, value); }
  removeItem(key) { this.map.delete(key); }
  key(index) { return [...this.map.keys()][index] ?? null; }
  get length() { return this.map.size; }
}

test('h11_the_answer_follows_from_the_question_and_the_draft', () => {
  let draft = emptyDraft();
  assert.equal(form.answers([single, multi], draft), undefined);
  draft = form.pick(single, draft, 'A');
  draft = form.pick(single, draft, 'B');
  assert.equal(form.firstMissing([single, multi], draft), 1);
  draft = form.pick(multi, draft, 'Z');
  draft = form.pick(multi, draft, 'X');
  assert.deepEqual(form.answers([single, multi], draft), { 0: 'B', 1: ['X', 'Z'] });
  draft = form.pick(multi, form.pick(multi, draft, 'Z'), 'X');
  assert.equal(form.answers([single, multi], draft), undefined);
});

test('h11_free_text_takes_the_place_of_a_single_choice_and_joins_several', () => {
  let draft = form.pick(single, emptyDraft(), 'A');
  draft = form.write(single, draft, ' something else ', true);
  assert.deepEqual(form.answers([single], draft), { 0: 'something else' });
  draft = form.pick(single, draft, 'B');
  assert.deepEqual(form.answers([single], draft), { 0: 'B' });
  draft = form.write(multi, form.pick(multi, draft, 'X'), 'W', true);
  assert.deepEqual(form.answers([multi], draft), { 1: ['X', 'W'] });
  assert.deepEqual(form.answers([multi], form.write(multi, draft, '  ', true)), { 1: ['X'] });
});

test('h11_a_draft_is_kept_by_question_id_over_a_reload', () => {
  const store = new Store();
  const one = createDrafts(store, () => 5, () => 'r');
  one.put('q1', form.pick(single, one.get('q1'), 'A'));
  const two = createDrafts(store, () => 6, () => 'r');
  assert.deepEqual(two.get('q1').picks, { 0: ['A'] });
  assert.deepEqual(two.get('q2').picks, {});
  two.drop('q1');
  assert.deepEqual(two.get('q1').picks, {});
});

test('h11_a_broken_or_full_store_loses_no_form', () => {
  const store = new Store();
  store.map.set('holdpoint.draft.q', '{"picks":');
  store.full = true;
  const drafts = createDrafts(store, () => 1, () => 'r');
  assert.deepEqual(drafts.get('q'), emptyDraft());
  drafts.put('q', emptyDraft());
});

test('d2_a_repeat_of_the_same_answer_has_the_same_response_id_and_another_answer_a_new_one', () => {
  let n = 0;
  const store = new Store();
  const make = () => createDrafts(store, () => 1, () => { n += 1; return `r${n}`; });
  assert.equal(make().responseId('q', { answers: { 0: 'A' } }), 'r1');
  assert.equal(make().responseId('q', { answers: { 0: 'A' } }), 'r1');
  assert.equal(make().responseId('q', { answers: { 0: 'B' } }), 'r2');
  assert.equal(make().responseId('q2', { answers: { 0: 'B' } }), 'r3');
});

test('drafts_that_are_old_or_too_many_are_forgotten', () => {
  const store = new Store();
  let now = 1000;
  const drafts = createDrafts(store, () => now, () => 'r');
  store.setItem('other', 'kept');
  drafts.put('old', emptyDraft());
  now += 31 * 24 * 3600 * 1000;
  for (let n = 0; n < 250; n += 1) { now += 1; drafts.put(`q${n}`, emptyDraft()); }
  drafts.tidy();
  assert.equal(store.length, 201);
  assert.equal(store.getItem('holdpoint.draft.old'), null);
  assert.equal(store.getItem('holdpoint.draft.q49'), null);
  assert.notEqual(store.getItem('holdpoint.draft.q50'), null);
});

test('h13_one_alert_for_a_live_arrival_none_for_what_was_there_and_withdrawn_on_close', () => {
  const alerts = createAlerts();
  assert.deepEqual(alerts.update(['a', 'b']), { raise: [], withdraw: [] });
  assert.deepEqual(alerts.update(['a', 'b', 'c']), { raise: ['c'], withdraw: [] });
  assert.deepEqual(alerts.update(['a', 'b', 'c']), { raise: [], withdraw: [] });
  assert.deepEqual(alerts.update(['b']), { raise: [], withdraw: ['c'] });
  assert.deepEqual(alerts.update(['b', 'c']), { raise: [], withdraw: [] });
});

test('h13_a_reload_raises_nothing', () => {
  const alerts = createAlerts();
  alerts.update(['a']);
  const again = createAlerts();
  assert.deepEqual(again.update(['a']), { raise: [], withdraw: [] });
});

const message = (id, at = 1000) => ({ id, text: `say ${id}`, at });

test('h10_messages_leave_in_order_one_at_a_time', () => {
  let box = queue.add(queue.add([], message('a')), message('b'));
  assert.equal(queue.next(box).id, 'a');
  box = queue.mark(box, 'a', 'sending');
  assert.equal(queue.next(box), undefined);
  box = queue.drop(box, 'a');
  assert.equal(queue.next(box).id, 'b');
});

test('h10_what_was_under_way_when_the_page_went_is_of_unknown_fate', () => {
  const box = queue.mark(queue.add(queue.add([], message('a')), message('b')), 'a', 'sending');
  const again = queue.revive(JSON.parse(JSON.stringify(box)));
  assert.deepEqual(again.map(({ id, state }) => [id, state]), [['a', 'unsure'], ['b', 'waiting']]);
  assert.equal(queue.next(again), undefined);
  assert.deepEqual(queue.revive('nonsense'), []);
});

test('h10_each_goes_out_once', () => {
  const box = queue.mark(queue.mark(queue.add(queue.add([], message('a')), { ...message('b'), text: 'say a' }), 'a', 'unsure'), 'b', 'unsure');
  assert.deepEqual(queue.settle(box, [{ promptId: 'a', text: 'say a', at: 1000 }]).map(({ id, state }) => [id, state]), [['b', 'waiting']]);
  assert.deepEqual(queue.settle(box, [{ promptId: 'p', text: 'say a', at: 1001 }]).map(({ id }) => id), ['b']);
  assert.deepEqual(queue.settle(box, [{ text: 'say a', at: 1001 }, { text: 'say a', at: 1002 }]), []);
  // The same words of an earlier day are another message.
  assert.deepEqual(queue.settle(box, [{ text: 'say a', at: -100_000 }]).map(({ state }) => state), ['waiting', 'waiting']);
});

const at = new Date(2026, 4, 1, 14, 3);
const now = at.getTime() + 60_000;
const item = { questions: [single, multi], options: [{ optionId: 'once', label: 'Allow once' }] };

test('v4_how_a_question_ended_is_told_with_who_when_where_and_what', () => {
  const by = { answeredBy: { name: 'Ann', surface: 'slack' }, answeredAt: at.toISOString() };
  assert.equal(form.endInWords(item, { ...by, answers: { 0: 'A', 1: ['X', 'Z'] } }, now, true), 'Already answered by Ann in Slack at 14:03 — One: A · Two: X, Z.');
  assert.equal(form.endInWords(item, { ...by, answers: { 0: 'A' } }, now), 'Answered by Ann in Slack at 14:03 — One: A.');
  assert.equal(form.endInWords(item, { ...by, optionId: 'once' }, now), 'Answered by Ann in Slack at 14:03 — Allow once.');
  assert.equal(form.endInWords(item, { answeredBy: { surface: 'cli' }, answeredAt: at.toISOString(), state: 'declined' }, now, true), 'Declined on the command line at 14:03.');
  assert.equal(form.endInWords(item, { answeredBy: {}, answers: {} }, now), 'Answered by somebody.');
  assert.equal(form.endInWords(item, { state: 'closed', cause: 'session_deleted' }, now), 'Closed: the session was deleted.');
  assert.equal(form.endInWords(item, undefined, now), 'Closed: it was closed.');
});

test('v4_an_end_that_is_ones_own_answer_is_no_news', () => {
  const sent = (answer) => JSON.stringify(answer);
  assert.ok(form.isOwnEnd(sent({ answers: { 0: 'A', 1: ['X'] } }), { answers: { 0: 'A', 1: ['X'] } }));
  assert.ok(!form.isOwnEnd(sent({ answers: { 0: 'A' } }), { answers: { 0: 'B' } }));
  assert.ok(!form.isOwnEnd(sent({ answers: { 0: 'A' } }), { state: 'closed' }));
  assert.ok(form.isOwnEnd(sent({ optionId: 'once' }), { optionId: 'once' }));
  assert.ok(form.isOwnEnd(sent({ decline: true }), { state: 'declined' }));
  assert.ok(!form.isOwnEnd(undefined, { answers: { 0: 'A' } }));
});

test('h11_a_form_is_touched_once_something_is_chosen_or_written', () => {
  const empty = emptyDraft();
  assert.ok(!form.touched(empty));
  assert.ok(!form.touched(form.write(single, empty, '  ', false)));
  assert.ok(!form.touched(form.pick(multi, form.pick(multi, empty, 'X'), 'X')));
  assert.ok(form.touched(form.pick(single, empty, 'A')));
  assert.ok(form.touched(form.write(single, empty, 'mine', true)));
});

test('d2_a_receipt_says_what_and_whether_the_agent_has_it', () => {
  assert.equal(form.receiptInWords(item, { answers: { 0: 'A' }, delivery: 'delivered' }), 'One: A. The agent has it.');
  assert.equal(form.receiptInWords(item, { optionId: 'once', delivery: 'waking' }), 'Allow once. It is stored, and the session is being woken.');
  assert.equal(form.receiptInWords(item, { status: 'declined' }), 'Declined. It is stored, and on its way to the agent.');
});
