import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const web = fileURLToPath(new URL('../../../crates/server/web/', import.meta.url));
const index = readFileSync(join(web, 'index.html'), 'utf8');

/** Every module that the first view needs. */
function reached(path, seen = new Set()) {
  if (seen.has(path)) return seen;
  seen.add(path);
  for (const [, from] of readFileSync(join(web, path), 'utf8').matchAll(/(?:from ?|^import )['"](\.[^'"]+)['"]/gm)) reached(normalize(join(dirname(path), from)), seen);
  return seen;
}

test('every_module_of_the_first_view_is_fetched_at_once', () => {
  const named = [...index.matchAll(/modulepreload" href="\/ui\/dev\/([^"]+)"/g)].map(([, path]) => path);
  assert.deepEqual([...reached('app/main.js')].sort(), [...named].sort());
});

test('everything_that_index_html_names_is_there', () => {
  for (const [, path] of index.matchAll(/"\/ui\/dev\/([^"]+)"/g)) assert.ok(existsSync(join(web, path)), path);
});

test('the_page_needs_no_inline_code_and_no_html_from_strings', () => {
  assert.doesNotMatch(index, /<script(?![^>]* src=)|<style|\son\w+=|style="/);
  for (const path of [...reached('app/main.js'), ...reached('app/view/session.js')].filter((one) => one.startsWith('app/'))) {
    assert.doesNotMatch(readFileSync(join(web, path), 'utf8'), /innerHTML|outerHTML|dangerouslySetInnerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/, path);
  }
});

test('what_is_vendored_is_as_its_manifest_says', () => {
  execFileSync(process.execPath, [fileURLToPath(new URL('../vendor.mjs', import.meta.url)), '--check']);
});
