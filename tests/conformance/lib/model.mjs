// A scripted OpenAI-compatible model on loopback. A trigger word in the newest user text that holds one decides what it
// does; the number of tool results that follow this text decides how far it is. It never calls a tool that the request
// does not offer, so that side queries (titles, suggestions) get plain text.
//
//   ASK        one question            ASK_TWO    two question calls in one turn
//   MANY_<n>   n question calls        MIXED      a shell command and a question in one turn
//   BAD_<kind> a question call with invalid arguments (ONEOPT, FIVEQ, EMPTY, JSON, TYPE)
//   FLOOD      much text in many pieces, then a question        HANG   never answers
//   other text short text
import { ScriptedModel, question, textOf } from '../../lib/model.mjs';

const TRIGGER = /\b(ASK_TWO|ASK|MANY_\d+|MIXED|BAD_[A-Z]+|FLOOD|HANG)\b/;
const PIECE = 64 * 1024;
const PIECES = 120;

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

/** Its notes are `{trigger, results: [{id, content}], messages}`. */
export class Model extends ScriptedModel {
  /** The tool results that the model was last sent for a trigger; undefined when it was not called again. */
  results(trigger) {
    return this.requests.findLast((request) => request.trigger === trigger && request.results.length > 0)?.results;
  }

  plan(body) {
    const messages = body.messages ?? [];
    const offered = new Set((body.tools ?? []).map((tool) => tool.function?.name));
    const at = messages.findLastIndex((message) => message.role === 'user' && TRIGGER.test(textOf(message.content)));
    const trigger = at < 0 ? undefined : TRIGGER.exec(textOf(messages[at].content))[1];
    const results = messages.slice(at + 1).filter((message) => at >= 0 && message.role === 'tool')
      .map((message) => ({ id: message.tool_call_id, content: textOf(message.content) }));
    const plan = { note: { trigger, results, messages: body.messages }, pieces: [], calls: [] };
    if (trigger === 'HANG') return { ...plan, silent: true };
    if (results.length > 0 || trigger === undefined || !offered.has('ask_user_question')) {
      plan.pieces.push(results.length > 0 ? `Read: ${results.map((result) => result.content).join(' ')}` : 'Nothing to do.');
      return plan;
    }
    const [word, tail] = trigger.split('_');
    switch (word) {
      case 'ASK': plan.calls.push(this.ask(question(1)), ...(tail ? [this.ask(question(2))] : [])); break;
      case 'MANY': for (let n = 1; n <= Number(tail); n += 1) plan.calls.push(this.ask(question(n))); break;
      case 'BAD': plan.calls.push(this.call('ask_user_question', badArguments(tail))); break;
      case 'FLOOD':
        for (let n = 0; n < PIECES; n += 1) plan.pieces.push(`${n} ${'x'.repeat(PIECE)}\n`);
        plan.calls.push(this.ask(question(1)));
        break;
      case 'MIXED':
        plan.calls.push(this.call('run_shell_command', {
          command: 'touch made-by-the-model', description: 'makes a file', is_background: false,
        }), this.ask(question(1)));
        break;
      default: throw new Error(`no plan for ${trigger}`);
    }
    return plan;
  }
}
