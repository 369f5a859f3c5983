// An OpenAI-compatible model on loopback that does what a suite's script says: a suite gives the script as `plan`.
import { createServer } from 'node:http';

export const question = (n = 1) => ({
  question: `Which one for item ${n}?`,
  header: `Item ${n}`,
  options: [
    { label: `Alpha${n}`, description: `The first for item ${n}` },
    { label: `Beta${n}`, description: `The second for item ${n}` },
  ],
});

export const textOf = (content) =>
  typeof content === 'string' ? content : (content ?? []).map((part) => part?.text ?? '').join('\n');

export class ScriptedModel {
  /** What was asked of it, as `plan` noted it, in order. */
  requests = [];
  /** Awaited before each piece of text, with the number of pieces sent: a test can hold the model back. */
  pace = async () => {};
  #calls = 0;

  static async start() {
    const model = new this();
    model.server = createServer((request, response) => {
      // A daemon that is killed breaks off in the middle of anything.
      model.#serve(request, response).catch(() => response.destroy());
    });
    await new Promise((resolve) => model.server.listen(0, '127.0.0.1', resolve));
    model.url = `http://127.0.0.1:${model.server.address().port}/v1`;
    return model;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }

  /**
   * What it does with a request: `{note, pieces, calls, silent, hang}`. `note` goes to `requests`; `pieces` of text are
   * said, and then the `calls` made. One that is `silent` never answers; one that hangs says its pieces and never ends.
   */
  plan() {
    throw new Error('a suite has its own script');
  }

  /** A call of a tool. Arguments that are a text are sent as they are, valid or not. */
  call(name, args) {
    this.#calls += 1;
    const text = typeof args === 'string' ? args : JSON.stringify(args);
    return { id: `call_${this.#calls}_${Math.random().toString(36).slice(2, 8)}`, type: 'function', function: { name, arguments: text } };
  }

  ask(...questions) {
    return this.call('ask_user_question', { questions });
  }

  async #serve(request, response) {
    let text = '';
    for await (const chunk of request) text += chunk;
    if (request.method !== 'POST' || !request.url.endsWith('/chat/completions')) {
      response.writeHead(request.url.endsWith('/models') ? 200 : 404, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ object: 'list', data: [{ id: 'scripted', object: 'model' }] }));
      return;
    }
    const body = JSON.parse(text);
    const plan = this.plan(body);
    this.requests.push(plan.note);
    if (plan.silent) return;
    const finish = plan.calls.length > 0 ? 'tool_calls' : 'stop';
    const head = { id: `completion-${this.requests.length}`, created: 1, model: body.model ?? 'scripted' };
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    if (!body.stream) {
      const message = { role: 'assistant', content: plan.pieces.join('') || null };
      if (plan.calls.length > 0) message.tool_calls = plan.calls;
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ ...head, object: 'chat.completion', usage, choices: [{ index: 0, message, finish_reason: finish }] }));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = async (delta, finish_reason = null, extra = {}) => {
      const frame = { ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }], ...extra };
      if (!response.write(`data: ${JSON.stringify(frame)}\n\n`)) {
        if (response.destroyed) return;
        await new Promise((resolve) => {
          const go = () => { response.off('drain', go); response.off('close', go); resolve(); };
          response.on('drain', go);
          response.on('close', go);
        });
      }
    };
    await send({ role: 'assistant', content: '' });
    for (const [sent, piece] of plan.pieces.entries()) {
      await this.pace(sent);
      await send({ content: piece });
    }
    if (plan.hang) return;
    for (const [index, call] of plan.calls.entries()) await send({ tool_calls: [{ index, ...call }] });
    await send({}, finish, { usage });
    response.end('data: [DONE]\n\n');
  }
}
