// The unmodified TypeScript SDK against the built daemon.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { DaemonClient, DaemonSessionClient } from '@qwen-code/sdk/daemon';

import { Machine, until } from './machine.mjs';

const PROMPT = { prompt: [{ type: 'text', text: 'please ASK' }] };
const answer = (label) => ({ outcome: { outcome: 'selected', optionId: 'proceed_once' }, answers: { 0: label } });

async function open(t) {
  const machine = await Machine.create(t);
  await machine.start();
  const client = new DaemonClient({ baseUrl: machine.baseUrl });
  const session = await DaemonSessionClient.createOrAttach(client, { workspaceCwd: machine.work, sessionScope: 'thread' });
  return { machine, client, session };
}

/** The question that the session's status shows. */
const pending = (session) => until('a question is pending', async () => {
  const status = await session.status();
  return status.pendingInteractions?.[0] && { status, question: status.pendingInteractions[0] };
});

/** Reads events until one fits; gives it and all before it. */
async function read(events, fits) {
  const seen = [];
  for await (const event of events) {
    seen.push(event);
    if (fits(event)) return { event, seen };
  }
  throw new Error(`the stream ended: ${JSON.stringify(seen.map((event) => event.type))}`);
}

const results = (messages) => messages.filter((message) => message.role === 'tool').map((message) => message.content);

test('prompt() resolves when its question is answered', async (t) => {
  const { machine, session } = await open(t);
  const caps = await session.client.capabilities();
  assert.equal(caps.v, 1);
  for (const tag of ['session_create', 'session_load', 'session_prompt', 'session_events', 'session_permission_vote', 'durable_questions']) {
    assert.ok(caps.features.includes(tag), tag);
  }
  const abort = new AbortController();
  const types = [];
  const reading = (async () => {
    for await (const event of session.events({ signal: abort.signal })) {
      types.push(event.type);
      if (event.type === 'permission_request') {
        assert.equal(await session.respondToSessionPermission(event.data.requestId, answer('Blue')), true);
      }
    }
  })().catch(() => {});
  const result = await session.prompt(PROMPT);
  assert.equal(result.stopReason, 'end_turn');
  abort.abort();
  await reading;
  assert.ok(types.includes('permission_resolved'), String(types));
  const [read] = results(machine.model.requests.at(-1));
  assert.match(read, /Colour.*Blue/);
});

test('r1 r7 r11 i4 ask, kill -9, start, load, answer: the same turn goes on', async (t) => {
  const { machine, client, session } = await open(t);
  const { promptId } = await session.submitPrompt(PROMPT);
  const { question } = await pending(session);
  assert.equal(question.kind, 'user_question');
  await machine.kill();
  await machine.start();
  assert.equal(machine.model.requests.length, 1, 'a start calls no model');

  const again = await DaemonSessionClient.load(client, session.sessionId, { workspaceCwd: machine.work }, session.clientId);
  assert.equal(again.clientId, session.clientId, 'R16');
  const failed = again.replaySnapshot.compactedReplay.filter((event) => event.data?.update?.status === 'failed');
  assert.deepEqual(failed, [], 'R4: the call is open in the replay');
  const { status, question: asked } = await pending(again);
  assert.notEqual(asked.requestId, question.requestId);
  assert.equal(asked.questionId, question.questionId);
  assert.deepEqual(asked.questions, question.questions);
  assert.equal(status.isWaitingForUserQuestion, true);
  assert.equal(status.hasActivePrompt, true);
  const went = await again.continueSession();
  assert.deepEqual([went.accepted, went.interruption], [false, 'none']);

  const ended = read(again.events(), (event) => event.type === 'turn_complete' || event.type === 'turn_error');
  assert.equal(await again.respondToSessionPermission(asked.requestId, answer('Blue')), true);
  const { event } = await ended;
  assert.equal(event.type, 'turn_complete');
  assert.equal(event.data.promptId, promptId, 'R15');
  assert.equal(event.data.stopReason, 'end_turn');
  assert.match(results(machine.model.requests.at(-1))[0], /Colour.*Blue/);
  assert.equal(machine.model.requests.length, 2);
  assert.equal(await again.respondToSessionPermission(asked.requestId, answer('Red')), false);
  const over = await again.status();
  assert.ok(!over.isWaitingForUserQuestion && !over.pendingInteractions?.length);
});

test('r15 r16 r17 a session object that lives on over the kill needs nothing new', async (t) => {
  const { machine, session } = await open(t);
  const { promptId } = await session.submitPrompt(PROMPT);
  const first = await read(session.events(), (event) => event.type === 'permission_request');
  const old = first.event.data.requestId;
  const cut = read(session.events(), () => false);
  cut.catch(() => {});
  await machine.kill();
  await assert.rejects(cut, 'the stream breaks');
  await machine.start();

  // The old request id, the old client id, nothing loaded: the vote wakes the session.
  assert.equal(await session.respondToSessionPermission(old, answer('Blue')), true);
  // The same object, its old cursor and its old epoch.
  const { event, seen } = await read(
    session.events(),
    (event) => event.type === 'turn_complete' || event.type === 'turn_error',
  );
  assert.equal(seen[0].type, 'state_resync_required');
  assert.equal(seen[0].data.reason, 'epoch_reset');
  assert.equal(event.type, 'turn_complete');
  assert.equal(event.data.promptId, promptId);
  assert.equal(event.data.stopReason, 'end_turn');
  assert.equal(await session.respondToSessionPermission(old, answer('Red')), false);
  assert.match(results(machine.model.requests.at(-1))[0], /Colour.*Blue/);
});

test('r17 a request id from before the kill settles the question that a load asks again', async (t) => {
  const { machine, client, session } = await open(t);
  const { promptId } = await session.submitPrompt(PROMPT);
  const { question } = await pending(session);
  await machine.kill();
  await machine.start();
  await client.resumeSession(session.sessionId, { workspaceCwd: machine.work }, session.clientId);
  const { question: asked } = await pending(session);
  const ended = read(session.events(), (event) => event.type === 'turn_complete');
  assert.equal(await session.respondToSessionPermission(question.requestId, answer('Red')), true);
  const { event, seen } = await ended;
  assert.equal(event.data.promptId, promptId);
  const resolved = seen.find((event) => event.type === 'permission_resolved');
  assert.equal(resolved.data.requestId, asked.requestId, 'events carry the live id');
  assert.equal(await session.respondToSessionPermission(question.requestId, answer('Red')), false);
  assert.match(results(machine.model.requests.at(-1))[0], /Colour.*Red/);
});
