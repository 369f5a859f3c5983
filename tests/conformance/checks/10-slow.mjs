// 10: a reader that does not read: it is warned, put out, and may come back; the question is still there.
import { yes } from '../lib/machine.mjs';
import { EXACT, scenario, shape } from '../lib/suite.mjs';

scenario(10, 'a slow reader', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const slow = await session.stream({ cursor: 0, query: '?maxQueued=16', paused: true });
  const quick = await session.stream({ cursor: 0 });
  // The quick reader sets the pace: the model is never more than a few pieces ahead of it.
  const read = () => quick.events.filter((event) => event.data?.update?.sessionUpdate === 'agent_message_chunk').length;
  machine.model.pace = (sent) => quick.wait(`piece ${sent}`, () => read() >= sent - 4, Math.max(0, quick.events.length - 1));
  await session.prompt('please FLOOD');
  const request = await quick.type('permission_request');
  slow.resume();
  await slow.end();
  const kinds = slow.events.map((event) => event.type);
  const warning = slow.of('slow_client_warning')[0];
  t.check('10.warning', shape(warning?.data, ['queueSize', 'maxQueued', 'lastEventId', 'queuedBytes', 'maxQueuedBytes', 'threshold']), EXACT);
  t.check('10.warning has no id', warning && (warning.id ?? null), null);
  t.check('10.warning at three quarters', [warning?.data.maxQueued, warning?.data.queueSize >= 12], [16, true]);
  t.check('10.eviction is the last frame', kinds.at(-1), 'client_evicted');
  const evicted = slow.of('client_evicted')[0];
  t.check('10.eviction', shape(evicted?.data, ['reason', 'droppedAfter', 'queueSize', 'maxQueued', 'queuedBytes', 'maxQueuedBytes'], ['eventBytes']), EXACT);
  t.check('10.eviction.values', [evicted?.data.reason, evicted?.data.maxQueued, evicted?.data.maxQueuedBytes, evicted?.id ?? null], ['queue_overflow', 16, 2 * 1024 * 1024, null]);
  t.check('10.the quick one is not put out', [quick.ended, quick.of('client_evicted').length], [false, 0]);
  const status = await session.status();
  t.check('10.status still shows the question', [status.isWaitingForUserQuestion, status.pendingInteractions.map((each) => each.requestId)], [true, [request.data.requestId]]);
  const last = slow.events.findLast((event) => event.id !== undefined)?.id ?? 0;
  const again = await session.stream({ cursor: last, epoch: slow.epoch });
  await again.type('replay_complete');
  t.check('10.resubscribe: goes on where it was', [again.events[0].id === last + 1, again.of('state_resync_required').length, again.of('permission_request').length], [true, 0, 1]);
  await session.vote(request.data.requestId, yes());
  await again.type('turn_complete');
  t.check('10.and sees the end', again.of('permission_resolved').length, 1);
});

scenario(10, 'a question pushed out of the ring', async (t) => {
  const machine = await t.daemon(['--restore-ask-user-question', '--event-ring-size', '4']);
  const session = await machine.session();
  const asked = await session.ask();
  for (let at = 0; at < 6; at += 1) {
    await machine.call('PATCH', `${session.path}/metadata`, { body: { displayName: `title ${at}` }, clientId: session.clientId });
  }
  const stream = await session.stream({ cursor: 0 });
  await stream.type('replay_complete');
  t.check('10.it is gone from the ring', stream.of('permission_request').filter((event) => event.id !== undefined).length, 0);
  t.check('10.status has it', (await session.status()).pendingInteractions.map((each) => each.requestId), [asked.requestId]);
  const loaded = await session.load();
  t.check('10.liveJournal has it', loaded.body.liveJournal.filter((event) => event.type === 'permission_request').map((event) => event.data.requestId), [asked.requestId]);
  await session.vote(asked.requestId);
  await session.idle();
});
