// 8: batches, mixed batches, invalid arguments, continue.
import { until } from '../lib/http.mjs';
import { NO, yes } from '../lib/machine.mjs';
import { EXACT, scenario, shape } from '../lib/suite.mjs';

const headers = (all) => all.map((each) => each.questions[0].header);

scenario(8, 'a batch of two', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const stream = await session.stream({ cursor: 0 });
  const accepted = await session.prompt('please ASK_TWO');
  await stream.type('permission_request');
  let shown = (await session.open(1)).length;
  for (let tries = 0; tries < 25 && shown < 2; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    shown = (await session.status()).pendingInteractionCount;
  }
  t.check('8.q4 both are shown at once', shown, 2);
  const [first] = await session.open();
  const voted = await session.vote(first.requestId, { ...yes(), answers: { 0: 'Alpha1' } });
  await stream.wait('the first is delivered', (event) => event.data.update?.status === 'completed');
  t.check('8.batch.the first answer', voted.status, 200);
  t.check('8.batch.the model waits for both', machine.model.results('ASK_TWO') ?? null, null);
  await session.open();
  await machine.kill();
  await machine.start();
  const loaded = await session.load();
  t.check('8.batch.asked again', loaded.body.hasActivePrompt ?? false, true);
  const open = await session.open();
  const stream2 = await session.stream({ cursor: loaded.body.lastEventId, epoch: loaded.body.eventEpoch });
  t.check('8.batch.r18 only the unanswered one', headers(open), ['Item 2']);
  for (;;) {
    const [next] = (await session.status()).pendingInteractions;
    if (next) await session.vote(next.requestId, { ...yes(), answers: { 0: next.questions[0].header === 'Item 1' ? 'Beta1' : 'Beta2' } });
    const over = stream2.of('turn_complete')[0];
    if (over) {
      t.check('8.batch.turn_complete', [over.data.stopReason, over.data.promptId === accepted.body.promptId], ['end_turn', true]);
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  t.check('8.batch.both results, in call order', machine.model.results('ASK_TWO').map((each) => /Alpha1|Beta1|Beta2/.exec(each.content)?.[0] ?? null), ['Alpha1', 'Beta2']);
});

scenario(8, 'declines in a batch', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const stream = await session.stream({ cursor: 0 });
  await session.prompt('please ASK_TWO');
  const [one] = await session.open();
  await session.vote(one.requestId, NO);
  const more = await until('the sibling, or the end', async () => {
    const status = await session.status();
    return status.pendingInteractions.find((each) => each.requestId !== one.requestId) ?? (stream.of('turn_complete').length > 0 && 'over');
  });
  t.check('8.q7 a decline leaves its sibling open', more === 'over' ? more : more.questions[0].header, 'Item 2');
  if (more !== 'over') {
    await session.vote(more.requestId, { ...yes(), answers: { 0: 'Beta2' } });
    await stream.type('turn_complete');
    t.check('8.q7 one answered: the model is called', machine.model.results('ASK_TWO')?.length, 2);
  }
});

scenario(8, 'a mixed batch', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session({ approvalMode: 'default' });
  await session.prompt('please MIXED');
  await until('something is asked', async () => {
    const { pendingInteractions } = await session.status();
    return pendingInteractions.some((each) => each.kind === 'permission') && pendingInteractions;
  });
  const { pendingInteractions } = await session.status();
  const permission = pendingInteractions.find((each) => each.kind === 'permission');
  t.check('8.permission.fields', shape(permission, ['requestId', 'kind', 'createdAt', 'action', 'options'], ['title', 'questionId', 'generation']), EXACT);
  t.check('8.permission.action', shape(permission.action, ['type', 'title', 'content', 'locations', 'input']), EXACT);
  const offered = permission.options.map((each) => each.optionId);
  t.check('8.permission.options', ['proceed_once', 'cancel'].every((id) => offered.includes(id)), true);
  await machine.kill();
  await machine.start();
  const loaded = await session.load();
  const failed = loaded.body.compactedReplay.filter((event) => event.data?.update?.status === 'failed').length;
  t.check('8.mixed: both calls dangle, both are repaired', [loaded.body.hasActivePrompt ?? false, failed], [false, 2]);
  t.check('8.mixed: nothing waits', (await session.status()).pendingInteractionCount, 0);
  const went = await machine.call('POST', `${session.path}/continue`, { clientId: loaded.body.clientId });
  t.check('8.mixed: continue', [went.status, went.body.accepted, /^interrupted_(turn|prompt)$/.test(went.body.interruption)], [200, true, true]);
  await session.idle();
  t.check('8.mixed: the model reads two failures', machine.model.results('MIXED')?.length, 2);
  t.check('8.mixed: continue once is enough', (await machine.call('POST', `${session.path}/continue`, { clientId: loaded.body.clientId })).body, { accepted: false, interruption: 'none' });
});

scenario(8, 'a finished command beside a question', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session({ approvalMode: 'yolo' });
  const stream = await session.stream({ cursor: 0 });
  const accepted = await session.prompt('please MIXED');
  await stream.wait('the command is done', (event) => event.data?.update?.status === 'completed');
  await session.open();
  await machine.kill();
  await machine.start();
  const loaded = await session.load();
  t.check('8.e3 the question is asked again', loaded.body.hasActivePrompt ?? false, true);
  if (!loaded.body.hasActivePrompt) return;
  const [open] = await session.open();
  const stream2 = await session.stream({ cursor: loaded.body.lastEventId, epoch: loaded.body.eventEpoch });
  await session.vote(open.requestId);
  const over = await stream2.type('turn_complete');
  t.check('8.e3 the turn completes', over.data.promptId === accepted.body.promptId, true);
  const results = machine.model.results('MIXED');
  t.check('8.r21 the command is not reported as lost', [results.length, /not recorded|interrupted/i.test(results[0].content), /Beta1/.test(results[1].content)], [2, false, true]);
});

scenario(8, 'invalid arguments', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const stream = await session.stream({ cursor: 0 });
  for (const kind of ['ONEOPT', 'FIVEQ', 'EMPTY', 'JSON', 'TYPE']) {
    const accepted = await session.prompt(`please BAD_${kind}`);
    const over = await stream.wait('the turn ends', (event) => ['turn_complete', 'turn_error'].includes(event.type) && event.data.promptId === accepted.body.promptId);
    t.check(`8.invalid ${kind}`, [over.type, machine.model.results(`BAD_${kind}`)?.length], ['turn_complete', 1]);
  }
  t.check('8.invalid: nothing was asked', stream.of('permission_request').length, 0);
});

scenario(8, 'continue', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  t.check('8.continue on a clean session', (await machine.call('POST', `${session.path}/continue`, { clientId: session.clientId })).body, { accepted: false, interruption: 'none' });
  const accepted = await session.ask();
  const waiting = await machine.call('POST', `${session.path}/continue`, { clientId: session.clientId });
  t.check('8.continue while it waits', [waiting.status, waiting.body], [200, { accepted: false, interruption: 'none' }]);
  t.check('8.branch while it waits', (await machine.call('POST', `${session.path}/branch`, { body: {}, clientId: session.clientId })).body?.code, 'branch_while_prompt_active');
  await session.vote(accepted.requestId);
  await session.idle();
  const hanging = await machine.session();
  await hanging.prompt('please HANG');
  await until('the model is asked', () => machine.model.requests.some((request) => request.trigger === 'HANG'));
  await machine.kill();
  await machine.start();
  const loaded = await hanging.load();
  const went = await machine.call('POST', `${hanging.path}/continue`, { clientId: loaded.body.clientId });
  t.check('8.continue of a prompt that had no reply', [went.status, went.body.accepted, went.body.interruption], [200, true, 'interrupted_prompt']);
  await machine.call('POST', `${hanging.path}/cancel`, { body: {} });
  await hanging.idle();
});
