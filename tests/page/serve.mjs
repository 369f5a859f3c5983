// The page from disk, before a daemon, with faults that a test switches on. The page, its Content-Security-Policy and its
// addresses are as the daemon serves them; everything else goes to the daemon.
//
//   node serve.mjs --daemon http://127.0.0.1:4170 [--port 4180]
//
// POST /__faults sets the faults (the whole of them), GET /__faults gives what happened:
//   events  [{type, contains?, action: drop|delay|duplicate|swap, ms?, times?}]   of the streams
//   fail    [{method?, path, status?, times?}]   answers of routes whose path matches; without status the connection breaks
//   hide    true: no list, status, journal or replay shows a question or a permission
//   silent  true: streams stay open and carry nothing
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import http from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const DIR = fileURLToPath(new URL('../../crates/server/web/', import.meta.url));
const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.toml': 'text/plain; charset=utf-8', '.svg': 'image/svg+xml' };
const PAGES = /^\/(s\/[^/]+)?$/;
/** How often a stream that is served carries its last id, in milliseconds. */
const BEAT_MS = 1000;

/** One hash of all files of a directory. */
function hashOf(dir) {
  const hash = createHash('sha256');
  for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())) hash.update(readFileSync(join(entry.parentPath ?? entry.path, entry.name)));
  return hash.digest('hex').slice(0, 16);
}

/** Serves the page in front of a daemon; `faults` and `log` are for tests in the same process. */
export async function serve({ daemon, port = 0, fixed = true, web = DIR }) {
  // As the daemon does it: assets under a hash of all of them, for ever; without `fixed`, each as it is on the disk now.
  const name = fixed ? hashOf(web) : 'dev';
  const state = { faults: {}, log: [] };
  const streams = new Set();
  const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
  const to = new URL(daemon);

  const use = (rule) => {
    if (rule.times === undefined) return true;
    if (rule.times <= 0) return false;
    rule.times -= 1;
    return true;
  };

  function file(response, path, cache) {
    const at = normalize(join(web, path));
    if (!at.startsWith(normalize(web))) return void response.writeHead(404).end();
    let bytes;
    try {
      bytes = readFileSync(at);
    } catch {
      return void response.writeHead(404).end();
    }
    if (path === 'index.html') bytes = Buffer.from(bytes.toString().replaceAll('/ui/dev/', `/ui/${name}/`));
    response.writeHead(200, {
      'content-type': TYPES[extname(at)] ?? 'application/octet-stream', 'cache-control': cache, 'content-security-policy': CSP,
      'x-content-type-options': 'nosniff', 'x-frame-options': 'DENY', 'referrer-policy': 'same-origin', etag: createHash('sha256').update(bytes).digest('hex').slice(0, 16),
    });
    response.end(bytes);
  }

  async function body(request) {
    const parts = [];
    for await (const part of request) parts.push(part);
    return Buffer.concat(parts);
  }

  function hidden(path, text) {
    if (state.faults.hide !== true) return text;
    const value = JSON.parse(text);
    if (/^\/questions(\?|$)/.test(path)) value.questions = [];
    if (/\/status$/.test(path)) Object.assign(value, { pendingInteractions: [], pendingInteractionCount: 0, isWaitingForUserQuestion: false, isWaitingForPermission: false });
    if (/\/load$/.test(path)) value.liveJournal = (value.liveJournal ?? []).filter((event) => event.type !== 'permission_request');
    if (/\/sessions(\?|$)/.test(path)) for (const row of value.sessions ?? []) Object.assign(row, { pendingInteractions: [], pendingInteractionCount: 0, openQuestionCount: 0 });
    return JSON.stringify(value);
  }

  async function forward(request, response) {
    const path = request.url;
    const failing = (state.faults.fail ?? []).find((rule) => (rule.method ?? request.method) === request.method && new RegExp(rule.path).test(path) && use(rule));
    const sent = await body(request);
    state.log.push({ at: Date.now(), method: request.method, path, body: sent.length > 0 && sent.length < 10_000 ? sent.toString() : undefined, failed: failing ? true : undefined });
    if (failing) {
      if (!failing.status) return void request.socket.destroy();
      return void response.writeHead(failing.status, { 'content-type': 'application/json' }).end(JSON.stringify({ error: 'a fault of the test', code: failing.code }));
    }
    // The daemon checks who asks: this page counts as its own.
    const headers = { ...request.headers, host: to.host };
    if (headers.origin) headers.origin = to.origin;
    const upstream = http.request({ host: to.hostname, port: to.port, method: request.method, path, headers, agent: /\/events(\?|$)/.test(path) ? undefined : agent }, (answer) => {
      if ((answer.headers['content-type'] ?? '').includes('text/event-stream')) return stream(request, response, answer);
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => {
        let bytes = Buffer.concat(parts);
        if (state.faults.hide === true && answer.statusCode === 200 && (answer.headers['content-type'] ?? '').includes('json')) bytes = Buffer.from(hidden(path, bytes.toString()));
        const out = { ...answer.headers, 'content-length': bytes.length };
        delete out['transfer-encoding'];
        response.writeHead(answer.statusCode, out).end(bytes);
      });
      answer.on('error', () => response.destroy());
    });
    upstream.on('error', () => {
      if (response.headersSent) response.destroy();
      else request.socket.destroy();
    });
    upstream.end(sent);
  }

  function stream(request, response, answer) {
    response.writeHead(answer.statusCode, answer.headers);
    response.flushHeaders();
    let rest = '';
    let last = 0;
    let held;
    const write = (text) => { if (state.faults.silent !== true) response.write(text); };
    const beat = setInterval(() => {
      if (last > 0) write(`event: alive\ndata: ${JSON.stringify({ v: 1, type: 'alive', data: { lastEventId: last } })}\n\n`);
    }, BEAT_MS);
    streams.add(response);
    answer.setEncoding('utf8');
    answer.on('data', (text) => {
      rest += text;
      const blocks = rest.split('\n\n');
      rest = blocks.pop();
      for (const block of blocks) {
        const data = /^data: (.*)$/m.exec(block)?.[1];
        const frame = data ? JSON.parse(data) : undefined;
        if (typeof frame?.id === 'number') last = Math.max(last, frame.id);
        const out = `${block}\n\n`;
        if (frame?.type === 'permission_request' && frame.id === undefined && state.faults.hide) continue;
        const rule = frame && (state.faults.events ?? []).find((one) => (!one.type || one.type === frame.type) && (!one.contains || data.includes(one.contains)) && use(one));
        if (rule) state.log.push({ at: Date.now(), event: frame.type, id: frame.id, action: rule.action });
        if (rule?.action === 'drop') continue;
        if (rule?.action === 'delay') { setTimeout(() => write(out), rule.ms ?? 500); continue; }
        if (rule?.action === 'duplicate') write(out);
        if (rule?.action === 'swap') { held = out; continue; }
        write(out);
        if (held) { write(held); held = undefined; }
      }
    });
    const over = () => { clearInterval(beat); streams.delete(response); answer.destroy(); response.destroy(); };
    answer.on('end', over);
    answer.on('error', over);
    answer.on('close', over);
    response.on('close', over);
  }

  const server = http.createServer((request, response) => {
    const path = request.url.split('?')[0];
    if (path === '/__faults') {
      if (request.method === 'GET') return void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(state));
      return void body(request).then((bytes) => { state.faults = JSON.parse(bytes.toString() || '{}'); response.writeHead(204).end(); });
    }
    if (request.method === 'GET' && PAGES.test(path)) return void file(response, 'index.html', 'no-cache');
    if (request.method === 'GET' && path.startsWith('/ui/')) return void file(response, path.split('/').slice(3).join('/'), fixed ? 'public, max-age=31536000, immutable' : 'no-cache');
    forward(request, response).catch(() => response.destroy());
  });
  server.keepAliveTimeout = 60_000;
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    state,
    /** Breaks every stream, as a network does. */
    cut: () => { for (const response of streams) response.destroy(); },
    close: () => { server.closeAllConnections(); agent.destroy(); return new Promise((resolve) => server.close(resolve)); },
  };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const option = (name, or) => { const at = process.argv.indexOf(`--${name}`); return at < 0 ? or : process.argv[at + 1]; };
  const { url } = await serve({ daemon: option('daemon', 'http://127.0.0.1:4170'), port: Number(option('port', 4180)), fixed: false });
  console.log(`the page: ${url}`);
}
