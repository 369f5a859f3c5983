// What the page costs, in medians of several rounds: first paint of the inbox; opening a session with 10,000 entries, as the
// daemon gives it (the newest at once, older ones by pages) and in one piece (worse than any real one); scrolling through
// them; memory; how much moves under a reader's eyes. `node bench.mjs` prints numbers; nothing is asserted.
import { Machine, closeBrowser, until } from './lib/machine.mjs';

const ENTRIES = Number(process.env.ENTRIES ?? 10_000);
const ROUNDS = Number(process.env.ROUNDS ?? 7);
const LOADS = Number(process.env.LOADS ?? 31);
const machine = await Machine.create();
const event = (data) => ({ v: 1, type: 'session_update', data });

/** A history with something of everything. */
function history(n) {
  const all = [];
  for (let k = 0; all.length < n; k += 1) {
    const meta = { promptId: `p${k}`, 'qwen.session.recordId': `r${k}`, timestamp: 1_700_000_000_000 + k };
    all.push(event({ sessionUpdate: 'user_message_chunk', content: { type: 'text', text: `Request ${k}: please look at the parser again` }, _meta: meta }));
    all.push(event({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: `I read **part ${k}**. It does:\n\n1. one thing\n2. \`another\`\n\n\`\`\`rust\nfn part_${k}() -> u64 { ${k} } // number ${k}\n\`\`\`\n` }, _meta: meta }));
    all.push(event({ sessionUpdate: 'tool_call', toolCallId: `c${k}`, status: 'completed', title: `Edit src/part_${k}.rs`, kind: 'edit', content: [{ type: 'diff', path: `/w/src/part_${k}.rs`, oldText: 'a\nb\nc\n', newText: `a\nb ${k}\nc\nd\n` }], rawInput: {}, _meta: { ...meta, toolName: 'edit' } }));
    all.push(event({ sessionUpdate: 'tool_call', toolCallId: `d${k}`, status: 'completed', title: 'cargo test', kind: 'execute', content: [{ type: 'content', content: { type: 'text', text: `running ${k} tests\n`.repeat(30) } }], rawInput: { command: 'cargo test' }, _meta: { ...meta, toolName: 'run_shell_command' } }));
  }
  return all.slice(0, n);
}

const sorted = (all) => [...all].sort((one, other) => one - other);
const median = (all) => sorted(all)[Math.floor(all.length / 2)];
const spread = (all, digits = 0) => `${median(all).toFixed(digits)} (${sorted(all)[0].toFixed(digits)} to ${sorted(all).at(-1).toFixed(digits)})`;

/** Watches a page from its first moment. */
const watch = () => {
  globalThis.seen = { long: [], shift: 0 };
  new PerformanceObserver((list) => { for (const one of list.getEntries()) globalThis.seen.long.push(Math.round(one.duration)); }).observe({ type: 'longtask', buffered: true });
  new PerformanceObserver((list) => { for (const one of list.getEntries()) if (!one.hadRecentInput) globalThis.seen.shift += one.value; }).observe({ type: 'layout-shift', buffered: true });
  const after = (selector, name) => {
    if (globalThis.seen[name] === undefined && document.querySelector(selector)) {
      globalThis.seen[name] = null;
      // After the frame that has it.
      requestAnimationFrame(() => setTimeout(() => { globalThis.seen[name] = performance.now(); }));
    }
  };
  new MutationObserver(() => { after('.case', 'rows'); after('.entry', 'entries'); }).observe(document, { childList: true, subtree: true });
};

const heap = async (page) => {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return Math.round(usedSize / 1e6);
};

/** Scrolls up by what a quick hand scrolls in a frame, and says how long frames took. */
const scroll = (page, steps) => page.evaluate(async (n) => {
  const scroller = document.querySelector('.scroller');
  globalThis.seen.long.length = 0;
  const times = [];
  let last = performance.now();
  for (let step = 0; step < n && scroller.scrollTop > 0; step += 1) {
    scroller.scrollTop -= 900;
    await new Promise((resolve) => { requestAnimationFrame(resolve); });
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  return { times, long: globalThis.seen.long };
}, steps);

const inFrames = ({ times, long }) => `frame median ${median(times).toFixed(1)} ms, 99th ${sorted(times)[Math.floor(times.length * 0.99)].toFixed(1)} ms, worst ${sorted(times).at(-1).toFixed(1)} ms of ${times.length}; long tasks ${JSON.stringify(long)}`;

const elements = (page) => page.evaluate(() => document.querySelectorAll('*').length);

async function open(page, url, name) {
  await page.goto('about:blank');
  await page.goto(url);
  await page.waitForFunction((what) => globalThis.seen?.[what] > 0, name);
  return page.evaluate((what) => ({ at: globalThis.seen[what], fcp: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0, long: globalThis.seen.long, shift: globalThis.seen.shift }), name);
}

try {
  for (let n = 0; n < 3; n += 1) await machine.session('please ASK');
  await machine.open(3);
  const page = await machine.tab('/');
  await page.addInitScript(watch);
  const loads = [];
  for (let n = 0; n < LOADS; n += 1) loads.push(await open(page, `${machine.url}/`, 'rows'));
  console.log(`inbox, 3 rows, warm cache, ${LOADS} loads: first contentful paint ${spread(loads.map(({ fcp }) => fcp))} ms; rows painted ${spread(loads.map(({ at }) => at))} ms; layout shift ${spread(loads.map(({ shift }) => shift), 3)}`);

  // As the daemon gives it.
  const real = await machine.session();
  const turns = Math.ceil(ENTRIES / 102);
  for (let n = 0; n < turns; n += 1) {
    await machine.call('POST', `/session/${real}/prompt`, { prompt: [{ type: 'text', text: `MANY_100 of turn ${n}` }] });
    await machine.idle(real);
  }
  const opened = [];
  for (let n = 0; n < ROUNDS; n += 1) opened.push(await open(page, `${machine.url}/s/${real}`, 'entries'));
  console.log(`session with ${turns * 102} entries, newest page at once, ${ROUNDS} rounds: painted ${spread(opened.map(({ at }) => at))} ms; long tasks ${JSON.stringify(opened.flatMap(({ long }) => long))}; layout shift ${spread(opened.map(({ shift }) => shift), 3)}; ${await elements(page)} elements; heap ${await heap(page)} MB`);
  await page.evaluate(() => { globalThis.seen.long.length = 0; });
  await until('the first entry', async () => {
    await page.evaluate(() => { document.querySelector('.scroller').scrollTop = 1; });
    return (await page.locator('.entry.user', { hasText: /turn 0$/ }).count()) > 0;
  }, 120_000);
  console.log(`  all older pages read: long tasks ${JSON.stringify(await page.evaluate(() => globalThis.seen.long))}; ${await elements(page)} elements; heap ${await heap(page)} MB`);
  await page.locator('.latest').click();
  console.log(`  scrolling back through it: ${inFrames(await scroll(page, 400))}; ${await elements(page)} elements`);

  // In one piece.
  const id = await machine.session('hello');
  await machine.idle(id);
  const { body } = await machine.call('POST', `/session/${id}/load`, { historyPageSize: 200 });
  const whole = JSON.stringify({ ...body, compactedReplay: history(ENTRIES), historyHasMore: false });
  await page.route(/\/load$/, (route) => route.fulfill({ contentType: 'application/json', body: whole }));
  const pieces = [];
  for (let n = 0; n < ROUNDS; n += 1) pieces.push(await open(page, `${machine.url}/s/${id}`, 'entries'));
  console.log(`${ENTRIES} entries in one piece (${(whole.length / 1e6).toFixed(1)} MB), ${ROUNDS} rounds: painted ${spread(pieces.map(({ at }) => at))} ms; long tasks ${JSON.stringify(pieces.flatMap(({ long }) => long))}; ${await elements(page)} elements; heap ${await heap(page)} MB`);
  const scrolled = await scroll(page, 400);
  console.log(`  scrolling 360,000 px up, never drawn before: ${inFrames(scrolled)}; ${await elements(page)} elements; heap ${await heap(page)} MB`);
} finally {
  await machine.close();
  await closeBrowser();
}
