//! An agent that asks what its prompt tells it to, keeps its history over the daemon's lives, and restores as
//! ours does: results one by one, nothing written for what nobody decided.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use holdpoint_engine::port::{
    Agent, AgentError, AgentInfo, AgentPrompt, AgentTail, Agents, FromAgent, NewSession, PromptEnd,
    PromptKind, Reply, Respond, TakeUp, TakenUp,
};
use holdpoint_model::asked::Asked;
use holdpoint_model::ids::{CallId, PromptId, RecordId, SessionId};
use holdpoint_model::question::{Question, parse_questions};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

type Sink = mpsc::Sender<FromAgent>;

/// What is written, over all lives.
#[derive(Clone, Default)]
pub(crate) struct Histories(Arc<Mutex<HashMap<SessionId, History>>>);

#[derive(Clone, Default)]
struct History {
    turns: u32,
    /// The trailing model turn, and whether a text followed its results.
    turn: Option<Turn>,
    ended: bool,
    last_prompt: Option<PromptId>,
}

#[derive(Clone)]
struct Turn {
    record: RecordId,
    calls: Vec<Call>,
}

#[derive(Clone)]
struct Call {
    id: CallId,
    /// The arguments of a question; `None` asks for consent.
    args: Option<Value>,
    result: Option<String>,
}

impl Histories {
    /// The results of the session's trailing turn, in call order; `None` dangles.
    pub(crate) fn results(&self, session: &str) -> Vec<Option<String>> {
        let session = SessionId::new(session).unwrap();
        let turn = self.0.lock().unwrap()[&session].turn.clone();
        turn.into_iter().flat_map(|turn| turn.calls).map(|call| call.result).collect()
    }

    fn with<T>(&self, session: &SessionId, change: impl FnOnce(&mut History) -> T) -> T {
        change(self.0.lock().unwrap().entry(session.clone()).or_default())
    }
}

/// The questions of one call: `parts` of them.
fn questions(words: &str, parts: usize) -> Value {
    let part = |n: usize| {
        json!({
            "question": format!("{words} {n}?"),
            "header": format!("Head{n}"),
            "options": [
                { "label": "Red", "description": "warm" },
                { "label": "Blue", "description": "cold" },
            ],
        })
    };
    json!({ "questions": (0..parts).map(part).collect::<Vec<_>>() })
}

/// What is wrong with the agent.
#[derive(Clone, Debug, Default)]
pub(crate) enum Trouble {
    #[default]
    Nothing,
    /// There is no process to be had.
    NoProcess(AgentError),
    /// It takes no stored session up.
    Refuses(AgentError),
    /// It does not answer when it is to take a stored session up.
    Hangs,
}

/// The same for all lives; it may change at any time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Troubles(Arc<Mutex<Trouble>>);

impl Troubles {
    pub(crate) fn set(&self, trouble: Trouble) {
        *self.0.lock().unwrap() = trouble;
    }

    fn now(&self) -> Trouble {
        self.0.lock().unwrap().clone()
    }
}

/// What a prompt makes the model call: `ask`, `ask N` (a batch), `parts N`, `permit`, `leave` (it asks for consent, and
/// ends its turn without waiting for it); else nothing. `lose` is a
/// question that is announced and never asked.
fn script(text: &str) -> Vec<Option<Value>> {
    let (word, count) = text.split_once(' ').unwrap_or((text, "1"));
    let count = count.parse().unwrap_or(1);
    match word {
        "ask" => (0..count).map(|n| Some(questions(&format!("Which {n}"), 1))).collect(),
        "parts" => vec![Some(questions("Which", count))],
        "permit" | "leave" => vec![None],
        _ => Vec::new(),
    }
}

/// The agent processes of one life of the daemon: there is one.
pub(crate) struct Askers {
    agent: Arc<Asker>,
}

impl Askers {
    pub(crate) fn new(histories: Histories, troubles: Troubles) -> Self {
        let info = AgentInfo { name: "asker".to_owned(), ours: true, can_load: true, ..AgentInfo::default() };
        let inner = Arc::new(Inner { histories, troubles, sinks: Mutex::default(), stops: Mutex::default() });
        Self { agent: Arc::new(Asker { info, inner }) }
    }
}

impl Agents for Askers {
    fn connect(&self, _: &str, _: &str) -> Reply<Result<Arc<dyn Agent>, AgentError>> {
        let agent: Arc<dyn Agent> = Arc::clone(&self.agent) as _;
        let connected = match self.agent.inner.troubles.now() {
            Trouble::NoProcess(error) => Err(error),
            Trouble::Nothing | Trouble::Refuses(_) | Trouble::Hangs => Ok(agent),
        };
        Box::pin(std::future::ready(connected))
    }

    fn stop(&self) -> Reply<()> {
        // Killed with its pipes open (I12): what it waits for never comes.
        self.agent.inner.sinks.lock().unwrap().clear();
        Box::pin(std::future::ready(()))
    }

    fn alive(&self) -> usize {
        1
    }
}

struct Asker {
    info: AgentInfo,
    inner: Arc<Inner>,
}

struct Inner {
    histories: Histories,
    troubles: Troubles,
    sinks: Mutex<HashMap<SessionId, Sink>>,
    /// Turns that wait for a stop.
    stops: Mutex<HashMap<SessionId, oneshot::Sender<()>>>,
}

impl Agent for Asker {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    fn pid(&self) -> Option<u32> {
        None
    }

    fn new_session(&self, new: NewSession, sink: Sink) -> Reply<Result<TakenUp, AgentError>> {
        self.inner.histories.with(&new.session, |_| ());
        self.inner.sinks.lock().unwrap().insert(new.session, sink);
        Box::pin(std::future::ready(Ok(TakenUp::default())))
    }

    fn take_up(&self, take: TakeUp, sink: Sink) -> Reply<Result<TakenUp, AgentError>> {
        match self.inner.troubles.now() {
            Trouble::Nothing | Trouble::NoProcess(_) => {}
            Trouble::Refuses(error) => return Box::pin(std::future::ready(Err(error))),
            Trouble::Hangs => return Box::pin(std::future::pending()),
        }
        self.inner.sinks.lock().unwrap().insert(take.session.clone(), sink);
        let taken = self.inner.histories.with(&take.session, |history| history.take_up(&take));
        Box::pin(std::future::ready(Ok(taken)))
    }

    fn prompt(&self, prompt: AgentPrompt) {
        tokio::spawn(Arc::clone(&self.inner).turn(prompt));
    }

    fn cancel(&self, session: &SessionId) {
        if let Some(stop) = self.inner.stops.lock().unwrap().remove(session) {
            let _ = stop.send(());
        }
    }

    fn close(&self, session: &SessionId) -> Reply<()> {
        self.inner.sinks.lock().unwrap().remove(session);
        Box::pin(std::future::ready(()))
    }

    fn set_mode(&self, _: &SessionId, _: &str) -> Reply<Result<(), AgentError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl History {
    fn take_up(&mut self, take: &TakeUp) -> TakenUp {
        let calls = self.turn.iter_mut().flat_map(|turn| {
            let record = turn.record.clone();
            turn.calls.iter_mut().map(move |call| (record.clone(), call))
        });
        for (record, call) in calls {
            let end =
                take.stored.iter().find(|end| end.call == call.id && end.turn.as_ref() == Some(&record));
            if let (Some(end), None) = (end, &call.result) {
                call.result = call.read(&end.response);
            }
        }
        let open: Vec<_> = self.dangling().map(|call| call.id.clone()).collect();
        let questions = self.dangling().all(|call| call.args.is_some());
        let goes_on = !self.ended && self.turn.is_some();
        let restorable = questions && goes_on;
        TakenUp {
            hint: restorable && !take.suppress,
            tail: Some(AgentTail {
                turn: self.turn.as_ref().map(|turn| turn.record.clone()),
                open,
                last_prompt: self.last_prompt.clone(),
                restorable,
            }),
            ..TakenUp::default()
        }
    }

    fn dangling(&self) -> impl Iterator<Item = &Call> {
        self.turn.iter().flat_map(|turn| &turn.calls).filter(|call| call.result.is_none())
    }
}

impl Call {
    fn questions(&self) -> Vec<Question> {
        self.args.as_ref().map(|args| parse_questions(args).unwrap()).unwrap_or_default()
    }

    fn read(&self, response: &Value) -> Option<String> {
        if self.args.is_none() {
            return Some(response["outcome"]["optionId"].as_str().unwrap_or("cancelled").to_owned());
        }
        let questions = self.questions();
        Asked::from_response(response, &questions, true).unwrap().result(&questions).map(|(text, _)| text)
    }

    fn params(&self, session: &SessionId, record: &RecordId) -> Value {
        let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
        match &self.args {
            Some(args) => json!({
                "sessionId": session,
                "options": [option("proceed_once", "allow_once"), option("cancel", "reject_once")],
                "toolCall": {
                    "toolCallId": self.id,
                    "title": "Ask",
                    "rawInput": args,
                    "_meta": { "qwenInteractionKind": "user_question", "holdpoint.turnRecord": record },
                },
            }),
            None => json!({
                "sessionId": session,
                "options": [
                    option("proceed_once", "allow_once"),
                    option("proceed_always", "allow_always"),
                    option("cancel", "reject_once"),
                ],
                "toolCall": {
                    "toolCallId": self.id,
                    "title": "rm -r build",
                    "kind": "execute",
                    "rawInput": { "command": "rm -r build" },
                    "_meta": { "holdpoint.turnRecord": record },
                },
            }),
        }
    }
}

/// The way back of one question.
struct Waits(oneshot::Sender<Value>);

impl Respond for Waits {
    fn respond(self: Box<Self>, result: Value) {
        let _ = self.0.send(result);
    }

    fn refuse(self: Box<Self>, message: String) {
        panic!("the daemon takes what is asked: {message}");
    }
}

impl Inner {
    async fn turn(self: Arc<Self>, prompt: AgentPrompt) {
        let AgentPrompt { session, prompt, kind, .. } = prompt;
        let Some(sink) = self.sinks.lock().unwrap().get(&session).cloned() else { return };
        let mut leaves = false;
        if let PromptKind::Client { blocks } = &kind {
            let text = blocks[0]["text"].as_str().unwrap_or_default();
            leaves = text == "leave";
            self.histories.with(&session, |history| history.begin(script(text), &prompt));
            if text == "lose" {
                return self.lose(&sink, &session, prompt).await;
            }
        }
        let turn = self.histories.with(&session, |history| history.turn.clone());
        let Some(turn) = turn else { return self.end(&sink, &session, prompt, "end_turn").await };
        let mut waits = Vec::new();
        for (at, call) in turn.calls.iter().enumerate().filter(|(_, call)| call.result.is_none()) {
            let (sender, receiver) = oneshot::channel();
            let params = call.params(&session, &turn.record);
            if sink.send(FromAgent::Ask { params, responder: Box::new(Waits(sender)) }).await.is_err() {
                return;
            }
            waits.push((at, receiver));
        }
        if leaves {
            return self.end(&sink, &session, prompt, "end_turn").await;
        }
        let answers = waits.into_iter().map(|(at, receiver)| async move { (at, receiver.await) });
        let mut answers: FuturesUnordered<_> = answers.collect();
        // One by one, as they come (R21).
        while let Some(answer) = answers.next().await {
            // The daemon went away: nothing was decided.
            let (at, Ok(response)) = answer else { return };
            let call = &turn.calls[at];
            let Some(text) = call.read(&response) else { continue };
            self.histories.with(&session, |history| {
                if let Some(turn) = &mut history.turn {
                    turn.calls[at].result = Some(text);
                }
            });
            let update = json!({
                "sessionUpdate": "tool_call_update",
                "toolCallId": call.id,
                "status": "completed",
            });
            if sink.send(FromAgent::Update(update)).await.is_err() {
                return;
            }
        }
        let open = self.histories.with(&session, |history| history.dangling().count());
        self.end(&sink, &session, prompt, if open == 0 { "end_turn" } else { "cancelled" }).await;
    }

    /// Waits for an answer to what it never asked, until it is stopped.
    async fn lose(&self, sink: &Sink, session: &SessionId, prompt: PromptId) {
        let (sender, stopped) = oneshot::channel();
        self.stops.lock().unwrap().insert(session.clone(), sender);
        let call = json!({
            "sessionUpdate": "tool_call",
            "toolCallId": "call_lost",
            "status": "pending",
            "_meta": { "toolName": "ask_user_question" },
        });
        let _ = sink.send(FromAgent::Update(call)).await;
        let _ = stopped.await;
        self.end(sink, session, prompt, "cancelled").await;
    }

    async fn end(&self, sink: &Sink, session: &SessionId, prompt: PromptId, stop_reason: &str) {
        if stop_reason == "end_turn" {
            self.histories.with(session, |history| history.ended = true);
        }
        let end = PromptEnd { stop_reason: stop_reason.to_owned(), meta: json!({}) };
        let _ = sink.send(FromAgent::PromptEnded { prompt, end: Ok(end) }).await;
    }
}

impl History {
    fn begin(&mut self, calls: Vec<Option<Value>>, prompt: &PromptId) {
        self.turns += 1;
        self.last_prompt = Some(prompt.clone());
        self.ended = false;
        let turns = self.turns;
        let call = |(at, args)| Call { id: CallId::new(format!("call_{at}")).unwrap(), args, result: None };
        self.turn = (!calls.is_empty()).then(|| Turn {
            record: RecordId::new(format!("record-{turns}")).unwrap(),
            calls: calls.into_iter().enumerate().map(call).collect(),
        });
    }
}
