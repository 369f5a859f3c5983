import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createParser } from '../../../crates/server/web/app/sse.js';
import { SHORT_SILENCE_MS, SILENCE_MS, createStream, sequence } from '../../../crates/server/web/app/stream.js';
import { Clock } from '../lib/clock.mjs';

const frame = (id, type = 'session_update', data = {}) => ({ v: 1, ...(id === undefined ? {} : { id }), type, data });
const beat = (lastEventId) => frame(undefined, 'alive', { lastEventId });

test('h12_frames_in_order_are_applied_and_repeats_are_not', () => {
  const read = sequence(4, [frame(4), frame(5), frame(5), frame(6)]);
  assert.deepEqual(read.apply.map(({ id }) => id), [5, 6]);
  assert.equal(read.cursor, 6);
  assert.equal(read.doubt, undefined);
});

test('h12_a_gap_a_resync_and_an_eviction_are_doubts', () => {
  assert.match(sequence(4, [frame(6)]).doubt, /5/);
  assert.match(sequence(4, [frame(5), frame(7), frame(6)]).doubt, /6/);
  assert.equal(sequence(4, [frame(undefined, 'state_resync_required', { reason: 'epoch_reset' })]).doubt, 'epoch_reset');
  assert.equal(sequence(4, [frame(undefined, 'client_evicted', { droppedAfter: 4 })]).doubt, 'client_evicted');
});

test('h12_a_sign_of_life_that_names_an_unseen_event_is_a_doubt', () => {
  assert.equal(sequence(4, [beat(4)]).doubt, undefined);
  assert.match(sequence(4, [beat(5)]).doubt, /5/);
  assert.match(sequence(4, [frame(undefined, 'replay_complete', { replayedCount: 0, lastEventId: 9 })]).doubt, /5/);
});

test('h12_any_one_dropped_event_is_noticed_at_the_next_sign_of_life', () => {
  const all = [1, 2, 3, 4, 5, 6].map((id) => frame(id));
  for (const dropped of all) {
    const read = sequence(0, [...all.filter((one) => one !== dropped), beat(6)]);
    assert.ok(read.doubt, `event ${dropped.id}`);
    assert.ok(read.cursor < dropped.id);
  }
});

/** A daemon whose streams a test feeds. */
function daemon(change = {}) {
  const clock = new Clock();
  const world = { clock, id: 10, takes: 0, told: [], applied: [], resets: 0, connections: [], ...change };
  world.stream = createStream({
    clock,
    take: async () => {
      world.takes += 1;
      if (world.refuses) throw world.refuses;
      return { snapshot: {}, lastEventId: world.id, epoch: 'e' };
    },
    connect: async (cursor, signal, alive) => {
      const queue = [];
      let wake = () => {};
      const connection = { cursor, signal, open: true, send: (...frames) => { alive(); queue.push(frames); wake(); }, comment: alive, end: () => { connection.open = false; wake(); } };
      signal.addEventListener('abort', connection.end);
      world.connections.push(connection);
      return (async function* all() {
        for (;;) {
          while (queue.length > 0) yield queue.shift();
          if (!connection.open) return;
          await new Promise((resolve) => { wake = resolve; });
        }
      }());
    },
    reset: () => { world.resets += 1; },
    apply: (frames) => world.applied.push(...frames.map(({ id }) => id)),
    tell: (condition, why) => world.told.push(why ? `${condition}: ${why}` : condition),
  });
  world.stream.start();
  return world;
}

test('h12_a_stream_starts_from_a_snapshot_at_its_cursor', async () => {
  const world = daemon();
  await world.clock.settle();
  assert.deepEqual(world.connections[0].cursor, { lastEventId: 10, epoch: 'e' });
  world.connections[0].send(frame(11));
  await world.clock.settle();
  assert.deepEqual([world.applied, world.told], [[11], ['connecting', 'live']]);
  world.stream.close();
});

test('h12_a_gap_takes_a_snapshot_at_once_and_says_nothing_of_a_lost_connection', async () => {
  const world = daemon();
  await world.clock.settle();
  world.id = 12;
  world.connections[0].send(frame(12));
  await world.clock.pass(10);
  assert.deepEqual([world.takes, world.resets, world.applied], [2, 2, []]);
  assert.ok(!world.told.includes('lost'));
  assert.equal(world.connections[1].cursor.lastEventId, 12);
  world.stream.close();
});

test('h12_a_reconnect_takes_a_snapshot', async () => {
  const world = daemon();
  await world.clock.settle();
  world.connections[0].end();
  await world.clock.pass(10);
  assert.equal(world.takes, 2);
  assert.deepEqual(world.told, ['connecting', 'live', 'lost', 'live']);
  world.stream.close();
});

test('h12_a_daemon_that_is_away_is_tried_with_growing_waits_and_found_again', async () => {
  const world = daemon({ refuses: new TypeError('refused') });
  await world.clock.pass(20_000);
  assert.ok(world.takes > 5 && world.takes < 12, `${world.takes} tries`);
  world.refuses = undefined;
  await world.clock.pass(4000);
  assert.equal(world.told.at(-1), 'live');
  world.stream.close();
});

test('h12_silence_is_a_dead_connection', async () => {
  const world = daemon();
  await world.clock.settle();
  await world.clock.pass(SILENCE_MS - 2000);
  world.connections[0].comment();
  await world.clock.pass(SILENCE_MS - 2000);
  assert.equal(world.takes, 1);
  await world.clock.pass(4000);
  assert.equal(world.takes, 2);
  world.stream.close();
});

test('h12_once_signs_of_life_come_their_absence_is_noticed_sooner', async () => {
  const world = daemon();
  await world.clock.settle();
  world.connections[0].send(beat(10));
  await world.clock.pass(SHORT_SILENCE_MS + 2000);
  assert.equal(world.takes, 2);
  world.stream.close();
});

test('h12_a_machine_that_slept_takes_a_snapshot_when_it_wakes', async () => {
  const world = daemon();
  await world.clock.settle();
  world.clock.jump(600_000);
  await world.clock.pass(1100);
  assert.equal(world.takes, 2);
  world.stream.close();
});

test('d6_a_session_that_is_gone_ends_the_stream', async () => {
  const world = daemon();
  await world.clock.settle();
  world.refuses = { gone: true };
  world.connections[0].end();
  await world.clock.pass(60_000);
  assert.equal(world.told.at(-1), 'ended: gone');
  assert.equal(world.takes, 2);
  assert.equal(world.clock.armed, 0);
});

test('a_closed_session_ends_the_stream_and_is_not_opened_again', async () => {
  const world = daemon();
  await world.clock.settle();
  world.connections[0].send(frame(11, 'session_closed', { reason: 'client_close' }));
  await world.clock.pass(60_000);
  assert.deepEqual([world.told.at(-1), world.takes, world.applied], ['ended: client_close', 1, [11]]);
});

test('nothing_runs_after_close', async () => {
  const world = daemon();
  await world.clock.settle();
  world.stream.close();
  await world.clock.pass(60_000);
  assert.deepEqual([world.takes, world.clock.armed], [1, 0]);
});

test('frames_are_cut_anywhere_and_comments_are_none', () => {
  const text = `retry: 3000\n\n: alive\n\nid: 1\nevent: x\ndata: ${JSON.stringify(frame(1, 'x', { text: 'ä\n\n' }))}\n\r\ndata: not json\n\ndata: {"v":2,"type":"x"}\n\n`;
  for (let cut = 0; cut <= text.length; cut += 1) {
    const parse = createParser();
    const found = [...parse(text.slice(0, cut)), ...parse(text.slice(cut))];
    assert.deepEqual(found.map(({ id, data }) => [id, data.text]), [[1, 'ä\n\n']], `cut at ${cut}`);
  }
});
