// A machine of one test: a directory, a scripted model, the lives of a daemon on one port, and a browser. HOLDPOINT names the
// daemon's binary, CHROMIUM the browser's. The daemon serves the page from this checkout; with PAGE=daemon the one that is
// compiled in. Faults need a daemon with the switch for them: --features holdpoint/crash-points.
import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { chromium } from 'playwright-core';

import { CHROMIUM } from './chromium.mjs';
import { Model } from './model.mjs';

export const PATIENCE = 30_000;
const BINARY = process.env.HOLDPOINT ?? 'holdpoint';
/** Where the page is that the daemon serves, unless it is the one that is compiled in. */
const WEB = process.env.PAGE === 'daemon' ? undefined : fileURLToPath(new URL('../../../crates/server/web/', import.meta.url));

/** Looks again and again until there is something to see. */
export async function until(what, look, patience = PATIENCE) {
  const end = Date.now() + patience;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

/** Daemons that run; none may outlive the tests. */
const running = new Set();
process.on('exit', () => {
  for (const pid of running) {
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));

let browser;
export const theBrowser = async () => {
  browser ??= await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb'] });
  return browser;
};
export const closeBrowser = async () => { await browser?.close(); browser = undefined; };

export class Machine {
  static async create({ flags = ['--restore-ask-user-question'], more = [], token } = {}) {
    const machine = new Machine();
    machine.flags = flags;
    machine.token = token;
    machine.dir = mkdtempSync(join(tmpdir(), 'hp-page-'));
    machine.home = join(machine.dir, 'home');
    machine.work = join(machine.dir, 'work');
    machine.more = more.map((name) => join(machine.dir, name));
    for (const dir of [machine.home, machine.work, ...machine.more]) mkdirSync(dir, { recursive: true });
    machine.model = await Model.start();
    machine.port = await freePort();
    await machine.start();
    machine.requests = [];
    machine.contexts = [];
    machine.pages = [];
    return machine;
  }

  get daemon() { return `http://127.0.0.1:${this.port}`; }
  get url() { return this.daemon; }
  log() { return readFileSync(join(this.dir, 'log'), 'utf8'); }

  async start() {
    for (let tries = 0; ; tries += 1) {
      const log = openSync(join(this.dir, 'log'), 'a');
      const child = spawn(BINARY, ['serve', '--port', String(this.port), '--workspace', this.work, ...this.more.flatMap((dir) => ['--workspace', dir]), '--data-dir', join(this.dir, 'data'), ...(WEB ? ['--web-dir', WEB] : []), ...this.flags], {
        cwd: this.work, stdio: ['ignore', log, log], detached: true,
        env: { PATH: process.env.PATH, HOME: this.home, TMPDIR: this.dir, OPENAI_BASE_URL: this.model.url, OPENAI_MODEL: 'scripted', OPENAI_API_KEY: 'k', NO_COLOR: '1', ...(this.token ? { HOLDPOINT_TOKEN: this.token } : {}) },
      });
      closeSync(log);
      this.child = child;
      running.add(child.pid);
      let over = false;
      this.gone = new Promise((resolve) => child.once('exit', () => { over = true; running.delete(child.pid); resolve(); }));
      const healthy = await until('the daemon is healthy', async () => (over ? 'ended' : (await fetch(`${this.daemon}/health`).catch(() => undefined))?.ok));
      if (healthy === true) return;
      if (tries > 20) throw new Error(`the daemon does not start: ${this.log().slice(-400)}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async kill() {
    try {
      process.kill(-this.child.pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
    await this.gone;
  }

  async close() {
    for (const context of this.contexts) await context.close().catch(() => {});
    await this.kill();
    this.model.close();
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }

  /** Sets the faults, the whole of them. */
  async faults(faults = {}) {
    const { status } = await fetch(`${this.daemon}/__faults`, { method: 'POST', body: JSON.stringify(faults) });
    if (status !== 204) throw new Error(`the daemon has no switch for faults (${status}): build it with --features holdpoint/crash-points`);
  }

  /** What the pages asked for, of a method and with a path that matches. */
  seen(method, path) {
    return this.requests.filter((one) => one.method === method && path.test(one.path));
  }

  async call(method, path, body, headers = {}) {
    const response = await fetch(this.daemon + path, { method, headers: { 'content-type': 'application/json', ...(this.token ? { authorization: `Bearer ${this.token}` } : {}), ...headers }, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
  }

  async session(text, options = {}) {
    const { body } = await this.call('POST', '/session', { sessionScope: 'thread', ...options });
    if (text) await this.call('POST', `/session/${body.sessionId}/prompt`, { prompt: [{ type: 'text', text }] });
    return body.sessionId;
  }

  /** The open questions, once there are `n`. */
  open(n = 1) {
    return until(`${n} open`, async () => {
      const { body } = await this.call('GET', '/questions');
      return body.questions.length >= n && body.questions;
    });
  }

  idle(id) {
    return until('the session is idle', async () => (await this.call('GET', `/session/${id}/status`)).body?.hasActivePrompt === false);
  }

  /** A new browser profile with a page at a path. What the console says is in `page.said`. */
  async tab(path = '/', { context, ...options } = {}) {
    const own = context ?? await (await theBrowser()).newContext({ viewport: { width: 1280, height: 840 }, reducedMotion: 'reduce', ...options });
    if (!context) this.contexts.push(own);
    const page = await own.newPage();
    this.pages.push(page);
    page.setDefaultTimeout(PATIENCE);
    page.said = [];
    page.on('request', (request) => {
      const { pathname, search } = new URL(request.url());
      this.requests.push({ method: request.method(), path: pathname + search, body: request.postData() });
    });
    page.on('console', (message) => page.said.push(`${message.type()}: ${message.text()}`));
    page.on('pageerror', (error) => page.said.push(`error: ${error.stack ?? error}`));
    await page.goto(new URL(path, this.url).href);
    return page;
  }
}
