// 3: how a stream goes on: cursors, epochs, the ring, and what a late subscriber is told.
import { yes } from '../lib/machine.mjs';
import { EXACT, scenario, shape } from '../lib/suite.mjs';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Subscribes and reads until the replay is complete. */
async function replay(session, options) {
  const stream = await session.stream(options);
  await stream.type('replay_complete');
  const at = stream.events.findIndex((event) => event.type === 'replay_complete');
  const resync = stream.events.slice(0, at).find((event) => event.type === 'state_resync_required');
  return {
    stream, resync: resync?.data, first: stream.events[0]?.type,
    ids: stream.events.slice(0, at).map((event) => event.id).filter((id) => id !== undefined),
    complete: stream.events[at].data, completeId: stream.events[at].id,
  };
}

const range = (from, to) => Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at);

scenario(3, 'cursors and epochs', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const first = await replay(session, { cursor: 0 });
  t.check('3.new session from 0', [first.ids, first.complete], [[], { replayedCount: 0 }]);
  t.check('3.headers', [first.stream.headers['content-type'].split(';')[0], first.stream.headers['cache-control'], first.stream.headers['x-accel-buffering'],
    UUID.test(first.stream.epoch), UUID.test(first.stream.headers['x-qwen-sse-stream-id'])], ['text/event-stream', 'no-cache, no-transform', 'no', true, true]);
  const asked = await session.ask();
  await session.vote(asked.requestId, yes());
  await first.stream.type('turn_complete');
  await session.idle();
  const { epoch } = first.stream;
  t.check('3.retry comes first', first.stream.notes[0], 'retry: 3000');
  t.check('3.framing', first.stream.framing.filter((frame) => frame.named !== frame.type || frame.id !== (frame.eventId === undefined ? undefined : String(frame.eventId))), []);
  const whole = await replay(session, { cursor: 0 });
  const last = whole.ids.at(-1);
  t.check('3.from 0: everything', [whole.resync ?? null, whole.ids], [null, range(1, last)]);
  t.check('3.from 0: replay_complete', [whole.complete.replayedCount, whole.completeId ?? null, shape(whole.complete, ['replayedCount'], ['lastReplayedEventId', 'lastEventId'])],
    [last, null, EXACT]);
  t.check('3.replay_complete names the last id', whole.complete.lastReplayedEventId, last);

  const same = await replay(session, { cursor: last - 2, epoch });
  t.check('3.same cursor and epoch', [same.resync ?? null, same.ids, same.stream.epoch === epoch], [null, range(last - 1, last), true]);
  const nothing = await replay(session, { cursor: last, epoch });
  t.check('3.cursor at the end', [nothing.resync ?? null, nothing.ids, nothing.complete], [null, [], { replayedCount: 0 }]);
  const wrong = await replay(session, { cursor: last, epoch: '00000000-0000-4000-8000-000000000000' });
  t.check('3.wrong epoch', [wrong.resync?.reason, wrong.first, wrong.ids], ['epoch_reset', 'state_resync_required', range(1, last)]);
  t.check('3.state_resync_required.data', shape(wrong.resync, ['reason', 'lastDeliveredId', 'earliestAvailableId'], ['detail']), EXACT);
  t.check('3.state_resync_required.values', [wrong.resync.lastDeliveredId, wrong.resync.earliestAvailableId], [last, 1]);
  t.check('3.state_resync_required has no id', wrong.stream.events[0].id ?? null, null);
  const high = await replay(session, { cursor: last + 1 });
  t.check('3.cursor too high', [high.resync?.reason, high.ids], ['epoch_reset', range(1, last)]);
  const higher = await replay(session, { cursor: last + 1000, epoch });
  t.check('3.cursor much too high', [higher.resync?.reason, higher.ids], ['epoch_reset', range(1, last)]);
  const grammar = await replay(session, { cursor: last, epoch: 'no such grammar!' });
  t.check('3.malformed epoch is no epoch', [grammar.resync ?? null, grammar.ids], [null, []]);
  const stranger = await replay(session, { cursor: last, clientId: 'client_nobody' });
  t.check('3.unknown client may read', stranger.ids, []);

  for (const [name, cursor] of [['no cursor', undefined], ['unparsable cursor', 'x1']]) {
    const live = await session.stream({ cursor });
    await machine.call('PATCH', `${session.path}/metadata`, { body: { displayName: `title for ${name}` }, clientId: session.clientId });
    await live.type('session_metadata_updated');
    t.check(`3.${name}: live only`, live.events.filter((event) => event.id === undefined || event.id <= last).map((event) => event.type), []);
    live.close();
  }
  for (const value of ['15', '2049', 'x', '']) {
    const refused = await session.stream({ query: `?maxQueued=${value}` });
    t.check(`3.maxQueued=${value}`, [refused.status, refused.body?.code], [400, 'invalid_max_queued']);
    refused.close();
  }
  const gone = await machine.call('GET', '/session/00000000-0000-4000-8000-000000000000/events');
  t.check('3.no such session', [gone.status, gone.body.code], [404, 'session_not_found']);
  for (const each of [first, whole, same, nothing, wrong, high, higher, grammar, stranger]) each.stream.close();
});

scenario(3, 'a cursor older than the ring', async (t) => {
  const machine = await t.daemon(['--restore-ask-user-question', '--event-ring-size', '4']);
  const session = await machine.session();
  const live = await session.stream({ cursor: 0 });
  const asked = await session.ask();
  await session.vote(asked.requestId);
  await live.type('turn_complete');
  await session.idle();
  const old = await replay(session, { cursor: 1, epoch: live.epoch });
  const last = old.ids.at(-1);
  t.check('3.ring_evicted', [old.first, old.resync?.reason, old.ids, old.resync?.lastDeliveredId, old.resync?.earliestAvailableId],
    ['state_resync_required', 'ring_evicted', range(last - 3, last), 1, last - 3]);
  const edge = await replay(session, { cursor: last - 4, epoch: live.epoch });
  t.check('3.just inside the ring', [edge.resync ?? null, edge.ids], [null, range(last - 3, last)]);
  const zero = await replay(session, { cursor: 0, epoch: live.epoch });
  t.check('3.0 of a ring that has moved on', zero.resync?.reason ?? null, 'ring_evicted');
  for (const each of [old, edge, zero]) each.stream.close();
});

scenario(3, 'late subscribers and restored sessions', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const early = await session.stream({ cursor: 0 });
  const open = await session.ask();
  const late = await session.stream({});
  await machine.call('PATCH', `${session.path}/metadata`, { body: { displayName: 'a title' }, clientId: session.clientId });
  await late.wait('the new title', (event) => event.type === 'session_metadata_updated' && event.data.displayName === 'a title');
  t.check('3.r23 late subscriber without a cursor', late.events.map((event) => [event.type, event.id === undefined, event._meta?.replayed ?? false, event.data.requestId === open.requestId])
    .filter(([type]) => type === 'permission_request'), [['permission_request', true, true, true]]);
  t.check('3.r23 comes first, and only that', late.events.map((event) => event.type), ['permission_request', 'session_metadata_updated']);
  const { epoch } = early;
  const cursor = early.events.at(-1).id;
  await machine.kill();

  await machine.start();
  const loaded = await session.load();
  t.check('3.a new life has a new epoch', [UUID.test(loaded.body.eventEpoch), loaded.body.eventEpoch !== epoch], [true, true]);
  await session.open();
  const follow = await replay(session, { cursor: loaded.body.lastEventId, epoch: loaded.body.eventEpoch });
  const asked = [...follow.stream.events].filter((event) => event.type === 'permission_request');
  t.check('3.after a load: the question follows', [follow.resync ?? null, asked.length, asked[0]?.id > loaded.body.lastEventId], [null, 1, true]);
  const old = await replay(session, { cursor, epoch });
  t.check('3.after a restart: the old cursor and epoch', old.resync?.reason, 'epoch_reset');
  const seeded = await session.stream({ cursor: 0, epoch: loaded.body.eventEpoch });
  await seeded.type('replay_complete');
  t.check('3.after a load: 0 is no longer there', ['ring_evicted', 'seeded_replay_not_in_ring'].includes(seeded.of('state_resync_required')[0]?.data.reason), true);

  const quiet = await machine.session();
  await quiet.prompt('hello');
  await quiet.idle();
  await machine.kill();
  await machine.start();
  const empty = await quiet.load();
  const below = await replay(quiet, { cursor: Math.max(0, empty.body.lastEventId - 1), epoch: empty.body.eventEpoch });
  t.check('3.emptied ring, cursor below it', [below.resync?.reason, below.ids], ['seeded_replay_not_in_ring', []]);
  for (const each of [follow, old, below]) each.stream.close();
  seeded.close();
});
