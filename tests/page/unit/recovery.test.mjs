import assert from 'node:assert/strict';
import { test } from 'node:test';

import { HEAL_DELAY_MS, REFETCHES, REFETCH_MS, createRecovery } from '../../../crates/server/web/app/recovery.js';
import { Clock } from '../lib/clock.mjs';

/** A page that is stuck on session `s`: each field can be changed by a test while time passes. */
function stuck(change = {}) {
  const clock = new Clock();
  const world = {
    clock, states: { s: 'missingRunning' }, busy: true, active: { sessionId: 's', workspace: '/w' }, covers: false, listFails: false, haltFails: false,
    lists: 0, halts: [], warnings: [], written: [], said: [], order: [], ...change,
  };
  world.recovery = createRecovery({
    clock,
    state: (id) => { world.order.push('state'); return world.states[id] ?? 'none'; },
    busy: () => { world.order.push('busy'); if (world.busy === 'throws') throw new Error('broken'); return world.busy; },
    active: () => { world.order.push('active'); return world.active; },
    list: async (id) => {
      world.order.push('list');
      world.lists += 1;
      await world.listing?.();
      if (world.listFails) throw new Error('refused');
      return { id };
    },
    covered: () => { world.order.push('covered'); return world.covers; },
    write: (id) => { world.written.push(id); world.onWrite?.(id); },
    halt: async (id) => { world.halts.push([id, world.recovery.armed]); if (world.haltFails) throw new Error('no way'); },
    warn: (message, detail) => world.warnings.push([message, detail]),
    say: (id, unreachable) => world.said.push(unreachable),
  });
  world.see = (state, id = 's') => { world.states[id] = state; world.recovery.observe(id, state); };
  return world;
}

test('h2_refetches_at_once_four_times_a_quarter_second_apart', async () => {
  const world = stuck();
  const start = world.clock.now();
  const times = [];
  world.listing = async () => { times.push(world.clock.now() - start); };
  world.see('missingRunning');
  await world.clock.pass(HEAL_DELAY_MS - 1);
  assert.deepEqual(times, [0, REFETCH_MS, 2 * REFETCH_MS, 3 * REFETCH_MS]);
  assert.equal(REFETCHES, 4);
});

test('h2_what_a_refetch_finds_is_shown_and_nothing_else_happens', async () => {
  const world = stuck();
  world.onWrite = () => world.see('ready');
  world.see('missingRunning');
  await world.clock.pass(60_000);
  assert.deepEqual([world.lists, world.halts, world.warnings, world.clock.armed], [1, [], [], 0]);
});

test('h2_a_refetch_that_fails_is_silent', async () => {
  const world = stuck({ listFails: true });
  world.see('missingRunning');
  await world.clock.pass(HEAL_DELAY_MS - 1);
  assert.deepEqual(world.warnings, []);
  assert.deepEqual(world.said, []);
});

test('h2_a_refetch_that_comes_too_late_writes_nothing', async () => {
  const world = stuck();
  let answer;
  world.listing = () => new Promise((resolve) => { answer = resolve; });
  world.see('missingRunning');
  await world.clock.settle();
  world.see('none');
  answer();
  await world.clock.settle();
  assert.deepEqual(world.written, []);
});

test('h3_the_delay_is_three_seconds_from_the_edge', async () => {
  assert.equal(HEAL_DELAY_MS, 3000);
  const world = stuck();
  world.see('missingRunning');
  await world.clock.pass(2999);
  assert.equal(world.halts.length, 0);
  await world.clock.pass(1);
  assert.equal(world.halts.length, 1);
});

test('h3_seeing_the_same_state_again_moves_nothing', async () => {
  const world = stuck();
  world.see('missingRunning');
  for (let n = 0; n < 10; n += 1) {
    await world.clock.pass(290);
    world.see('missingRunning');
  }
  await world.clock.pass(100);
  assert.equal(world.halts.length, 1);
});

test('h3_leaving_before_the_delay_disarms_silently', async () => {
  const world = stuck();
  world.see('missingRunning');
  await world.clock.pass(2999);
  world.see('none');
  await world.clock.pass(60_000);
  assert.deepEqual([world.halts, world.warnings, world.clock.armed], [[], [], 0]);
});

test('h3_one_timer_a_session_and_sessions_are_independent', async () => {
  const world = stuck();
  world.see('missingRunning', 's');
  await world.clock.pass(1000);
  world.see('missingRunning', 't');
  assert.equal(world.recovery.armed, 2);
  await world.clock.pass(2000);
  assert.deepEqual(world.halts.map(([id]) => id), ['s']);
  world.active = { sessionId: 't', workspace: '/w' };
  await world.clock.pass(1000);
  assert.deepEqual(world.halts.map(([id]) => id), ['s', 't']);
});

test('h4_the_guards_stand_in_order', async () => {
  const world = stuck();
  world.see('missingRunning');
  await world.clock.pass(2900);
  world.order.length = 0;
  await world.clock.pass(100);
  assert.deepEqual(world.order.slice(0, 5), ['state', 'busy', 'active', 'list', 'covered']);
});

for (const [name, change] of Object.entries({
  state: (world) => { world.states.s = 'none'; },
  busy: (world) => { world.busy = false; },
  session: (world) => { world.active = { sessionId: 't', workspace: '/w' }; },
  workspace: (world) => { world.active = { sessionId: 's', workspace: '/other' }; },
})) {
  test(`h4_no_act_and_no_log_when_the_${name}_does_not_stand`, async () => {
    const world = stuck();
    world.see('missingRunning');
    await world.clock.pass(2900);
    const { lists } = world;
    change(world);
    await world.clock.pass(60_000);
    assert.deepEqual([world.halts, world.warnings, world.lists, world.clock.armed], [[], [], lists, 0]);
  });
}

test('h4_a_list_that_covers_the_call_is_written_and_nothing_is_halted', async () => {
  const world = stuck();
  world.see('missingRunning');
  await world.clock.pass(2900);
  world.written.length = 0;
  world.covers = true;
  await world.clock.pass(100);
  assert.deepEqual([world.written, world.halts, world.warnings, world.clock.armed], [['s'], [], [], 0]);
});

test('h4_an_exception_inside_the_check_is_a_warning_and_no_act', async () => {
  const world = stuck();
  world.see('missingRunning');
  await world.clock.pass(2900);
  world.busy = 'throws';
  await world.clock.pass(60_000);
  assert.deepEqual(world.halts, []);
  assert.equal(world.warnings.length, 1);
  assert.equal(world.warnings[0][0], 'question-recovery: check failed');
  assert.deepEqual(Object.keys(world.warnings[0][1]), ['sessionId', 'armedAt', 'firedAt', 'workspace', 'error']);
  assert.equal(world.warnings[0][1].error, 'broken');
  assert.equal(world.clock.armed, 0);
});

test('h5_a_list_that_cannot_be_read_is_tried_three_times_more_then_halts_with_a_warning', async () => {
  const world = stuck({ listFails: true });
  world.see('missingRunning');
  await world.clock.pass(2999);
  const refetched = world.lists;
  await world.clock.pass(1);
  assert.equal(world.lists - refetched, 1);
  assert.deepEqual(world.said, [true]);
  await world.clock.pass(3 * HEAL_DELAY_MS - 1);
  assert.deepEqual(world.halts, []);
  await world.clock.pass(1);
  assert.equal(world.lists - refetched, 4);
  assert.equal(world.halts.length, 1);
  const firedAt = world.clock.now() - 3 * HEAL_DELAY_MS;
  assert.deepEqual(world.warnings, [['question-recovery: list unreadable', { sessionId: 's', armedAt: firedAt - HEAL_DELAY_MS, firedAt, workspace: '/w', error: 'refused' }]]);
  assert.equal(world.said.at(-1), false);
});

test('h5_the_first_three_checks_stand_before_each_try', async () => {
  for (const change of [(world) => { world.states.s = 'none'; }, (world) => { world.busy = false; }, (world) => { world.active = { sessionId: null, workspace: '/w' }; }]) {
    const world = stuck({ listFails: true });
    world.see('missingRunning');
    await world.clock.pass(HEAL_DELAY_MS);
    const { lists } = world;
    change(world);
    await world.clock.pass(60_000);
    assert.deepEqual([world.lists, world.halts, world.warnings], [lists, [], []]);
  }
});

test('h5_what_changed_while_the_last_try_failed_counts', async () => {
  const world = stuck({ listFails: true });
  world.see('missingRunning');
  await world.clock.pass(4 * HEAL_DELAY_MS - 1);
  let fail;
  world.listing = () => new Promise((resolve) => { fail = resolve; });
  await world.clock.pass(1);
  world.active = { sessionId: 't', workspace: '/w' };
  fail();
  await world.clock.pass(60_000);
  assert.deepEqual([world.halts, world.warnings, world.clock.armed], [[], [], 0]);
});

test('h5_a_try_that_reads_the_list_decides_by_it', async () => {
  const world = stuck({ listFails: true });
  world.see('missingRunning');
  await world.clock.pass(HEAL_DELAY_MS);
  Object.assign(world, { listFails: false, covers: true });
  await world.clock.pass(HEAL_DELAY_MS);
  assert.deepEqual([world.written.length > 0, world.halts, world.warnings], [true, [], []]);
});

test('h6_halts_exactly_once_and_the_entry_is_gone_before', async () => {
  const world = stuck();
  world.see('missingRunning');
  await world.clock.pass(60_000);
  assert.deepEqual(world.halts, [['s', 0]]);
});

test('h6_a_failed_halt_is_one_structured_warning_and_no_retry', async () => {
  const world = stuck({ haltFails: true });
  world.see('missingRunning');
  const armedAt = world.clock.now();
  await world.clock.pass(60_000);
  assert.equal(world.halts.length, 1);
  assert.deepEqual(world.warnings, [['question-recovery: halt failed', { sessionId: 's', armedAt, firedAt: armedAt + HEAL_DELAY_MS, workspace: '/w', error: 'no way' }]]);
});

test('h7_staying_does_not_arm_again_and_leaving_and_coming_back_does', async () => {
  const world = stuck();
  world.see('missingRunning');
  await world.clock.pass(HEAL_DELAY_MS);
  world.see('missingRunning');
  world.recovery.comeBack('s');
  world.see('missingRunning');
  await world.clock.pass(60_000);
  assert.equal(world.halts.length, 1);
  world.see('none');
  world.see('missingRunning');
  await world.clock.pass(HEAL_DELAY_MS);
  assert.equal(world.halts.length, 2);
});

for (const [name, clean] of Object.entries({
  leaving_the_state: (world) => world.see('ready'),
  session_deleted: (world) => world.recovery.deleted('s'),
  workspace_changed: (world) => world.recovery.workspaceChanged(),
  view_closed: (world) => world.recovery.close(),
})) {
  test(`h8_${name}_leaves_nothing_armed`, async () => {
    const world = stuck();
    world.see('missingRunning');
    await world.clock.pass(300);
    clean(world);
    assert.deepEqual([world.recovery.armed, world.clock.armed], [0, 0]);
    await world.clock.pass(60_000);
    assert.deepEqual([world.halts, world.warnings], [[], []]);
  });

  test(`h8_${name}_cancels_the_tries`, async () => {
    const world = stuck({ listFails: true });
    world.see('missingRunning');
    await world.clock.pass(HEAL_DELAY_MS + 100);
    clean(world);
    assert.equal(world.clock.armed, 0);
    await world.clock.pass(60_000);
    assert.deepEqual([world.halts, world.warnings, world.said.at(-1)], [[], [], false]);
  });

  test(`h8_${name}_while_the_list_is_read_ends_the_firing`, async () => {
    const world = stuck();
    world.see('missingRunning');
    await world.clock.pass(2900);
    let answer;
    world.listing = () => new Promise((resolve) => { answer = resolve; });
    await world.clock.pass(100);
    clean(world);
    answer();
    await world.clock.pass(60_000);
    assert.deepEqual([world.halts, world.warnings], [[], []]);
  });
}

test('h8_firing_leaves_nothing_armed', async () => {
  const world = stuck();
  world.see('missingRunning');
  await world.clock.pass(HEAL_DELAY_MS);
  assert.deepEqual([world.recovery.armed, world.clock.armed], [0, 0]);
});

test('h8_a_closed_view_arms_nothing_any_more', async () => {
  const world = stuck();
  world.recovery.close();
  world.see('missingRunning');
  assert.equal(world.clock.armed, 0);
});

test('h8_switching_away_leaves_the_timer_running_and_it_fails_the_third_check', async () => {
  const world = stuck();
  world.see('missingRunning');
  world.active = { sessionId: 't', workspace: '/w' };
  await world.clock.pass(2999);
  assert.equal(world.recovery.armed, 1);
  await world.clock.pass(1);
  assert.deepEqual([world.halts, world.recovery.armed], [[], 0]);
});

test('h8_a_firing_that_did_not_act_forgets_its_edge_and_coming_back_arms_anew', async () => {
  const world = stuck();
  world.see('missingRunning');
  world.active = { sessionId: 't', workspace: '/w' };
  await world.clock.pass(HEAL_DELAY_MS);
  world.active = { sessionId: 's', workspace: '/w' };
  world.recovery.comeBack('s');
  world.see('missingRunning');
  await world.clock.pass(HEAL_DELAY_MS);
  assert.deepEqual(world.halts.map(([id]) => id), ['s']);
});
