// 9: Host, Origin, bearer: who may speak to the daemon at all (section e).
import { RESTORE } from '../lib/machine.mjs';
import { brief, scenario } from '../lib/suite.mjs';

scenario(9, 'loopback without a token', async (t) => {
  const machine = await t.daemon();
  const get = (headers, path = '/capabilities', method = 'GET') => machine.call(method, path, { headers });
  const { port } = machine;
  for (const [host, wanted] of [
    [`127.0.0.1:${port}`, 200], [`localhost:${port}`, 200], [`LOCALHOST:${port}`, 200], [`[::1]:${port}`, 200], [`host.docker.internal:${port}`, 200],
    [`evil.example:${port}`, 403], ['evil.example', 403], ['127.0.0.1', 403], ['localhost', 403], [`127.0.0.1:${port + 1}`, 403], [`127.0.0.1.evil.example:${port}`, 403],
  ]) {
    const answer = await get({ host });
    t.check(`9.host ${host.replace(String(port + 1), 'OTHER').replace(String(port), 'PORT')}`, answer.status, wanted);
  }
  t.check('9.host: the body', (await get({ host: 'evil.example' })).body, { error: 'Invalid Host header' });
  t.check('9.host: /health too', (await get({ host: 'evil.example' }, '/health')).status, 403);
  for (const [origin, wanted] of [
    [`http://127.0.0.1:${port}`, 200], [`http://localhost:${port}`, 200], ['http://evil.example', 403], ['null', 403],
    [`http://127.0.0.1:${port + 1}`, 403], [`https://evil.example:${port}`, 403],
  ]) {
    const answer = await get({ origin });
    t.check(`9.origin ${origin.replace(String(port + 1), 'OTHER').replace(String(port), 'PORT')}`, answer.status, wanted);
  }
  const refused = await get({ origin: 'http://evil.example' });
  t.check('9.origin: the body', [refused.body, /origin/i.test(refused.headers.vary ?? ''), refused.headers['access-control-allow-origin'] ?? null],
    [{ error: 'Request denied by CORS policy' }, true, null]);
  t.check('9.origin: a preflight', (await get({ origin: 'http://evil.example', 'access-control-request-method': 'POST' }, '/session', 'OPTIONS')).status, 403);
  t.check('9.unknown path', (await get({}, '/no/such/path')).status, 404);
  t.check('9.broken percent-encoding', brief(await get({}, '/session/%zz/status')), '400 invalid_request');
  const session = await machine.session();
  t.check('9.not JSON', [(await session.prompt('', { body: '{"prompt":' })).status], [400]);
  t.check('9.malformed client id', brief(await session.prompt('hello', { clientId: 'a b' })), '400 invalid_client_id');
  t.check('9.client id too long', brief(await session.prompt('hello', { clientId: 'a'.repeat(129) })), '400 invalid_client_id');
  t.check('9.unknown client id', brief(await session.prompt('hello', { clientId: 'client_nobody' })), '400 invalid_client_id');
  t.check('9.heartbeat: unknown client id', brief(await machine.call('POST', `${session.path}/heartbeat`, { body: {}, clientId: 'client_nobody' })), '400 invalid_client_id');
  t.check('9.a body over 10 MB', (await session.prompt('x'.repeat(11 * 1024 * 1024))).status, 413);
  t.check('9.daemon/status detail', brief(await get({}, '/daemon/status?detail=x')), '400 invalid_detail');
});

for (const [name, flags] of [['token', []], ['token and --require-auth', ['--require-auth']]]) {
  scenario(9, name, async (t) => {
    const right = { authorization: 'Bearer s3cret' };
    const machine = await t.daemon([RESTORE, '--token', 's3cret', ...flags], { headers: right });
    const get = async (path, headers = {}) => (await machine.call('GET', path, { headers })).status;
    t.check(`9.${name}: /health`, await get('/health'), flags.length ? 401 : 200);
    for (const [what, headers, wanted] of [
      ['none', {}, 401], ['right', right, 200], ['scheme in other case', { authorization: 'bEARER s3cret' }, 200], ['wrong', { authorization: 'Bearer s3cres' }, 401],
      ['longer', { authorization: 'Bearer s3cret2' }, 401], ['empty', { authorization: 'Bearer ' }, 401], ['another scheme', { authorization: 'Basic s3cret' }, 401],
      ['bare', { authorization: 's3cret' }, 401],
    ]) t.check(`9.${name}: ${what}`, await get('/capabilities', headers), wanted);
    const refused = await machine.call('GET', '/capabilities');
    t.check(`9.${name}: the body`, refused.body, { error: 'Unauthorized' });
    t.check(`9.${name}: Host comes before the bearer`, await get('/capabilities', { host: 'evil.example' }), 403);
    t.check(`9.${name}: Origin comes before the bearer`, await get('/capabilities', { origin: 'http://evil.example' }), 403);
    const client = machine.sdk({ token: 's3cret' });
    t.check(`9.${name}: the SDK`, (await client.capabilities()).v, 1);
    const status = await machine.call('GET', '/daemon/status', { headers: right });
    t.check(`9.${name}: security`, [status.body.security?.tokenConfigured, status.body.security?.requireAuth, status.body.security?.loopbackBind], [true, flags.length > 0, true]);
  });
}

scenario(9, 'allowed origins', async (t) => {
  const machine = await t.daemon([RESTORE, '--token', 's3cret', '--allow-origin', 'https://app.example']);
  const headers = { origin: 'https://app.example', authorization: 'Bearer s3cret' };
  const answer = await machine.call('GET', '/capabilities', { headers });
  t.check('9.allow-origin', [answer.status, answer.headers['access-control-allow-origin'], answer.headers['access-control-allow-credentials'] ?? null],
    [200, 'https://app.example', null]);
  const list = (value) => (value ?? '').toLowerCase().split(/,\s*/).sort();
  t.check('9.allow-origin: exposed', ['retry-after', 'x-qwen-event-epoch', 'x-qwen-sse-stream-id']
    .filter((name) => !list(answer.headers['access-control-expose-headers']).includes(name)), []);
  const preflight = await machine.call('OPTIONS', '/session', { headers: { origin: 'https://app.example', 'access-control-request-method': 'POST' } });
  t.check('9.allow-origin: preflight', [preflight.status, preflight.headers['access-control-max-age'], ['get', 'post', 'patch', 'delete', 'options']
    .filter((name) => !list(preflight.headers['access-control-allow-methods']).includes(name)),
  ['authorization', 'content-type', 'x-qwen-client-id', 'last-event-id', 'x-qwen-event-epoch']
    .filter((name) => !list(preflight.headers['access-control-allow-headers']).includes(name))], [204, '86400', [], []]);
  t.check('9.allow-origin: another', (await machine.call('GET', '/capabilities', { headers: { ...headers, origin: 'https://other.example' } })).status, 403);
  t.check('9.allow-origin: feature', (await machine.call('GET', '/capabilities', { headers })).body.features.includes('allow_origin'), true);
});
