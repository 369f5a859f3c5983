//! The calls of one model turn: all questions at once, everything else in order, each result stored as it
//! comes (Q4, Q8, R18, R21).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use holdpoint_model::asked::Asked;
use holdpoint_model::history::Content;
use holdpoint_model::ids::{CallId, RecordId};
use holdpoint_model::question::{MAX_AT_ONCE, Question, TOOL_NAME, parse_questions};
use holdpoint_model::restore::{OpenQuestion, Settlement, TailResult, TailTurn, settlement};
use holdpoint_transcript::{Cause, Durability};
use serde_json::{Value, json};

use super::ask::{AskEnd, Asking, CallRef, Permission, askable, locations, permit};
use super::scribe::{Outcome, updates};
use super::store::StoreError;
use super::turn::Turn;
use crate::params::keys;
use crate::provider::ModelConfig;
use crate::tools::Verdict;
use crate::tools::approval;

/// What the model reads of a call that was never begun because its turn was stopped.
const NOT_BEGUN: &str = "Cancelled before it ran: the turn was stopped. Nothing was done.";
/// What the model reads when a person refused a call.
const NOT_ALLOWED: &str =
    "The person declined this call, so it was not run. Do not try the same by another way.";
/// What the model reads when nobody decided about a call.
const UNDECIDED: &str = "Not run: the request for permission ended without a decision.";

/// Most questions of one batch: what a session may ask at once, and room for one permission.
const MOST_QUESTIONS: usize = MAX_AT_ONCE - 1;

/// How long a restored question is with people before the history is read: the question is to reach them first,
/// and nobody answers faster.
const THINK: Duration = Duration::from_millis(300);

/// One call of a batch.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) name: String,
    pub(crate) args: Value,
    /// How it ended, where it did.
    pub(crate) result: Option<TailResult>,
}

/// The calls of one model turn.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The record of the model turn.
    pub(crate) turn: RecordId,
    pub(crate) calls: Vec<Call>,
    /// The results that this process stored, in the order in which they came.
    pub(crate) results: Vec<Content>,
    /// The questions were asked by an earlier process, or an earlier turn of this one.
    pub(crate) restored: bool,
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchEnd {
    /// Every call has a result, and the model is to read them.
    CallModel,
    /// Every call was declined by a person (Q7).
    AllDeclined,
    /// A question has no answer and stays open (R10).
    Parked,
}

impl Batch {
    /// The batch of a turn that was just stored.
    pub(crate) fn fresh(turn: RecordId, calls: Vec<Call>) -> Self {
        Self { turn, calls, results: Vec::new(), restored: false }
    }

    /// The batch of a stored turn.
    pub(crate) fn restored(turn: &TailTurn) -> Self {
        let calls = turn.calls.iter().filter_map(|call| {
            Some(Call {
                id: call.id.clone()?,
                name: call.name.clone(),
                args: call.args.clone(),
                result: call.result,
            })
        });
        Self { turn: turn.record.clone(), calls: calls.collect(), results: Vec::new(), restored: true }
    }

    /// The ids of the calls, in order.
    pub(crate) fn ids(&self) -> Vec<CallId> {
        self.calls.iter().map(|call| call.id.clone()).collect()
    }

    fn end(&self) -> BatchEnd {
        match settlement(self.calls.iter().map(|call| (Some(&call.id), call.result))) {
            Settlement::Open => BatchEnd::Parked,
            Settlement::CallModel => BatchEnd::CallModel,
            Settlement::AllDeclined => BatchEnd::AllDeclined,
        }
    }
}

/// The first frame of a call (WIRE b.3).
pub(crate) fn first_frame(call: &Call, meta: Value) -> Value {
    let description = holdpoint_transcript::replay::describe(&call.name, &call.args);
    let mut meta = meta;
    meta["toolName"] = json!(call.name);
    meta["provenance"] = json!("builtin");
    let mut raw_input = call.args.clone();
    if call.name == TOOL_NAME {
        meta["phase"] = json!("preparing");
        raw_input = json!({});
    }
    json!({
        "sessionUpdate": "tool_call",
        "toolCallId": call.id,
        "status": "pending",
        "title": description.title,
        "kind": description.kind,
        "content": [],
        "locations": [],
        "rawInput": raw_input,
        "_meta": meta,
    })
}

/// A question whose asking has ended.
struct Ended {
    at: usize,
    questions: Vec<Question>,
    end: AskEnd,
}

/// How a call of another tool ended; `None`: nothing may be written.
struct Ran {
    at: usize,
    outcome: Option<Outcome>,
}

impl Turn {
    /// Asks and runs what has no result yet, and stores each result as it comes.
    pub(crate) async fn run_batch(&mut self, batch: &mut Batch) -> Result<BatchEnd, StoreError> {
        let mut asking: FuturesUnordered<BoxFuture<'static, Ended>> = FuturesUnordered::new();
        let mut waiting: VecDeque<usize> = VecDeque::new();
        for at in 0..batch.calls.len() {
            let call = &batch.calls[at];
            if call.result.is_some() {
                continue;
            }
            if call.name != TOOL_NAME {
                waiting.push_back(at);
                continue;
            }
            let parsed =
                parse_questions(&call.args).map_err(|error| error.to_string()).and_then(|questions| {
                    askable(self.client, &questions).map_err(str::to_owned)?;
                    Ok(questions)
                });
            match parsed {
                Ok(_) if !batch.restored && asking.len() >= MOST_QUESTIONS => {
                    let problem = format!(
                        "No more than {MOST_QUESTIONS} questions can be asked at once, and this one was too many; ask \
                         it when the others have their answers."
                    );
                    self.settle(batch, at, Outcome::error(Cause::Invalid, problem)).await?;
                }
                Ok(questions) => {
                    let ask = self.ask(batch, at, questions.clone());
                    asking.push(async move { Ended { at, questions, end: ask.end().await } }.boxed());
                }
                // Q2: the model is told, and nobody waits.
                Err(problem) => self.settle(batch, at, Outcome::error(Cause::Invalid, problem)).await?,
            }
        }

        let mut running: Option<BoxFuture<'static, Ran>> = None;
        // The model needs the history, the questions don't (E8): it is read while people think.
        let mut think = batch.restored.then(|| Box::pin(tokio::time::sleep(THINK)));
        loop {
            if running.is_none()
                && let Some(at) = waiting.pop_front()
            {
                running = Some(self.run_call(batch, at));
            }
            tokio::select! {
                Some(asked) = asking.next(), if !asking.is_empty() => {
                    let outcome = match asked.end {
                        AskEnd::Ended(end) => {
                            match end {
                                Asked::Halted => self.halted(&batch.calls[asked.at].id),
                                Asked::Unattended => self.left_open(&batch.calls[asked.at].id),
                                _ => {}
                            }
                            Outcome::of_question(&end, &asked.questions)
                        }
                        AskEnd::Unreadable(problem) => Some(Outcome::error(
                            Cause::Invalid,
                            format!("The client's answer could not be read: {problem}. Nothing was chosen."),
                        )),
                    };
                    if let Some(outcome) = outcome {
                        self.settle(batch, asked.at, outcome).await?;
                    }
                }
                () = poll_opt(&mut think), if think.is_some() && !asking.is_empty() => {
                    think = None;
                    self.store.start_reading();
                }
                ran = poll_opt(&mut running), if running.is_some() => {
                    running = None;
                    if let Some(outcome) = ran.outcome {
                        self.settle(batch, ran.at, outcome).await?;
                    }
                }
                else => break,
            }
        }
        Ok(batch.end())
    }

    /// Sends one question.
    fn ask(&self, batch: &Batch, at: usize, questions: Vec<Question>) -> Asking {
        let call = self.call_ref(batch, at);
        Asking::send(
            &self.peer,
            self.client,
            &call,
            questions,
            batch.restored,
            self.config.restore,
            self.stop.clone(),
        )
    }

    fn call_ref(&self, batch: &Batch, at: usize) -> CallRef {
        let call = &batch.calls[at];
        CallRef {
            session: self.scribe.session.to_string(),
            turn: batch.turn.clone(),
            call: call.id.clone(),
            name: call.name.clone(),
            args: call.args.clone(),
        }
    }

    /// Stores the result of a call, and only then shows it (Q8, I1).
    pub(crate) async fn settle(
        &mut self,
        batch: &mut Batch,
        at: usize,
        outcome: Outcome,
    ) -> Result<(), StoreError> {
        let call = &mut batch.calls[at];
        let result = outcome.cause.tail_result();
        let record = self.scribe.result(&call.id, &call.name, outcome);
        let record = self.store.append(record, Durability::Fsync).await?;
        call.result = Some(result);
        batch.results.extend(record.message.clone());
        holdpoint_crashpoint::hit("agent.result_stored");
        for update in updates(&record) {
            self.update(update).await;
        }
        Ok(())
    }

    /// One call of a tool of the workspace, from its plan to its outcome.
    fn run_call(&self, batch: &Batch, at: usize) -> BoxFuture<'static, Ran> {
        let call = self.call_ref(batch, at);
        let (peer, tools, modes, stop) =
            (self.peer.clone(), self.tools.clone(), self.modes.clone(), self.stop.clone());
        let meta = self.meta(&batch.turn);
        let config = Arc::clone(&self.config);
        async move {
            let done = |outcome| Ran { at, outcome: Some(outcome) };
            if stop.is_set() {
                return done(Outcome::error(Cause::Cancelled, NOT_BEGUN));
            }
            let planned = match tools.plan(&call.name, &call.args).await {
                Ok(planned) => planned,
                Err(error) => return done(Outcome::error(Cause::Invalid, error.to_string())),
            };
            let granted = modes.is_granted(planned.tool);
            match approval::decide(modes.mode(), planned.effects, planned.outside_workspace, granted) {
                Verdict::Allow => {}
                Verdict::Refuse(text) => return done(Outcome::error(Cause::Policy, text)),
                Verdict::Ask => match permit(&peer, &call, &planned, &stop).await {
                    Permission::Once => {}
                    Permission::Always => modes.grant(planned.tool),
                    Permission::Declined => return done(Outcome::error(Cause::NotAllowed, NOT_ALLOWED)),
                    Permission::Undecided if stop.is_set() => {
                        return done(Outcome::error(Cause::Cancelled, NOT_BEGUN));
                    }
                    Permission::Undecided => return done(Outcome::error(Cause::TimedOut, UNDECIDED)),
                    Permission::Gone => return Ran { at, outcome: None },
                },
            }
            let mut meta = meta;
            meta["toolName"] = json!(call.name);
            let update = json!({
                "sessionUpdate": "tool_call_update",
                "toolCallId": call.call,
                "status": "in_progress",
                "title": planned.title,
                "kind": planned.kind,
                "content": planned.content,
                "locations": locations(&planned),
                "_meta": meta,
            });
            peer.update(&call.session, update).await;
            let mut result = tools.run(planned, stop.token()).await;
            result.text = config.model.redact(result.text);
            for content in &mut result.content {
                redact(content, &config.model);
            }
            // What is shown is mostly the text itself; then the record holds it once.
            let is_text = result.content.len() == 1 && result.content[0] == text_content(&result.text);
            done(Outcome {
                content: (!is_text).then_some(result.content),
                text: result.text,
                cause: Cause::Ran,
                is_error: result.is_error,
                answers: None,
            })
        }
        .boxed()
    }

    /// Closes what still dangles at the end of the file, on disk, before anything is sent to the model (R2).
    /// Answers how many calls were closed.
    pub(crate) async fn repair_tail(&mut self) -> Result<usize, StoreError> {
        let scan = self.store.tail().await?;
        let Some(turn) = scan.tail.turn() else { return Ok(0) };
        let mut closed = 0;
        for call in &turn.calls {
            let Some(id) = call.id.as_ref().filter(|_| call.result.is_none()) else { continue };
            let text = if self.store.halted.remove(id) {
                holdpoint_model::asked::texts::CANCELLED_BEFORE_ANSWER
            } else {
                holdpoint_model::restore::repair_text(&call.name)
            };
            let record = self.scribe.result(id, &call.name, Outcome::error(Cause::OrphanRepair, text));
            let record = self.store.append(record, Durability::Fsync).await?;
            for mut update in updates(&record) {
                update["_meta"][keys::TURN_RECORD] = json!(turn.record);
                self.update(update).await;
            }
            closed += 1;
        }
        if closed > 0 {
            self.store.forget();
        }
        Ok(closed)
    }

    /// The first frames of a batch.
    pub(crate) async fn show_calls(&self, batch: &Batch) {
        for call in &batch.calls {
            self.update(first_frame(call, self.meta(&batch.turn))).await;
        }
    }
}

/// Writes answers that people gave and a ledger kept, as the real results of calls that dangle (I4, R21).
/// Answers the records.
pub(crate) fn stored_outcome(open: &OpenQuestion, response: &Value) -> Result<Option<Outcome>, String> {
    let asked = Asked::from_response(response, &open.questions, true)?;
    Ok(Outcome::of_question(&asked, &open.questions))
}

fn text_content(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

async fn poll_opt<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Takes the model's key out of every text of a value.
fn redact(value: &mut Value, model: &ModelConfig) {
    match value {
        Value::String(text) => *text = model.redact(std::mem::take(text)),
        Value::Array(list) => list.iter_mut().for_each(|item| redact(item, model)),
        Value::Object(map) => map.values_mut().for_each(|item| redact(item, model)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
