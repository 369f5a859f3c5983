// A machine of a test: a directory of its own, a scripted model, and the daemon's lives on one port.
import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PATIENCE = 60_000;

/** Looks again and again until there is something to see. */
export async function until(what, look) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** An OpenAI-compatible model: asks one question when told to ASK, and repeats what it reads. */
async function startModel() {
  const requests = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const { messages } = JSON.parse(text);
    requests.push(messages.filter((message) => message.role !== 'system'));
    const prompt = messages.findLastIndex((message) => message.role === 'user');
    const words = JSON.stringify(messages[prompt].content);
    const results = messages.slice(prompt).filter((message) => message.role === 'tool');
    const asks = words.includes('ASK') && results.length === 0;
    const earlier = messages.flatMap((message) => message.tool_calls ?? []).length;
    const questions = [{
      question: 'Which colour?',
      header: 'Colour',
      options: [{ label: 'Red', description: 'warm' }, { label: 'Blue', description: 'cold' }],
    }];
    const call = {
      index: 0,
      id: `call_${earlier + 1}`,
      type: 'function',
      function: { name: 'ask_user_question', arguments: JSON.stringify({ questions }) },
    };
    const delta = asks ? { tool_calls: [call] } : { content: `Read: ${results.map((r) => r.content).join(' ')}` };
    const chunk = (delta, finish_reason) =>
      `data: ${JSON.stringify({ object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(`${chunk(delta, null)}${chunk({}, asks ? 'tool_calls' : 'stop')}data: [DONE]\n\n`);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { requests, url: `http://127.0.0.1:${server.address().port}/v1`, close: () => {
    server.closeAllConnections();
    server.close();
  } };
}

export class Machine {
  static async create(t) {
    const program = process.env.HOLDPOINT;
    if (!program) throw new Error('set HOLDPOINT to the built program');
    const machine = new Machine();
    machine.program = program;
    machine.dir = mkdtempSync(join(tmpdir(), 'hp-sdk-'));
    machine.work = join(machine.dir, 'work');
    mkdirSync(machine.work);
    machine.model = await startModel();
    machine.port = 0;
    t.after(async () => {
      await machine.kill();
      machine.model.close();
      if (t.passed === false) console.error(machine.log());
      rmSync(machine.dir, { recursive: true, force: true });
    });
    return machine;
  }

  log() {
    return readFileSync(join(this.dir, 'log'), 'utf8');
  }

  get baseUrl() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts the daemon; the second time on the port of the first, as an operator does. */
  async start() {
    const end = Date.now() + PATIENCE;
    while (!(await this.#try())) {
      // Somebody's outgoing connection may hold the port for a moment.
      if (Date.now() > end) throw new Error(`the daemon does not start:\n${this.log()}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async #try() {
    const log = openSync(join(this.dir, 'log'), 'a');
    const args = ['serve', '--port', String(this.port), '--restore-ask-user-question'];
    const child = spawn(this.program, args, {
      cwd: this.work,
      stdio: ['ignore', 'pipe', log],
      env: {
        PATH: process.env.PATH,
        HOME: this.dir,
        HOLDPOINT_DATA_DIR: join(this.dir, 'data'),
        OPENAI_BASE_URL: this.model.url,
        OPENAI_MODEL: 'scripted',
        OPENAI_API_KEY: 'k',
      },
    });
    closeSync(log);
    const gone = new Promise((resolve) => child.once('exit', resolve));
    let line = '';
    child.stdout.setEncoding('utf8');
    const ready = new Promise((resolve) => child.stdout.on('data', (text) => {
      line += text;
      if (line.includes('\n')) resolve(true);
    }));
    if ((await Promise.race([ready, gone.then(() => false)])) !== true) return false;
    this.port = Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(line)[1]);
    this.child = child;
    this.gone = gone;
    return true;
  }

  /** kill -9. */
  async kill() {
    this.child?.kill('SIGKILL');
    await this.gone;
    this.child = undefined;
  }
}
