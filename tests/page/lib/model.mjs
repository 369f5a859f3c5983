// A scripted OpenAI-compatible model on loopback. The newest trigger word in what people said decides what it does; how
// many tool results follow decides how far it is.
//
//   ASK       one question               ASK_FORM  four questions in one call, one of them with several choices
//   ASK_TWO   two calls in one turn      SHELL     a command, which needs permission
//   EDIT      a change of a file         RICH      Markdown, tools, a change, then a question
//   MANY_<n>  n searches in one turn     EVIL      HTML wherever text can be: a change, a command, a question
//   LONG_<n>  n paragraphs of text, and a question if there is an ASK too  HANG      says a word and never ends
//   other words: a short text
import { ScriptedModel, question, textOf } from '../../lib/model.mjs';

const TRIGGER = /\b(ASK_FORM|ASK_TWO|ASK|SHELL|EDIT|RICH|EVIL|LONG_\d+|MANY_\d+|HANG)\b/;

const FORM = [
  { question: 'Which database should the service use?', header: 'Database', options: [{ label: 'SQLite', description: 'One file, no service; fits one machine.' }, { label: 'Postgres', description: 'Several daemons may share it.' }] },
  { question: 'Which checks run before a merge?', header: 'Checks', multiSelect: true, options: [{ label: 'Unit tests', description: 'Two minutes.' }, { label: 'Browser tests', description: 'Six minutes.' }, { label: 'Benchmarks', description: 'Twelve minutes, on a quiet machine.' }] },
  { question: 'How should the release be named?', header: 'Name', options: [{ label: '0.2.0', description: 'A minor one.' }, { label: '1.0.0', description: 'The first stable one.' }] },
  { question: 'Who writes the announcement?', header: 'Author', options: [{ label: 'The agent', description: 'A draft, for you to read.' }, { label: 'You', description: 'Nothing is written.' }] },
];

/** What must never become more than text. */
export const EVIL = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>';
/** The same, as the name of a file. */
export const EVIL_NAME = '<img src=x onerror=broken=1>.html';

const RICH = `I looked at how sessions are stored. In short:

1. **Every record** is one line of JSON, appended and synced.
2. A torn tail is *cut off* at the next load; see \`recover()\`.
3. Old pages are read [by their anchor](https://example.org/anchor).

\`\`\`rust
/// Cuts a torn tail off; what is whole stays.
pub fn recover(file: &mut File) -> Result<u64, Error> {
    let mut end = 0; // the last whole line
    for line in BufReader::new(&*file).split(b'\\n') {
        let line = line?;
        if serde_json::from_slice::<Record>(&line).is_err() { break; }
        end += line.len() as u64 + 1;
    }
    Ok(end)
}
\`\`\`

| store | writes | reads |
| --- | ---: | --- |
| SQLite | 4,100/s | snapshot |
| memory | 90,000/s | none |

> A question is a row before anybody sees it.

- [x] read the code
- [ ] write the change`;

/** Its notes are `{trigger, said, results}`. */
export class Model extends ScriptedModel {
  plan(body) {
    const messages = body.messages ?? [];
    const offered = new Set((body.tools ?? []).map((tool) => tool.function?.name));
    const at = messages.findLastIndex((message) => message.role === 'user');
    const said = at < 0 ? '' : textOf(messages[at].content);
    const trigger = TRIGGER.exec(said)?.[1];
    const results = messages.slice(at + 1).filter((message) => message.role === 'tool').map((message) => textOf(message.content));
    const plan = { note: { trigger, said, results }, pieces: [], calls: [], hang: false };
    if (!trigger || !offered.has('ask_user_question')) {
      plan.pieces.push(`You said: ${said.slice(0, 200)}`);
      return plan;
    }
    const word = /^(LONG|MANY)_/.exec(trigger)?.[1] ?? trigger;
    const n = results.length;
    switch (word) {
      case 'ASK': n === 0 ? plan.calls.push(this.ask(question(1))) : plan.pieces.push(`Read: ${results.join(' ')}`); break;
      case 'ASK_TWO': n === 0 ? plan.calls.push(this.ask(question(1)), this.ask(question(2))) : plan.pieces.push(`Read: ${results.join(' ')}`); break;
      case 'ASK_FORM': n === 0 ? plan.calls.push(this.ask(...FORM)) : plan.pieces.push(`Read: ${results.join(' ')}`); break;
      case 'SHELL': n === 0 ? plan.calls.push(this.call('run_shell_command', { command: 'seq 1 40 && echo done', description: 'counts to forty', is_background: false })) : plan.pieces.push('It counted.'); break;
      case 'EDIT': n === 0 ? plan.calls.push(this.call('write_file', { file_path: 'notes.md', content: '# Notes\n\nOne line.\n' })) : plan.pieces.push('Written.'); break;
      case 'LONG':
        if (n > 0) plan.pieces.push(`Read: ${results.join(' ')}`);
        else for (let i = 0; i < Number(trigger.slice(5)); i += 1) plan.pieces.push(`Paragraph ${i} of a long text that goes on for a while.\n\n`);
        if (n === 0 && /\bASK\b/.test(said)) plan.calls.push(this.ask(question(1)));
        break;
      case 'MANY':
        if (n > 0) plan.pieces.push(`I searched ${n} times.`);
        else for (let i = 0; i < Number(trigger.slice(5)); i += 1) plan.calls.push(this.call('glob', { pattern: `src/**/part_${i}.rs` }));
        break;
      case 'HANG': plan.pieces.push('Thinking about it'); plan.hang = true; break;
      case 'RICH':
        if (n === 0) {
          plan.pieces.push(...RICH.split(/(?<=\n)/));
          plan.calls.push(this.call('write_file', { file_path: 'src/store.rs', content: 'use std::fs::File;\n\npub struct Store {\n    file: File,\n    end: u64,\n}\n\nimpl Store {\n    pub fn end(&self) -> u64 {\n        self.end\n    }\n}\n' }), this.call('glob', { pattern: '**/*.rs' }));
        } else if (n === 2) {
          plan.calls.push(this.call('edit', { file_path: 'src/store.rs', old_string: '    pub fn end(&self) -> u64 {\n        self.end\n    }', new_string: '    /// Where the next record goes.\n    pub fn end(&self) -> u64 {\n        self.end\n    }\n\n    pub fn is_empty(&self) -> bool {\n        self.end == 0\n    }' }), this.call('read_file', { file_path: 'nowhere.rs' }));
        } else if (n === 4) {
          plan.pieces.push('The file is there, and `nowhere.rs` is not. One thing I cannot decide:');
          plan.calls.push(this.ask(FORM[0]));
        } else plan.pieces.push(`Good, I go on with that. ${results.at(-1)}`);
        break;
      case 'EVIL':
        if (n === 0) {
          plan.pieces.push(`${EVIL} **${EVIL}** [link](javascript:window.broken=1) [data](data:text/html,x) ![pic](https://example.org/x.png) [good](https://example.org/)\n\n\`\`\`html\n${EVIL}\n\`\`\`\n\n| ${EVIL} | b |\n| --- | --- |\n| ${EVIL} | c |\n`);
          plan.calls.push(this.call('write_file', { file_path: EVIL_NAME, content: `${EVIL}\n` }), this.call('run_shell_command', { command: `echo '${EVIL}'`, description: EVIL, is_background: false }));
        } else if (n === 2) plan.calls.push(this.ask({ question: EVIL, header: '<b>x</b>', options: [{ label: `${EVIL}1`, description: EVIL }, { label: `${EVIL}2`, description: EVIL }] }));
        else plan.pieces.push(`Read: ${results.at(-1)}`);
        break;
      default:
    }
    return plan;
  }
}
