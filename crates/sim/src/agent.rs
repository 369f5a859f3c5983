//! A simulated agent: the rules of the real one (results one by one, repair before anything is sent, nothing
//! written for what nobody decided) over transcripts in memory, with a model that follows from the seed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdpoint_engine::port::{
    Agent, AgentError, AgentInfo, AgentPrompt, AgentTail, Agents, Exit, FromAgent, NewSession, PromptEnd,
    PromptKind, Reply, Respond, TakeUp, TakenUp,
};
use holdpoint_model::asked::{Asked, texts};
use holdpoint_model::ids::{CallId, PromptId, RecordId, SessionId};
use holdpoint_model::question::{TOOL_NAME, parse_questions};
use holdpoint_model::restore::{Restore, assess};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::crash::Crash;
use crate::rng::mix;
use crate::store::{Call, Record, Shared};

type Sink = mpsc::Sender<FromAgent>;

/// The agent processes of one life of the daemon.
pub(crate) struct SimAgents {
    seed: u64,
    restore: bool,
    store: Shared,
    crash: Crash,
    process: Mutex<Option<Arc<SimAgent>>>,
}

impl SimAgents {
    /// None yet.
    pub(crate) fn new(seed: u64, restore: bool, store: Shared, crash: Crash) -> Self {
        Self { seed, restore, store, crash, process: Mutex::default() }
    }

    /// Kills the process, if there is one.
    pub(crate) fn kill(&self) {
        if let Some(process) = lock(&self.process).take() {
            process.die();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agents for SimAgents {
    fn connect(&self, _agent: &str, _cwd: &str) -> Reply<Result<Arc<dyn Agent>, AgentError>> {
        let mut process = lock(&self.process);
        let agent = process.get_or_insert_with(|| {
            Arc::new(SimAgent {
                info: AgentInfo {
                    name: "sim".to_owned(),
                    version: "1".to_owned(),
                    ours: true,
                    model: None,
                    can_load: true,
                    can_resume: true,
                },
                inner: Arc::new(Inner {
                    seed: self.seed,
                    restore: self.restore,
                    store: self.store.clone(),
                    crash: self.crash.clone(),
                    alive: CancellationToken::new(),
                    sessions: Mutex::default(),
                }),
            })
        });
        let agent: Arc<dyn Agent> = Arc::clone(agent) as Arc<dyn Agent>;
        Box::pin(std::future::ready(Ok(agent)))
    }

    fn stop(&self) -> Reply<()> {
        // Killed, with its pipes open: it learns of nothing (I12).
        if let Some(process) = lock(&self.process).take() {
            process.inner.alive.cancel();
        }
        Box::pin(std::future::ready(()))
    }

    fn alive(&self) -> usize {
        usize::from(lock(&self.process).is_some())
    }
}

/// One agent process.
pub(crate) struct SimAgent {
    info: AgentInfo,
    inner: Arc<Inner>,
}

struct Inner {
    seed: u64,
    restore: bool,
    store: Shared,
    crash: Crash,
    alive: CancellationToken,
    sessions: Mutex<BTreeMap<SessionId, Open>>,
}

#[derive(Clone)]
struct Open {
    sink: Sink,
    cancel: CancellationToken,
    close: CancellationToken,
    busy: bool,
}

impl SimAgent {
    fn die(&self) {
        self.inner.alive.cancel();
        let sessions = std::mem::take(&mut *lock(&self.inner.sessions));
        for (_, open) in sessions {
            let exit = Exit { signal: Some(9), ..Exit::default() };
            tokio::spawn(async move { drop(open.sink.send(FromAgent::Gone(exit)).await) });
        }
    }
}

impl Agent for SimAgent {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    fn pid(&self) -> Option<u32> {
        None
    }

    fn new_session(&self, new: NewSession, sink: Sink) -> Reply<Result<TakenUp, AgentError>> {
        self.inner.open(&new.session, sink);
        let taken = TakenUp { session: Some(new.session), ..TakenUp::default() };
        Box::pin(std::future::ready(Ok(taken)))
    }

    fn take_up(&self, take: TakeUp, sink: Sink) -> Reply<Result<TakenUp, AgentError>> {
        let taken = self.inner.take_up(&take, sink);
        Box::pin(std::future::ready(taken))
    }

    fn prompt(&self, prompt: AgentPrompt) {
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move {
            let alive = inner.alive.clone();
            tokio::select! {
                biased;
                () = alive.cancelled() => {}
                () = inner.turn(prompt) => {}
            }
        });
    }

    fn cancel(&self, session: &SessionId) {
        if let Some(open) = lock(&self.inner.sessions).get(session) {
            open.cancel.cancel();
        }
    }

    fn close(&self, session: &SessionId) -> Reply<()> {
        let inner = Arc::clone(&self.inner);
        let session = session.clone();
        Box::pin(async move {
            if let Some(open) = lock(&inner.sessions).remove(&session) {
                open.close.cancel();
            }
            tokio::task::yield_now().await;
        })
    }

    fn set_mode(&self, _session: &SessionId, _mode: &str) -> Reply<Result<(), AgentError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The turn cannot go on: the process dies, or the session is gone.
struct Gone;

impl Inner {
    fn open(&self, session: &SessionId, sink: Sink) {
        let open =
            Open { sink, cancel: CancellationToken::new(), close: CancellationToken::new(), busy: false };
        lock(&self.sessions).insert(session.clone(), open);
    }

    fn take_up(&self, take: &TakeUp, sink: Sink) -> Result<TakenUp, AgentError> {
        let busy = lock(&self.sessions).get(&take.session).is_some_and(|open| open.busy);
        if !self.store.lock().histories.contains_key(&take.session) {
            return Err(AgentError::NoSession(take.session.to_string()));
        }
        if !busy {
            self.open(&take.session, sink);
        }
        for stored in &take.stored {
            let tail = self.store.lock().histories[&take.session].tail();
            let dangles = tail.turn().is_some_and(|turn| {
                stored.turn.as_ref() == Some(&turn.record) && turn.open().contains(&stored.call)
            });
            let prompt = self.store.lock().histories[&take.session].last_prompt();
            if dangles && let Ok(asked) = Asked::from_response(&stored.response, &[], true) {
                self.write_end(&take.session, prompt, &stored.call, &asked);
            } else if dangles {
                self.write_answer(&take.session, prompt, stored);
            }
        }
        let store = self.store.lock();
        let history = &store.histories[&take.session];
        let tail = history.tail();
        let hint = self.restore && !take.suppress && !busy && assess(&tail).is_ok();
        let turn = tail.turn();
        Ok(TakenUp {
            session: Some(take.session.clone()),
            hint,
            tail: Some(AgentTail {
                turn: turn.map(|turn| turn.record.clone()),
                open: turn.map(|turn| turn.open()).unwrap_or_default(),
                last_prompt: history.last_prompt(),
            }),
            state: Value::Null,
            replay: Vec::new(),
        })
    }

    /// Answers need the questions to be read.
    fn write_answer(
        &self,
        session: &SessionId,
        prompt: Option<PromptId>,
        stored: &holdpoint_engine::port::StoredEnd,
    ) {
        let questions = self.questions_of(session, &stored.call);
        match Asked::from_response(&stored.response, &questions, true) {
            Ok(asked) => self.write_end(session, prompt, &stored.call, &asked),
            Err(problem) => self.store.violation(format!("a stored end cannot be read: {problem}")),
        }
    }

    fn questions_of(&self, session: &SessionId, call: &CallId) -> Vec<holdpoint_model::question::Question> {
        let store = self.store.lock();
        let calls = store.histories[session].0.iter().filter_map(|record| match record {
            Record::Model { calls, .. } => Some(calls),
            _ => None,
        });
        let found = calls.flatten().find(|asked| asked.id == *call);
        found.and_then(|call| parse_questions(&call.args).ok()).unwrap_or_default()
    }

    fn write_end(&self, session: &SessionId, prompt: Option<PromptId>, call: &CallId, asked: &Asked) {
        let questions = self.questions_of(session, call);
        if let Some((text, _)) = asked.result(&questions) {
            let declined = *asked == Asked::Declined;
            self.push(
                session,
                Record::Result { call: call.clone(), prompt, text, declined, repaired: false },
            );
        }
    }

    fn push(&self, session: &SessionId, record: Record) {
        self.store.lock().histories.entry(session.clone()).or_default().0.push(record);
    }

    /// Writes a record: a point where everything may die, before it or after it.
    async fn write(&self, session: &SessionId, record: Record) -> Result<(), Gone> {
        match self.crash.point() {
            None => self.push(session, record),
            Some(done) => {
                if done {
                    self.push(session, record);
                }
                std::future::pending::<()>().await;
            }
        }
        tokio::task::yield_now().await;
        if self.alive.is_cancelled() { Err(Gone) } else { Ok(()) }
    }

    async fn send(&self, sink: &Sink, said: FromAgent) -> Result<(), Gone> {
        if self.crash.point() == Some(false) {
            std::future::pending::<()>().await;
        }
        sink.send(said).await.map_err(|_| Gone)
    }

    async fn turn(&self, prompt: AgentPrompt) {
        let session = prompt.session.clone();
        let open = {
            let mut sessions = lock(&self.sessions);
            let Some(open) = sessions.get_mut(&session) else { return };
            open.busy = true;
            open.cancel = CancellationToken::new();
            open.clone()
        };
        let end = tokio::select! {
            biased;
            // What is closed writes nothing more.
            () = open.close.cancelled() => return,
            end = self.drive(&prompt, &open) => end,
        };
        if let Some(open) = lock(&self.sessions).get_mut(&session) {
            open.busy = false;
        }
        if let Ok((stop_reason, parked)) = end {
            let meta = if parked { json!({ "holdpoint.parked": true }) } else { json!({}) };
            let end = PromptEnd { stop_reason: stop_reason.to_owned(), meta };
            let _ =
                self.send(&open.sink, FromAgent::PromptEnded { prompt: prompt.prompt, end: Ok(end) }).await;
        }
    }

    async fn drive(&self, prompt: &AgentPrompt, open: &Open) -> Result<(&'static str, bool), Gone> {
        let session = &prompt.session;
        let id = Some(prompt.prompt.clone());
        let mut batch = match &prompt.kind {
            PromptKind::Client { .. } => {
                self.repair(session, &open.sink).await?;
                self.write(session, Record::User { prompt: id.clone() }).await?;
                None
            }
            PromptKind::Continue => {
                self.repair(session, &open.sink).await?;
                None
            }
            PromptKind::Restore => {
                let tail = self.store.lock().histories.get(session).map(|history| history.tail());
                match tail.as_ref().map(assess) {
                    Some(Ok(Restore::Ask { turn, questions })) => {
                        let spared: Vec<_> = questions.into_iter().map(|open| open.call).collect();
                        Some((turn, spared))
                    }
                    Some(Ok(Restore::GoOn { turn })) => Some((turn, Vec::new())),
                    _ => return Ok(("end_turn", false)),
                }
            }
        };
        loop {
            if let Some((turn, calls)) = batch.take() {
                match self.settle(prompt, open, &turn, &calls).await? {
                    Batch::CallModel => {}
                    Batch::AllDeclined => {
                        self.write(session, Record::Ended).await?;
                        return Ok(("end_turn", false));
                    }
                    Batch::Parked => return Ok(("cancelled", true)),
                }
            }
            if open.cancel.is_cancelled() {
                self.write(session, Record::Ended).await?;
                return Ok(("cancelled", false));
            }
            let (turn, calls) = self.think(session);
            let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
            let last = calls.is_empty();
            self.write(session, Record::Model { id: turn.clone(), prompt: id.clone(), calls }).await?;
            if last {
                self.write(session, Record::Ended).await?;
                return Ok(("end_turn", false));
            }
            batch = Some((turn, ids));
        }
    }

    /// What the model says next: it follows from the seed and the length of the history alone.
    fn think(&self, session: &SessionId) -> (RecordId, Vec<Call>) {
        let mut store = self.store.lock();
        let turns = store.histories.get(session).map_or(0, |history| history.model_turns());
        let which = session
            .as_str()
            .bytes()
            .fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let draw = mix(&[self.seed, which, turns as u64]);
        let questions = match draw % 8 {
            0 | 1 => 0,
            2..=4 => 1,
            5 => 2,
            6 => 3,
            _ => 1,
        };
        let mut calls = Vec::new();
        for i in 0..questions {
            let id = store.next_id();
            calls.push(question(id, i));
        }
        if draw % 8 == 7 {
            let id = CallId::new(format!("call_{}", store.next_id())).expect("letters and digits");
            calls.push(Call { id, name: "run_shell_command".to_owned(), args: json!({ "command": "true" }) });
        }
        let turn = RecordId::new(format!("turn_{}", store.next_id())).expect("letters and digits");
        (turn, calls)
    }

    async fn repair(&self, session: &SessionId, sink: &Sink) -> Result<(), Gone> {
        let tail = self.store.lock().histories.get(session).map(|history| history.tail());
        let Some(turn) = tail.as_ref().and_then(|tail| tail.turn()) else { return Ok(()) };
        let prompt = self.store.lock().histories[session].last_prompt();
        for call in turn.open() {
            let text = texts::REPAIRED_QUESTION.to_owned();
            let record = Record::Result {
                call: call.clone(),
                prompt: prompt.clone(),
                text,
                declined: false,
                repaired: true,
            };
            self.write(session, record).await?;
            let update = json!({
                "sessionUpdate": "tool_call_update", "toolCallId": call, "status": "failed",
                "_meta": { "holdpoint.cause": "orphan_repair" },
            });
            self.send(sink, FromAgent::Update(update)).await?;
        }
        Ok(())
    }

    /// Asks what has no result, and writes each as it comes (R18).
    async fn settle(
        &self,
        prompt: &AgentPrompt,
        open: &Open,
        turn: &RecordId,
        calls: &[CallId],
    ) -> Result<Batch, Gone> {
        let session = &prompt.session;
        let all: Vec<Call> = {
            let store = self.store.lock();
            let record = store.histories[session].0.iter().find_map(|record| match record {
                Record::Model { id, calls, .. } if id == turn => Some(calls.clone()),
                _ => None,
            });
            record.unwrap_or_default()
        };
        let mut waiting = Vec::new();
        for call in all.iter().filter(|call| calls.contains(&call.id)) {
            let (sender, receiver) = oneshot::channel();
            let params = ask_params(session, turn, call);
            let responder = Box::new(SimRespond(Some(sender)));
            self.send(&open.sink, FromAgent::Ask { params, responder }).await?;
            waiting.push((call.clone(), receiver));
        }
        let mut parked = false;
        for (call, receiver) in waiting {
            // A responder that is dropped never answers: the agent waits on.
            let Ok(answer) = receiver.await else { std::future::pending().await };
            let questions = parse_questions(&call.args).unwrap_or_default();
            let record = if call.name == TOOL_NAME {
                match answer.and_then(|answer| Asked::from_response(&answer, &questions, self.restore)) {
                    Ok(asked) => asked.result(&questions).map(|(text, _)| (text, asked == Asked::Declined)),
                    Err(_) => None,
                }
            } else {
                Some((consent(answer), false))
            };
            match record {
                None => parked = true,
                Some((text, declined)) => {
                    let record = Record::Result {
                        call: call.id.clone(),
                        prompt: Some(prompt.prompt.clone()),
                        text,
                        declined,
                        repaired: false,
                    };
                    self.write(session, record).await?;
                    let update = json!({
                        "sessionUpdate": "tool_call_update", "toolCallId": call.id, "status": "completed",
                    });
                    self.send(&open.sink, FromAgent::Update(update)).await?;
                }
            }
        }
        if parked {
            return Ok(Batch::Parked);
        }
        let store = self.store.lock();
        let history = &store.histories[session];
        let declined = all.iter().all(|call| {
            history.results(&call.id).all(|record| matches!(record, Record::Result { declined: true, .. }))
        });
        Ok(if declined { Batch::AllDeclined } else { Batch::CallModel })
    }
}

enum Batch {
    CallModel,
    AllDeclined,
    Parked,
}

fn question(id: u64, index: u64) -> Call {
    let options = json!([{ "label": "A", "description": "a" }, { "label": "B", "description": "b" }]);
    Call {
        id: CallId::new(format!("call_{id}")).expect("letters and digits"),
        name: TOOL_NAME.to_owned(),
        args: json!({ "questions": [{
            "question": format!("Question {id}?"), "header": format!("Q{index}"), "options": options,
        }] }),
    }
}

fn ask_params(session: &SessionId, turn: &RecordId, call: &Call) -> Value {
    let mut meta = json!({ "toolName": call.name, "holdpoint.turnRecord": turn });
    if call.name == TOOL_NAME {
        meta["qwenInteractionKind"] = json!("user_question");
    }
    json!({
        "sessionId": session,
        "options": [
            { "optionId": "proceed_once", "name": "Submit", "kind": "allow_once" },
            { "optionId": "cancel", "name": "Cancel", "kind": "reject_once" },
        ],
        "toolCall": {
            "toolCallId": call.id, "title": call.name, "kind": "other", "rawInput": call.args, "_meta": meta,
        },
    })
}

/// Only an option that allows is consent (V6).
fn consent(answer: Result<Value, String>) -> String {
    let allowed =
        answer.is_ok_and(|answer| answer.pointer("/outcome/optionId") == Some(&json!("proceed_once")));
    if allowed { "ran".to_owned() } else { "not allowed".to_owned() }
}

struct SimRespond(Option<oneshot::Sender<Result<Value, String>>>);

impl Respond for SimRespond {
    fn respond(mut self: Box<Self>, result: Value) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(Ok(result));
        }
    }

    fn refuse(mut self: Box<Self>, message: String) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(Err(message));
        }
    }
}
