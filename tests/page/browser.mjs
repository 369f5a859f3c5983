// Runs the browser tests, a few files at a time; what is given goes to `node --test`.
import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { CHROMIUM } from './lib/chromium.mjs';

if (CHROMIUM === undefined) {
  console.log('SKIPPED: the browser tests of the page need Chromium (Debian: apt-get install chromium), or CHROMIUM with the path of one');
} else {
  const at = Math.min(3, availableParallelism());
  const { status } = spawnSync(process.execPath, ['--test', '--test-reporter=spec', `--test-concurrency=${at}`, ...process.argv.slice(2), 'browser/'], { stdio: 'inherit' });
  process.exitCode = status ?? 1;
}
