// What the page looks like: phone, contrast, long transcripts.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import { until } from '../lib/machine.mjs';
import { check, dock, ready, say, watching } from '../lib/suite.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

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

check('h13_older_pages_come_when_they_are_scrolled_to_and_only_what_is_near_is_in_the_document', async (machine) => {
  const id = await machine.session();
  for (let n = 0; n < 260; n += 1) {
    const { status } = await machine.call('POST', `/session/${id}/prompt`, { prompt: [{ type: 'text', text: `message ${n}` }] });
    assert.equal(status, 202);
    if (n % 4 === 3) await machine.idle(id);
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

check('h13_what_is_read_stays_where_it_is_while_earlier_messages_come', async (machine) => {
  const id = await machine.session();
  for (let n = 0; n < 5; n += 1) {
    await machine.call('POST', `/session/${id}/prompt`, { prompt: [{ type: 'text', text: `MANY_100 of turn ${n}` }] });
    await machine.idle(id);
  }
  const page = await machine.tab(`/s/${id}`);
  await page.locator('.entry.agent').last().waitFor();
  const { steps, jumps } = await page.evaluate(async () => {
    const scroller = document.querySelector('.scroller');
    const jumped = [];
    let step = 0;
    for (; step < 2000 && (scroller.scrollTop > 0 || document.querySelector('.earlier')); step += 1) {
      const edge = scroller.getBoundingClientRect().top;
      const read = [...document.querySelectorAll('.entry')].filter((one) => { const { top } = one.getBoundingClientRect(); return top > edge + 150 && top < edge + 400; });
      const [first] = read;
      const y = first?.getBoundingClientRect().top ?? 0;
      const before = scroller.scrollTop;
      scroller.scrollTop -= 80;
      const by = before - scroller.scrollTop;
      await new Promise((resolve) => { requestAnimationFrame(() => setTimeout(resolve)); });
      // What is read moves by what was scrolled, whatever was put before it.
      if (first && !first.isConnected) jumped.push([step, 'gone']);
      else if (first && Math.abs(first.getBoundingClientRect().top - y - by) > 24) jumped.push([step, first.getBoundingClientRect().top - y - by]);
    }
    return { steps: step, jumps: jumped };
  });
  assert.deepEqual(jumps, [], `${steps} steps`);
  await page.locator('.entry.user', { hasText: /turn 0$/ }).waitFor();
  assert.ok(machine.seen('GET', /^\/session\/.*transcript/).length >= 3);
});

check('h11_axe_finds_nothing_serious_on_any_view_light_or_dark', async (machine) => {
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

check('h12_the_transcript_streams_and_shows_what_is_what', async (machine) => {
  const { page } = await watching(machine);
  /** @type {() => void} */
  let go = () => {};
  machine.model.pace = (piece) => (piece === 2 ? new Promise((resolve) => { go = resolve; }) : Promise.resolve());
  await say(page, 'LONG_4');
  await page.locator('.entry.agent', { hasText: 'Paragraph 1 of' }).waitFor();
  assert.equal(await page.locator('.entry.agent', { hasText: 'Paragraph 2 of' }).count(), 0);
  await page.locator('.words', { hasText: 'Working' }).waitFor();
  go();
  await page.locator('.entry.agent', { hasText: 'Paragraph 3 of' }).waitFor();
  await ready(page);
  machine.model.pace = async () => {};
  const rich = await machine.session('Please look at RICH storage', { approvalMode: 'auto-edit' });
  await machine.open();
  await page.goto(`${machine.url}/s/${rich}`);
  await dock(page).waitFor();
  const agent = page.locator('.entry.agent').first();
  await agent.locator('ol li strong', { hasText: 'Every record' }).waitFor();
  await agent.locator('table th', { hasText: 'writes' }).waitFor();
  await agent.locator('.code .hl-k', { hasText: 'pub' }).waitFor();
  assert.equal(await agent.locator('.task').count(), 2);
  // A change is open, with its lines coloured; what was found is folded; what failed says so.
  await page.locator('.entry.tool.is-done .diff .line.add .hl-c', { hasText: 'Where the next record goes' }).waitFor();
  await page.locator('.entry.tool.is-failed', { hasText: 'failed' }).waitFor();
  // A question is never folded.
  await page.locator('.entry.question.is-waiting', { hasText: 'Which database should the service use?' }).waitFor();
  assert.equal(await page.locator('.entry.question [aria-expanded]').count(), 0);
});

check('h12_every_view_says_since_when_it_is_not_connected', async (machine) => {
  const id = await machine.session('please ASK');
  await machine.open();
  const wide = await machine.tab('/');
  const phone = await machine.tab('/', { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const words = /^Not connected since \d\d:\d\d/;
  for (const page of [wide, phone]) await page.locator('.recent a', { hasText: 'please ASK' }).waitFor({ state: 'attached' });
  await wide.goto(`${machine.url}/s/${id}`);
  await wide.locator('.dock').waitFor();
  await phone.goto(`${machine.url}/s/${id}`);
  await phone.locator('.dock').waitFor();
  await machine.kill();
  for (const page of [wide, phone]) {
    await page.locator('.words', { hasText: words }).waitFor();
    assert.ok(await page.locator('#composer').isEditable());
    for (const view of ['#new', '#settings', '#sessions', '']) {
      // By the page's own links: nothing can be loaded now.
      await page.evaluate((to) => { const link = Object.assign(document.createElement('a'), { href: `/${to}` }); link.dataset.in = ''; document.body.append(link); link.click(); link.remove(); }, view);
      await page.locator('.connection.lost', { hasText: words }).waitFor();
    }
    // What waited then is still there to be read and filled in.
    await page.locator('.case .option', { hasText: 'Beta1' }).click();
  }
});

check('h13_long_output_is_folded_and_can_be_opened', async (machine) => {
  const id = await machine.session('count with SHELL', { approvalMode: 'yolo' });
  const page = await machine.tab(`/s/${id}`);
  await page.locator('.entry.tool.is-done').waitFor();
  await page.locator('.entry.tool > .row').click();
  const output = page.locator('.entry.tool .output', { hasText: '14' }).last();
  await output.getByRole('button', { name: /^Show all \d+ lines/ }).waitFor();
  assert.doesNotMatch(await output.locator('pre').textContent(), /\b40\b/);
  const top = async () => (await output.boundingBox()).y;
  const before = await top();
  await output.getByRole('button', { name: /^Show all/ }).click();
  assert.match(await output.locator('pre').textContent(), /\b40\n/);
  // What was opened stays where it is, and the end is a click away.
  await page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); }));
  assert.equal(await top(), before);
});

check('d4_who_else_is_attached_is_told_by_name', async (machine) => {
  const id = await machine.session();
  const come = (headers) => fetch(`${machine.daemon}/session/${id}/load`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: '{}' });
  const page = await machine.tab(`/s/${id}`);
  await page.locator('.attached', { hasText: /^somebody over HTTP is here$/ }).waitFor();
  await come({ 'x-holdpoint-surface': 'slack', 'x-holdpoint-name': encodeURIComponent('Zoë') });
  await come({ 'x-holdpoint-surface': 'cli' });
  await page.locator('.attached', { hasText: /^(?=.*\bsomebody over HTTP\b)(?=.*Zoë)(?=.*\bsomebody on the command line\b).* are here$/ }).waitFor();
});

check('a_new_session_is_started_listed_filtered_and_deleted', async (machine) => {
  const page = await machine.tab('/#new');
  await page.getByLabel('What should the agent do?').fill('write a poem');
  await page.keyboard.press('Control+Enter');
  await page.locator('.entry.agent', { hasText: 'You said: write a poem' }).waitFor();
  await ready(page);
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'composer');
  await page.locator('h1 button').click();
  await page.keyboard.press('Control+a');
  await page.keyboard.type('A poem');
  await page.keyboard.press('Enter');
  await page.locator('h1', { hasText: 'A poem' }).waitFor();
  await machine.session('something else');
  await page.keyboard.press('Tab');
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await page.locator('.rows li').nth(1).waitFor();
  await page.getByLabel('Filter sessions').fill('poem');
  await until('one is left', async () => (await page.locator('.rows li').count()) === 1);
  await page.getByRole('button', { name: 'Delete A poem' }).click();
  await page.getByRole('button', { name: 'Keep' }).click();
  await page.getByRole('button', { name: 'Delete A poem' }).click();
  await page.getByRole('button', { name: 'Delete for good' }).click();
  await page.getByText('No session matches').waitFor();
});

check('older_sessions_are_listed_when_they_are_asked_for', async (machine) => {
  await machine.session('the newest');
  const page = await machine.tab('/');
  let newest;
  await page.route(/\/sessions\?/, async (route) => {
    if (/cursor=/.test(route.request().url())) {
      return route.fulfill({ json: { sessions: [{ ...newest, sessionId: 'an-old-one', displayName: 'An old one', updatedAt: '2020-01-01T00:00:00Z' }] } });
    }
    const response = await route.fetch();
    const body = await response.json();
    [newest] = body.sessions;
    return route.fulfill({ response, json: { ...body, nextCursor: 'more' } });
  });
  await page.goto(`${machine.url}/#sessions`);
  await page.getByRole('button', { name: 'Older sessions' }).click();
  await page.locator('.rows li', { hasText: 'An old one' }).waitFor();
  await page.getByRole('button', { name: 'Older sessions' }).waitFor({ state: 'detached' });
  assert.equal(await page.locator('.rows li').count(), 2);
});

check('settings_are_kept_and_the_name_goes_with_what_is_answered', async (machine) => {
  const page = await machine.tab('/#settings');
  await page.getByLabel('Dark').check();
  await page.getByLabel(/Others read it/).fill('Änn');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  await page.reload();
  await page.locator('.settings').waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  assert.equal(await page.getByLabel(/Others read it/).inputValue(), 'Änn');
  await machine.session('please ASK');
  await page.goto(`${machine.url}/`);
  const sent = page.waitForRequest(/\/answer$/);
  await page.locator('.case .option', { hasText: 'Beta1' }).click();
  await page.locator('.case .primary').click();
  assert.equal(decodeURIComponent((await sent).headers()['x-holdpoint-name']), 'Änn');
});
