// 1: one turn over the unmodified SDK, and the field sets of everything on the way.
import { until } from '../lib/http.mjs';
import { yes } from '../lib/machine.mjs';
import { EXACT, brief, scenario, shape } from '../lib/suite.mjs';

const update = (events, kind) => events.map((event) => event.data?.update).filter((each) => each?.sessionUpdate === kind);

scenario(1, 'a turn with a question', async (t) => {
  const machine = await t.daemon();
  const client = machine.sdk();
  const created = await machine.call('POST', '/session', { body: { cwd: machine.work, sessionScope: 'thread' } });
  t.check('1.create.fields', shape(created.body, ['sessionId', 'workspaceCwd', 'attached', 'clientId', 'createdAt']), EXACT);
  t.check('1.create.values', [created.status, created.body.attached, created.body.workspaceCwd === machine.work,
    /^client_[0-9a-f-]{36}$/.test(created.body.clientId)], [200, false, true, true]);

  const caps = await client.capabilities();
  t.check('1.capabilities.fields', shape(caps, ['v', 'protocolVersions', 'mode', 'features', 'sessionLiveStatePollIntervalMs',
    'modelServices', 'workspaceCwd', 'transports', 'policy', 'limits', 'workspaces', 'supportedLanguages'], ['qwenCodeVersion']), EXACT);
  t.check('1.capabilities.values', [caps.v, caps.protocolVersions, caps.mode, caps.policy?.permission, caps.workspaceCwd === machine.work],
    [1, { current: 'v1', supported: ['v1'] }, 'http-bridge', 'first-responder', true]);
  t.check('1.capabilities.transport', caps.transports?.includes('rest'), true);
  const core = ['health', 'daemon_status', 'capabilities', 'session_create', 'session_id_override', 'session_scope_override',
    'session_load', 'session_resume', 'unstable_session_resume', 'session_list', 'session_prompt', 'session_cancel',
    'session_events', 'slow_client_warning', 'typed_event_schema', 'client_identity', 'client_heartbeat',
    'session_permission_vote', 'permission_vote', 'session_status', 'session_close', 'session_metadata', 'session_transcript',
    'session_transcript_pagination', 'session_context', 'session_branch', 'session_turn_status', 'permission_mediation',
    'non_blocking_prompt'];
  t.check('1.capabilities.missing features', core.filter((tag) => !caps.features.includes(tag)), []);
  t.check('1.capabilities.durable_questions', caps.features.includes('durable_questions'), true);

  const session = await machine.sdkSession(client);
  const seen = [];
  const abort = new AbortController();
  let status;
  let voted;
  const reading = (async () => {
    for await (const event of session.events({ signal: abort.signal })) {
      seen.push(event);
      if (event.type !== 'permission_request') continue;
      status = await session.status();
      voted = await session.respondToSessionPermission(event.data.requestId, yes());
    }
  })().catch(() => {});
  const result = await session.prompt({ prompt: [{ type: 'text', text: 'please ASK' }] });
  const over = await until('turn_complete is seen', () => seen.find((event) => event.type === 'turn_complete'));
  abort.abort();
  await reading;
  t.check('1.prompt() resolves', result.stopReason, 'end_turn');
  t.check('1.vote', voted, true);
  t.check('1.envelopes', seen.filter((event) => event.id !== undefined)
    .map((event) => shape(event, ['id', 'v', 'type', 'data', '_meta'], ['promptId', 'originatorClientId']))
    .filter(({ missing, extra }) => missing.length + extra.length > 0), []);
  t.check('1.ids grow by one from 1', seen.map((event) => event.id).filter(Boolean).every((id, at) => id === at + 1), true);
  const ofTurn = ['permission_request', 'permission_resolved', 'turn_complete', 'session_update'];
  t.check('1.promptId on the events of the turn',
    seen.filter((event) => ofTurn.includes(event.type) && event.promptId !== over.data.promptId
      && !['available_commands_update', 'current_mode_update'].includes(event.data.update?.sessionUpdate)).map((event) => event.type), []);

  const request = seen.find((event) => event.type === 'permission_request');
  t.check('1.permission_request.data', shape(request.data, ['requestId', 'sessionId', 'toolCall', 'options'], ['backgroundTurn']), EXACT);
  t.check('1.permission_request.originator', request.originatorClientId === session.clientId, true);
  t.check('1.permission_request.toolCall', shape(request.data.toolCall,
    ['toolCallId', 'status', 'title', 'kind', 'content', 'locations', 'rawInput', '_meta']), EXACT);
  t.check('1.permission_request.toolCall values', [request.data.toolCall.status, request.data.toolCall.kind,
    request.data.toolCall.content, request.data.toolCall.locations, request.data.toolCall.rawInput.questions.length], ['pending', 'think', [], [], 1]);
  t.check('1.permission_request.toolCall._meta', shape(request.data.toolCall._meta, ['toolName', 'qwenInteractionKind', 'qwenQuestions']), EXACT);
  t.check('1.permission_request.questions', request.data.toolCall._meta.qwenQuestions, request.data.toolCall.rawInput.questions);
  t.check('1.permission_request.options', request.data.options, [
    { optionId: 'proceed_once', name: 'Submit', kind: 'allow_once' }, { optionId: 'cancel', name: 'Cancel', kind: 'reject_once' }]);

  t.check('1.status.fields', shape(status, ['sessionId', 'workspaceCwd', 'createdAt', 'clientCount', 'hasActivePrompt',
    'activeWorkState', 'isWaitingForPermission', 'isWaitingForUserQuestion', 'pendingInteractionCount', 'hasTurnError',
    'pendingInteractions'], ['updatedAt', 'displayName', 'hasRunningBackgroundTasks', 'sourceType', 'turnError', 'prs']), EXACT);
  t.check('1.status.values', [status.hasActivePrompt, status.activeWorkState, status.isWaitingForPermission,
    status.isWaitingForUserQuestion, status.pendingInteractionCount, status.hasTurnError, status.clientCount],
  [true, 'active', false, true, 1, false, 1]);
  const [pending] = status.pendingInteractions;
  t.check('1.status.pending fields', shape(pending, ['requestId', 'kind', 'createdAt', 'title', 'questions', 'options']), EXACT);
  t.check('1.status.pending.questions', pending.questions,
    request.data.toolCall.rawInput.questions.map((each, at) => ({ ...each, answerKey: String(at) })));
  t.check('1.status.pending.options', pending.options, [
    { optionId: 'proceed_once', label: 'Submit', kind: 'allow_once' }, { optionId: 'cancel', label: 'Cancel', kind: 'reject_once' }]);
  t.check('1.status.pending.requestId', pending.requestId, request.data.requestId);

  const resolved = seen.find((event) => event.type === 'permission_resolved');
  t.check('1.permission_resolved.data', shape(resolved.data, ['requestId', 'outcome', 'voterClientId']), EXACT);
  t.check('1.permission_resolved.values', [resolved.data.outcome, resolved.data.voterClientId === session.clientId,
    resolved.originatorClientId === session.clientId], [{ outcome: 'selected', optionId: 'proceed_once' }, true, true]);

  const [echo] = update(seen, 'user_message_chunk');
  t.check('1.echo', [echo?.content, echo?._meta?.source], [{ type: 'text', text: 'please ASK' }, 'bridge-echo']);
  const [callFrame] = update(seen, 'tool_call');
  t.check('1.tool_call', [callFrame.status, callFrame.kind, callFrame.rawInput, callFrame._meta?.phase, callFrame._meta?.toolName],
    ['pending', 'think', {}, 'preparing', 'ask_user_question']);
  const done = update(seen, 'tool_call_update').find((each) => each.status === 'completed');
  t.check('1.tool_call_update.fields', shape(done, ['sessionUpdate', 'toolCallId', 'status', 'content', 'rawOutput', '_meta'], ['kind', 'title']), EXACT);
  t.check('1.tool_call_update.rawOutput', [done.rawOutput.type, typeof done.rawOutput.text, done.rawOutput.answers],
    ['ask_user_question_answers', 'string', [{ question: 'Which one for item 1?', answer: 'Beta1' }]]);
  const usage = update(seen, 'agent_message_chunk').find((each) => each._meta?.usage);
  t.check('1.usage', [usage?.content, Object.keys(usage?._meta.usage ?? {}).sort(), typeof usage?._meta.durationMs],
    [{ type: 'text', text: '' }, ['cachedReadTokens', 'inputTokens', 'outputTokens', 'thoughtTokens', 'totalTokens'], 'number']);
  t.check('1.turn_complete.data', shape(over.data, ['sessionId', 'stopReason', 'promptId'], ['branchPoint']), EXACT);
  const order = ['permission_request', 'permission_resolved', 'turn_complete'];
  t.check('1.order', seen.map((event) => event.type).filter((type) => order.includes(type)), order);
  t.check('1.the model reads the answer', /Item 1.*Beta1/s.test(machine.model.results('ASK')[0].content), true);
  const after = await session.status();
  t.check('1.status after', [after.isWaitingForUserQuestion, after.pendingInteractionCount, after.pendingInteractions, after.hasActivePrompt],
    [false, 0, [], false]);
});

scenario(1, 'prompt() without a subscription, decline, heartbeat', async (t) => {
  const machine = await t.daemon();
  const session = await machine.sdkSession();
  const stream = await machine.call('GET', '/health');
  t.check('1.health', [stream.status, stream.body], [200, { status: 'ok' }]);
  const ending = session.prompt({ prompt: [{ type: 'text', text: 'please ASK' }] });
  const { pendingInteractions: [open] } = await until('a question', async () => {
    const status = await session.status();
    return status.pendingInteractions?.length > 0 && status;
  });
  const calls = machine.model.requests.length;
  t.check('1.decline', await session.respondToSessionPermission(open.requestId, { outcome: { outcome: 'selected', optionId: 'cancel' } }), true);
  t.check('1.decline ends the turn', (await ending).stopReason, 'end_turn');
  t.check('1.decline calls no model', machine.model.requests.slice(calls).filter((request) => request.trigger === 'ASK').length, 0);
  const beat = await session.heartbeat();
  t.check('1.heartbeat', [shape(beat, ['sessionId', 'clientId', 'lastSeenAt']), typeof beat.lastSeenAt], [EXACT, 'number']);
  const plain = await session.prompt({ prompt: [{ type: 'text', text: 'hello' }] });
  t.check('1.a turn without a question', plain.stopReason, 'end_turn');
  const context = await machine.call('GET', `/session/${session.sessionId}/context`);
  t.check('1.context', [context.status, shape(context.body, ['v', 'sessionId', 'workspaceCwd', 'recovery', 'state'])], [200, EXACT]);
  const raw = await machine.call('POST', `/session/${session.sessionId}/prompt`, {
    body: { prompt: [{ type: 'text', text: 'hello' }] }, clientId: session.clientId,
  });
  t.check('1.prompt.accepted', [raw.status, shape(raw.body, ['promptId', 'lastEventId', 'eventEpoch'])], [202, EXACT]);
  const empty = await machine.call('POST', `/session/${session.sessionId}/prompt`, { body: { prompt: [] }, clientId: session.clientId });
  t.check('1.prompt.empty', [empty.status, empty.body.code ?? null], [400, null]);
  await until('idle', async () => !(await session.status()).hasActivePrompt);
});

scenario(1, 'cancel and the queue', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const stream = await session.stream({ cursor: 0 });
  const open = await session.ask();
  const second = await session.prompt('hello');
  const added = await stream.type('pending_prompt_added');
  t.check('1.pending_prompt_added', [second.status, shape(added.data, ['sessionId', 'promptId', 'text', 'queuedAt']), added.data.promptId === second.body.promptId],
    [202, EXACT, true]);
  const list = await machine.call('GET', `${session.path}/pending-prompts`);
  t.check('1.pending-prompts', list.body.pendingPrompts.map((each) => [each.promptId === second.body.promptId, each.state]),
    [[false, 'running'], [true, 'queued']]);
  const from = stream.events.length;
  const cancelled = await machine.call('POST', `${session.path}/cancel`, { body: {}, clientId: session.clientId });
  t.check('1.cancel', cancelled.status, 204);
  const ended = await stream.type('turn_complete', from);
  t.check('1.cancel.turn_complete', [ended.data.stopReason, Object.keys(ended.data.promptCancelled ?? {}).sort(), ended.data.promptId === session.promptId],
    ['cancelled', ['cancelledAt', 'elapsedMs'], true]);
  const other = await stream.wait('the queued prompt ends', (event) => event.type === 'turn_complete' && event.data.promptId === second.body.promptId, from);
  t.check('1.cancel.next', other.data.stopReason, 'end_turn');
  const names = ['prompt_cancelled', 'permission_resolved', 'tool_call_update', 'turn_complete', 'pending_prompt_started'];
  t.check('1.cancel.order', stream.events.slice(from).map((event) => event.data.update?.sessionUpdate ?? event.type)
    .filter((name) => names.includes(name)).slice(0, 5), names);
  const resolved = stream.events.slice(from).find((event) => event.type === 'permission_resolved');
  t.check('1.cancel.permission_resolved', [resolved.data.outcome, resolved.data.requestId === open.requestId, resolved.data.voterClientId ?? null,
    resolved.originatorClientId ?? null], [{ outcome: 'cancelled' }, true, null, null]);
  const update = stream.events.slice(from).find((event) => event.data.update?.sessionUpdate === 'tool_call_update');
  t.check('1.cancel.tool_call_update', update?.data.update.status, 'failed');
  const done = stream.of('pending_prompt_completed').at(-1);
  t.check('1.pending_prompt_completed', [shape(done?.data, ['sessionId', 'promptId', 'state']), done?.data.state], [EXACT, 'completed']);
});

scenario(1, 'create and what it refuses', async (t) => {
  const machine = await t.daemon(['--restore-ask-user-question', '--max-pending-prompts-per-session', '2']);
  const create = (body) => machine.call('POST', '/session', { body });
  const cwd = machine.work;
  for (const [name, body, wanted] of [
    ['another workspace', { cwd: '/' }, '400 workspace_mismatch'], ['a relative cwd', { cwd: 'work' }, '400'],
    ['a scope that is none', { cwd, sessionScope: 'x' }, '400 invalid_session_scope'], ['an id that is no UUID', { cwd, sessionId: 'x' }, '400 invalid_session_id'],
  ]) t.check(`1.create: ${name}`, brief(await create(body)), wanted);
  const id = 'ABCDEF01-2345-4678-9ABC-DEF012345678';
  const chosen = await create({ cwd, sessionId: id });
  t.check('1.create: an id of the client', [chosen.status, chosen.body.sessionId], [200, id.toLowerCase()]);
  t.check('1.create: the same id again', brief(await create({ cwd, sessionId: id })), '409 session_id_conflict');
  const shared = [await create({ cwd }), await create({})];
  t.check('1.create: the shared session', [shared.map((each) => each.status), shared[0].body.sessionId === shared[1].body.sessionId, shared[1].body.attached,
    shared[0].body.clientId !== shared[1].body.clientId], [[200, 200], true, true, true]);
  t.check('1.create: not JSON', (await create('{"cwd":')).status, 400);

  const session = await machine.session();
  await session.ask();
  await session.prompt('hello');
  const full = await session.prompt('hello');
  t.check('1.queue full', [brief(full), full.body.limit, full.body.pendingCount, full.headers['retry-after']], ['503 prompt_queue_full', 2, 2, '5']);
  const { pendingPrompts } = (await machine.call('GET', `${session.path}/pending-prompts`)).body;
  const queued = pendingPrompts.find((each) => each.state === 'queued');
  const remove = (promptId) => machine.call('DELETE', `${session.path}/pending-prompts/${promptId}`, { clientId: session.clientId });
  t.check('1.queue: taken back', (await remove(queued.promptId)).body, { removed: true });
  t.check('1.queue: taken back twice', (await remove(queued.promptId)).body, { removed: false });
  for (const [name, query, wanted] of [
    ['limit 0', '?limit=0', '400 invalid_transcript_limit'], ['limit 501', '?limit=501', '400 invalid_transcript_limit'], ['cursor', '?cursor=x', '400 invalid_transcript_cursor'],
  ]) t.check(`1.transcript: ${name}`, brief(await machine.call('GET', `${session.path}/transcript${query}`)), wanted);
  const page = await machine.call('GET', `${session.path}/transcript`);
  t.check('1.transcript', [page.status, shape(page.body, ['v', 'sessionId', 'events', 'hasMore', 'startTime', 'lastUpdated'], ['nextCursor', 'partial', 'hasOlder']),
    page.headers['cache-control']], [200, EXACT, 'no-store']);
  t.check('1.transcript.events', page.body.events.map((event) => [event.v, event.type, event.id ?? null, typeof event.data.sessionUpdate])
    .filter((each) => JSON.stringify(each) !== '[1,"session_update",null,"string"]'), []);
  t.check('1.metadata: no name', brief(await machine.call('PATCH', `${session.path}/metadata`, { body: { displayName: '' }, clientId: session.clientId })), '400 invalid_metadata');
  t.check('1.list: a cursor that is none', brief(await machine.call('GET', `/workspace/${encodeURIComponent(cwd)}/sessions?cursor=x`)), '400 invalid_cursor');
  t.check('1.list: another workspace', brief(await machine.call('GET', `/workspace/${encodeURIComponent('/')}/sessions`)), '400 workspace_mismatch');
});
