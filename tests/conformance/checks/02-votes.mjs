// 2: the truth table of votes (c.6) and the order of checks (c.2), row by row.
import { randomUUID } from 'node:crypto';

import { NO, RESTORE, yes } from '../lib/machine.mjs';
import { EXACT, brief, scenario, shape } from '../lib/suite.mjs';

/** What the SDK makes of a vote. */
async function sdk(machine, sessionId, requestId, body, clientId) {
  try {
    return await machine.sdk().respondToSessionPermission(sessionId, requestId, body, clientId);
  } catch (error) {
    return `throws ${error.status}`;
  }
}

const chosen = (optionId) => ({ outcome: { outcome: 'selected', optionId } });

scenario(2, 'votes', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const other = await machine.session();
  const stream = await session.stream({ cursor: 0 });
  const otherStream = await other.stream({ cursor: 0 });
  const open = await session.ask();
  const foreign = await other.ask();
  const row = async (id, requestId, body, wanted, { clientId, on = session } = {}) => {
    const answer = await on.vote(requestId, body, { clientId });
    t.check(`2.${id}`, [brief(answer), await sdk(machine, on.id, requestId, body, clientId)], wanted);
    return answer;
  };
  const unknown = await row('unknown request', randomUUID(), yes(), ['404', false]);
  t.check('2.unknown request.body', [typeof unknown.body.error, 'requestId' in unknown.body], ['string', true]);
  await row('request of another session', foreign.requestId, yes(), ['404', false]);
  await row('session not live', open.requestId, yes(), ['404 session_not_found', false], { on: { ...session, id: randomUUID(),
    vote: (id, body, options) => machine.call('POST', `/session/${randomUUID()}/permission/${id}`, { body, ...options }) } });
  const notOffered = await row('option not offered', open.requestId, chosen('proceed_always'), ['400 invalid_option_id', 'throws 400']);
  t.check('2.option not offered.body', shape(notOffered.body, ['error', 'code', 'requestId', 'optionId']), EXACT);
  await row('the sentinel', open.requestId, chosen('__cancelled__'), ['400 invalid_option_id', 'throws 400']);
  for (const [name, body] of Object.entries({
    'no outcome': {}, 'outcome of another kind': { outcome: { outcome: 'maybe' } }, 'no option': { outcome: { outcome: 'selected' } },
    'option not a string': { outcome: { outcome: 'selected', optionId: 7 } }, 'outcome a string': { outcome: 'cancelled' },
  })) {
    await row(`wrong body: ${name}`, open.requestId, body, ['400', 'throws 400']);
  }
  t.check('2.not JSON', brief(await session.vote(open.requestId, '{"outcome":')), '400');
  const stranger = await row('unknown client', open.requestId, yes(), ['400 invalid_client_id', 'throws 400'], { clientId: 'client_nobody' });
  t.check('2.unknown client.body', shape(stranger.body, ['error', 'code', 'sessionId', 'clientId']), EXACT);
  await row('client of another session', open.requestId, yes(), ['400 invalid_client_id', 'throws 400'], { clientId: other.clientId });
  await row('malformed client', open.requestId, yes(), ['400 invalid_client_id', 'throws 400'], { clientId: 'no spaces' });

  // The order of checks.
  t.check('2.order: body before session', brief(await machine.call('POST', `/session/${randomUUID()}/permission/x`, { body: {} })), '400');
  t.check('2.order: client grammar before session', brief(await machine.call('POST', `/session/${randomUUID()}/permission/x`, { body: yes(), clientId: 'no spaces' })),
    '400 invalid_client_id');
  t.check('2.order: request before client', brief(await session.vote(randomUUID(), yes(), { clientId: 'client_nobody' })), '404');
  t.check('2.order: client before option', brief(await session.vote(open.requestId, chosen('nothing'), { clientId: 'client_nobody' })), '400 invalid_client_id');
  t.check('2.nothing has settled it', [(await session.status()).pendingInteractionCount, stream.of('permission_resolved').length], [1, 0]);

  const valid = await session.vote(open.requestId, yes(), { clientId: session.clientId });
  t.check('2.valid', [valid.status, valid.body], [200, {}]);
  const resolved = await stream.type('permission_resolved');
  t.check('2.valid.event', [resolved.data.requestId === open.requestId, resolved.data.voterClientId === session.clientId], [true, true]);
  t.check('2.valid over the SDK', await sdk(machine, other.id, foreign.requestId, yes(), other.clientId), true);
  await otherStream.type('permission_resolved');
  const late = await row('second vote', open.requestId, yes('Alpha1'), ['404', false]);
  t.check('2.second vote.code', late.body.code ?? null, null);
  const already = await stream.type('permission_already_resolved');
  t.check('2.second vote.event', [shape(already.data, ['requestId', 'sessionId', 'outcome'], ['answeredBy', 'answeredAt', 'answers', 'questionId', 'generation']),
    already.data.outcome, already.data.requestId === open.requestId], [EXACT, { outcome: 'selected', optionId: 'proceed_once' }, true]);
  t.check('2.second vote says who', ['answeredBy', 'answeredAt'].filter((key) => key in late.body), ['answeredBy', 'answeredAt']);
  t.check('2.order: client before resolved', brief(await session.vote(open.requestId, yes(), { clientId: 'client_nobody' })), '400 invalid_client_id');
  t.check('2.order: sentinel before resolved', brief(await session.vote(open.requestId, chosen('__cancelled__'))), '400 invalid_option_id');
  t.check('2.order: resolved before option', brief(await session.vote(open.requestId, chosen('nothing'))), '404');
  t.check('2.late cancel', brief(await session.vote(open.requestId, NO)), '404');
  await session.idle();
  t.check('2.the outcome stands', /Beta1/.test(machine.model.results('ASK').at(-1).content), true);

  // Answers: what is dropped, what is refused.
  let asked = await session.ask();
  await row('answers with nothing valid', asked.requestId, { ...chosen('proceed_once'), answers: { 9: 'x' } }, ['400 invalid_answers', 'throws 400']);
  if ((await session.status()).pendingInteractionCount > 0) await session.vote(asked.requestId);
  await session.idle();
  asked = await session.ask();
  t.check('2.answers are a list', brief(await session.vote(asked.requestId, { ...chosen('proceed_once'), answers: ['Beta1'] })), '400 invalid_answers');
  if ((await session.status()).pendingInteractionCount > 0) await session.vote(asked.requestId);
  await session.idle();
  asked = await session.ask();
  t.check('2.answers missing', brief(await session.vote(asked.requestId, chosen('proceed_once'))), '400 invalid_answers');
  if ((await session.status()).pendingInteractionCount > 0) await session.vote(asked.requestId);
  await session.idle();
  asked = await session.ask();
  t.check('2.one answer is no string', brief(await session.vote(asked.requestId, { ...chosen('proceed_once'), answers: { 0: 'Beta1', 1: 3 } })), '400 invalid_answers');
  if ((await session.status()).pendingInteractionCount > 0) await session.vote(asked.requestId);
  await session.idle();
  asked = await session.ask();
  t.check('2.unknown keys are dropped', brief(await session.vote(asked.requestId, { ...chosen('proceed_once'), answers: { 0: 'Free text', x: 'y' } })), '200');
  await session.idle();
  t.check('2.free text is an answer', /Free text/.test(machine.model.results('ASK').at(-1).content), true);

  // The legacy route.
  const legacy = (id, body = yes(), options = {}) => machine.call('POST', `/permission/${id}`, { body, ...options });
  asked = await session.ask();
  t.check('2.legacy: unknown request', brief(await legacy(randomUUID())), '404');
  t.check('2.legacy: wrong body', brief(await legacy(asked.requestId, {})), '400');
  t.check('2.legacy: option not offered', brief(await legacy(asked.requestId, chosen('nothing'))), '400 invalid_option_id');
  t.check('2.legacy: valid', brief(await legacy(asked.requestId)), '200');
  t.check('2.legacy: second vote', brief(await legacy(asked.requestId)), '404');
  await session.idle();
});

scenario(2, 'a vote later than 512 others', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const stream = await session.stream({ cursor: 0 });
  const first = await session.ask();
  await session.vote(first.requestId);
  await session.idle();
  const voted = new Set([first.requestId]);
  while (voted.size < 515) {
    const many = Math.min(40, 515 - voted.size);
    const accepted = await session.prompt(`please MANY_${many}`);
    for (let n = 0; n < many; n += 1) {
      const request = await stream.wait('the next question', (event) => event.type === 'permission_request' && !voted.has(event.data.requestId));
      voted.add(request.data.requestId);
      const answer = await session.vote(request.data.requestId);
      if (answer.status !== 200) throw new Error(`vote: ${answer.status} ${JSON.stringify(answer.body)}`);
    }
    await stream.wait('the turn ends', (event) => event.type === 'turn_complete' && event.data.promptId === accepted.body.promptId);
  }
  const from = stream.events.length;
  const late = await session.vote(first.requestId);
  await session.prompt('hello');
  await stream.type('turn_complete', from);
  t.check('2.after more than 512', [brief(late), stream.events.slice(from).filter((event) => event.type === 'permission_already_resolved').length], ['404', 1]);
});

scenario(2, 'votes over a restart', async (t) => {
  const machine = await t.daemon();
  const loaded = await machine.session();
  const stored = await machine.session();
  const before = { loaded: await loaded.ask(), stored: await stored.ask() };
  await machine.kill();
  await machine.start();
  await loaded.load();
  const [again] = await loaded.open();
  t.check('2.a re-asked question has a new request id', again.requestId !== before.loaded.requestId, true);
  const stream = await loaded.stream({ cursor: 0 });
  const old = await loaded.vote(before.loaded.requestId);
  t.check('2.old request id, question open', brief(old), '200');
  if (old.status === 200) {
    const resolved = await stream.type('permission_resolved');
    t.check('2.old request id: the event has the live id', resolved.data.requestId === again.requestId, true);
  } else {
    t.check('2.old request id: the event has the live id', false, true);
    await loaded.vote(again.requestId);
  }
  await loaded.idle();
  t.check('2.session stored, not live', brief(await stored.vote(before.stored.requestId)), '200');
  await machine.kill();

  await machine.start();
  const session = await machine.session();
  const asked = await session.ask();
  await machine.kill();
  await machine.start([]);
  t.check('2.flag off: old request id, not live', brief(await session.vote(asked.requestId)), '404 session_not_found');
  await session.load();
  t.check('2.flag off: old request id, live', brief(await session.vote(asked.requestId)), '404');
  await machine.kill();
  await machine.start([RESTORE]);
});
