// Where Holdpoint and qwen serve differ on purpose: `{ours?, peer?, reason}` by the id of a check. A side that is not
// given expects what the check itself says. A difference that is not here fails; so does one that does not occur.
// Reasons name the wire's list of differences (d.4), or a rule. `ANY`: there it depends on which of two requests is first.
export const ANY = Symbol('any');
const extra = (...names) => ({ missing: [], extra: names });
const lacks = (...names) => ({ missing: names, extra: [] });
const cut = 'b.4: there the stream of a reader that reads nothing is cut before what stands in its queue';
const settled = { peer: 'settled already', reason: 'V2: a request through a proxy is not local; there it has settled the question' };
const proxied = { peer: ['200', null], reason: 'V2: a request through a proxy is not local' };

export const differences = {
  '1.capabilities.fields': { ours: extra('holdpointVersion', 'restoreAskUserQuestion'), reason: 'additive: a client can see whose daemon it is, and whether questions are asked again' },
  '1.capabilities.missing features': { ours: ['session_turn_status'], reason: 'the routes of turn status are not served yet, and nothing is advertised that is not' },
  '1.capabilities.durable_questions': { peer: false, reason: 'd.4.11' },
  '1.permission_request.data': { ours: extra('generation', 'questionId'), reason: 'd.4.13' },
  '1.status.fields': { ours: extra('clients', 'openQuestionCount', 'queuedPromptCount', 'turnState'), reason: 'additive' },
  '1.status.pending fields': { ours: extra('generation', 'messageId', 'questionId', 'toolCallId'), reason: 'd.4.13; H1: the call that asks' },
  '1.permission_resolved.data': { ours: extra('answeredAt', 'answeredBy', 'answers', 'generation', 'questionId'), reason: 'd.4.13, d.4.15' },

  '2.second vote says who': { peer: [], reason: 'd.4.10, V4' },
  '2.answers with nothing valid': { peer: ['200', false], reason: 'd.4.18: there the question is used up' },
  '2.answers are a list': { peer: '200', reason: 'd.4.18' },
  '2.answers missing': { peer: '200', reason: 'd.4.18' },
  '2.one answer is no string': { peer: '200', reason: 'd.4.18' },
  '2.after more than 512': { peer: ['404', 0], reason: 'd.4.10: there the outcome is forgotten' },
  '2.old request id, question open': { peer: '404', reason: 'd.4.3, R17' },
  '2.old request id: the event has the live id': { peer: false, reason: 'd.4.3, R17: no such vote there' },
  '2.session stored, not live': { peer: '404 session_not_found', reason: 'd.4.3, R17' },

  '3.r23 late subscriber without a cursor': { peer: [], reason: 'd.4.14, R23' },
  '3.r23 comes first, and only that': { peer: ['session_metadata_updated'], reason: 'd.4.14, R23' },

  '4.designated.event': { ours: [extra('generation', 'questionId'), true, 'designated_mismatch'], reason: 'd.4.13' },
  '4.consensus.partial': { ours: [extra('generation', 'questionId'), 1, 1, 2, { proceed_once: 1 }], reason: 'd.4.13' },
  '4.consensus.two answers do not agree': { peer: 0, reason: 'V2: consensus counts the answers' },
  '4.local-only.x-forwarded-for': proxied,
  '4.local-only.forwarded': proxied,
  '4.local-only.x-real-ip': proxied,
  '4.local-only.x-forwarded-for: cancel passes': settled,
  '4.local-only.forwarded: cancel passes': settled,
  '4.local-only.x-real-ip: cancel passes': settled,

  '5.load.fields': { ours: extra('displayName'), reason: 'additive' },
  '5.resume.fields': { ours: extra('displayName'), reason: 'additive' },
  '5.load.client id is kept': { peer: false, reason: 'd.4.5, R16' },
  '5.load.the original prompt id': { peer: false, reason: 'd.4.4, R15' },
  '5.then a load with one': { peer: false, reason: 'd.4.7, R19' },
  '5.r19 one of two loads has a client id': { peer: ANY, reason: 'R19: there the first of the two decides' },
  '5.load after a resume has the history': { peer: false, reason: 'a load gives the history whoever woke the session; there it is empty after a resume' },

  '6.SIGTERM.first life': { peer: 'over', reason: 'd.4.2: there recorded as a cancel' },
  '6.DELETE.first life': { peer: 'over', reason: 'd.4.2' },
  '6.timeout.first life': { peer: 'over', reason: 'd.4.2' },
  '6.timeout.turn_complete': { peer: ['end_turn', null], reason: 'R10: parked, not declined' },
  '6.timeout.r14 a load of the live session asks again': { peer: false, reason: 'd.4.7, R14' },
  '6.agent dies.r14 with a client attached': { peer: 'session_died', reason: 'R14' },

  '7.kill -9.the list shows it': { peer: [false, 0, 0, 0, false], reason: 'd.4.6' },
  '7.kill -9.the inbox shows it': { peer: [404, null], reason: 'd.4.6' },
  '7.kill -9.the old vote': { peer: false, reason: 'd.4.3' },
  '7.kill -9.a vote on one of two': { peer: '404 session_not_found', reason: 'd.4.3' },

  '7.SIGTERM.the list shows it': { peer: [false, 0, 0, 0, false], reason: 'd.4.6' },
  '7.SIGTERM.the inbox shows it': { peer: [404, null], reason: 'd.4.6' },
  '7.SIGTERM.the old vote': { peer: false, reason: 'd.4.3' },
  '7.SIGTERM.a vote on one of two': { peer: '404 session_not_found', reason: 'd.4.3' },
  '7.load.the old object votes': { peer: 'throws 400', reason: 'd.4.5: there its client id died with the process' },
  '7.load.the old object sees its prompt end': { peer: false, reason: 'd.4.4' },

  '8.q4 both are shown at once': { peer: 1, reason: 'Q4' },
  '8.batch.r18 only the unanswered one': { peer: ['Item 1'], reason: 'd.4.8, R18' },
  '8.batch.turn_complete': { peer: ['end_turn', false], reason: 'd.4.4' },
  '8.batch.both results, in call order': { peer: ['Beta1', 'Beta2'], reason: 'd.4.8: there the first answer was lost and asked again' },
  '8.q7 a decline leaves its sibling open': { peer: 'over', reason: 'Q7: there one decline ends the batch' },
  '8.e3 the question is asked again': { peer: false, reason: 'E3, R21: a call that has its result does not count' },
  '8.permission.fields': { ours: extra('messageId', 'toolCallId'), reason: 'H1: the call that asks' },

  '10.warning': { peer: lacks('queueSize', 'maxQueued', 'lastEventId', 'queuedBytes', 'maxQueuedBytes', 'threshold'), reason: cut },
  '10.warning has no id': { peer: undefined, reason: cut },
  '10.warning at three quarters': { peer: [null, false], reason: cut },
  '10.eviction is the last frame': { peer: 'session_update', reason: cut },
  '10.eviction': { peer: lacks('reason', 'droppedAfter', 'queueSize', 'maxQueued', 'queuedBytes', 'maxQueuedBytes'), reason: cut },
  '10.eviction.values': { peer: [null, null, null, null], reason: cut },

  '11.page.cold': { peer: 'failed', reason: 'R4: there a page of a session that is not loaded knows nothing of questions that can be asked again' },
  '11.branch': { peer: [201, 'Another way(1)', true, true], reason: 'a name that was asked for is the name; there it is numbered' },
  '11.branch.nothing was said': { peer: '500 -32603', reason: 'a copy of a session in which nothing was said is a new session; there it is an error of the agent' },
  '11.detach.once of twice': { ours: [204, 404], reason: 'a client that loads again is attached once, so that one that came back after a lost connection leaves at once; there it must leave as often' },
  '11.status.summary.daemon': { ours: extra('dataDir', 'holdpointVersion', 'model', 'restoreAskUserQuestion'), reason: 'additive' },
  '11.status.full.daemon': { ours: extra('dataDir', 'holdpointVersion', 'model', 'restoreAskUserQuestion'), reason: 'additive' },
};
