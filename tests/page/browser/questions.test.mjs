// Questions and permissions: asked, answered, declined, lost to somebody else.
import assert from 'node:assert/strict';

import { until } from '../lib/machine.mjs';
import { answered, check, choose, dock, focused, say, submit, watching } from '../lib/suite.mjs';

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
  // Nobody could take it back once the page is gone.
  await machine.session('and again: ASK');
  await until('a second one', () => page.evaluate(() => globalThis.notes.length === 2));
  await page.evaluate(() => { globalThis.notes[1].close = () => sessionStorage.setItem('withdrawn', 'yes'); });
  await page.reload();
  await page.locator('.case').first().waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.getItem('withdrawn')), 'yes');
  assert.equal(await page.evaluate(() => globalThis.notes.length), 0);
});

check('d4_the_inbox_says_who_asks_in_which_session_since_when_and_where_it_was_shown', async (machine) => {
  const page = await machine.tab('/');
  await page.getByText('Nothing waits for you').waitFor();
  const icon = () => page.evaluate(() => document.querySelector('link[rel=icon]').href);
  const calm = await icon();
  await machine.session('a release: ASK_FORM');
  const [first] = await machine.open();
  await machine.call('POST', `/questions/${first.questionId}/shown`, { surface: 'slack', generation: first.generation });
  await machine.session('count with SHELL', { approvalMode: 'default' });
  await machine.open(2);
  await page.locator('.case').nth(1).waitFor();
  assert.deepEqual(await page.locator('.case .title').allTextContents(), ['4 questions: Database, Checks, Name, Author', 'seq 1 40 && echo done (counts to forty)']);
  await page.locator('.case .meta', { hasText: /^a release: ASK_FORMworkby holdpointshown in Slack, in a browser$/ }).waitFor();
  assert.equal(await page.locator('.case time').first().textContent(), 'just now');
  assert.equal(await page.title(), '(2) Holdpoint');
  assert.match(await icon(), /^data:image\/png/);
  assert.notEqual(await icon(), calm);
});

check('h11_a_card_that_arrives_can_be_answered_by_keys_at_once', async (machine) => {
  const page = await machine.tab('/');
  await page.getByText('Nothing waits for you').waitFor();
  await machine.session('please ASK');
  await page.locator('.case').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement === document.body), true, 'nothing takes the keyboard');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  // Enter chooses what the arrows led to; nothing is sent that was not seen to be chosen.
  await page.keyboard.press('Enter');
  assert.ok(await page.locator('.case .option', { hasText: 'Beta1' }).locator('input').isChecked());
  assert.deepEqual(machine.seen('POST', /\/answer$/), []);
  await page.keyboard.press('1');
  await page.keyboard.press('Enter');
  await page.locator('.toast', { hasText: 'Item 1: Alpha1' }).waitFor();
  await page.getByText('Nothing waits for you').waitFor();
});

check('h11_a_card_that_arrives_takes_no_key_from_somebody_who_writes', async (machine) => {
  await machine.session('please ASK');
  const page = await machine.tab('/');
  await page.locator('.case').waitFor();
  await page.keyboard.press('3');
  await page.keyboard.type('1 of');
  await machine.session('more: ASK');
  await page.locator('.case').nth(1).waitFor();
  await page.keyboard.type(' 2');
  assert.equal(await page.inputValue('.case input.other'), '1 of 2');
  await page.keyboard.press('Enter');
  await page.locator('.toast', { hasText: 'Item 1: 1 of 2' }).waitFor();
  // Whoever answered with the keyboard goes on with the next.
  await until('the next has the keyboard', () => page.evaluate(() => document.activeElement?.matches('.case.open > .head')));
  await page.keyboard.press('2');
  await page.keyboard.press('Enter');
  await page.getByText('Nothing waits for you').waitFor();
});

check('v4_who_is_filling_a_form_in_is_told_who_was_first', async (machine) => {
  const { page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  await page.fill('.dock input.other', 'something of my own');
  const inbox = await machine.tab('/');
  await inbox.fill('.case input.other', 'something else');
  const [question] = await machine.open();
  await machine.call('POST', `/questions/${question.questionId}/answer`, { generation: question.generation, answers: { 0: 'Alpha1' }, responseId: 'r' }, { 'x-holdpoint-surface': 'cli' });
  const words = /Answered on the command line at \d\d:\d\d — Item 1: Alpha1\. What you had filled in was not used\./;
  await page.locator('.notice', { hasText: words }).waitFor();
  await inbox.locator('.toast', { hasText: words }).waitFor();
  await answered(page, 'Alpha1');
});

check('d2_an_answer_has_a_receipt_in_the_session_too', async (machine) => {
  const { page } = await watching(machine);
  await say(page, 'please ASK_TWO');
  await page.locator('.dock header nav button').nth(1).waitFor();
  await choose(page, 'Beta1');
  await submit(page);
  await page.locator('.words', { hasText: /^Item 1: Beta1\. .* One more waits\.$/ }).waitFor();
  await choose(page, 'Alpha2');
  await submit(page);
  await page.locator('.words', { hasText: /^Item 2: Alpha2\./ }).waitFor();
  await page.locator('.words', { hasText: 'Ready' }).waitFor();
});

check('v6_a_permission_shows_its_change_and_all_arguments_and_can_be_declined', async (machine) => {
  const id = await machine.session('notes: EDIT', { approvalMode: 'default' });
  const page = await machine.tab(`/s/${id}`);
  await page.locator('.dock .diff .path', { hasText: 'notes.md' }).waitFor();
  assert.deepEqual(await page.locator('.dock .diff .line.add .text').allTextContents(), ['# Notes', '', 'One line.']);
  await page.locator('.dock .choices button', { hasText: 'Decline' }).click();
  await page.locator('.entry.tool.is-not-allowed').waitFor();
  await machine.idle(id);
  await machine.call('POST', `/session/${id}/prompt`, { prompt: [{ type: 'text', text: 'count with SHELL' }] });
  await page.locator('.dock .args', { hasText: '$ seq 1 40 && echo done' }).waitFor();
  await page.locator('.dock .args dl', { hasText: 'is_backgroundfalse' }).waitFor();
  // The keys lead to the buttons; only pressing one is an answer.
  await page.focus('#composer');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('2');
  assert.match(await page.evaluate(() => document.activeElement?.textContent), /Allow every/);
  await page.keyboard.press('1');
  assert.match(await page.evaluate(() => document.activeElement?.textContent), /Allow once/);
  await page.keyboard.press('Enter');
  await page.locator('.entry.tool.is-done').waitFor();
  await page.locator('.entry.agent', { hasText: 'It counted.' }).waitFor();
  await until('the composer has the keyboard', async () => (await focused(page)) === 'composer');
});
