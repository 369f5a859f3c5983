// 6: the kill matrix (d.3): what an open question survives, in the process that asked it first and after it was asked
// again. Each row ends with kill -9, a start and a load: does that load ask the question again?
import { until } from '../lib/http.mjs';
import { NO, RESTORE } from '../lib/machine.mjs';
import { brief, scenario } from '../lib/suite.mjs';

/** Kills, starts and loads; tells for each session whether its question is asked again. */
async function outcome(machine, sessions, flags) {
  await machine.kill();
  await machine.start(flags);
  const found = [];
  for (const session of sessions) {
    const loaded = await session.load();
    const active = loaded.body.hasActivePrompt === true;
    if (active) await session.open();
    found.push(active ? 'asked again' : 'over');
  }
  return found;
}

/** Sessions whose question has been asked again once, in the daemon's second life. */
async function restored(t, n) {
  const machine = await t.daemon();
  const sessions = [];
  for (let at = 0; at < n; at += 1) {
    sessions.push(await machine.session());
    await sessions[at].ask();
  }
  return { machine, sessions };
}

async function wake(sessions) {
  for (const session of sessions) {
    session.clientId = (await session.load()).body.clientId;
    [session.question] = await session.open();
  }
}

async function fresh(machine) {
  const session = await machine.session();
  session.question = await session.ask();
  return session;
}

for (const [name, stop] of [
  ['kill -9', (machine) => machine.kill()],
  ['kill -9 of the daemon alone', (machine) => machine.killAlone()],
  ['SIGTERM', (machine) => machine.terminate()],
]) {
  scenario(6, name, async (t) => {
    const { machine, sessions: [old] } = await restored(t, 1);
    await machine.kill();
    await machine.start();
    await wake([old]);
    const first = await fresh(machine);
    const streams = [await first.stream({ cursor: 0 })];
    await stop(machine);
    if (name === 'SIGTERM') {
      await streams[0].end();
      const died = streams[0].of('session_died').at(-1) ?? streams[0].of('session_closed').at(-1);
      t.check('6.SIGTERM.streams are told', [died?.type, died?.data.reason], ['session_died', 'daemon_shutdown']);
    }
    await machine.start();
    const [a, b] = await outcome(machine, [first, old]);
    t.check(`6.${name}.first life`, a, 'asked again');
    t.check(`6.${name}.restored`, b, 'asked again');
  });
}

scenario(6, 'the agent dies', async (t) => {
  const { machine, sessions: [old] } = await restored(t, 1);
  await machine.kill();
  await machine.start();
  await wake([old]);
  const first = await fresh(machine);
  const stream = await first.stream({ cursor: 0 });
  if (machine.killAgents() === 0) throw new Error('the daemon has no agents');
  const died = await until('the daemon has noticed', async () => {
    if (stream.of('session_died').length > 0) return 'session_died';
    const status = await first.status();
    return status.pendingInteractions?.[0] && status.pendingInteractions[0].requestId !== first.question.requestId && 'asked again';
  });
  t.check('6.agent dies.r14 with a client attached', died, 'asked again');
  if (died === 'asked again') {
    t.check('6.agent dies.r14 no session_died', stream.of('session_died').length, 0);
    t.check('6.agent dies.r14 the old request id', brief(await first.vote(first.question.requestId)), '200');
    const over = await stream.type('turn_complete');
    t.check('6.agent dies.r14 the turn goes on', [over.data.stopReason, over.data.promptId === first.promptId], ['end_turn', true]);
  }
  const second = await fresh(machine);
  machine.killAgents();
  if (died === 'session_died') await until('the daemon has noticed', async () => (await machine.call('GET', `${second.path}/status`)).status === 404);
  const [a, b] = await outcome(machine, [second, old]);
  t.check('6.agent dies.first life', a, 'asked again');
  t.check('6.agent dies.restored', b, 'asked again');
});

scenario(6, 'it times out', async (t) => {
  const { machine, sessions: [old] } = await restored(t, 1);
  await machine.kill();
  await machine.start([RESTORE, '--permission-response-timeout-ms', '1500']);
  await old.load();
  const oldStream = await old.stream({ cursor: 0 });
  const first = await machine.session();
  const stream = await first.stream({ cursor: 0 });
  await first.prompt('please ASK');
  const resolved = await stream.type('permission_resolved');
  t.check('6.timeout.permission_resolved', [resolved.data.outcome, resolved.data.voterClientId ?? null], [{ outcome: 'cancelled' }, null]);
  const over = await stream.type('turn_complete');
  t.check('6.timeout.turn_complete', [over.data.stopReason, over.data.parked ?? null], ['cancelled', true]);
  await old.idle();
  oldStream.close();
  const again = await first.load();
  t.check('6.timeout.r14 a load of the live session asks again', again.body.hasActivePrompt ?? false, true);
  await first.idle();
  const [a, b] = await outcome(machine, [first, old]);
  t.check('6.timeout.first life', a, 'asked again');
  t.check('6.timeout.restored', b, 'asked again');
});

scenario(6, 'detach, DELETE, cancel, decline', async (t) => {
  const { machine, sessions: old } = await restored(t, 5);
  await machine.kill();
  await machine.start();
  await wake(old);
  const first = [];
  for (let at = 0; at < 5; at += 1) first.push(await fresh(machine));
  const pairs = (at) => [['first life', first[at]], ['restored', old[at]]];

  for (const [name, session] of pairs(0)) {
    const left = await machine.call('POST', `${session.path}/detach`, { clientId: session.clientId });
    const status = await session.status();
    t.check(`6.detach.${name}.stays open`, [left.status, status.clientCount, status.pendingInteractionCount], [204, 0, 1]);
  }
  for (const [name, session] of pairs(1)) {
    const stream = await session.stream({ cursor: 0 });
    const closed = await machine.call('DELETE', session.path);
    await stream.end();
    const last = stream.of('session_closed').at(-1);
    t.check(`6.DELETE.${name}.closes`, [closed.status, last?.data.reason, (await machine.call('GET', `${session.path}/status`)).status], [204, 'client_close', 404]);
    t.check(`6.DELETE.${name}.again`, brief(await machine.call('DELETE', session.path)), '404 session_not_found');
  }
  for (const [name, session] of pairs(2)) {
    await machine.call('POST', `${session.path}/cancel`, { body: {} });
    await session.idle();
    t.check(`6.cancel.${name}.is not asked now`, (await session.status()).pendingInteractionCount, 0);
  }
  for (const [name, session] of pairs(3)) {
    t.check(`6.decline.${name}.vote`, brief(await session.vote(session.question.requestId, NO)), '200');
    await session.idle();
  }
  // SSE drop: the stream of an open question goes, and nothing else.
  for (const [name, session] of pairs(4)) {
    const stream = await session.stream({ cursor: 0 });
    stream.close();
    await stream.end();
    t.check(`6.stream drops.${name}.stays open`, (await session.status()).pendingInteractionCount, 1);
  }
  const found = await outcome(machine, [...first, ...old]);
  for (const [at, name] of ['detach', 'DELETE', 'cancel', 'decline', 'stream drops'].entries()) {
    const wanted = { cancel: ['over', 'asked again'], decline: ['over', 'over'] }[name] ?? ['asked again', 'asked again'];
    t.check(`6.${name}.first life`, found[at], wanted[0]);
    t.check(`6.${name}.restored`, found[at + 5], wanted[1]);
  }
});

scenario(6, 'the last client leaves', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  await session.prompt('hello');
  await session.idle();
  const leave = (path, clientId) => machine.call('POST', `${path}/detach`, { clientId });
  const second = await session.join();
  t.check('6.last detach.one of two', [(await leave(session.path, second.clientId)).status, (await session.status()).clientCount], [204, 1]);
  t.check('6.last detach', (await leave(session.path, session.clientId)).status, 204);
  await until('the session is closed', async () => (await machine.call('GET', `${session.path}/status`)).status === 404);
  t.check('6.last detach.an unknown session', (await leave('/session/00000000-0000-4000-8000-000000000000', 'client_x')).status, 204);
  const watched = await machine.session();
  const stream = await watched.stream({ cursor: 0 });
  await leave(watched.path, watched.clientId);
  t.check('6.last detach.a subscriber keeps it', (await watched.status()).clientCount, 0);
  stream.close();
});

scenario(6, 'sessions/delete', async (t) => {
  const machine = await t.daemon();
  const session = await fresh(machine);
  await machine.kill();
  await machine.start();
  const unknown = '00000000-0000-4000-8000-000000000000';
  const gone = await machine.call('POST', '/sessions/delete', { body: { sessionIds: [session.id, unknown] } });
  t.check('6.sessions/delete', [gone.status, gone.body], [200, { removed: [session.id], notFound: [unknown], errors: [] }]);
  t.check('6.sessions/delete.load', brief(await session.load()), '404 session_not_found');
  t.check('6.sessions/delete.old vote', brief(await session.vote(session.question.requestId)), '404 session_not_found');
  t.check('6.sessions/delete.bad body', brief(await machine.call('POST', '/sessions/delete', { body: { sessionIds: [] } })), '400 invalid_request');
});
