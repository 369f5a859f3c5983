// Vendors the page's libraries: fetches each package of vendor.toml with `npm pack`, checks npm's integrity, makes bare
// imports relative, leaves source map hints out, and writes the file; the licences' texts go into LICENSES.txt. `--check` only compares the
// files that are there with the hashes of vendor.toml, without network.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const dir = fileURLToPath(new URL('../../crates/server/web/vendor/', import.meta.url));
const manifest = join(dir, 'vendor.toml');

const hash = (algorithm, bytes, form) => createHash(algorithm).update(bytes).digest(form);

/** The manifest is a list of `[[file]]` tables of strings; nothing more of TOML is needed. */
function read() {
  const files = [];
  for (const line of readFileSync(manifest, 'utf8').split('\n')) {
    const pair = /^(\w+) = "(.*)"$/.exec(line);
    if (line === '[[file]]') files.push({});
    else if (pair) files.at(-1)[pair[1]] = pair[2];
  }
  return files;
}

function write(files) {
  const head = readFileSync(manifest, 'utf8').split('\n[[file]]')[0].trimEnd();
  const tables = files.map((file) => `[[file]]\n${Object.entries(file).map(([key, value]) => `${key} = "${value}"\n`).join('')}`);
  writeFileSync(manifest, `${head}\n\n${tables.join('\n')}`);
}

function check(files) {
  for (const file of files) {
    if (hash('sha256', readFileSync(join(dir, file.path)), 'hex') !== file.sha256) throw new Error(`${file.path} is not as vendored`);
  }
}

function fetch(file, work) {
  const packed = execFileSync('npm', ['pack', '--silent', `${file.name}@${file.version}`], { cwd: work, encoding: 'utf8' }).trim().split('\n').at(-1);
  const bytes = readFileSync(join(work, packed));
  const integrity = `sha512-${hash('sha512', bytes, 'base64')}`;
  if (file.integrity !== integrity) throw new Error(`${file.name}@${file.version}: npm gave ${integrity}`);
  execFileSync('tar', ['xzf', packed, `package/${file.from}`], { cwd: work });
  const text = readFileSync(join(work, 'package', file.from), 'utf8')
    .replace(/from(\s*)"preact"/g, 'from$1"./preact.js"')
    .replace(/\/\/# sourceMappingURL=.*\n?/g, '');
  const banner = `/* ${file.name} ${file.version}, licence ${file.licence}; see vendor.toml */\n`;
  writeFileSync(join(dir, file.path), `${banner}${text.trimEnd()}\n`);
  const licence = execFileSync('tar', ['tzf', packed], { cwd: work, encoding: 'utf8' }).split('\n').find((name) => /^package\/licen[cs]e(\.\w+)?$/i.test(name));
  if (!licence) throw new Error(`${file.name} brings no licence`);
  licences.set(file.name, execFileSync('tar', ['xzOf', packed, licence], { cwd: work, encoding: 'utf8' }).replace(/\r\n/g, '\n').trim());
  file.sha256 = hash('sha256', readFileSync(join(dir, file.path)), 'hex');
}

/** The text of each package's licence. */
const licences = new Map();

const files = read();
if (process.argv.includes('--check')) {
  check(files);
} else {
  const work = mkdtempSync(join(tmpdir(), 'hp-vendor-'));
  try {
    for (const file of files) fetch(file, work);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  write(files);
  writeFileSync(join(dir, 'LICENSES.txt'), [...licences].map(([name, text]) => `${name}\n${'='.repeat(name.length)}\n\n${text}\n`).join('\n\n'));
}
