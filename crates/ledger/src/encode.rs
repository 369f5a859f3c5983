//! An append as it is stored, and back. Encoding runs where the append is made, so that the one thread that
//! writes only writes.

use std::sync::Arc;

use holdpoint_model::ids::{ClientId, Generation, Micros, PromptId, QuestionId, RequestId, SessionId};
use holdpoint_model::session::{Asking, Body, CallKey, Question, Shown, State, VoteOption};
use serde::{Deserialize, Serialize};

use crate::contract::{Append, SessionRow};

/// An open question, in the column `state`.
pub(crate) const OPEN: i64 = 0;
/// A decided one.
pub(crate) const SETTLED: i64 = 1;
/// One that ended without a decision.
pub(crate) const CLOSED: i64 = 2;

/// An append whose JSON is made.
pub(crate) struct Encoded {
    pub(crate) session: SessionId,
    pub(crate) expected: u64,
    pub(crate) at: Micros,
    pub(crate) events: Vec<String>,
    pub(crate) row: SessionRow,
    pub(crate) questions: Vec<EncodedQuestion>,
    /// About how much it takes in memory and on disk, in bytes.
    pub(crate) bytes: usize,
}

/// A question's row. What changes of it is JSON already; the rest of it is stored once, and not made again every time.
pub(crate) struct EncodedQuestion {
    pub(crate) question: Arc<Question>,
    pub(crate) head: String,
}

impl EncodedQuestion {
    /// The column `state`.
    pub(crate) fn state(&self) -> i64 {
        state_code(&self.question.state)
    }

    /// The column `list`: an answer that the agent does not have yet keeps its question among the current ones.
    pub(crate) fn list(&self) -> i64 {
        let owed = self.question.body.is_question() && !self.question.delivered;
        match self.state() {
            SETTLED if owed => OPEN,
            state => state,
        }
    }

    /// What is put to people.
    ///
    /// # Errors
    /// It has no JSON.
    pub(crate) fn body(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&self.question.body)
    }
}

/// All of a question but its id, its time and its body.
#[derive(Serialize)]
struct Head<'a> {
    generation: Generation,
    call: &'a CallKey,
    prompt: &'a Option<PromptId>,
    author: &'a Option<ClientId>,
    title: &'a str,
    options: &'a [VoteOption],
    requests: &'a [RequestId],
    asking: &'a Option<Asking>,
    state: &'a State,
    delivered: bool,
    #[serde(skip_serializing_if = "<[Shown]>::is_empty")]
    shown: &'a [Shown],
}

#[derive(Deserialize)]
struct StoredHead {
    generation: Generation,
    call: CallKey,
    prompt: Option<PromptId>,
    author: Option<ClientId>,
    title: String,
    options: Vec<VoteOption>,
    requests: Vec<RequestId>,
    asking: Option<Asking>,
    state: State,
    delivered: bool,
    #[serde(default)]
    shown: Vec<Shown>,
}

/// What a caller may not append; the text says why.
///
/// # Errors
/// The append contradicts itself.
pub(crate) fn check(append: &Append) -> Result<(), String> {
    if append.events.is_empty() {
        return Err("an append without events".to_owned());
    }
    if append.row.session != append.session {
        return Err(format!("an append to {} with the row of {}", append.session, append.row.session));
    }
    Ok(())
}

/// Makes the JSON of an append.
///
/// # Errors
/// The append contradicts itself, or something in it has no JSON; the text says what.
pub(crate) fn encode(append: Append) -> Result<Encoded, String> {
    check(&append)?;
    let Append { session, expected, at, events, row, questions, urgency: _ } = append;
    let events = events
        .iter()
        .map(|event| serde_json::to_string(event).map_err(|err| format!("event {}: {err}", event.name())))
        .collect::<Result<Vec<_>, _>>()?;
    let questions = questions
        .into_iter()
        .map(|question| {
            let id = question.id.clone();
            encode_question(question).map_err(|err| format!("question {id}: {err}"))
        })
        .collect::<Result<Vec<_>, _>>()?;
    // The columns beside the JSON are short; a constant stands for them. A body that is stored is in an event too.
    let events_bytes = events.iter().map(|event| event.len() + 64).sum::<usize>();
    let bytes = 512 + 2 * events_bytes + questions.iter().map(|row| row.head.len() + 256).sum::<usize>();
    Ok(Encoded { session, expected, at, events, row, questions, bytes })
}

fn encode_question(question: Arc<Question>) -> Result<EncodedQuestion, serde_json::Error> {
    // Named one by one, so that a new field cannot be forgotten here.
    let Question {
        id: _,
        generation,
        call,
        prompt,
        author,
        title,
        body: _,
        options,
        asked_at: _,
        requests,
        asking,
        state,
        delivered,
        shown,
    } = question.as_ref();
    let head = serde_json::to_string(&Head {
        generation: *generation,
        call,
        prompt,
        author,
        title,
        options,
        requests,
        asking,
        state,
        delivered: *delivered,
        shown,
    })?;
    Ok(EncodedQuestion { question, head })
}

pub(crate) fn state_code(state: &State) -> i64 {
    match state {
        State::Open => OPEN,
        State::Settled(_) => SETTLED,
        State::Closed { .. } => CLOSED,
    }
}

/// A question from its row.
///
/// # Errors
/// The JSON is not what this version writes.
pub(crate) fn decode_question(
    id: QuestionId,
    asked_at: Micros,
    head: &str,
    body: &str,
) -> Result<Question, serde_json::Error> {
    let head: StoredHead = serde_json::from_str(head)?;
    let body: Body = serde_json::from_str(body)?;
    Ok(Question {
        id,
        generation: head.generation,
        call: head.call,
        prompt: head.prompt,
        author: head.author,
        title: head.title,
        body,
        options: head.options,
        asked_at,
        requests: head.requests,
        asking: head.asking,
        state: head.state,
        delivered: head.delivered,
        shown: head.shown,
    })
}
