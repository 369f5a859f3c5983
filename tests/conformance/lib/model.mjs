// A scripted OpenAI-compatible model on loopback. A trigger word in the newest user text that holds one decides what it
// does; the number of tool results that follow this text decides how far it is. It never calls a tool that the request
// does not offer, so that side queries (titles, suggestions) get plain text.
//
//   ASK        one question            ASK_TWO    two question calls in one turn
//   MANY_<n>   n question calls        MIXED      a shell command and a question in one turn
//   BAD_<kind> a question call with invalid arguments (ONEOPT, FIVEQ, EMPTY, JSON, TYPE)
//   FLOOD      much text in many pieces, then a question        HANG   never answers
//   other text short text
import { createServer } from 'node:http';

const TRIGGER = /\b(ASK_TWO|ASK|MANY_\d+|MIXED|BAD_[A-Z]+|FLOOD|HANG)\b/;
const PIECE = 64 * 1024;
const PIECES = 120;

export const question = (n = 1) => ({
  question: `Which one for item ${n}?`,
  header: `Item ${n}`,
  options: [
    { label: `Alpha${n}`, description: `The first for item ${n}` },
    { label: `Beta${n}`, description: `The second for item ${n}` },
  ],
});

const textOf = (content) =>
  typeof content === 'string' ? content : (content ?? []).map((part) => part?.text ?? '').join('\n');

function badArguments(kind) {
  const one = question(1);
  switch (kind) {
    case 'ONEOPT': one.options.pop(); break;
    case 'EMPTY': one.header = ''; break;
    case 'TYPE': one.multiSelect = 'yes'; break;
    case 'FIVEQ': return JSON.stringify({ questions: [1, 2, 3, 4, 5].map(question) });
    case 'JSON': return '{"questions": [{"question": ';
    default: throw new Error(`no such fault: ${kind}`);
  }
  return JSON.stringify({ questions: [one] });
}

export class Model {
  /** What was asked of it: `{trigger, results: [{id, content}], messages}`, in order. */
  requests = [];
  /** Awaited before each piece of text, with the number of pieces sent: a test can hold the model back. */
  pace = async () => {};
  #calls = 0;

  static async start() {
    const model = new Model();
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

  /** The tool results that the model was last sent for a trigger; undefined when it was not called again. */
  results(trigger) {
    return this.requests.findLast((request) => request.trigger === trigger && request.results.length > 0)?.results;
  }

  #call(name, args) {
    this.#calls += 1;
    return { id: `call_${this.#calls}_${Math.random().toString(36).slice(2, 8)}`, type: 'function', function: { name, arguments: args } };
  }

  #ask(n) {
    return this.#call('ask_user_question', JSON.stringify({ questions: [question(n)] }));
  }

  #plan(body) {
    const messages = body.messages ?? [];
    const offered = new Set((body.tools ?? []).map((tool) => tool.function?.name));
    const at = messages.findLastIndex((message) => message.role === 'user' && TRIGGER.test(textOf(message.content)));
    const trigger = at < 0 ? undefined : TRIGGER.exec(textOf(messages[at].content))[1];
    const results = messages.slice(at + 1).filter((message) => at >= 0 && message.role === 'tool')
      .map((message) => ({ id: message.tool_call_id, content: textOf(message.content) }));
    const plan = { trigger, results, pieces: [], calls: [] };
    if (trigger === 'HANG') return { ...plan, hang: true };
    if (results.length > 0 || trigger === undefined || !offered.has('ask_user_question')) {
      plan.pieces.push(results.length > 0 ? `Read: ${results.map((result) => result.content).join(' ')}` : 'Nothing to do.');
      return plan;
    }
    const [word, tail] = trigger.split('_');
    switch (word) {
      case 'ASK': plan.calls.push(this.#ask(1), ...(tail ? [this.#ask(2)] : [])); break;
      case 'MANY': for (let n = 1; n <= Number(tail); n += 1) plan.calls.push(this.#ask(n)); break;
      case 'BAD': plan.calls.push(this.#call('ask_user_question', badArguments(tail))); break;
      case 'FLOOD':
        for (let n = 0; n < PIECES; n += 1) plan.pieces.push(`${n} ${'x'.repeat(PIECE)}\n`);
        plan.calls.push(this.#ask(1));
        break;
      case 'MIXED':
        plan.calls.push(this.#call('run_shell_command', JSON.stringify({
          command: 'touch made-by-the-model', description: 'makes a file', is_background: false,
        })), this.#ask(1));
        break;
      default: throw new Error(`no plan for ${trigger}`);
    }
    return plan;
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
    const plan = this.#plan(body);
    this.requests.push({ trigger: plan.trigger, results: plan.results, messages: body.messages });
    if (plan.hang) return;
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
    for (const [index, call] of plan.calls.entries()) await send({ tool_calls: [{ index, ...call }] });
    await send({}, finish, { usage });
    response.end('data: [DONE]\n\n');
  }
}
