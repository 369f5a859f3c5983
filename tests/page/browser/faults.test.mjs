// Lost events, dead connections, restarts and clean-ups, before a real daemon.
import assert from 'node:assert/strict';

import { until } from '../lib/machine.mjs';
import { answered, cancels, check, choose, dock, dropped, freeze, pass, say, submit, watching } from '../lib/suite.mjs';

check('h1_a_question_is_shown_answered_and_the_same_turn_goes_on', async (machine) => {
  const { page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  await choose(page, 'Beta1');
  await submit(page);
  await answered(page, 'Beta1');
  await page.locator('.entry.agent', { hasText: 'Read:' }).waitFor();
  await dock(page).waitFor({ state: 'detached' });
  assert.equal(machine.model.requests.filter(({ results }) => results.length > 0).length, 1);
  assert.deepEqual(machine.seen('POST', /\/shown$/).map(({ body }) => JSON.parse(body).surface), ['web']);
});

check('h2_a_dropped_request_appears_by_refetch_within_a_second', async (machine) => {
  const { page } = await watching(machine);
  await machine.faults({ events: [dropped], fail: [{ path: '^/questions\\?state=open&limit', status: 500 }] });
  await freeze(page);
  await say(page, 'please ASK');
  await pass(page, 'the call', () => page.locator('.entry.question').count());
  // Within a second of the page's time, and long before anything is halted.
  await pass(page, 'the dock', () => dock(page).isVisible(), 1000);
  await page.clock.resume();
  await choose(page, 'Alpha1');
  await submit(page);
  await answered(page, 'Alpha1');
  assert.equal(cancels(machine).length, 0);
});

check('h6_dropped_and_hidden_is_halted_once_and_what_was_typed_goes_out_by_itself', async (machine) => {
  const { id, page } = await watching(machine);
  await machine.faults({ events: [dropped], hide: true });
  await say(page, 'please ASK');
  await page.locator('.words', { hasText: 'fetching it' }).waitFor();
  assert.ok(await page.locator('#composer').isEnabled());
  await say(page, 'typed meanwhile');
  await page.locator('.entry.question.is-interrupted', { hasText: 'cancelled before the user answered' }).waitFor();
  await page.locator('.entry.agent', { hasText: 'You said: typed meanwhile' }).waitFor();
  await machine.idle(id);
  await page.locator('.words', { hasText: 'Ready' }).waitFor();
  assert.deepEqual(cancels(machine).map(({ body }) => JSON.parse(body)), [{ cause: 'unreachable_question' }]);
  assert.equal(machine.model.requests.filter(({ said }) => said === 'typed meanwhile').length, 1);
  assert.equal(await page.locator('.queue li').count(), 0);
});

check('h4_an_entry_hidden_for_less_than_the_delay_is_written_by_the_fourth_check_and_nothing_is_halted', async (machine) => {
  const { page } = await watching(machine);
  const list = { path: '^/questions\\?state=open&limit', status: 500 };
  // What was asked for before it can be found has its answer before.
  let asked = 0;
  let snapshots = 0;
  page.on('requestfinished', (request) => {
    if (/\/questions\?state=open&session/.test(request.url())) asked += 1;
    if (/\/pending-prompts/.test(request.url())) snapshots += 1;
  });
  await machine.faults({ events: [dropped], hide: true, fail: [list] });
  await freeze(page);
  await say(page, 'please ASK');
  await pass(page, 'the status', () => page.locator('.words', { hasText: 'fetching it' }).isVisible());
  await pass(page, 'four refetches', () => asked >= 4, 1500);
  // The sign of life that tells of the lost event comes by itself, while hardly any of the page's time passes.
  await pass(page, 'the snapshot that it asks for', () => snapshots >= 1, 1000, 1);
  const before = asked;
  await machine.faults({ fail: [list] });
  await pass(page, 'the dock', () => dock(page).isVisible(), 3500);
  await until('the answer to the last check', () => asked === before + 1);
  await page.clock.resume();
  await choose(page, 'Beta1');
  await submit(page);
  await answered(page, 'Beta1');
  assert.equal(cancels(machine).length, 0);
});

check('h5_a_list_that_cannot_be_read_is_said_and_read_when_it_can_be', async (machine) => {
  const { page } = await watching(machine);
  await machine.faults({ events: [dropped], hide: true, fail: [{ path: '^/questions\\?', status: 500 }] });
  await say(page, 'please ASK');
  await page.locator('.words', { hasText: 'the daemon cannot be reached' }).waitFor();
  await machine.faults({});
  await dock(page).waitFor();
  assert.equal(cancels(machine).length, 0);
});

check('h12_a_killed_daemon_is_told_and_the_question_is_answered_in_the_same_tab', async (machine) => {
  const { page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  await choose(page, 'Beta1');
  await machine.kill();
  await page.locator('.words', { hasText: /Not connected since \d\d:\d\d/ }).waitFor();
  assert.ok(await dock(page).isVisible());
  assert.ok(await page.locator('.dock .option', { hasText: 'Beta1' }).locator('input').isChecked());
  await machine.start();
  await page.locator('.words', { hasText: 'waits for your answer' }).waitFor();
  assert.ok(await page.locator('.dock .option', { hasText: 'Beta1' }).locator('input').isChecked());
  await submit(page);
  await answered(page, 'Beta1');
  await page.locator('.entry.agent', { hasText: 'Read:' }).waitFor();
});

check('d2_an_answer_given_without_a_daemon_is_kept_and_sent_once_it_is_back', async (machine) => {
  const { page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  await machine.kill();
  await choose(page, 'Alpha1');
  await submit(page);
  await page.locator('.dock .message', { hasText: 'Your answer is kept' }).waitFor();
  await machine.start();
  await answered(page, 'Alpha1');
  const sent = machine.seen('POST', /\/answer$/).map(({ body }) => JSON.parse(body).responseId);
  assert.equal(new Set(sent).size, 1);
});

check('d2_an_answer_whose_receipt_was_lost_is_the_same_answer_when_it_is_sent_again', async (machine) => {
  const { page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  let lost = 0;
  await page.route(/\/answer$/, async (route) => {
    if (lost > 0) return route.continue();
    lost += 1;
    await route.fetch();
    return route.abort('connectionreset');
  });
  await choose(page, 'Beta1');
  await submit(page);
  await answered(page, 'Beta1');
  await dock(page).waitFor({ state: 'detached' });
  assert.equal(await page.locator('.notice').count(), 0);
});

check('h10_what_is_written_without_a_daemon_outlives_its_tab_and_goes_out_once_and_in_order', async (machine) => {
  const { id, page } = await watching(machine);
  await machine.kill();
  await page.locator('.words.lost').waitFor();
  await say(page, 'first words');
  await say(page, 'second words');
  assert.equal(await page.locator('.queue li').count(), 2);
  await page.close();
  await machine.start();
  const again = await machine.tab(`/s/${id}`, { context: page.context() });
  await again.locator('.entry.agent', { hasText: 'You said: second words' }).waitFor();
  assert.deepEqual(machine.model.requests.map(({ said }) => said).filter((said) => /words/.test(said)), ['first words', 'second words']);
});

check('h10_while_the_dock_is_open_a_message_is_queued_and_can_be_taken_back', async (machine) => {
  const { id, page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  await say(page, 'keep this');
  await say(page, 'and not this');
  await page.locator('.queue li').nth(1).waitFor();
  await page.locator('.queue li', { hasText: 'and not this' }).getByRole('button').click();
  await until('one is left', async () => (await page.locator('.queue li').count()) === 1);
  await choose(page, 'Beta1');
  await submit(page);
  await page.locator('.entry.agent', { hasText: 'You said: keep this' }).waitFor();
  await machine.idle(id);
  assert.equal(machine.model.requests.filter(({ said }) => /not this/.test(said)).length, 0);
  assert.deepEqual(machine.model.requests.find(({ results }) => results.length > 0).results.length, 1);
});

check('h12_any_lost_event_heals', async (machine) => {
  const { page } = await watching(machine);
  for (const [n, rule] of [{ type: 'session_update', contains: 'user_message_chunk' }, { type: 'session_update', contains: '"tool_call"' }, { type: 'turn_complete' }, { type: 'session_update', contains: 'You said' }].entries()) {
    await machine.faults({ events: [{ ...rule, action: 'drop', times: 1 }] });
    await say(page, n === 1 ? 'LONG_3 please ASK' : `number ${n}`);
    if (n === 1) {
      await dock(page).waitFor();
      await page.locator('button.stop').click();
    } else await page.locator('.entry.agent', { hasText: `number ${n}` }).waitFor();
    await page.locator('.words', { hasText: 'Ready' }).waitFor();
    await page.locator('.entry.user', { hasText: n === 1 ? 'ASK' : `number ${n}` }).last().waitFor();
  }
});

check('h12_events_twice_late_or_in_another_order_change_nothing', async (machine) => {
  const { id, page } = await watching(machine);
  for (const [n, action] of ['duplicate', 'swap', 'delay'].entries()) {
    await machine.faults({ events: [{ action, ms: 400 }] });
    await say(page, `LONG_5 ${action} please ASK`);
    await dock(page).waitFor();
    await choose(page, 'Beta1');
    await submit(page);
    await answered(page, 'Beta1');
    await until('the reply', async () => (await page.locator('.entry.agent', { hasText: 'Read:' }).count()) === n + 1);
    await machine.idle(id);
    await machine.faults();
  }
  assert.deepEqual(await page.locator('.entry.user').allTextContents(), ['duplicate', 'swap', 'delay'].map((action) => `LONG_5 ${action} please ASK`));
  assert.equal(await page.locator('.entry.question').count(), 3);
  assert.equal(cancels(machine).length, 0);
});

check('h12_no_event_for_minutes_ends_in_a_snapshot', async (machine) => {
  const id = await machine.session();
  const page = await machine.tab('/');
  await page.clock.install();
  await page.goto(`${machine.url}/s/${id}`);
  await page.locator('.words', { hasText: 'Ready' }).waitFor();
  await machine.faults({ silent: true });
  await machine.call('POST', `/session/${id}/prompt`, { prompt: [{ type: 'text', text: 'please ASK' }] });
  await machine.open();
  await page.clock.fastForward('10:00');
  await machine.faults({});
  await page.clock.runFor(5000);
  await dock(page).waitFor();
  await page.locator('.entry.user', { hasText: 'please ASK' }).waitFor();
});

check('d6_a_session_deleted_under_an_open_dock', async (machine) => {
  const { id, page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  await machine.call('POST', '/sessions/delete', { sessionIds: [id] });
  await page.getByText('This session is gone').waitFor();
  await page.getByText('To the inbox').click();
  await page.getByText('Nothing waits for you').waitFor();
});

check('h9_stop_with_the_dock_open', async (machine) => {
  const { id, page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  await page.locator('button.stop').click();
  await dock(page).waitFor({ state: 'detached' });
  await page.locator('.entry.question.is-interrupted', { hasText: 'cancelled before the user answered' }).waitFor();
  assert.ok(await page.locator('#composer').isEnabled());
  await machine.idle(id);
  await say(page, 'and now this');
  await page.locator('.entry.agent', { hasText: 'You said: and now this' }).waitFor();
});

check('r10_a_restored_question_whose_turn_is_stopped_can_be_answered_later', async (machine) => {
  const { id, page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  await machine.kill();
  await machine.start();
  await page.locator('.words', { hasText: 'waits for your answer' }).waitFor();
  await page.locator('button.stop').click();
  await dock(page).waitFor({ state: 'detached' });
  await page.locator('.entry.question.is-interrupted').waitFor();
  await page.locator('.words', { hasText: 'Ready' }).waitFor();
  await page.locator('.notice.dormant', { hasText: 'still open' }).getByRole('button').click();
  await choose(page, 'Beta1');
  await submit(page);
  await answered(page, 'Beta1');
  await page.locator('.entry.agent', { hasText: 'Read:' }).waitFor();
  await machine.idle(id);
});

check('r2_a_message_after_a_stop_closes_the_question_everywhere', async (machine) => {
  const { page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  await machine.kill();
  await machine.start();
  await page.locator('.words', { hasText: 'waits for your answer' }).waitFor();
  await page.locator('button.stop').click();
  await page.locator('.notice.dormant').waitFor();
  await say(page, 'never mind');
  await page.locator('.entry.agent', { hasText: 'You said: never mind' }).waitFor();
  await page.locator('.notice.dormant').waitFor({ state: 'detached' });
  await page.locator('.entry.question.is-interrupted').waitFor();
});

check('a_session_that_somebody_closed_is_opened_again_by_a_message', async (machine) => {
  const { id, page } = await watching(machine);
  await machine.call('DELETE', `/session/${id}`);
  await page.locator('.words', { hasText: 'was closed' }).waitFor();
  await say(page, 'still there?');
  await page.locator('.entry.agent', { hasText: 'You said: still there?' }).waitFor();
});

check('h8_switching_to_another_session_and_back', async (machine) => {
  const { id, page } = await watching(machine);
  const other = await machine.session('something else');
  await page.locator(`.recent a[href="/s/${other}"]`).waitFor();
  await machine.faults({ events: [dropped], hide: true });
  await freeze(page);
  await say(page, 'please ASK');
  await pass(page, 'the status', () => page.locator('.words', { hasText: 'fetching it' }).isVisible(), 2500);
  await page.locator(`.recent a[href="/s/${other}"]`).click();
  await pass(page, 'the other session', () => page.locator('.entry.agent', { hasText: 'something else' }).isVisible());
  // Its timer runs on, and fails the third check.
  await page.clock.runFor(5000);
  assert.equal(cancels(machine).length, 0);
  await machine.faults({});
  await page.clock.resume();
  await page.locator(`.recent a[href="/s/${id}"]`).click();
  await dock(page).waitFor();
  await choose(page, 'Beta1');
  await submit(page);
  await answered(page, 'Beta1');
  assert.equal(cancels(machine).length, 0);
});

check('h8_coming_back_while_it_is_missing_still_arms_anew', async (machine) => {
  const { id, page } = await watching(machine);
  const other = await machine.session('something else');
  await page.locator(`.recent a[href="/s/${other}"]`).waitFor();
  await machine.faults({ events: [dropped], hide: true });
  await freeze(page);
  await say(page, 'please ASK');
  await pass(page, 'the status', () => page.locator('.words', { hasText: 'fetching it' }).isVisible(), 2500);
  await page.locator(`.recent a[href="/s/${other}"]`).click();
  await pass(page, 'the other session', () => page.locator('.entry.agent', { hasText: 'something else' }).isVisible());
  await page.clock.runFor(5000);
  assert.equal(cancels(machine).length, 0);
  await page.locator(`.recent a[href="/s/${id}"]`).click();
  await pass(page, 'the interrupted card', () => page.locator('.entry.question.is-interrupted').isVisible());
  assert.equal(cancels(machine).length, 1);
});

check('h8_switching_the_workspace', async (machine) => {
  const { page } = await watching(machine);
  await page.locator('.place select option').nth(2).waitFor({ state: 'attached' });
  await machine.faults({ events: [dropped], hide: true });
  await freeze(page);
  await say(page, 'please ASK');
  await pass(page, 'the status', () => page.locator('.words', { hasText: 'fetching it' }).isVisible(), 2500);
  await page.locator('.place select').selectOption({ label: 'second' });
  await pass(page, 'the inbox', () => page.getByText('Nothing waits for you').isVisible());
  await page.clock.runFor(5000);
  assert.equal(cancels(machine).length, 0);
  await machine.faults();
  await page.clock.resume();
  await page.locator('.place select').selectOption('');
  await page.locator('.case').waitFor();
}, { more: ['second'] });

check('h12_a_tab_that_nobody_looks_at_lets_its_stream_go_and_takes_a_snapshot_when_it_is_looked_at', async (machine) => {
  const { id, page } = await watching(machine);
  await page.clock.install();
  await page.evaluate(() => {
    Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => globalThis.hiddenNow ? 'hidden' : 'visible' });
    globalThis.hiddenNow = true;
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await page.clock.fastForward('02:00');
  await machine.call('POST', `/session/${id}/prompt`, { prompt: [{ type: 'text', text: 'please ASK' }] });
  await machine.open();
  assert.equal(await page.locator('.entry.user').count(), 0);
  await page.evaluate(() => {
    globalThis.hiddenNow = false;
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await page.clock.runFor(2000);
  await dock(page).waitFor();
  await page.locator('.entry.user', { hasText: 'please ASK' }).waitFor();
});
