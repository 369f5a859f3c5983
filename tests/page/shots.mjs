// Pictures of the page, to look at: every view, light and dark, wide and on a phone. node shots.mjs [directory]
import { mkdirSync } from 'node:fs';
import { Machine, closeBrowser } from './lib/machine.mjs';

const dir = process.argv[2] ?? 'shots';
mkdirSync(dir, { recursive: true });
const SIZES = { wide: { viewport: { width: 1440, height: 900 } }, phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 } };
const machine = await Machine.create({ more: ['website'] });
let place = '';

/** A picture, once what was drawn is drawn. */
async function shot(page, name) {
  await page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve, 60))); }));
  await page.screenshot({ path: `${dir}/${place}-${name}.png` });
}

async function at(page, path, there) {
  await page.goto(machine.url + path);
  await page.locator(there).first().waitFor();
}

const scroll = (page, top) => page.evaluate((to) => { document.querySelector('.scroller').scrollTop = to; }, top);

try {
  const empty = {};
  for (const [size, options] of Object.entries(SIZES)) for (const colorScheme of ['light', 'dark']) {
    place = `${size}-${colorScheme}`;
    empty[place] = await machine.tab('/', { ...options, colorScheme });
    await empty[place].waitForSelector('.empty');
    await shot(empty[place], '01-empty');
  }
  await machine.session('Fix the flaky login test in the parser suite');
  const rich = await machine.session('Please look at RICH storage and tidy it up', { approvalMode: 'auto-edit' });
  await machine.session('Prepare the next release: ASK_FORM');
  await machine.session('Count to forty with SHELL', { approvalMode: 'default' });
  const edit = await machine.session('Write the notes with EDIT', { approvalMode: 'default' });
  const two = await machine.session('Two things: ASK_TWO');
  await machine.open(6);
  for (const [name, page] of Object.entries(empty)) {
    place = name;
    await page.waitForSelector('.case:nth-child(4)');
    await at(page, '/', '.case:nth-child(4)');
    await shot(page, '02-inbox');
    await page.locator('.case', { hasText: '4 questions' }).locator('.head').click();
    await shot(page, '03-inbox-form');
    await page.locator('.case', { hasText: 'seq 1 40' }).locator('.head').click();
    await shot(page, '04-inbox-permission');
    await at(page, `/s/${rich}`, '.dock');
    await shot(page, '05-session');
    await scroll(page, 0);
    await shot(page, '06-session-top');
    await at(page, `/s/${edit}`, '.dock');
    await shot(page, '07-permission-diff');
    await at(page, `/s/${two}`, '.dock');
    await page.fill('#composer', 'And then run the tests, please.');
    await shot(page, '08-two-questions');
    await at(page, '/#sessions', '.rows li:nth-child(5)');
    await shot(page, '09-sessions');
    await at(page, '/#new', '.new');
    await shot(page, '10-new');
    await at(page, '/#settings', '.about');
    await shot(page, '11-settings');
  }
  place = 'wide-light';
  const page = empty[place];
  await at(page, `/s/${rich}`, '.dock');
  await page.fill('#composer', 'And then run the tests, please.');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.queue li');
  await shot(page, '12-queued');
  await page.check('.dock .option:first-child input');
  await page.click('.dock .primary');
  await page.waitForSelector('.words.done');
  await shot(page, '13-receipt');
  await page.waitForSelector('.entry.question.is-answered');
  await machine.kill();
  await page.waitForSelector('.words.lost');
  await shot(page, '14-lost');
  await page.click('.links a >> nth=0');
  await page.waitForSelector('.away');
  await shot(page, '15-inbox-lost');
  place = 'phone-dark';
  await empty[place].locator('.connection.lost').waitFor();
  await shot(empty[place], '15-lost');
} finally {
  await machine.close();
  await closeBrowser();
}
