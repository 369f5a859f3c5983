//! An agent asks; people vote and answer.

use std::sync::Arc;

use holdpoint_model::answers::Answers;
use holdpoint_model::asked::Asked;
use holdpoint_model::ids::{CallId, ClientId, Generation, QuestionId, RecordId, RequestId};
use holdpoint_model::policy::Forbidden;
use holdpoint_model::question::{self, parse_questions};
use holdpoint_model::session::{
    Answerer, Body, CallKey, Command, Event, Question, Rejection, State, UnaskedCause, VoteOption,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::actor::{Actor, Link, Pending};
use super::message::{Answer, AnswerRequest, Receipt, VoteOutcome, VoteRequest};
use crate::error::EngineError;
use crate::port::Respond;
use crate::wire::question as wire;

/// The peer's internal word for a cancel; as an option it is always refused (WIRE c.2).
const CANCEL_SENTINEL: &str = "__cancelled__";

/// An agent's request, read.
struct Asking {
    call: CallKey,
    title: String,
    body: Body,
    options: Vec<VoteOption>,
}

impl Actor {
    /// The agent asks. The question is durable before anybody is told (I1).
    pub(super) async fn ask(&mut self, params: Value, responder: Box<dyn Respond>) {
        holdpoint_crashpoint::hit("daemon.ask_received");
        let asking = match read(&params) {
            Ok(asking) => asking,
            Err(problem) => {
                tracing::warn!(session = %self.id, problem, "the agent asked what cannot be put to people");
                responder.refuse(format!("this cannot be put to people: {problem}"));
                return;
            }
        };
        let request = self.shared.world.request_id();
        let command = Command::Ask {
            life: self.state.life,
            question: self.shared.world.question_id(),
            request: request.clone(),
            call: asking.call,
            title: asking.title,
            body: asking.body,
            options: asking.options,
        };
        // Who answers the agent must be known before the commit's effects run: they may answer at once.
        self.incoming = Some((request, responder));
        let outcome = self.execute(command).await;
        let Some((_, responder)) = self.incoming.take() else { return };
        match outcome {
            // The effects took it.
            Ok(_) => responder.respond(Asked::Unattended.to_response()),
            Err(EngineError::LedgerUnavailable(problem)) => {
                tracing::error!(session = %self.id, problem, "a question cannot be stored; trying again");
                self.stalled.push((params, responder));
                self.stalled_until = Some(Instant::now() + super::actor::STALLED_RETRY);
            }
            Err(EngineError::Rejected(Rejection::TooManyPending(pending))) => {
                tracing::warn!(session = %self.id, pending, "too many questions at once");
                responder.respond(Asked::Unattended.to_response());
            }
            Err(error) => responder.refuse(error.to_string()),
        }
    }

    /// Tries questions again that could not be stored: nobody may be asked what is not durable, and none may
    /// be lost.
    pub(super) async fn ask_stalled(&mut self) {
        self.stalled_until = None;
        for (params, responder) in std::mem::take(&mut self.stalled) {
            self.ask(params, responder).await;
        }
    }

    /// Hands the responder that waits to a question.
    pub(super) fn bind_incoming(&mut self, generation: Generation) -> Option<&mut Pending> {
        let incoming = self.incoming.take()?;
        let pending = self.pending.entry(generation).or_default();
        pending.responders.push(incoming);
        Some(pending)
    }

    pub(super) async fn time_out(&mut self, generation: Generation) {
        if let Some(pending) = self.pending.get_mut(&generation) {
            pending.deadline = None;
        }
        let command = Command::EndAsking { generation: Some(generation), cause: UnaskedCause::TimedOut };
        if let Err(error) = self.execute(command).await {
            tracing::error!(session = %self.id, %generation, %error, "a time-out could not be stored; trying again");
            if let Some(pending) = self.pending.get_mut(&generation) {
                pending.deadline = Some(Instant::now() + super::actor::STALLED_RETRY);
            }
        }
    }

    /// A vote on the peer's route (WIRE c.2).
    pub(super) async fn vote(&mut self, request: RequestId, vote: VoteRequest, reply: Answer<VoteOutcome>) {
        let (client, by) = (vote.voter.client.clone(), vote.by.clone());
        let outcome = self.take_vote(&request, vote).await;
        self.answered(outcome, &by, request.as_str(), client, reply).await;
    }

    /// Takes a vote in the order of its checks.
    async fn take_vote(
        &mut self,
        request: &RequestId,
        vote: VoteRequest,
    ) -> Result<(VoteOutcome, Vec<Event>), EngineError> {
        let Some(question) = self.by_request(request).await? else {
            return Err(Rejection::UnknownQuestion.into());
        };
        self.known(vote.voter.client.as_ref())?;
        if vote.option.as_deref() == Some(CANCEL_SENTINEL) {
            let offered = question.options.iter().map(|option| option.option_id.as_str()).collect::<Vec<_>>();
            return Err(Rejection::InvalidOption {
                option: CANCEL_SENTINEL.to_owned(),
                offered: offered.join(", "),
            }
            .into());
        }
        let dropped = Answers::lenient(vote.answers.as_ref(), question.body.questions())
            .map(|lenient| lenient.dropped)
            .unwrap_or_default();
        if !question.is_open() {
            return Err(settled_rejection(&question).into());
        }
        let command = Command::Vote {
            request: request.clone(),
            voter: vote.voter,
            by: vote.by,
            option: vote.option,
            answers: vote.answers,
        };
        let events = self.commit(command).await?;
        Ok((VoteOutcome { dropped }, events))
    }

    /// The question that was ever asked here under this request id. Old ones are in the ledger only.
    async fn by_request(&mut self, request: &RequestId) -> Result<Option<Arc<Question>>, EngineError> {
        if let Some(question) = self.state.by_request(request) {
            return Ok(Some(Arc::clone(question)));
        }
        let row = self.shared.ledger.question_by_request(request).await?;
        Ok(row.filter(|row| row.session.session == self.id).map(|row| Arc::new(row.question)))
    }

    /// An answer on our own route (D2).
    pub(super) async fn answer(&mut self, id: QuestionId, request: AnswerRequest, reply: Answer<Receipt>) {
        let (client, by) = (request.voter.client.clone(), request.by.clone());
        let outcome = self.take_answer(id, request).await;
        self.answered(outcome, &by, "", client, reply).await;
    }

    async fn take_answer(
        &mut self,
        id: QuestionId,
        request: AnswerRequest,
    ) -> Result<(Receipt, Vec<Event>), EngineError> {
        let response = request.response.clone();
        let events = self
            .commit(Command::Answer {
                question: id.clone(),
                generation: request.generation,
                voter: request.voter,
                by: request.by,
                choice: request.choice,
                response: request.response,
            })
            .await?;
        let Some(question) = self.state.question(&id) else {
            return Err(Rejection::UnknownQuestion.into());
        };
        // Of one that is still open nothing is on its way to the agent yet.
        let delivery = (!question.is_open()).then_some(if question.delivered {
            "delivered"
        } else if matches!(self.link, Link::Up { .. }) {
            "delivering"
        } else {
            "waking"
        });
        let mut receipt = wire::receipt(question, response.as_ref().map(AsRef::as_ref), delivery);
        if !question.is_open() {
            return Ok((Receipt::Settled(receipt), events));
        }
        // Of one client the first vote stands.
        receipt["counted"] = json!(events.iter().any(|event| matches!(event, Event::Voted { .. })));
        Ok((Receipt::Recorded(receipt), events))
    }

    /// Tells the answerer what became of it, and then the world. What was committed is true for them at once; the
    /// stream and the agent need not be in their way.
    async fn answered<T>(
        &mut self,
        outcome: Result<(T, Vec<Event>), EngineError>,
        by: &Answerer,
        request: &str,
        client: Option<ClientId>,
        reply: Answer<T>,
    ) {
        match outcome {
            Ok((outcome, events)) => {
                let _ = reply.send(Ok(outcome));
                // Whoever was told gets to write it now, and not after what follows here.
                tokio::task::yield_now().await;
                self.act(&events);
            }
            Err(error) => {
                self.note_refused(&error, by, request);
                self.wake_if_not_asked(&error, client);
                let _ = reply.send(Err(error));
            }
        }
        self.wake_if_decided();
    }

    /// Tells the stream of a vote that did not count, and the audit of one that was not allowed.
    fn note_refused(&mut self, error: &EngineError, by: &Answerer, request: &str) {
        let EngineError::Rejected(rejection) = error else { return };
        match rejection {
            Rejection::AlreadySettled(question) | Rejection::Closed { question, .. } => {
                let named = if request.is_empty() {
                    question.request().map(ToString::to_string).unwrap_or_default()
                } else {
                    request.to_owned()
                };
                let event = wire::already_resolved_event(&self.id, question, &named);
                self.publish(event);
            }
            Rejection::Forbidden { reason, question } => {
                self.note_refusal(question.generation, by.clone(), *reason);
            }
            _ => {}
        }
    }

    fn note_refusal(&mut self, generation: Generation, by: Answerer, reason: Forbidden) {
        if let Err(error) = self.execute_lazily(Command::NoteRefusal { generation, by, reason }) {
            tracing::warn!(session = %self.id, %error, "a refusal could not be noted");
        }
    }
}

fn settled_rejection(question: &Arc<Question>) -> Rejection {
    match &question.state {
        State::Closed { cause, .. } => Rejection::Closed { cause: *cause, question: Arc::clone(question) },
        State::Open | State::Settled(_) => Rejection::AlreadySettled(Arc::clone(question)),
    }
}

/// Reads the params of `session/request_permission`.
fn read(params: &Value) -> Result<Asking, String> {
    let call = params.get("toolCall").ok_or("there is no toolCall")?;
    let id = call.get("toolCallId").and_then(Value::as_str).ok_or("the toolCall has no toolCallId")?;
    let id = CallId::new(id).map_err(|error| error.to_string())?;
    let meta = call.get("_meta");
    let text = |key: &str| meta.and_then(|meta| meta.get(key)).and_then(Value::as_str);
    let turn = text("holdpoint.turnRecord").and_then(|turn| RecordId::new(turn).ok());
    let options = read_options(params.get("options"))?;
    let (title, body) = if text("qwenInteractionKind") == Some("user_question") {
        let questions = read_questions(call)?;
        (question::title(&questions), Body::UserQuestion { questions })
    } else {
        let title = call.get("title").and_then(Value::as_str).unwrap_or("Allow a tool call?").to_owned();
        (title, Body::Permission { action: call.clone() })
    };
    Ok(Asking { call: CallKey { turn, call: id }, title, body, options })
}

fn read_questions(call: &Value) -> Result<Vec<question::Question>, String> {
    let from_input = call.get("rawInput").map(parse_questions);
    match from_input {
        Some(Ok(questions)) => Ok(questions),
        other => {
            let listed = call.get("_meta").and_then(|meta| meta.get("qwenQuestions"));
            match listed {
                Some(list) => parse_questions(&serde_json::json!({ "questions": list }))
                    .map_err(|error| error.to_string()),
                None => match other {
                    Some(Err(error)) => Err(error.to_string()),
                    _ => Err("the toolCall has no rawInput".to_owned()),
                },
            }
        }
    }
}

fn read_options(options: Option<&Value>) -> Result<Vec<VoteOption>, String> {
    let list = options.and_then(Value::as_array).ok_or("there is no list of options")?;
    let options = list
        .iter()
        .map(|option| serde_json::from_value(option.clone()).map_err(|error| format!("an option: {error}")))
        .collect::<Result<Vec<VoteOption>, _>>()?;
    if options.is_empty() { Err("there are no options".to_owned()) } else { Ok(options) }
}
