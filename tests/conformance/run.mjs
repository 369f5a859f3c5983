// The wire, checked from outside: the ten checks over HTTP, SSE and the unmodified SDK.
//
//   node run.mjs 'PATH/holdpoint serve --port {port} --workspace {ws} {flags}'
//   node run.mjs --peer      against qwen serve, which is installed from npm; with a command, against both
//   node run.mjs --only REGEX …      chooses scenarios by number and name
//
// See README.md.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { differences } from './differences.mjs';
import { runAll } from './lib/suite.mjs';

const here = dirname(fileURLToPath(import.meta.url));
for (const file of readdirSync(join(here, 'checks')).sort()) await import(`./checks/${file}`);

function peer() {
  const dir = join(here, 'peer');
  const entry = join(dir, 'node_modules/@qwen-code/qwen-code/cli-entry.js');
  if (!existsSync(entry)) {
    // Not `npm ci`: the package's own shrinkwrap leaves out what is optional elsewhere, and npm 11 takes that for a lock
    // that is out of step.
    try {
      execFileSync('npm', ['install', '--no-save', '--silent', '--no-audit', '--no-fund'], { cwd: dir, stdio: ['ignore', 'ignore', 'inherit'] });
    } catch (error) {
      console.log(`SKIPPED: conformance of the peer: @qwen-code/qwen-code cannot be installed: npm ${error.code === 'ENOENT' ? 'is missing' : 'failed'}`);
      return undefined;
    }
  }
  return existsSync(entry) ? `${process.execPath} ${entry} serve --no-web --port {port} --workspace {ws} {flags}` : undefined;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { peer: { type: 'boolean' }, only: { type: 'string' } },
});
const [start] = positionals;
if (positionals.length > 1 || (!start && !values.peer)) {
  console.error("give the command that starts a daemon, in quotes, or --peer (see the head of this file)");
  process.exit(2);
}
const only = values.only && new RegExp(values.only);
const targets = [];
if (start) targets.push({ name: 'ours', template: start });
if (values.peer) {
  const template = peer();
  if (template) targets.push({ name: 'peer', template });
}
let good = true;
for (const target of targets) {
  good = (await runAll(target, differences, { only, width: Number(process.env.CONFORMANCE_WIDTH ?? 2) })) && good;
}
process.exit(good ? 0 : 1);
