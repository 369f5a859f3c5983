// What the browser tests share.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { Machine, closeBrowser } from './machine.mjs';

after(closeBrowser);

/**
 * A test with a machine of its own; nothing that the page says may be an error of its own. `loud` is for tests that do
 * what the browser complains of.
 */
export function check(name, run, { loud = false, ...options } = {}) {
  test(name, { timeout: 180_000 }, async () => {
    const machine = await Machine.create(options);
    try {
      await run(machine);
      const wrong = machine.pages.flatMap((page) => page.said).filter((line) => /Content Security Policy|TrustedScript|^error: .*(Error|at )/s.test(line) && !/ERR_|Failed to load resource/.test(line));
      if (!loud) assert.deepEqual(wrong, []);
    } catch (error) {
      if (process.env.SHOTS) for (const [n, page] of machine.pages.entries()) await page.screenshot({ path: `${process.env.SHOTS}/${name}-${n}.png` }).catch(() => {});
      for (const page of machine.pages) if (page.said.length > 0) console.error(page.said.slice(-15).join('\n'));
      console.error(machine.requests.slice(-25).map((one) => JSON.stringify(one).slice(0, 200)).join('\n'));
      throw error;
    } finally {
      await machine.close();
    }
  });
}

export const dock = (page) => page.locator('.dock');
export const cancels = (machine) => machine.seen('POST', /\/cancel$/);
export const dropped = { type: 'permission_request', action: 'drop' };
export const ready = (page) => page.locator('.words', { hasText: 'Ready' }).waitFor();
/** The page at a session that is live and idle, so that what happens next comes by the stream. */
export async function watching(machine, options) {
  const id = await machine.session();
  const page = await machine.tab(`/s/${id}`, options);
  await ready(page);
  return { id, page };
}
export const say = async (page, text) => { await page.fill('#composer', text); await page.press('#composer', 'Enter'); };
export const choose = (page, label) => page.locator('.dock .option', { hasText: label }).first().click();
export const submit = (page) => page.locator('.dock .primary', { hasText: 'Submit' }).click();
export const answered = (page, text) => page.locator('.entry.question.is-answered', { hasText: text }).last().waitFor();
/** The id of what has the keyboard. */
export const focused = (page) => page.evaluate(() => document.activeElement?.id);

/** From here on time passes in the page only when `pass` says so. */
export async function freeze(page) {
  await page.clock.install();
  await page.clock.pauseAt(await page.evaluate(() => Date.now() + 1000));
}

/** Lets time pass in the page, step by step, until there is something to see; the network is as slow as it is. */
export async function pass(page, what, look, most = Infinity, step = 50) {
  const end = Date.now() + 30_000;
  for (let ms = 0; ; ms += step) {
    if (await look()) return ms;
    if (ms >= most || Date.now() > end) throw new Error(`waited in vain, ${ms} ms of the page's time: ${what}`);
    await page.clock.runFor(step);
    // What the network brought is taken up before the next step.
    await new Promise((resolve) => { setTimeout(resolve, 5); });
  }
}
