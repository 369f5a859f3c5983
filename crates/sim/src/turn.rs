//! What a simulated agent does: the rules of the real one (results one by one, repair before anything is sent,
//! nothing written for what nobody decided) over transcripts in memory, with a model that follows from the seed.

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use holdpoint_engine::port::{
    AgentError, AgentPrompt, AgentTail, FromAgent, PromptEnd, PromptKind, Respond, StoredEnd, TakeUp, TakenUp,
};
use holdpoint_model::asked::Asked;
use holdpoint_model::ids::{CallId, PromptId, RecordId, SessionId};
use holdpoint_model::question::{Question, TOOL_NAME, parse_questions};
use holdpoint_model::restore::{Restore, assess};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::agent::{Gone, Inner, Open, Sink, lock};
use crate::crash::Crash;
use crate::rng::mix;
use crate::store::{Call, Record};

enum Batch {
    CallModel,
    AllDeclined,
    Parked,
}

/// How a turn ended.
enum End {
    /// With this stop reason; parked or not.
    Stopped(&'static str, bool),
    /// The model refused.
    Failed,
}

impl Inner {
    pub(crate) async fn take_up(&self, take: &TakeUp, sink: Sink) -> Result<TakenUp, AgentError> {
        self.dawdle().await;
        let busy = lock(&self.sessions).get(&take.session).is_some_and(|open| open.busy);
        if !self.store.lock().histories.contains_key(&take.session) {
            return Err(AgentError::NoSession(take.session.to_string()));
        }
        if !busy {
            self.open(&take.session, sink);
        }
        for stored in &take.stored {
            let dead = || AgentError::Gone(Default::default());
            self.write_stored(&take.session, stored).await.map_err(|Gone| dead())?;
        }
        let store = self.store.lock();
        let history = &store.histories[&take.session];
        let tail = history.tail();
        let restorable = self.restore && !busy && assess(&tail).is_ok();
        let hint = restorable && !take.suppress;
        let turn = tail.turn();
        Ok(TakenUp {
            session: Some(take.session.clone()),
            hint,
            tail: Some(AgentTail {
                turn: turn.map(|turn| turn.record.clone()),
                open: turn.map(|turn| turn.open()).unwrap_or_default(),
                last_prompt: history.last_prompt(),
                restorable,
            }),
            state: Value::Null,
            replay: Vec::new(),
        })
    }

    /// Writes what was decided meanwhile, if the call still dangles (R21).
    async fn write_stored(&self, session: &SessionId, stored: &StoredEnd) -> Result<(), Gone> {
        let (tail, prompt) = {
            let store = self.store.lock();
            (store.histories[session].tail(), store.histories[session].last_prompt())
        };
        let dangles = tail.turn().is_some_and(|turn| {
            stored.turn.as_ref() == Some(&turn.record) && turn.open().contains(&stored.call)
        });
        if !dangles {
            return Ok(());
        }
        let questions = self.questions_of(session, &stored.call);
        match Asked::from_response(&stored.response, &questions, true) {
            Ok(asked) => match asked.result(&questions) {
                Some((text, _)) => {
                    let declined = asked == Asked::Declined;
                    let call = stored.call.clone();
                    self.write(session, Record::Result { call, prompt, text, declined, repaired: false })
                        .await
                }
                None => Ok(()),
            },
            Err(problem) => {
                self.store.violation(format!("a stored end cannot be read: {problem}"));
                Ok(())
            }
        }
    }

    fn questions_of(&self, session: &SessionId, call: &CallId) -> Vec<Question> {
        let store = self.store.lock();
        let calls = store.histories[session].0.iter().filter_map(|record| match record {
            Record::Model { calls, .. } => Some(calls),
            _ => None,
        });
        let found = calls.flatten().find(|asked| asked.id == *call);
        found.and_then(|call| parse_questions(&call.args).ok()).unwrap_or_default()
    }

    pub(crate) async fn turn(&self, prompt: AgentPrompt) {
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
        let end = match end {
            Ok(End::Stopped(stop_reason, parked)) => {
                let meta = if parked { json!({ "holdpoint.parked": true }) } else { json!({}) };
                Ok(PromptEnd { stop_reason: stop_reason.to_owned(), meta })
            }
            Ok(End::Failed) => {
                Err(AgentError::Refused { code: -32603, message: "the model refused".to_owned(), data: None })
            }
            Err(Gone) => return,
        };
        let _ = self.send(&open.sink, FromAgent::PromptEnded { prompt: prompt.prompt, end }).await;
    }

    async fn drive(&self, prompt: &AgentPrompt, open: &Open) -> Result<End, Gone> {
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
                    Some(Ok(Restore::GoOn { turn, cut_off })) => {
                        if !cut_off.is_empty() {
                            self.repair(session, &open.sink).await?;
                        }
                        Some((turn, Vec::new()))
                    }
                    _ => return Ok(End::Stopped("end_turn", false)),
                }
            }
        };
        loop {
            if let Some((turn, calls)) = batch.take() {
                match self.settle(prompt, open, &turn, &calls).await? {
                    Batch::CallModel => {}
                    Batch::AllDeclined => {
                        self.write(session, Record::Ended).await?;
                        return Ok(End::Stopped("end_turn", false));
                    }
                    Batch::Parked => return Ok(End::Stopped("cancelled", true)),
                }
            }
            let thinking = self.dawdle();
            tokio::select! {
                biased;
                () = open.cancel.cancelled() => {}
                () = thinking => {}
            }
            if open.cancel.is_cancelled() {
                self.write(session, Record::Ended).await?;
                return Ok(End::Stopped("cancelled", false));
            }
            if self.one_in(30) {
                self.write(session, Record::Ended).await?;
                return Ok(End::Failed);
            }
            let (turn, calls) = self.think(session);
            let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
            let last = calls.is_empty();
            self.write(session, Record::Model { id: turn.clone(), prompt: id.clone(), calls }).await?;
            if last {
                self.write(session, Record::Ended).await?;
                return Ok(End::Stopped("end_turn", false));
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
            self.write(session, Record::repair(call.clone(), prompt.clone())).await?;
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
        let mut waiting = FuturesUnordered::new();
        for call in all.iter().filter(|call| calls.contains(&call.id)) {
            let (sender, receiver) = oneshot::channel();
            let params = ask_params(session, turn, call);
            let responder = Box::new(SimRespond { sender, crash: self.crash.clone() });
            self.send(&open.sink, FromAgent::Ask { params, responder }).await?;
            waiting.push(async move {
                // A responder that is dropped never answers: the agent waits on.
                let Ok(answer) = receiver.await else { std::future::pending().await };
                (call, answer)
            });
        }
        let mut parked = false;
        while let Some((call, answer)) = waiting.next().await {
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
                    self.write_result(&prompt.prompt, session, &call.id, text, declined).await?;
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

    async fn write_result(
        &self,
        prompt: &PromptId,
        session: &SessionId,
        call: &CallId,
        text: String,
        declined: bool,
    ) -> Result<(), Gone> {
        let (call, prompt) = (call.clone(), Some(prompt.clone()));
        self.write(session, Record::Result { call, prompt, text, declined, repaired: false }).await
    }
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

/// The way back to an agent that asks: a send of the daemon.
struct SimRespond {
    sender: oneshot::Sender<Result<Value, String>>,
    crash: Crash,
}

impl SimRespond {
    fn send(self, answer: Result<Value, String>) {
        if self.crash.point() != Some(false) {
            let _ = self.sender.send(answer);
        }
    }
}

impl Respond for SimRespond {
    fn respond(self: Box<Self>, result: Value) {
        self.send(Ok(result));
    }

    fn refuse(self: Box<Self>, message: String) {
        self.send(Err(message));
    }
}
