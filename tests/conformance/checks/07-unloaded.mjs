// 7: after each kind of restart and without a load: the old vote, the list, the stream, the prompt id.
import { PATIENCE } from '../lib/http.mjs';
import { RESTORE, Session, yes } from '../lib/machine.mjs';
import { brief, scenario } from '../lib/suite.mjs';

const row = async (machine, session) => (await machine.list()).find((each) => each.sessionId === session.id);

for (const [name, stop] of [['kill -9', (machine) => machine.kill()], ['SIGTERM', (machine) => machine.terminate()]]) {
  scenario(7, `after ${name}, nothing loaded`, async (t) => {
    const machine = await t.daemon();
    const one = await machine.session();
    const asked = await one.ask();
    const two = await machine.session();
    const stream = await two.stream({ cursor: 0 });
    await two.ask('please ASK_TWO', 1);
    const all = await stream.wait('the batch is asked', () => stream.of('permission_request').length >= 1) && stream.of('permission_request');
    const epoch = stream.epoch;
    await stop(machine);
    await stream.end();
    const cursor = stream.events.findLast((event) => event.id !== undefined).id;
    await machine.start();

    const listed = await row(machine, one);
    t.check(`7.${name}.the list shows it`, [listed?.isWaitingForUserQuestion ?? false, listed?.pendingInteractionCount ?? 0, listed?.pendingInteractions?.length ?? 0, listed?.clientCount, listed?.hasActivePrompt],
      [true, 1, 1, 0, false]);
    const inbox = await machine.call('GET', '/questions?state=open');
    t.check(`7.${name}.the inbox shows it`, [inbox.status, inbox.body?.questions?.filter((each) => each.sessionId === one.id).map((each) => [each.live, each.restorable])],
      [200, [[false, true]]]);
    t.check(`7.${name}.status is 404`, brief(await machine.call('GET', `${one.path}/status`)), '404 session_not_found');
    const early = await two.stream({ cursor, epoch });
    t.check(`7.${name}.events() is 404 until woken`, [early.status, early.body?.code], [404, 'session_not_found']);
    t.check(`7.${name}.an ordinary vote body on an unknown request`, brief(await one.vote('nothing-of-the-kind')), '404 session_not_found');

    const calls = machine.model.requests.length;
    const voted = await machine.sdk().respondToSessionPermission(one.id, asked.requestId, yes(), one.clientId);
    t.check(`7.${name}.the old vote`, voted, true);
    if (voted) {
      const late = await one.stream({ cursor: 0, epoch });
      const over = await late.type('turn_complete');
      t.check(`7.${name}.the original prompt completes`, [over.data.promptId === one.promptId, over.data.stopReason], [true, 'end_turn']);
      t.check(`7.${name}.the answer is read`, machine.model.requests.slice(calls).filter((each) => each.trigger === 'ASK').map((each) => /Beta1/.test(each.results[0]?.content)), [true]);
      t.check(`7.${name}.the old vote again`, await machine.sdk().respondToSessionPermission(one.id, asked.requestId, yes(), one.clientId), false);
    }
    // A batch of two: the vote on the first wakes the session; the stream then has the second.
    const first = await two.vote(all[0].data.requestId, yes('Beta1'), { clientId: two.clientId });
    t.check(`7.${name}.a vote on one of two`, brief(first), '200');
    if (first.status === 200) {
      const again = await two.stream({ cursor, epoch, clientId: two.clientId });
      const next = await again.type('permission_request');
      t.check(`7.${name}.old cursor: epoch_reset first`, [again.events[0].type, again.events[0].data.reason], ['state_resync_required', 'epoch_reset']);
      t.check(`7.${name}.then the open question`, [next.data.requestId !== all[1]?.data.requestId, next.data.toolCall.rawInput.questions[0].header], [true, 'Item 2']);
      await two.vote(all[1]?.data.requestId ?? next.data.requestId, { ...yes(), answers: { 0: 'Alpha2' } }, { clientId: two.clientId });
      const over = await again.type('turn_complete');
      t.check(`7.${name}.the batch completes under its prompt id`, [over.data.promptId === two.promptId, over.data.stopReason], [true, 'end_turn']);
      t.check(`7.${name}.both answers are read, in call order`, machine.model.results('ASK_TWO').map((each) => /Beta1|Alpha2/.exec(each.content)?.[0]), ['Beta1', 'Alpha2']);
    }
    t.check(`7.${name}.nothing waits`, [(await row(machine, one))?.isWaitingForUserQuestion ?? false, (await row(machine, two))?.isWaitingForUserQuestion ?? false], [false, false]);
  });
}

scenario(7, 'a load wakes', async (t) => {
  const machine = await t.daemon();
  const session = await machine.sdkSession();
  const accepted = await session.submitPrompt({ prompt: [{ type: 'text', text: 'please ASK' }] });
  for await (const event of session.events({ signal: AbortSignal.timeout(PATIENCE) })) if (event.type === 'permission_request') break;
  await new Session(machine, session).stored();
  await machine.kill();
  await machine.start([RESTORE]);
  const heartbeat = await machine.call('POST', `/session/${session.sessionId}/heartbeat`, { body: {}, clientId: session.clientId });
  t.check('7.load.heartbeat before', brief(heartbeat), '404 session_not_found');
  await machine.sdk().resumeSession(session.sessionId, { workspaceCwd: machine.work }, session.clientId);
  // The same SDK object: its old cursor and its old epoch.
  const seen = [];
  let voted;
  for await (const event of session.events({ signal: AbortSignal.timeout(PATIENCE) })) {
    seen.push(event);
    if (event.type === 'permission_request') {
      voted = await session.respondToSessionPermission(event.data.requestId, yes()).catch((error) => `throws ${error.status}`);
      if (voted !== true) break;
    }
    if (event.type === 'turn_complete') break;
  }
  t.check('7.load.the old object: epoch_reset', [seen[0].type, seen[0].data.reason], ['state_resync_required', 'epoch_reset']);
  t.check('7.load.the old object votes', voted, true);
  t.check('7.load.the old object sees its prompt end', seen.at(-1).type === 'turn_complete' && seen.at(-1).data.promptId === accepted.promptId, true);
});
