// 5: load and resume: who restores, who waits, who attaches, and what is refused.
import { randomUUID } from 'node:crypto';

import { NO, yes } from '../lib/machine.mjs';
import { EXACT, brief, scenario, shape } from '../lib/suite.mjs';

const REQUIRED = ['sessionId', 'workspaceCwd', 'attached', 'clientId', 'createdAt', 'state', 'hasRunningBackgroundTasks', 'hasActivePrompt',
  'compactedReplay', 'liveJournal', 'lastEventId', 'eventEpoch'];
const OPTIONAL = ['currentCwd', 'sourceType', 'sourceId', 'historyHasMore', 'historyAnchorRecordId', 'partial', 'replayError', 'replayDegraded',
  'artifactWarnings', 'promptTerminals', 'worktree', 'worktreeState'];
const failed = (body) => (body.compactedReplay ?? []).filter((event) => event.data?.update?.status === 'failed').length;
const openCalls = (body) => (body.compactedReplay ?? []).filter((event) => event.data?.update?.sessionUpdate === 'tool_call' && event.data.update.status === 'in_progress').length;

/** `n` sessions with an open question, and a daemon that was killed and started since. */
async function restarted(t, n, flags) {
  const machine = await t.daemon();
  const sessions = [];
  for (let at = 0; at < n; at += 1) {
    sessions.push(await machine.session());
    await sessions[at].ask();
  }
  await machine.kill();
  await machine.start(flags);
  return { machine, sessions };
}

scenario(5, 'owner and attach', async (t) => {
  const { machine, sessions: [one, two] } = await restarted(t, 2);
  t.check('5.a start calls no model', machine.model.requests.filter((request) => request.trigger === 'ASK').length, 2);
  const owner = await one.load();
  t.check('5.load.fields', shape(owner.body, REQUIRED, OPTIONAL), EXACT);
  t.check('5.load.values', [owner.status, owner.body.attached, owner.body.sessionId === one.id, owner.body.hasActivePrompt, failed(owner.body), openCalls(owner.body)],
    [200, false, true, true, 0, 1]);
  t.check('5.load.ids of the replay', owner.body.compactedReplay.map((event) => event.id), owner.body.compactedReplay.map((_, at) => at + 1));
  t.check('5.load.state', shape(owner.body.state, ['modes'], ['models', 'configOptions', '_meta']), EXACT);
  t.check('5.load.the hint is stripped', JSON.stringify(owner.body).includes('restoreAskUserQuestion'), false);
  t.check('5.load.client id is kept', owner.body.clientId === one.clientId, true);
  const [q] = await one.open();
  const stream = await one.stream({ cursor: owner.body.lastEventId, epoch: owner.body.eventEpoch });
  await stream.type('replay_complete');
  t.check('5.load.the question is in liveJournal or follows it, once', [...owner.body.liveJournal, ...stream.events]
    .filter((event) => event.type === 'permission_request').map((event) => event.data.requestId), [q.requestId]);

  const attach = await one.load({ clientId: undefined });
  t.check('5.attach', [attach.status, attach.body.attached, attach.body.hasActivePrompt, attach.body.clientId !== owner.body.clientId,
    attach.body.eventEpoch === owner.body.eventEpoch], [200, true, true, true, true]);
  t.check('5.attach.the question is in liveJournal', attach.body.liveJournal.filter((event) => event.type === 'permission_request').map((event) => event.data.requestId), [q.requestId]);
  const known = await one.load({ clientId: owner.body.clientId });
  t.check('5.attach with a known id keeps it', known.body.clientId === owner.body.clientId, true);
  const stranger = await one.load({ clientId: 'client_nobody' });
  t.check('5.attach with an unknown id replaces it', [stranger.status, stranger.body.clientId !== 'client_nobody'], [200, true]);
  t.check('5.attach with a malformed id', brief(await one.load({ clientId: 'no spaces' })), '400 invalid_client_id');
  t.check('5.attaching asks nothing again', (await one.status()).pendingInteractions.map((each) => each.requestId), [q.requestId]);
  t.check('5.continue while it is open', (await machine.call('POST', `${one.path}/continue`, { clientId: owner.body.clientId })).body, { accepted: false, interruption: 'none' });
  await one.vote(q.requestId, yes());
  const ended = await stream.type('turn_complete');
  t.check('5.load.the turn completes', ended.data.stopReason, 'end_turn');
  t.check('5.load.the original prompt id', ended.data.promptId === one.promptId, true);
  t.check('5.load.the answer is the result', machine.model.results('ASK').map((result) => /Beta1/.test(result.content)), [true]);
  t.check('5.load.no echo of a restored prompt', stream.events.filter((event) => event.data.update?.sessionUpdate === 'user_message_chunk').length, 0);

  const resume = await two.load({}, 'resume');
  t.check('5.resume.fields', shape(resume.body, REQUIRED.filter((key) => !['compactedReplay', 'liveJournal'].includes(key)), OPTIONAL), EXACT);
  t.check('5.resume.values', [resume.status, resume.body.attached, resume.body.hasActivePrompt], [200, false, true]);
  const [again] = await two.open();
  const later = await two.load();
  t.check('5.load after a resume attaches', later.body.attached, true);
  t.check('5.load after a resume has the history', later.body.compactedReplay.length > 0, true);
  await two.vote(again.requestId, NO);
  await two.idle();
});

scenario(5, 'waiters and mixed actions', async (t) => {
  const { machine, sessions } = await restarted(t, 8);
  const [one, ...rest] = sessions;
  const both = await Promise.all([one.load(), one.load({ clientId: undefined })]);
  t.check('5.coalesced: both', both.map((answer) => answer.status), [200, 200]);
  t.check('5.coalesced: one restores, one attaches', both.map((answer) => answer.body.attached).sort(), [false, true]);
  t.check('5.coalesced: two clients', both[0].body.clientId !== both[1].body.clientId, true);
  t.check('5.coalesced: the question is asked', both.some((answer) => answer.body.hasActivePrompt), true);
  t.check('5.coalesced: once', (await one.open()).length, 1);

  // Two actions on one session at once. Which of them is first is the daemon's matter; that the other is refused is not.
  let refused;
  for (const session of rest) {
    const answers = await Promise.all([session.load(), session.load({}, 'resume')]);
    refused = answers.find((answer) => answer.status === 409);
    if (refused) break;
  }
  t.check('5.mixed actions', refused && [brief(refused), refused.body.retryable, refused.body.reason, [refused.body.activeAction, refused.body.requestedAction].sort(),
    Number(refused.headers['retry-after']) >= 5], ['409 restore_in_progress', true, 'restore_in_progress', ['load', 'resume'], true]);
  t.check('5.mixed actions.body', shape(refused?.body, ['error', 'code', 'reason', 'activeAction', 'requestedAction', 'retryable'], ['sessionId', 'errorKind']), EXACT);
  t.check('5.unknown id', brief(await rest[0].load.call({ machine, clientId: 'client_x', path: `/session/${randomUUID()}` })), '404 session_not_found');
  t.check('5.unknown id: resume', brief(await rest[0].load.call({ machine, clientId: 'client_x', path: `/session/${randomUUID()}` }, {}, 'resume')), '404 session_not_found');
  const last = rest.at(-1);
  for (const [name, body, wanted] of [
    ['historyPageSize 0', { historyPageSize: 0 }, '400 invalid_transcript_limit'], ['historyPageSize 501', { historyPageSize: 501 }, '400 invalid_transcript_limit'],
    ['liveReplayMode', { liveReplayMode: 'x' }, '400 invalid_live_replay_mode'], ['compactedReplayMode', { compactedReplayMode: 'x' }, '400 invalid_compacted_replay_mode'],
    ['workspace', { cwd: '/' }, '400 workspace_mismatch'], ['relative cwd', { cwd: 'x' }, '400'],
  ]) t.check(`5.${name}`, brief(await last.load({ body: { cwd: machine.work, ...body } })), wanted);
});

scenario(5, 'a load without a client id', async (t) => {
  const { machine, sessions: [one, two] } = await restarted(t, 2);
  const bare = await one.load({ clientId: undefined });
  t.check('5.bare load: the replay shows the call failed', [bare.status, bare.body.hasActivePrompt ?? false, failed(bare.body)], [200, false, 1]);
  t.check('5.bare load: nothing is asked', (await one.status()).pendingInteractionCount, 0);
  const loaded = await one.load();
  t.check('5.then a load with one', loaded.body.hasActivePrompt, true);
  // Two loads at once, the one without a client id first.
  const both = await Promise.all([two.load({ clientId: undefined }), two.load()]);
  t.check('5.r19 one of two loads has a client id', both.some((answer) => answer.body.hasActivePrompt), true);
  if (both.some((answer) => answer.body.hasActivePrompt)) await two.open();
  void machine;
});

scenario(5, 'the flag is off', async (t) => {
  const { machine, sessions: [one] } = await restarted(t, 1, []);
  const loaded = await one.load();
  t.check('5.flag off', [loaded.status, loaded.body.hasActivePrompt ?? false, failed(loaded.body)], [200, false, 1]);
  const went = await machine.call('POST', `${one.path}/continue`, { clientId: loaded.body.clientId });
  t.check('5.flag off: continue', [went.status, went.body.accepted, shape(went.body, ['accepted', 'interruption', 'promptId', 'lastEventId', 'eventEpoch'])], [200, true, EXACT]);
  await one.idle();
});
