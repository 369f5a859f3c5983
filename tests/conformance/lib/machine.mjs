// A machine of one scenario: a directory of its own, a scripted model, and the lives of a daemon on one port.
import { spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { DaemonClient, DaemonSessionClient } from '@qwen-code/sdk/daemon';

import { PATIENCE, Stream, call, until } from './http.mjs';
import { Model } from './model.mjs';

export const RESTORE = '--restore-ask-user-question';
export const yes = (label = 'Beta1') => ({ outcome: { outcome: 'selected', optionId: 'proceed_once' }, answers: { 0: label } });
export const NO = { outcome: { outcome: 'cancelled' } };

const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

/** Process ids below a process, children first found first. */
function below(pid) {
  const children = new Map();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
      children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
    } catch {
      // It ended while we looked.
    }
  }
  const found = [];
  const walk = (at) => { for (const child of children.get(at) ?? []) { found.push(child); walk(child); } };
  walk(pid);
  return found;
}

function ended(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return true;
  }
}

/** Daemons that run now; none may outlive the suite. */
const running = new Set();
/** Directories that are still there. */
const dirs = new Set();
function leave() {
  for (const pid of running) {
    for (const each of [...below(pid), pid]) {
      try {
        process.kill(each, 'SIGKILL');
      } catch {
        // It has ended.
      }
    }
  }
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
}
process.on('exit', leave);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));

export class Machine {
  /**
   * `template` starts a daemon; `policy` is what both kinds of settings file say about votes. Both are written, so that
   * the suite need not know whose daemon it is.
   */
  static async create(template, { policy = {} } = {}) {
    const machine = new Machine();
    machine.template = template;
    machine.dir = mkdtempSync(join(tmpdir(), 'hp-conformance-'));
    dirs.add(machine.dir);
    machine.home = join(machine.dir, 'home');
    machine.work = join(machine.dir, 'work');
    for (const dir of [machine.home, machine.work, join(machine.home, '.config/holdpoint'), join(machine.home, '.qwen')]) {
      mkdirSync(dir, { recursive: true });
    }
    const toml = Object.entries(policy).map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`).join('');
    writeFileSync(join(machine.home, '.config/holdpoint/holdpoint.toml'), `[policy]\n${toml}`);
    writeFileSync(join(machine.home, '.qwen/settings.json'), JSON.stringify({
      policy,
      security: { auth: { selectedType: 'openai' } },
      model: { name: 'scripted' },
      general: { enableAutoUpdate: false },
      telemetry: { enabled: false },
      privacy: { usageStatisticsEnabled: false },
    }));
    machine.model = await Model.start();
    machine.port = await freePort();
    return machine;
  }

  get base() {
    return `http://127.0.0.1:${this.port}`;
  }

  log() {
    const file = join(this.dir, 'log');
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  }

  /** A life of the daemon; it is healthy when this returns. */
  async start(flags = [RESTORE], { headers = {}, env = {} } = {}) {
    for (let tries = 0; ; tries += 1) {
      const line = this.template.replaceAll('{port}', this.port).replaceAll('{ws}', this.work).replaceAll('{flags}', flags.join(' '));
      const log = openSync(join(this.dir, 'log'), 'a');
      const child = spawn('bash', ['-c', `exec ${line}`], {
        cwd: this.work, stdio: ['ignore', log, log], detached: true,
        env: {
          PATH: process.env.PATH, HOME: this.home, TMPDIR: this.dir,
          XDG_CONFIG_HOME: join(this.home, '.config'), XDG_DATA_HOME: join(this.home, '.local/share'),
          XDG_CACHE_HOME: join(this.home, '.cache'), XDG_STATE_HOME: join(this.home, '.local/state'),
          OPENAI_BASE_URL: this.model.url, OPENAI_MODEL: 'scripted', OPENAI_API_KEY: 'k', CI: '1', NO_COLOR: '1', ...env,
        },
      });
      closeSync(log);
      this.child = child;
      running.add(child.pid);
      let over = false;
      this.gone = new Promise((resolve) => child.once('exit', (code, signal) => { over = true; running.delete(child.pid); resolve({ code, signal }); }));
      const healthy = await until('the daemon is healthy', async () => {
        if (over) return 'ended';
        return (await call(this.base, 'GET', '/health', { headers }).catch(() => undefined))?.status === 200;
      });
      if (healthy === true) return;
      // Somebody's outgoing connection may hold the port for a moment, or a dead process its lock.
      if (tries > 20) throw new Error(`the daemon does not start: ${this.log().slice(-400)}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  #signal(pid, signal) {
    try {
      process.kill(pid, signal);
    } catch (error) {
      if (error.code !== 'ESRCH') throw error;
    }
  }

  /** kill -9 of the daemon and all that it started, as a power cut would. */
  async kill() {
    if (!this.child) return;
    const { pid } = this.child;
    const all = below(pid);
    this.#signal(-pid, 'SIGKILL');
    for (const other of all) this.#signal(other, 'SIGKILL');
    await this.gone;
    await until('its processes are gone', () => all.every(ended));
    this.child = undefined;
  }

  /** kill -9 of the daemon alone; its agents find their connection closed. */
  async killAlone() {
    const agents = below(this.child.pid);
    this.#signal(this.child.pid, 'SIGKILL');
    await this.gone;
    await until('its agents have gone too', () => agents.every(ended));
    this.child = undefined;
  }

  async terminate() {
    this.#signal(this.child.pid, 'SIGTERM');
    const how = await this.gone;
    this.child = undefined;
    return how;
  }

  /** kill -9 of everything that the daemon started. */
  killAgents() {
    const agents = below(this.child.pid);
    for (const pid of agents) this.#signal(pid, 'SIGKILL');
    return agents.length;
  }

  async close() {
    await this.kill();
    this.model.close();
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
    dirs.delete(this.dir);
  }

  call(method, path, options) {
    return call(this.base, method, path, options);
  }

  sdk(options = {}) {
    return new DaemonClient({ baseUrl: this.base, ...options });
  }

  async sdkSession(client = this.sdk()) {
    return DaemonSessionClient.createOrAttach(client, { workspaceCwd: this.work, sessionScope: 'thread' });
  }

  /** A new session of its own. */
  async session(extra = {}) {
    const made = await this.call('POST', '/session', { body: { cwd: this.work, sessionScope: 'thread', ...extra } });
    if (made.status !== 200) throw new Error(`create: ${made.status} ${JSON.stringify(made.body)}`);
    return new Session(this, made.body);
  }

  /** Sessions of the workspace as the list shows them. */
  async list() {
    const { body } = await this.call('GET', `/workspace/${encodeURIComponent(this.work)}/sessions`);
    return body.sessions;
  }
}

/** A session as one client sees it. */
export class Session {
  constructor(machine, made) {
    this.machine = machine;
    this.id = made.sessionId;
    this.clientId = made.clientId;
    this.made = made;
  }

  get path() {
    return `/session/${this.id}`;
  }

  prompt(text, options = {}) {
    return this.machine.call('POST', `${this.path}/prompt`, {
      body: { prompt: [{ type: 'text', text }] }, clientId: this.clientId, ...options,
    });
  }

  async status() {
    return (await this.machine.call('GET', `${this.path}/status`)).body;
  }

  /** The open questions that the status shows, once there are `n`. */
  async open(n = 1) {
    return until(`${n} open`, async () => {
      const { pendingInteractions: all } = await this.status();
      return all?.length >= n && all;
    });
  }

  async idle() {
    return until('the session is idle', async () => {
      const status = await this.status();
      return status.hasActivePrompt === false && status;
    });
  }

  /** Prompts and gives the open question. */
  async ask(text = 'please ASK', n = 1) {
    const accepted = await this.prompt(text);
    if (accepted.status !== 202) throw new Error(`prompt: ${accepted.status} ${JSON.stringify(accepted.body)}`);
    const all = await this.open(n);
    this.promptId = accepted.body.promptId;
    await this.stored(all.length);
    return all[0];
  }

  /**
   * Waits until `n` question calls of the last prompt are in the transcript, for a daemon that shows a question before it
   * stores it; a kill would lose it otherwise, and no check here is about that.
   */
  async stored(n = 1) {
    if (!this.machine.storesLate) return;
    await until('the question is stored', async () => {
      const page = await this.machine.call('GET', `${this.path}/transcript?direction=backward&limit=50`);
      const events = page.body?.events ?? [];
      const prompt = events.findLastIndex((event) => event.data.sessionUpdate === 'user_message_chunk');
      const calls = events.slice(prompt + 1).filter((event) => event.data.sessionUpdate === 'tool_call');
      return calls.length >= n;
    });
  }

  vote(requestId, body = yes(), options = {}) {
    return this.machine.call('POST', `${this.path}/permission/${requestId}`, { body, ...options });
  }

  load(options = {}, action = 'load') {
    const { body = { cwd: this.machine.work }, ...rest } = options;
    return this.machine.call('POST', `${this.path}/${action}`, { body, clientId: this.clientId, ...rest });
  }

  /** Another client of the same live session. */
  async join() {
    const joined = await this.load({ clientId: undefined });
    if (joined.status !== 200) throw new Error(`join: ${joined.status} ${JSON.stringify(joined.body)}`);
    return new Session(this.machine, joined.body);
  }

  stream(options = {}) {
    return Stream.open(this.machine.base, this.id, options);
  }
}
