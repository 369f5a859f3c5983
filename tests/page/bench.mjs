// What the page costs: first paint of the inbox, and a transcript of 10,000 entries that comes in one piece (worse than
// any real one, which comes by pages). `node bench.mjs` prints numbers; nothing is asserted.
import { Machine, closeBrowser } from './lib/machine.mjs';

const ENTRIES = Number(process.env.ENTRIES ?? 10_000);
const machine = await Machine.create();
const event = (data) => ({ v: 1, type: 'session_update', data });

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

const median = (all) => [...all].sort((one, other) => one - other)[Math.floor(all.length / 2)];

try {
  for (let n = 0; n < 3; n += 1) await machine.session('please ASK');
  await machine.open(3);
  const page = await machine.tab('/');
  await page.addInitScript(() => {
    globalThis.seen = { long: [] };
    new PerformanceObserver((list) => { for (const one of list.getEntries()) globalThis.seen.long.push(Math.round(one.duration)); }).observe({ type: 'longtask', buffered: true });
    new MutationObserver(() => {
      if (!globalThis.seen.rows && document.querySelector('.case')) requestAnimationFrame(() => setTimeout(() => { globalThis.seen.rows ??= performance.now(); }));
    }).observe(document, { childList: true, subtree: true });
  });
  const paints = [];
  const rows = [];
  for (let n = 0; n < 15; n += 1) {
    await page.goto(machine.url);
    await page.waitForFunction(() => globalThis.seen.rows > 0);
    paints.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0));
    rows.push(await page.evaluate(() => globalThis.seen.rows));
  }
  console.log(`inbox: first contentful paint ${Math.round(median(paints))} ms, its rows painted ${Math.round(median(rows))} ms (medians of ${rows.length} loads, warm cache)`);

  const id = await machine.session('hello');
  await machine.idle(id);
  const all = history(ENTRIES);
  await page.route(/\/load$/, async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    await route.fulfill({ response, json: { ...body, compactedReplay: all, historyHasMore: false } });
  });
  const start = Date.now();
  await page.goto(`${machine.url}/s/${id}`);
  await page.locator('.entry').last().waitFor();
  await page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => setTimeout(resolve)); }));
  console.log(`${ENTRIES} entries: painted ${await page.evaluate(() => Math.round(performance.now()))} ms after navigation (${Date.now() - start} ms with the driver); long tasks ${JSON.stringify(await page.evaluate(() => globalThis.seen.long))}; ${await page.evaluate(() => document.querySelectorAll('*').length)} elements`);
  const memory = async () => { const session = await page.context().newCDPSession(page); await session.send('HeapProfiler.collectGarbage'); const { usedSize } = await session.send('Runtime.getHeapUsage'); return Math.round(usedSize / 1e6); };
  console.log(`heap ${await memory()} MB`);
  await page.evaluate(() => { globalThis.seen.long.length = 0; });
  const frames = await page.evaluate(async () => {
    const scroller = document.querySelector('.scroller');
    const times = [];
    let last = performance.now();
    for (let n = 0; n < 400; n += 1) {
      scroller.scrollTop -= 900;
      await new Promise((resolve) => { requestAnimationFrame(resolve); });
      const now = performance.now();
      times.push(now - last);
      last = now;
    }
    return times.sort((one, other) => one - other);
  });
  console.log(`scrolling 360,000 px up: frame median ${frames[200].toFixed(1)} ms, 99th ${frames[395].toFixed(1)} ms, worst ${frames[399].toFixed(1)} ms; long tasks ${JSON.stringify(await page.evaluate(() => globalThis.seen.long))}; ${await page.evaluate(() => document.querySelectorAll('*').length)} elements; heap ${await memory()} MB`);
} finally {
  await machine.close();
  await closeBrowser();
}
