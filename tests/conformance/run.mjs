// The wire, checked from outside: the ten checks over HTTP, SSE and the unmodified SDK.
//
//   CONFORMANCE_START='PATH/holdpoint serve --port {port} --workspace {ws} {flags}' node run.mjs [REGEX]
//   CONFORMANCE_PEER=1 node run.mjs      also (or only, without CONFORMANCE_START) against qwen serve from npm
//
// REGEX chooses scenarios by number and name. See README.md.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { differences } from './differences.mjs';
import { runAll } from './lib/suite.mjs';

const here = dirname(fileURLToPath(import.meta.url));
for (const file of readdirSync(join(here, 'checks')).sort()) await import(`./checks/${file}`);

function peer() {
  const dir = join(here, 'peer');
  const entry = join(dir, 'node_modules/@qwen-code/qwen-code/cli-entry.js');
  if (!existsSync(entry)) {
    try {
      execFileSync('npm', ['ci', '--silent', '--no-audit', '--no-fund'], { cwd: dir, stdio: 'ignore' });
    } catch {
      // Said below.
    }
  }
  return existsSync(entry) ? `${process.execPath} ${entry} serve --no-web --port {port} --workspace {ws} {flags}` : undefined;
}

const only = process.argv[2] && new RegExp(process.argv[2]);
const targets = [];
if (process.env.CONFORMANCE_START) targets.push({ name: 'ours', template: process.env.CONFORMANCE_START });
if (process.env.CONFORMANCE_PEER === '1') {
  const template = peer();
  if (template) targets.push({ name: 'peer', template });
  else console.log('SKIPPED: conformance of the peer: @qwen-code/qwen-code cannot be installed from npm here');
}
if (targets.length === 0 && process.env.CONFORMANCE_PEER !== '1') {
  console.error('set CONFORMANCE_START to the command that starts a daemon (see the head of this file)');
  process.exit(2);
}
let good = true;
for (const target of targets) {
  good = (await runAll(target, differences, { only, width: Number(process.env.CONFORMANCE_WIDTH ?? 2) })) && good;
}
process.exit(good ? 0 : 1);
