// 4: two clients under each of the four policies.
import { networkInterfaces } from 'node:os';

import { call } from '../lib/http.mjs';
import { NO, yes } from '../lib/machine.mjs';
import { EXACT, brief, scenario, shape } from '../lib/suite.mjs';

/** A daemon under a policy, a session with clients A and B, and a stream. */
async function two(t, policy) {
  const machine = await t.daemon(undefined, { policy });
  const a = await machine.session();
  const b = await a.join();
  const stream = await a.stream({ cursor: 0 });
  const caps = await machine.call('GET', '/capabilities');
  const status = await machine.call('GET', '/daemon/status');
  t.check(`4.${policy.permissionStrategy}${policy.consensusQuorum ?? ''}.shown`, [caps.body.policy.permission, status.body.runtime?.permissions?.policy],
    [policy.permissionStrategy, policy.permissionStrategy]);
  return { machine, a, b, stream };
}

/** Votes, and says what it got and which events about this request it made. */
async function cast(stream, session, requestId, body, clientId, options = {}) {
  const answer = await session.vote(requestId, body, { clientId, ...options });
  return { answer, brief: brief(answer) };
}

/** The types of the first `n` events about a request, the request itself left out. */
async function about(stream, requestId, n) {
  const fits = (event) => event.data?.requestId === requestId && event.type !== 'permission_request';
  await stream.wait(`${n} events about the request`, () => stream.events.filter(fits).length >= n);
  return stream.events.filter(fits).map((event) => event.type);
}

async function resolved(stream, requestId) {
  return stream.wait('permission_resolved', (event) => event.type === 'permission_resolved' && event.data.requestId === requestId);
}

scenario(4, 'first-responder', async (t) => {
  const { a, b, stream } = await two(t, { permissionStrategy: 'first-responder' });
  let q = await a.ask();
  t.check('4.first-responder.B answers A', (await cast(stream, a, q.requestId, yes(), b.clientId)).brief, '200');
  const event = await resolved(stream, q.requestId);
  t.check('4.first-responder.voter', [event.data.voterClientId === b.clientId, event.originatorClientId === b.clientId], [true, true]);
  t.check('4.first-responder.A is late', (await cast(stream, a, q.requestId, yes(), a.clientId)).brief, '404');
  t.check('4.first-responder.events', await about(stream, q.requestId, 2), ['permission_resolved', 'permission_already_resolved']);
  await a.idle();
  q = await a.ask();
  t.check('4.first-responder.anonymous', (await cast(stream, a, q.requestId, yes())).brief, '200');
  const anonymous = await resolved(stream, q.requestId);
  t.check('4.first-responder.anonymous voter', [anonymous.data.voterClientId ?? null, anonymous.originatorClientId ?? null], [null, null]);
  await a.idle();
  q = await a.ask();
  const late = await a.join();
  t.check('4.first-responder.late joiner', (await cast(stream, a, q.requestId, yes(), late.clientId)).brief, '200');
  await a.idle();
  q = await a.ask();
  t.check('4.first-responder.anonymous cancel', (await cast(stream, a, q.requestId, NO)).brief, '200');
  t.check('4.first-responder.cancelled', (await resolved(stream, q.requestId)).data.outcome, { outcome: 'cancelled' });
  await a.idle();
});

scenario(4, 'designated', async (t) => {
  const { a, b, stream } = await two(t, { permissionStrategy: 'designated' });
  let q = await a.ask();
  const refused = await cast(stream, a, q.requestId, yes(), b.clientId);
  t.check('4.designated.B', [refused.brief, refused.answer.body.reason, shape(refused.answer.body, ['error', 'code', 'reason', 'requestId', 'sessionId'])],
    ['403 permission_forbidden', 'designated_mismatch', EXACT]);
  const forbidden = await stream.type('permission_forbidden');
  t.check('4.designated.event', [shape(forbidden.data, ['requestId', 'sessionId', 'reason'], ['clientId']), forbidden.data.clientId === b.clientId, forbidden.data.reason],
    [EXACT, true, 'designated_mismatch']);
  t.check('4.designated.anonymous', (await cast(stream, a, q.requestId, yes())).brief, '403 permission_forbidden');
  t.check('4.designated.option before policy', (await cast(stream, a, q.requestId, { outcome: { outcome: 'selected', optionId: 'nothing' } }, b.clientId)).brief, '400 invalid_option_id');
  t.check('4.designated.still open', (await a.status()).pendingInteractionCount, 1);
  t.check('4.designated.A', (await cast(stream, a, q.requestId, yes(), a.clientId)).brief, '200');
  t.check('4.designated.B is late', (await cast(stream, a, q.requestId, yes(), b.clientId)).brief, '404');
  await a.idle();
  for (const [name, clientId] of [['anonymous cancel', undefined], ['cancel by B', b.clientId]]) {
    q = await a.ask();
    t.check(`4.designated.${name}`, (await cast(stream, a, q.requestId, NO, clientId)).brief, '200');
    t.check(`4.designated.${name} settles`, (await resolved(stream, q.requestId)).data.outcome, { outcome: 'cancelled' });
    await a.idle();
  }
  // The cancel option is an option like any other.
  q = await a.ask();
  t.check('4.designated.cancel option by B', (await cast(stream, a, q.requestId, { outcome: { outcome: 'selected', optionId: 'cancel' } }, b.clientId)).brief, '403 permission_forbidden');
  await a.vote(q.requestId, yes(), { clientId: a.clientId });
  await a.idle();
  await a.prompt('please ASK', { clientId: undefined });
  [q] = await a.open();
  t.check('4.designated.no author', (await cast(stream, a, q.requestId, yes(), b.clientId)).brief, '200');
  await a.idle();
});

scenario(4, 'consensus', async (t) => {
  const { a, b, stream } = await two(t, { permissionStrategy: 'consensus' });
  let q = await a.ask();
  const late = await a.join();
  t.check('4.consensus.late joiner', (await cast(stream, a, q.requestId, yes(), late.clientId)).brief, '403 permission_forbidden');
  t.check('4.consensus.anonymous', (await cast(stream, a, q.requestId, yes())).brief, '403 permission_forbidden');
  await about(stream, q.requestId, 2);
  t.check('4.consensus.reasons', stream.of('permission_forbidden').map((event) => event.data.reason), ['designated_mismatch', 'designated_mismatch']);
  const first = await cast(stream, a, q.requestId, yes(), a.clientId);
  t.check('4.consensus.A', [first.brief, first.answer.body], ['200', {}]);
  const partial = await stream.type('permission_partial_vote');
  t.check('4.consensus.partial', [shape(partial.data, ['requestId', 'sessionId', 'votesReceived', 'votesNeeded', 'quorum', 'optionTallies']),
    partial.data.votesReceived, partial.data.votesNeeded, partial.data.quorum, partial.data.optionTallies], [EXACT, 1, 1, 2, { proceed_once: 1 }]);
  t.check('4.consensus.A again', (await cast(stream, a, q.requestId, yes(), a.clientId)).brief, '200');
  t.check('4.consensus.A again, otherwise', (await cast(stream, a, q.requestId, { outcome: { outcome: 'selected', optionId: 'cancel' } }, a.clientId)).brief, '200');
  t.check('4.consensus.still open', (await a.status()).pendingInteractionCount, 1);
  t.check('4.consensus.B', (await cast(stream, a, q.requestId, yes(), b.clientId)).brief, '200');
  await resolved(stream, q.requestId);
  t.check('4.consensus.events', await about(stream, q.requestId, 4),
    ['permission_forbidden', 'permission_forbidden', 'permission_partial_vote', 'permission_resolved']);
  t.check('4.consensus.after', (await cast(stream, a, q.requestId, yes(), b.clientId)).brief, '404');
  await a.idle();
  q = await a.ask();
  t.check('4.consensus.anonymous cancel', (await cast(stream, a, q.requestId, NO)).brief, '200');
  t.check('4.consensus.anonymous cancel settles', (await resolved(stream, q.requestId)).data.outcome, { outcome: 'cancelled' });
  await a.idle();
});

scenario(4, 'consensus over answers', async (t) => {
  const { a, b, stream } = await two(t, { permissionStrategy: 'consensus', consensusQuorum: 2 });
  const q = await a.ask();
  await a.vote(q.requestId, yes('Alpha1'), { clientId: a.clientId });
  t.check('4.consensus.other answer', (await cast(stream, a, q.requestId, yes('Beta1'), b.clientId)).brief, '200');
  t.check('4.consensus.two answers do not agree', (await a.status()).pendingInteractionCount, 1);
  if ((await a.status()).pendingInteractionCount > 0) await a.vote(q.requestId, NO);
  await a.idle();
});

scenario(4, 'quorum', async (t) => {
  const capped = await two(t, { permissionStrategy: 'consensus', consensusQuorum: 5 });
  let q = await capped.a.ask();
  await capped.a.vote(q.requestId, yes(), { clientId: capped.a.clientId });
  const partial = await capped.stream.type('permission_partial_vote');
  t.check('4.quorum is capped to those who may', [partial.data.quorum, partial.data.votesNeeded], [2, 1]);
  t.check('4.quorum.capped: B decides', brief(await capped.a.vote(q.requestId, yes(), { clientId: capped.b.clientId })), '200');
  await resolved(capped.stream, q.requestId);
  await capped.a.idle();
  const one = await two(t, { permissionStrategy: 'consensus', consensusQuorum: 1 });
  q = await one.a.ask();
  t.check('4.quorum of one', brief(await one.a.vote(q.requestId, yes(), { clientId: one.a.clientId })), '200');
  await resolved(one.stream, q.requestId);
  t.check('4.quorum of one: no partial vote', one.stream.of('permission_partial_vote').length, 0);
  await one.a.idle();
});

scenario(4, 'local-only', async (t) => {
  const { a, b, stream } = await two(t, { permissionStrategy: 'local-only' });
  let q = await a.ask();
  t.check('4.local-only.loopback', (await cast(stream, a, q.requestId, yes(), b.clientId)).brief, '200');
  await a.idle();
  q = await a.ask();
  t.check('4.local-only.anonymous', (await cast(stream, a, q.requestId, yes())).brief, '200');
  await a.idle();
  for (const header of ['x-forwarded-for', 'forwarded', 'x-real-ip']) {
    q = await a.ask();
    const answer = await a.vote(q.requestId, yes(), { clientId: a.clientId, headers: { [header]: header === 'forwarded' ? 'for=203.0.113.9' : '203.0.113.9' } });
    t.check(`4.local-only.${header}`, [brief(answer), answer.body.reason ?? null], ['403 permission_forbidden', 'remote_not_allowed']);
    if ((await a.status()).pendingInteractionCount > 0) {
      t.check(`4.local-only.${header}: cancel passes`, brief(await a.vote(q.requestId, NO, { headers: { 'x-forwarded-for': '203.0.113.9' } })), '200');
    } else {
      t.check(`4.local-only.${header}: cancel passes`, 'settled already', '200');
    }
    await a.idle();
  }
});

scenario(4, 'local-only from another address', async (t) => {
  const address = Object.values(networkInterfaces()).flat().find((each) => !each.internal && each.family === 'IPv4')?.address;
  if (!address) {
    console.log('# SKIPPED: votes from a remote address: this machine has loopback only');
    return;
  }
  const headers = { authorization: 'Bearer secret' };
  const machine = await t.daemon(['--restore-ask-user-question', '--hostname', '0.0.0.0', '--token', 'secret'],
    { policy: { permissionStrategy: 'local-only' }, headers });
  const remote = (method, path, body) => call(`http://${address}:${machine.port}`, method, path, { body, headers });
  const made = await remote('POST', '/session', { cwd: machine.work, sessionScope: 'thread' });
  const path = `/session/${made.body.sessionId}`;
  await remote('POST', `${path}/prompt`, { prompt: [{ type: 'text', text: 'please ASK' }] });
  const { until } = await import('../lib/http.mjs');
  const open = await until('the question', async () => (await remote('GET', `${path}/status`)).body.pendingInteractions?.[0]);
  const refused = await remote('POST', `${path}/permission/${open.requestId}`, yes());
  t.check('4.local-only.remote', [brief(refused), refused.body.reason ?? null], ['403 permission_forbidden', 'remote_not_allowed']);
  t.check('4.local-only.remote cancel', brief(await remote('POST', `${path}/permission/${open.requestId}`, NO)), '200');
});
