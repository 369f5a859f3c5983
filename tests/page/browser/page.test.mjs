// The page in a real browser before a real daemon, with faults.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, test } from 'node:test';

import { Machine, closeBrowser, until } from '../lib/machine.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** How often the page is loaded anew at a random moment. */
const RELOADS = Number(process.env.RELOADS ?? 100);

after(closeBrowser);

/** A test with a machine of its own; nothing that the page says may be an error of its own. */
function check(name, run, options) {
  test(name, { timeout: 180_000 }, async () => {
    const machine = await Machine.create(options);
    const { tab } = machine;
    const pages = [];
    machine.tab = async (...args) => { const page = await tab.apply(machine, args); pages.push(page); return page; };
    try {
      await run(machine);
      const wrong = pages.flatMap((page) => page.said).filter((line) => /Content Security Policy|TrustedScript|^error: .*(Error|at )/s.test(line) && !/ERR_|Failed to load resource/.test(line));
      assert.deepEqual(wrong, []);
    } catch (error) {
      if (process.env.SHOTS) for (const [n, page] of pages.entries()) await page.screenshot({ path: `${process.env.SHOTS}/${name}-${n}.png` }).catch(() => {});
      for (const page of pages) if (page.said.length > 0) console.error(page.said.slice(-15).join('\n'));
      console.error(machine.requests.slice(-25).map((one) => JSON.stringify(one).slice(0, 200)).join('\n'));
      throw error;
    } finally {
      await machine.close();
    }
  });
}

const dock = (page) => page.locator('.dock');
const card = (page) => page.locator('.entry.question').last();
const cancels = (machine) => machine.seen('POST', /\/cancel$/);
const dropped = { type: 'permission_request', action: 'drop' };
/** The page at a session that is live and idle, so that what happens next comes by the stream. */
async function watching(machine, options) {
  const id = await machine.session();
  const page = await machine.tab(`/s/${id}`, options);
  await page.locator('.words', { hasText: 'Ready' }).waitFor();
  return { id, page };
}
const say = async (page, text) => { await page.fill('#composer', text); await page.press('#composer', 'Enter'); };
const choose = (page, label) => page.locator('.dock .option', { hasText: label }).first().click();
const submit = (page) => page.locator('.dock .primary', { hasText: 'Submit' }).click();
const answered = (page, text) => page.locator('.entry.question.is-answered', { hasText: text }).last().waitFor();

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

check('h2_a_dropped_request_appears_by_refetch', async (machine) => {
  const { page } = await watching(machine);
  await machine.faults({ events: [dropped], fail: [{ path: '^/questions\\?state=open&limit', status: 500 }] });
  await say(page, 'please ASK');
  await dock(page).waitFor();
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

check('h4_an_entry_that_is_hidden_for_less_than_the_delay_is_shown_and_nothing_is_halted', async (machine) => {
  const { page } = await watching(machine);
  const list = { path: '^/questions\\?state=open&limit', status: 500 };
  await machine.faults({ events: [dropped], hide: true, fail: [list] });
  await say(page, 'please ASK');
  await page.locator('.words', { hasText: 'fetching it' }).waitFor();
  // The refetches are over, and the snapshot that the sign of life asks for was taken.
  await until('four refetches', () => machine.seen('GET', /^\/questions\?state=open&session/).length >= 4);
  await until('a second snapshot', () => machine.seen('GET', /pending-prompts/).length >= 2);
  await machine.faults({ fail: [list] });
  await dock(page).waitFor();
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

check('h10_what_is_written_without_a_daemon_goes_out_once_and_in_order', async (machine) => {
  const { page } = await watching(machine);
  await machine.kill();
  await page.locator('.words.lost').waitFor();
  await say(page, 'first words');
  await say(page, 'second words');
  assert.equal(await page.locator('.queue li').count(), 2);
  await page.reload().catch(() => {});
  await machine.start();
  await page.locator('.entry.agent', { hasText: 'You said: second words' }).waitFor();
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

check('v4_two_tabs_race_and_the_loser_is_told_who_when_and_what', async (machine) => {
  const id = await machine.session('please ASK');
  await machine.open();
  const one = await machine.tab(`/s/${id}`);
  const two = await machine.tab(`/s/${id}`);
  await two.addInitScript(() => {});
  await dock(one).waitFor();
  await dock(two).waitFor();
  // The second does not hear of it in time.
  await two.route(/\/questions\?|\/events/, (route) => route.abort());
  await choose(one, 'Alpha1');
  await choose(two, 'Beta1');
  await machine.faults({ silent: true });
  await submit(one);
  await until('it is answered', async () => (await machine.call('GET', '/questions')).body.questions.length === 0);
  await submit(two);
  await two.locator('.notice', { hasText: /Already answered .*in a browser at \d\d:\d\d.*Alpha1.*not used/ }).waitFor();
  await dock(two).waitFor({ state: 'detached' });
});

check('h11_a_stale_generation_is_refused_and_the_form_stays', async (machine) => {
  const { page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  let stale = 0;
  await page.route(/\/answer$/, (route) => {
    stale += 1;
    if (stale > 1) return route.continue();
    return route.continue({ postData: JSON.stringify({ ...JSON.parse(route.request().postData()), generation: 99 }) });
  });
  await choose(page, 'Beta1');
  await submit(page);
  await page.locator('.dock .message', { hasText: 'has changed' }).waitFor();
  assert.ok(await page.locator('.dock .option', { hasText: 'Beta1' }).locator('input').isChecked());
  await submit(page);
  await answered(page, 'Beta1');
});

check('h11_gone_questions_free_the_input', async (machine) => {
  const { page } = await watching(machine);
  for (const [status, body] of [[404, { error: 'no', code: 'question_not_found' }], [410, { error: 'no', code: 'closed', cause: 'orphan_repair' }], [409, { error: 'no', code: 'already_answered', answeredBy: { surface: 'slack', name: 'Ann' }, answeredAt: new Date().toISOString(), answers: { 0: 'Alpha1' } }]]) {
    await page.route(/\/answer$/, (route) => route.fulfill({ status, contentType: 'application/json', body: JSON.stringify(body) }));
    await say(page, 'please ASK');
    await dock(page).waitFor();
    await choose(page, 'Beta1');
    await submit(page);
    await page.locator('.notice').waitFor();
    await dock(page).waitFor({ state: 'detached' });
    assert.ok(await page.locator('#composer').isEnabled());
    await page.locator('button.stop').click();
    await page.locator('.words', { hasText: 'Ready' }).waitFor();
    await page.locator('.notice button').first().click();
  }
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
  const { page } = await watching(machine);
  for (const action of ['duplicate', 'swap', 'delay']) {
    await machine.faults({ events: [{ action, ms: 400 }] });
    await say(page, `LONG_5 ${action} please ASK`);
    await dock(page).waitFor();
    await choose(page, 'Beta1');
    await submit(page);
    await answered(page, 'Beta1');
    await page.locator('.words', { hasText: 'Ready' }).waitFor();
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

check('s3_without_the_flag_the_inbox_says_why_an_answer_is_not_taken', async (machine) => {
  await machine.session('please ASK');
  await machine.open();
  await machine.kill();
  machine.flags = [];
  await machine.start();
  const page = await machine.tab('/');
  await page.locator('.case', { hasText: 'cannot be answered now' }).waitFor();
  await page.locator('.case .option', { hasText: 'Beta1' }).click();
  await page.locator('.case .primary').click();
  await page.locator('.case .message', { hasText: '--restore-ask-user-question' }).waitFor();
  assert.equal(await page.locator('.case').count(), 1);
});

check('h8_switching_to_another_session_and_back', async (machine) => {
  const { id, page } = await watching(machine);
  const other = await machine.session('something else');
  await page.locator(`.recent a[href="/s/${other}"]`).waitFor();
  await page.clock.install();
  await machine.faults({ events: [dropped], hide: true });
  await say(page, 'please ASK');
  await page.locator('.words', { hasText: 'fetching it' }).waitFor();
  await page.locator(`.recent a[href="/s/${other}"]`).click();
  await page.locator('.entry.agent', { hasText: 'something else' }).waitFor();
  await page.clock.runFor(4000);
  assert.equal(cancels(machine).length, 0);
  await machine.faults({});
  await page.locator(`.recent a[href="/s/${id}"]`).click();
  await dock(page).waitFor();
  await choose(page, 'Beta1');
  await submit(page);
  await answered(page, 'Beta1');
});

check('h8_switching_the_workspace', async (machine) => {
  const { page } = await watching(machine);
  await page.locator('.place select option').nth(2).waitFor({ state: 'attached' });
  await page.clock.install();
  await machine.faults({ events: [dropped], hide: true });
  await say(page, 'please ASK');
  await page.locator('.words', { hasText: 'fetching it' }).waitFor();
  await page.locator('.place select').selectOption({ label: 'second' });
  await page.getByText('Nothing waits for you').waitFor();
  await page.clock.runFor(4000);
  assert.equal(cancels(machine).length, 0);
  await machine.faults();
  await page.locator('.place select').selectOption('');
  await page.locator('.case').waitFor();
}, { more: ['second'] });

check('what_an_agent_writes_is_text', async (machine) => {
  const { page } = await watching(machine);
  const evil = '<img src=x onerror="window.broken=1"><script>window.broken=1</script> [link](javascript:window.broken=1) [data](data:text/html,x) ![pic](https://example.org/x.png) [good](https://example.org/)';
  await say(page, evil);
  const reply = page.locator('.entry.agent', { hasText: 'You said' });
  await reply.locator('a').first().waitFor();
  assert.deepEqual(await reply.locator('a').evaluateAll((all) => all.map((one) => one.getAttribute('href'))), ['https://example.org/x.png', 'https://example.org/']);
  assert.equal(await page.locator('.transcript img, .transcript script').count(), 0);
  assert.match(await reply.textContent(), /<img src=x onerror/);
  assert.equal(await page.evaluate(() => globalThis.broken), undefined);
});

check('e_with_a_token_the_page_asks_for_it', async (machine) => {
  const page = await machine.tab('/');
  await page.route(/\/questions|\/capabilities|\/workspace/, (route) => route.fulfill({ status: 401, contentType: 'application/json', body: '{"error":"Unauthorized"}' }));
  await page.reload();
  await page.getByLabel(/^Token/).waitFor();
});

check('without_scripts_the_page_says_where_to_answer', async (machine) => {
  const page = await machine.tab('/', { javaScriptEnabled: false });
  await page.locator('p.noscript').waitFor();
});

check('h11_a_draft_outlives_a_reload_and_a_restart', async (machine) => {
  const { page } = await watching(machine);
  await say(page, 'a release: ASK_FORM');
  await dock(page).waitFor();
  await choose(page, 'Postgres');
  await page.locator('.dock button', { hasText: 'Next' }).click();
  await page.fill('.dock input.other', 'a smoke test');
  await page.fill('#composer', 'half a message');
  await page.reload();
  await dock(page).waitFor();
  assert.equal(await page.inputValue('.dock input.other'), 'a smoke test');
  assert.equal(await page.inputValue('#composer'), 'half a message');
  await machine.kill();
  await machine.start();
  await page.reload();
  await dock(page).waitFor();
  await page.locator('.steps button', { hasText: 'Database' }).click();
  assert.ok(await page.locator('.dock .option', { hasText: 'Postgres' }).locator('input').isChecked());
});

check('h11_keyboard_only', async (machine) => {
  const { page } = await watching(machine);
  await page.focus('#composer');
  await page.keyboard.type('a release: ASK_FORM');
  await page.keyboard.press('Enter');
  await dock(page).waitFor();
  // Whoever writes keeps the keyboard.
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'composer');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('2');
  await page.keyboard.press('Enter');
  await page.keyboard.press('1');
  await page.keyboard.press('3');
  await page.keyboard.press('4');
  await page.keyboard.type('Fuzzing');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'composer');
  assert.ok(await dock(page).isVisible());
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Space');
  await page.keyboard.press('Enter');
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('1');
  await page.keyboard.press('Enter');
  await page.locator('.entry.question.is-answered').waitFor();
  const sent = JSON.parse(machine.seen('POST', /\/answer$/)[0].body);
  assert.deepEqual(sent.answers, { 0: 'Postgres', 1: ['Unit tests', 'Benchmarks', 'Fuzzing'], 2: '1.0.0', 3: 'The agent' });
  await until('the composer has the keyboard', () => page.evaluate(() => document.activeElement?.id === 'composer'));
});

check('q7_a_decline_is_a_decline', async (machine) => {
  const { id, page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  await page.locator('.dock button', { hasText: 'Decline' }).click();
  await page.locator('.entry.question.is-declined').waitFor();
  await machine.idle(id);
});

check('q4_two_questions_of_one_turn_are_answered_in_any_order', async (machine) => {
  const { page } = await watching(machine);
  await say(page, 'please ASK_TWO');
  await page.locator('.dock header nav button').nth(1).waitFor();
  await page.locator('.dock header nav button', { hasText: 'Item 2' }).click();
  await choose(page, 'Beta2');
  await submit(page);
  await page.locator('.dock .option', { hasText: 'Alpha1' }).waitFor();
  await choose(page, 'Alpha1');
  await submit(page);
  await page.locator('.entry.agent', { hasText: 'Read:' }).waitFor();
  assert.match(machine.model.requests.find(({ results }) => results.length === 2).results.join(), /Alpha1.*Beta2/s);
});

check('v6_a_permission_shows_the_arguments_and_its_answer_lets_the_call_run', async (machine) => {
  const id = await machine.session('count with SHELL', { approvalMode: 'default' });
  await machine.open();
  const page = await machine.tab('/');
  await page.locator('.case', { hasText: 'seq 1 40' }).waitFor();
  await page.locator('.case .args', { hasText: '$ seq 1 40 && echo done' }).waitFor();
  await page.locator('.case .choices button', { hasText: 'Allow once' }).click();
  await page.getByText('Nothing waits for you').waitFor();
  await page.goto(`${machine.url}/s/${id}`);
  await page.locator('.entry.agent', { hasText: 'It counted.' }).waitFor();
  await page.locator('.entry.tool.is-done').waitFor();
});

check('d2_the_inbox_shows_and_answers_questions_of_sessions_that_are_not_loaded', async (machine) => {
  const id = await machine.session('please ASK');
  await machine.open();
  await machine.kill();
  await machine.start();
  const page = await machine.tab('/');
  await page.locator('.case', { hasText: 'Which one for item 1?' }).waitFor();
  assert.match(await page.title(), /^\(1\) /);
  await page.locator('.case .option', { hasText: 'Beta1' }).click();
  await page.locator('.case .primary').click();
  await page.locator('.toast', { hasText: 'Item 1: Beta1' }).waitFor();
  await page.getByText('Nothing waits for you').waitFor();
  await machine.idle(id);
  await until('the model has read it', () => machine.model.requests.some(({ results }) => /Beta1/.test(results.join())));
  assert.equal(await page.title(), 'Holdpoint');
});

check('h13_one_notification_for_a_live_arrival_none_on_reload_withdrawn_on_close', async (machine) => {
  await machine.session('please ASK');
  await machine.open();
  const page = await machine.tab('/', { permissions: ['notifications'] });
  await page.addInitScript(() => {
    globalThis.notes = [];
    globalThis.Notification = class {
      static permission = 'granted';
      constructor(title, { tag }) { this.tag = tag; globalThis.notes.push(this); }
      close() { this.closed = true; }
    };
  });
  await page.reload();
  await page.locator('.case').waitFor();
  assert.equal(await page.evaluate(() => globalThis.notes.length), 0);
  await machine.session('once more: ASK');
  const [, second] = await machine.open(2);
  await page.locator('.case').nth(1).waitFor();
  assert.deepEqual(await page.evaluate(() => globalThis.notes.map(({ tag }) => tag)), [second.questionId]);
  await machine.call('POST', `/questions/${second.questionId}/answer`, { generation: second.generation, answers: { 0: 'Alpha1' }, responseId: 'r' });
  await until('it is withdrawn', () => page.evaluate(() => globalThis.notes[0].closed === true));
  assert.equal(await page.evaluate(() => globalThis.notes.length), 1);
});

check('h13_a_phone_has_room_for_the_question_and_its_buttons', async (machine) => {
  const id = await machine.session('Please look at RICH storage', { approvalMode: 'auto-edit' });
  await machine.open();
  for (const size of [{ width: 390, height: 844 }, { width: 360, height: 560 }]) {
    const page = await machine.tab(`/s/${id}`, { viewport: size, hasTouch: true, isMobile: true });
    await dock(page).waitFor();
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the window');
    for (const what of ['.dock .primary', '.dock .quiet', '#composer', 'button.stop']) {
      const box = await page.locator(what).first().boundingBox();
      assert.ok(box && box.y >= 0 && box.y + box.height <= size.height, `${what} at ${size.width}: ${JSON.stringify(box)}`);
    }
    await page.close();
  }
});

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

check('older_pages_come_when_they_are_scrolled_to_and_only_what_is_near_is_in_the_document', async (machine) => {
  const id = await machine.session();
  for (let n = 0; n < 260; n += 1) {
    await machine.call('POST', `/session/${id}/prompt`, { prompt: [{ type: 'text', text: `message ${n}` }] });
    await machine.idle(id);
  }
  const page = await machine.tab(`/s/${id}`);
  await page.locator('.entry.user', { hasText: /^message 259$/ }).waitFor();
  assert.deepEqual(machine.seen('GET', /^\/session\/.*transcript/), []);
  await until('the first message', async () => {
    await page.evaluate(() => { document.querySelector('.scroller').scrollTop -= 1000; });
    return page.locator('.entry.user', { hasText: /^message 0$/ }).isVisible();
  });
  // The first older page is found by a record, the next by a cursor.
  assert.ok(machine.seen('GET', /^\/session\/.*transcript.*cursor=/).length > 0);
  const texts = await page.locator('.entry.user').allTextContents();
  assert.ok(texts.length < 260, `${texts.length} in the document`);
  assert.deepEqual(texts, texts.map((_, n) => `message ${Number(texts[0].slice(8)) + n}`));
});

check('axe_finds_nothing_serious', async (machine) => {
  const id = await machine.session('Please look at RICH storage', { approvalMode: 'auto-edit' });
  await machine.session('a release: ASK_FORM');
  await machine.session('count with SHELL', { approvalMode: 'default' });
  await machine.open(3);
  for (const colorScheme of ['light', 'dark']) {
    const page = await machine.tab('/', { colorScheme });
    for (const [path, there] of [['/', '.case:nth-child(3)'], [`/s/${id}`, '.dock'], ['/#sessions', '.rows li'], ['/#new', '.new'], ['/#settings', '.about']]) {
      await page.goto(machine.url + path);
      await page.locator(there).first().waitFor();
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
      const bad = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id: rule, nodes }) => `${rule}: ${nodes.slice(0, 3).map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary?.split('\n')[1] ?? ''}`).join(' | ')}`);
      assert.deepEqual(bad, [], `${path} ${colorScheme}`);
    }
  }
});

check('i8_after_any_number_of_reloads_the_question_is_there', async (machine) => {
  const { page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  for (let n = 0; n < RELOADS; n += 1) {
    await page.waitForTimeout(Math.random() * 250);
    await page.reload({ waitUntil: 'commit' });
  }
  await dock(page).waitFor();
  // The inbox knows the question before the transcript is there.
  await page.locator('.entry.question').first().waitFor();
  assert.equal(await page.locator('.entry.question').count(), 1);
  assert.equal(cancels(machine).length, 0);
  await choose(page, 'Beta1');
  await submit(page);
  await answered(page, 'Beta1');
});
