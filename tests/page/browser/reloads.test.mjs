// The page, loaded again and again at random moments.
import assert from 'node:assert/strict';

import { answered, cancels, check, choose, dock, say, submit, watching } from '../lib/suite.mjs';
import { random } from '../lib/random.mjs';

/** How often the page is loaded anew. */
const RELOADS = Number(process.env.RELOADS ?? 100);
/** Which moments; a failure tells it. */
const SEED = Number(process.env.SEED ?? 4170);

/** Loads the page anew; the driver cannot while the browser is just exchanging one page for the next. */
async function reload(page) {
  for (;;) {
    try {
      await page.reload({ waitUntil: 'commit' });
      return;
    } catch (error) {
      if (!/Not attached to an active page|ERR_ABORTED/.test(error.message)) throw error;
    }
  }
}

check(`i8_after_each_of_${RELOADS}_reloads_at_random_moments_the_question_is_there`, async (machine) => {
  const next = random(SEED);
  const { page } = await watching(machine);
  await say(page, 'please ASK');
  await dock(page).waitFor();
  try {
    for (let n = 0; n < RELOADS; n += 1) {
      await reload(page);
      // Half of them go before all is there.
      if (next() < 0.5) {
        await page.waitForTimeout(next() * 200);
      } else {
        await dock(page).waitFor();
        await page.locator('.entry.question').first().waitFor();
        assert.equal(await page.locator('.entry.question').count(), 1);
      }
    }
  } catch (error) {
    console.error(`SEED=${SEED}`);
    throw error;
  }
  await dock(page).waitFor();
  await page.locator('.entry.question').first().waitFor();
  assert.equal(await page.locator('.entry.question').count(), 1);
  assert.equal(cancels(machine).length, 0);
  await choose(page, 'Beta1');
  await submit(page);
  await answered(page, 'Beta1');
});
