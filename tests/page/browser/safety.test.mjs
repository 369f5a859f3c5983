// Who gets in, what may run, and that text stays text.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';

import { until } from '../lib/machine.mjs';
import { EVIL, EVIL_NAME } from '../lib/model.mjs';
import { check, choose, dock, submit } from '../lib/suite.mjs';

/** Nothing of what an agent wrote has become an element, or has run. */
async function harmless(page) {
  assert.equal(await page.evaluate(() => globalThis.broken), undefined);
  assert.equal(await page.locator('main img, main script:not([src]), main b:has(> img), nav img').count(), 0);
}

check('e_what_an_agent_writes_is_text_wherever_it_shows', async (machine) => {
  const id = await machine.session(`EVIL ${EVIL}`, { approvalMode: 'default' });
  await machine.call('PATCH', `/session/${id}/metadata`, { displayName: EVIL });
  await machine.open();
  const inbox = await machine.tab('/');
  const page = await machine.tab(`/s/${id}`);
  // A change, a command, then the question: in the inbox and in the dock, as text.
  for (const told of [EVIL_NAME, `echo '${EVIL}'`]) {
    await inbox.locator('.case', { hasText: told }).waitFor();
    await page.locator('.dock', { hasText: told }).waitFor();
    await harmless(inbox);
    await harmless(page);
    await page.locator('.dock .choices button', { hasText: 'Allow once' }).click();
  }
  await inbox.locator('.case .title', { hasText: EVIL }).waitFor();
  await inbox.locator('.case .option .name', { hasText: `${EVIL}1` }).waitFor();
  await dock(page).locator('.option .desc', { hasText: EVIL }).first().waitFor();
  await page.locator('.entry.question', { hasText: EVIL }).waitFor();
  await page.locator('h1', { hasText: EVIL }).waitFor();
  await page.locator('.recent', { hasText: EVIL }).waitFor();
  await harmless(inbox);
  await harmless(page);
  await page.fill('.dock input.other', EVIL);
  await submit(page);
  await page.locator('.entry.question .answer', { hasText: EVIL }).waitFor();
  await machine.idle(id);
  for (const row of await page.locator('.entry.tool > .row[aria-expanded=false]').all()) await row.click();
  const reply = page.locator('.entry.agent').first();
  assert.deepEqual(await reply.locator('a').evaluateAll((all) => all.map((one) => one.getAttribute('href'))), ['https://example.org/x.png', 'https://example.org/']);
  assert.match(await reply.textContent(), /<img src=x onerror/);
  await page.locator('.entry.user .bubble', { hasText: EVIL }).waitFor();
  await harmless(page);
  await page.goto(`${machine.url}/#sessions`);
  await page.locator('.rows .title', { hasText: EVIL }).waitFor();
  await harmless(page);
  // The form without scripts, too.
  const [row] = (await machine.call('GET', '/questions?state=settled&kind=user_question')).body.questions;
  await page.goto(`${machine.daemon}/q/${row.questionId}`);
  await page.getByText(EVIL).first().waitFor();
  assert.equal(await page.locator('img, script').count(), 0);
});

check('e_the_policy_of_every_page_lets_nothing_else_run_and_nobody_frame_it', async (machine) => {
  const id = await machine.session('please ASK');
  const [question] = await machine.open();
  for (const path of ['/', `/s/${id}`, `/q/${question.questionId}`, '/ui/dev/app/main.js', '/ui/dev/style.css']) {
    const { headers } = await fetch(machine.daemon + path);
    const policy = Object.fromEntries((headers.get('content-security-policy') ?? '').split(';').map((part) => part.trim().split(/ (.*)/)));
    assert.equal(policy['default-src'], "'none'", path);
    assert.equal(policy['script-src'], "'self'", path);
    assert.equal(policy['style-src'], "'self'", path);
    assert.equal(policy['frame-ancestors'], "'none'", path);
    assert.equal(policy['base-uri'], "'none'", path);
    assert.doesNotMatch(JSON.stringify(policy), /unsafe|\*|https?:/, path);
    assert.equal(headers.get('x-frame-options'), 'DENY', path);
    assert.equal(headers.get('x-content-type-options'), 'nosniff', path);
  }
  // And the browser does what it says.
  const page = await machine.tab(machine.daemon);
  await page.locator('.case').waitFor();
  const blocked = await page.evaluate(async () => {
    const seen = [];
    document.addEventListener('securitypolicyviolation', ({ effectiveDirective }) => seen.push(effectiveDirective));
    const script = document.createElement('script');
    try {
      script.text = 'window.broken = 1';
      document.body.append(script);
    } catch { seen.push('script text'); }
    try {
      document.body.innerHTML += '<p>more</p>';
    } catch { seen.push('innerHTML'); }
    // What a driver evaluates may do more; what it leaves behind may not.
    await new Promise((resolve) => {
      setTimeout(() => {
        try {
          (0, eval)('window.broken = 1');
        } catch { seen.push('eval'); }
        resolve();
      });
    });
    const image = new Image();
    const failed = new Promise((resolve) => { image.onerror = resolve; });
    image.src = 'https://example.org/x.png';
    await failed;
    return { seen, broken: window.broken };
  });
  assert.equal(blocked.broken, undefined);
  for (const what of ['script text', 'innerHTML', 'eval', 'img-src']) assert.ok(blocked.seen.includes(what), `${what}: ${blocked.seen}`);
}, { loud: true });

check('e_another_site_can_neither_frame_the_page_nor_answer_by_it', async (machine) => {
  await machine.session('please ASK');
  const [question] = await machine.open();
  const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(`<iframe src="${machine.daemon}/"></iframe>`));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const page = await machine.tab(`http://localhost:${server.address().port}/`);
    await until('the frame is refused', () => page.frames()[1]?.url().startsWith('chrome-error:'));
    const status = await page.evaluate(async ([to, generation]) => {
      const given = JSON.stringify({ generation, answers: { 0: 'Alpha1' }, responseId: 'r' });
      await fetch(to, { method: 'POST', mode: 'no-cors', body: given }).catch(() => {});
      return fetch(to, { method: 'POST', headers: { 'content-type': 'application/json' }, body: given }).then(() => 'sent', () => 'refused');
    }, [`${machine.daemon}/questions/${question.questionId}/answer`, question.generation]);
    assert.equal(status, 'refused');
    assert.equal((await machine.call('GET', `/questions/${question.questionId}`)).body.state, 'open');
  } finally {
    server.closeAllConnections();
    server.close();
  }
}, { loud: true });

check('e_a_one_time_code_in_the_fragment_becomes_a_cookie_that_no_script_reads', async (machine) => {
  await machine.session('please ASK');
  await machine.open();
  const page = await machine.tab(machine.daemon);
  const field = page.getByLabel(/^Token/);
  await field.waitFor();
  await field.fill('not the token');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').waitFor();
  const { body: { path } } = await machine.call('POST', '/login/code');
  assert.match(path, /^\/#login=/);
  await page.goto('about:blank');
  await page.goto(machine.daemon + path);
  await page.locator('.case').waitFor();
  assert.equal(new URL(page.url()).hash, '');
  const cookies = await page.context().cookies();
  assert.deepEqual(cookies.map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite })), [{ httpOnly: true, sameSite: 'Strict' }]);
  assert.equal(await page.evaluate(() => document.cookie), '');
  assert.doesNotMatch(await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }])), /login|secret/);
  // It works for writing, and lasts over a reload.
  await page.reload();
  await page.locator('.case .option', { hasText: 'Beta1' }).click();
  await page.locator('.case .primary').click();
  await page.getByText('Nothing waits for you').waitFor();
  // Used up: another browser gets nowhere with it.
  const other = await machine.tab(machine.daemon + path);
  await other.getByLabel(/^Token/).waitFor();
  assert.deepEqual(await other.context().cookies(), []);
  assert.equal(new URL(other.url()).hash, '');
}, { token: 'a-secret-of-this-test' });

check('e_with_a_token_the_page_asks_for_it_and_takes_it', async (machine) => {
  const id = await machine.session('please ASK');
  await machine.open();
  const page = await machine.tab(`${machine.daemon}/s/${id}`);
  await page.getByLabel(/^Token/).fill('a-secret-of-this-test');
  await page.keyboard.press('Enter');
  await dock(page).waitFor();
  await choose(page, 'Beta1');
  await submit(page);
  await machine.idle(id);
}, { token: 'a-secret-of-this-test' });

check('i7_without_scripts_a_question_is_answered_at_its_own_address_and_looking_changes_nothing', async (machine) => {
  const id = await machine.session('please ASK');
  const [question] = await machine.open();
  const off = { javaScriptEnabled: false };
  const page = await machine.tab('/', off);
  await page.locator('p.noscript').waitFor();
  const at = `${machine.daemon}/q/${question.questionId}`;
  const before = await machine.call('GET', `/questions/${question.questionId}/audit`);
  const one = await machine.tab(at, off);
  const two = await machine.tab(at, off);
  await one.getByText('Which one for item 1?').first().waitFor();
  assert.deepEqual((await machine.call('GET', `/questions/${question.questionId}/audit`)).body, before.body, 'looking changes nothing');
  await one.getByLabel(/Beta1/).check();
  await one.getByRole('button', { name: /^(Answer|Submit|Send)/ }).click();
  await one.getByText('Beta1').first().waitFor();
  await machine.idle(id);
  // Who comes second is told who was first.
  await two.getByLabel(/Alpha1/).check();
  await two.getByRole('button', { name: /^(Answer|Submit|Send)/ }).click();
  await two.getByText(/answered/i).first().waitFor();
  await two.getByText('Beta1').first().waitFor();
  assert.match(machine.model.requests.find(({ results }) => results.length > 0).results.join(), /Beta1/);
  // One that was closed says why.
  await machine.call('POST', `/session/${id}/prompt`, { prompt: [{ type: 'text', text: 'once more: ASK' }] });
  const [second] = await machine.open();
  await machine.call('POST', `/session/${id}/cancel`, {});
  await machine.idle(id);
  await one.goto(`${machine.daemon}/q/${second.questionId}`);
  await one.getByText(/closed|cancel|stopped/i).first().waitFor();
  await one.goto(`${machine.daemon}/q/q_nothing`);
  await one.getByText(/no such question|unknown|never|gone/i).first().waitFor();
});

check('i7_looking_at_the_inbox_wakes_nobody', async (machine) => {
  await machine.session('please ASK');
  const [question] = await machine.open();
  await machine.kill();
  await machine.start();
  const page = await machine.tab('/');
  await page.locator('.case', { hasText: 'asked again when answered' }).waitFor();
  assert.equal((await machine.call('GET', `/questions/${question.questionId}`)).body.live, false);
});
