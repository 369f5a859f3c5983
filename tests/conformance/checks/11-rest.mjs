// 11: what else the wire has: context, pages of a transcript, the daemon's status, detach, idle close, DELETE, deletion,
// metadata, limits and deadlines. `qwen/session/loadUpdates` is ACP, not HTTP; the project's own tests drive it there.
import { randomUUID } from 'node:crypto';

import { until } from '../lib/http.mjs';
import { RESTORE } from '../lib/machine.mjs';
import { EXACT, brief, scenario, shape } from '../lib/suite.mjs';

const over = (event) => ['turn_complete', 'turn_error'].includes(event.type);

async function say(session, stream, text) {
  const { body } = await session.prompt(text);
  await stream.wait(`the end of ${text}`, (event) => over(event) && event.data.promptId === body.promptId);
}

scenario(11, 'context', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const context = async (of = session) => (await machine.call('GET', `${of.path}/context`)).body;
  const fresh = await context();
  t.check('11.context.fields', shape(fresh, ['v', 'sessionId', 'workspaceCwd', 'recovery', 'state']), EXACT);
  t.check('11.context.values', [fresh.v, fresh.sessionId === session.id, fresh.workspaceCwd === machine.work], [1, true, true]);
  t.check('11.context.state', shape(fresh.state, ['models', 'modes', 'configOptions'], ['_meta']), EXACT);
  t.check('11.context.models', shape(fresh.state?.models, ['currentModelId', 'availableModels'], ['_meta']), EXACT);
  t.check('11.context.modes', shape(fresh.state?.modes, ['currentModeId', 'availableModes'], ['_meta']), EXACT);
  t.check('11.context.fresh', fresh.recovery, { kind: 'clean', canContinue: false });
  const asked = await session.ask();
  t.check('11.context.while it waits', (await context()).recovery, { kind: 'clean', canContinue: false });
  await session.vote(asked.requestId);
  await session.idle();
  t.check('11.context.after a turn', (await context()).recovery, { kind: 'clean', canContinue: false });
  t.check('11.context.not live', brief(await machine.call('GET', `/session/${randomUUID()}/context`)), '404 session_not_found');

  const hanging = await machine.session();
  await hanging.prompt('please HANG');
  await until('the model is asked', () => machine.model.requests.some((request) => request.trigger === 'HANG'));
  await machine.kill();
  await machine.start();
  await hanging.load();
  t.check('11.context.a prompt without a reply', (await context(hanging)).recovery, { kind: 'interrupted_prompt', canContinue: true });
});

/** Every event of a transcript, page by page, oldest first; and how many pages. */
async function pages(machine, session, limit, direction) {
  const all = [];
  let count = 0;
  let cursor;
  do {
    // A cursor knows its direction, and is sent alone.
    const start = direction === 'backward' ? '&direction=backward' : '';
    const query = `limit=${limit}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : start}`;
    const page = await machine.call('GET', `${session.path}/transcript?${query}`);
    if (page.status !== 200) throw new Error(`page: ${page.status} ${JSON.stringify(page.body)}`);
    if (direction === 'backward') all.unshift(...page.body.events);
    else all.push(...page.body.events);
    count += 1;
    cursor = page.body.hasMore ? page.body.nextCursor : undefined;
    if (page.body.hasMore && !cursor) throw new Error('more, and no cursor');
    if (count > 500) throw new Error('the pages have no end');
  } while (cursor);
  return { all, count };
}

const told = (events) => events.map(({ data }) => [data.sessionUpdate, data.toolCallId ?? null, data.status ?? null, data.content?.text ?? null]);
const said = (events) => told(events).filter(([kind, , , text]) => kind.endsWith('_message_chunk') && text).map(([kind, , , text]) => `${kind[0]} ${text}`);

scenario(11, 'pages of a transcript', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const stream = await session.stream({ cursor: 0 });
  for (const n of [1, 2, 3, 4, 5]) await say(session, stream, `hello ${n}`);
  const asked = await session.ask();
  await session.vote(asked.requestId);
  await session.idle();
  const whole = await pages(machine, session, 500);
  t.check('11.pages.one is enough', whole.count, 1);
  t.check('11.pages.what was said', said(whole.all).filter((text) => text.startsWith('u')), ['u hello 1', 'u hello 2', 'u hello 3', 'u hello 4', 'u hello 5', 'u please ASK']);
  t.check('11.pages.the answered call', told(whole.all).filter(([, call]) => call).map(([, , status]) => status).at(-1), 'completed');
  const small = await pages(machine, session, 3);
  t.check('11.pages.forward', [small.count > 2, JSON.stringify(told(small.all)) === JSON.stringify(told(whole.all))], [true, true]);
  const back = await pages(machine, session, 3, 'backward');
  t.check('11.pages.backward', [back.count > 2, JSON.stringify(said(back.all)) === JSON.stringify(said(whole.all))], [true, true]);
  const head = await machine.call('GET', `${session.path}/transcript`);
  t.check('11.pages.no-store', /no-store/.test(head.headers['cache-control'] ?? ''), true);
  await machine.kill();
  await machine.start();
  const cold = await pages(machine, session, 3);
  t.check('11.pages.cold, the same', JSON.stringify(told(cold.all)) === JSON.stringify(told(whole.all)), true);
  t.check('11.pages.a cold page loads nothing', brief(await machine.call('GET', `${session.path}/status`)), '404 session_not_found');
  t.check('11.pages.unknown session', brief(await machine.call('GET', `/session/${randomUUID()}/transcript`)), '404 session_not_found');
});

scenario(11, 'a waiting question on a page', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  await session.ask();
  const last = async () => told((await pages(machine, session, 100, 'backward')).all).filter(([, call]) => call).map(([, , status]) => status).at(-1);
  t.check('11.page.live', await last(), 'in_progress');
  await machine.kill();
  await machine.start();
  t.check('11.page.cold', await last(), 'in_progress');
  await machine.kill();
  await machine.start([]);
  t.check('11.page.cold, flag off', await last(), 'failed');
});

scenario(11, 'daemon/status', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  await session.ask();
  for (const detail of ['summary', 'full']) {
    const { status, body } = await machine.call('GET', `/daemon/status?detail=${detail}`);
    t.check(`11.status.${detail}`, [status, body.v, body.detail, ['ok', 'warning', 'error'].includes(body.status), Array.isArray(body.issues)], [200, 1, detail, true, true]);
    t.check(`11.status.${detail}.fields`, shape(body, ['v', 'detail', 'generatedAt', 'status', 'issues', 'daemon', 'security', 'limits', 'capabilities', 'runtime'],
      ['full', 'sessions', 'workspace', 'workspaces', 'auth', 'acp', 'channelWorkers', 'childMemory', 'memory']), EXACT);
    t.check(`11.status.${detail}.daemon`, shape(body.daemon, ['pid', 'uptimeMs', 'mode', 'workspaceCwd', 'daemonId'],
      ['logDroppedBytes', 'logDroppedRecords', 'logIssues', 'startup', 'qwenCodeVersion', 'runId', 'logMode', 'logHealth', 'logPath', 'logDir', 'logLevel', 'startedAt', 'channelWorkers']), EXACT);
    t.check(`11.status.${detail}.security`, shape(body.security, ['tokenConfigured', 'requireAuth', 'loopbackBind', 'allowOriginConfigured', 'allowOriginMode',
      'sessionShellCommandEnabled']), EXACT);
    t.check(`11.status.${detail}.limits`, ['maxPendingPromptsPerSession', 'eventRingSize', 'promptDeadlineMs', 'writerIdleTimeoutMs', 'sessionIdleTimeoutMs', 'maxSessions',
      'listenerMaxConnections'].filter((key) => !(key in (body.limits ?? {}))), []);
    t.check(`11.status.${detail}.permissions`, [body.runtime?.permissions?.pending, body.runtime?.permissions?.policy], [1, 'first-responder']);
  }
  const plain = await machine.call('GET', '/daemon/status');
  t.check('11.status.without detail it is the summary', plain.body.detail, 'summary');
  const deep = await machine.call('GET', '/health?deep=1');
  t.check('11.health.deep', [deep.status, deep.body.status, deep.body.sessions, deep.body.pendingPermissions, deep.body.activePrompts], [200, 'ok', 1, 1, 1]);
});

scenario(11, 'heartbeat and detach', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  await session.prompt('hello');
  await session.idle();
  const beat = async (options) => machine.call('POST', `${session.path}/heartbeat`, { body: {}, ...options });
  const named = await beat({ clientId: session.clientId });
  t.check('11.heartbeat', [named.status, named.body.sessionId === session.id, named.body.clientId === session.clientId, Math.abs(Date.now() - named.body.lastSeenAt) < 600_000],
    [200, true, true, true]);
  const nobody = await beat({});
  t.check('11.heartbeat.anonymous', [nobody.status, shape(nobody.body, ['sessionId', 'lastSeenAt'], ['clientId'])], [200, EXACT]);
  t.check('11.heartbeat.it is no subscription', (await session.status()).clientCount, 1);
  // The same client twice: it is there until it has left as often.
  await session.load();
  const leave = () => machine.call('POST', `${session.path}/detach`, { clientId: session.clientId });
  t.check('11.detach.once of twice', [(await leave()).status, (await machine.call('GET', `${session.path}/status`)).status], [204, 200]);
  t.check('11.detach.the second time', (await leave()).status, 204);
  await until('the session is closed', async () => (await machine.call('GET', `${session.path}/status`)).status === 404);
  const loaded = await session.load();
  t.check('11.detach.it can be loaded again', [loaded.status, loaded.body.attached], [200, false]);
  t.check('11.detach.without a client id', (await machine.call('POST', `${session.path}/detach`)).status, 204);
});

scenario(11, 'idle close', async (t) => {
  // How often the peer looks is a setting of its own there.
  const look = t.target.name === 'peer' ? ['--session-reap-interval-ms', '200'] : [];
  const machine = await t.daemon([RESTORE, '--session-idle-timeout-ms', '1000', ...look]);
  const [idle, read, waits] = [await machine.session(), await machine.session(), await machine.session()];
  await idle.prompt('hello');
  // A session is not idle while its turn runs, and a close in the middle of one is another story. It may be closed already.
  await until('its turn is over', async () => {
    const { status, body } = await machine.call('GET', `${idle.path}/status`);
    return status === 404 || body.hasActivePrompt === false;
  });
  const stream = await read.stream({ cursor: 0 });
  await waits.ask();
  const live = async (session) => (await machine.call('GET', `${session.path}/status`)).status;
  await until('the idle session is closed', async () => await live(idle) === 404);
  t.check('11.idle.read and waiting ones stay', [await live(read), await live(waits)], [200, 200]);
  t.check('11.idle.the stream goes on', stream.ended, false);
  t.check('11.idle.it can be loaded again', (await idle.load()).status, 200);
  const [open] = await waits.open();
  t.check('11.idle.the question can be answered', brief(await waits.vote(open.requestId)), '200');
});

scenario(11, 'DELETE keeps what was said', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const stream = await session.stream({ cursor: 0 });
  await say(session, stream, 'hello');
  const closed = await machine.call('DELETE', session.path, { clientId: session.clientId });
  await stream.end();
  const last = stream.of('session_closed').at(-1);
  t.check('11.DELETE', [closed.status, last?.data.reason, last?.data.closedBy === session.clientId], [204, 'client_close', true]);
  t.check('11.DELETE.the list has it', (await machine.list()).some((row) => row.sessionId === session.id), true);
  t.check('11.DELETE.so has its transcript', said((await pages(machine, session, 100)).all)[0], 'u hello');
  const loaded = await session.load();
  t.check('11.DELETE.a load brings it back', [loaded.status, loaded.body.compactedReplay.length > 0], [200, true]);
  t.check('11.DELETE.an unknown one', brief(await machine.call('DELETE', `/session/${randomUUID()}`)), '404 session_not_found');
});

scenario(11, 'sessions/delete of a live one', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const other = await machine.session();
  const stream = await session.stream({ cursor: 0 });
  await say(session, stream, 'hello');
  const remove = (sessionIds) => machine.call('POST', '/sessions/delete', { body: { sessionIds } });
  const gone = await remove([session.id]);
  t.check('11.sessions/delete.live', [gone.status, gone.body], [200, { removed: [session.id], notFound: [], errors: [] }]);
  await stream.end();
  t.check('11.sessions/delete.the list', (await machine.list()).filter((row) => row.sessionId === session.id), []);
  t.check('11.sessions/delete.the transcript', brief(await machine.call('GET', `${session.path}/transcript`)), '404 session_not_found');
  t.check('11.sessions/delete.again', (await remove([session.id])).body, { removed: [], notFound: [session.id], errors: [] });
  t.check('11.sessions/delete.the others stay', (await machine.call('GET', `${other.path}/status`)).status, 200);
  for (const [name, ids] of [['not a list', 'x'], ['101 ids', Array.from({ length: 101 }, () => randomUUID())], ['not texts', [1]]]) {
    t.check(`11.sessions/delete.${name}`, brief(await remove(ids)), '400 invalid_request');
  }
});

scenario(11, 'metadata', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const stream = await session.stream({ cursor: 0 });
  const patch = (body) => machine.call('PATCH', `${session.path}/metadata`, { body, clientId: session.clientId });
  const named = await patch({ displayName: 'A name' });
  t.check('11.metadata', [named.status, named.body.sessionId === session.id, named.body.displayName], [200, true, 'A name']);
  const event = await stream.wait('the new name', (each) => each.type === 'session_metadata_updated' && each.data.displayName === 'A name');
  t.check('11.metadata.event', shape(event.data, ['sessionId', 'displayName'], ['titleSource', 'prs']), EXACT);
  const row = async () => (await machine.list()).find((each) => each.sessionId === session.id);
  t.check('11.metadata.the list', (await row())?.displayName, 'A name');
  t.check('11.metadata.the status', (await session.status()).displayName, 'A name');
  for (const [name, displayName] of [['no text', 7], ['a control character', 'a\u0007b']]) {
    const refused = await patch({ displayName });
    t.check(`11.metadata.${name}`, [brief(refused), refused.body.field], ['400 invalid_metadata', 'displayName']);
  }
  t.check('11.metadata.too long is cut', (await patch({ displayName: 'x'.repeat(300) })).body.displayName?.length, 256);
  await patch({ displayName: 'Kept' });
  await say(session, stream, 'hello');
  await machine.kill();
  await machine.start();
  t.check('11.metadata.over a restart', (await row())?.displayName, 'Kept');
  t.check('11.metadata.not live', brief(await patch({ displayName: 'x' })), '404 session_not_found');
});

scenario(11, 'limits and deadlines', async (t) => {
  const machine = await t.daemon([RESTORE, '--max-sessions', '2', '--prompt-deadline-ms', '60000']);
  const [one, two] = [await machine.session(), await machine.session()];
  const third = await machine.call('POST', '/session', { body: { cwd: machine.work, sessionScope: 'thread' } });
  t.check('11.limits.max-sessions', [brief(third), third.headers['retry-after'] !== undefined], ['503 session_limit_exceeded', true]);
  t.check('11.limits.attaching needs no room', (await one.load({ clientId: undefined })).status, 200);
  const stream = await two.stream({ cursor: 0 });
  const accepted = await two.prompt('', { body: { prompt: [{ type: 'text', text: 'please HANG' }], deadlineMs: 1000 } });
  t.check('11.deadline.accepted', accepted.status, 202);
  const failed = await stream.wait('the deadline passes', over);
  t.check('11.deadline', [failed.type, failed.data.code, failed.data.promptId === accepted.body.promptId], ['turn_error', 'prompt_deadline_exceeded', true]);
  for (const deadlineMs of [0, -1, 1.5, 'x']) {
    const refused = await two.prompt('', { body: { prompt: [{ type: 'text', text: 'hello' }], deadlineMs } });
    t.check(`11.deadline.${deadlineMs}`, brief(refused), '400 invalid_deadline_ms');
  }
  for (const eventDetailMode of ['nonsense', 1]) {
    const refused = await two.prompt('', { body: { prompt: [{ type: 'text', text: 'hello' }], eventDetailMode } });
    t.check(`11.detail mode.${eventDetailMode}`, brief(refused), '400 invalid_event_detail_mode');
  }
  await two.idle();
  t.check('11.deadline.the session lives on', [(await two.status()).hasActivePrompt, (await two.prompt('hello')).status], [false, 202]);
});

scenario(11, 'branch', async (t) => {
  const machine = await t.daemon();
  const session = await machine.session();
  const branch = (of, body = {}) => machine.call('POST', `${of.path}/branch`, { body, clientId: of.clientId });
  const early = await branch(session);
  t.check('11.branch.nothing was said', brief(early), '201');
  const stream = await session.stream({ cursor: 0 });
  await say(session, stream, 'hello');
  const made = await branch(session, { name: 'Another way' });
  t.check('11.branch', [made.status, made.body.displayName, made.body.sessionId !== session.id, made.body.forkedFrom?.sessionId === session.id], [201, 'Another way', true, true]);
  const copy = { path: `/session/${made.body.sessionId}`, clientId: made.body.clientId };
  t.check('11.branch.the copy has what was said', said((await pages(machine, copy, 100)).all)[0], 'u hello');
  t.check('11.branch.the copy is live', (await machine.call('GET', `${copy.path}/status`)).status, 200);
  const gone = await branch({ path: `/session/${randomUUID()}` });
  t.check('11.branch.unknown session', brief(gone), '404 session_not_found');
});
