//! Appends to test with.

use std::sync::Arc;

use holdpoint_model::ids::{CallId, Generation, Micros, QuestionId, RecordId, RequestId, SessionId};
use holdpoint_model::policy::Capture;
use holdpoint_model::question::{Choice, Question as Asks};
use holdpoint_model::session::{
    Answerer, Asking, Body, CallKey, CloseCause, Decision, Event, Info, Question, Settlement, State,
    VoteOption,
};
use serde_json::json;

use crate::contract::{Append, QuestionCursor, QuestionRow, SessionRow, Urgency};

/// A session's id.
///
/// # Panics
/// `name` is no session id.
pub fn session_id(name: &str) -> SessionId {
    SessionId::new(name).expect("a session id")
}

/// A question's id: `q_` and `name`.
///
/// # Panics
/// `name` holds more than letters and digits.
pub fn question_id(name: &str) -> QuestionId {
    QuestionId::new(format!("q_{name}")).expect("a question id")
}

/// A request's id.
///
/// # Panics
/// `name` is no request id.
pub fn request_id(name: &str) -> RequestId {
    RequestId::new(name).expect("a request id")
}

/// A session as a writer sees it: it knows how many events it has appended, and numbers its questions.
#[derive(Clone, Debug)]
pub struct Book {
    /// Its row.
    pub row: SessionRow,
    /// How many events it has.
    pub version: u64,
    /// How many questions it has asked.
    pub generation: u64,
}

impl Book {
    /// A session that has no event yet, in the workspace `/work`.
    pub fn new(name: &str) -> Self {
        let session = session_id(name);
        let row = SessionRow {
            session,
            workspace_cwd: "/work".to_owned(),
            agent: "holdpoint".to_owned(),
            title: None,
            created_at: Micros(1),
            updated_at: Micros(1),
            source_type: None,
            source_id: None,
            deleted: false,
        };
        Self { row, version: 0, generation: 0 }
    }

    /// The same in another workspace.
    #[must_use]
    pub fn in_workspace(mut self, cwd: &str) -> Self {
        cwd.clone_into(&mut self.row.workspace_cwd);
        self
    }

    /// Appends events and rows of questions, urgently, and counts them.
    pub fn append(&mut self, at: i64, events: Vec<Event>, questions: Vec<Question>) -> Append {
        let expected = self.version;
        self.version += events.len() as u64;
        self.row.updated_at = Micros(at);
        Append {
            session: self.row.session.clone(),
            expected,
            at: Micros(at),
            events,
            row: self.row.clone(),
            questions: questions.into_iter().map(Arc::new).collect(),
            urgency: Urgency::Now,
        }
    }

    /// Its first event.
    pub fn open(&mut self, at: i64) -> Append {
        let info = Info {
            workspace_cwd: self.row.workspace_cwd.clone(),
            agent: self.row.agent.clone(),
            source_type: self.row.source_type.clone(),
            source_id: self.row.source_id.clone(),
            approval_mode: None,
        };
        self.row.created_at = Micros(at);
        self.append(at, vec![Event::Opened { info }], Vec::new())
    }

    /// A new title, which is its row's too.
    pub fn title(&mut self, at: i64, title: &str) -> Append {
        self.row.title = Some(title.to_owned());
        self.append(at, vec![Event::Titled { title: title.to_owned() }], Vec::new())
    }

    /// Asks a question of the model. Its id is `q_<name>`, its request `r-<name>`.
    pub fn ask(&mut self, at: i64, name: &str) -> (Append, Question) {
        let asks = Asks {
            question: format!("Which way, {name}?"),
            header: "Way".to_owned(),
            options: ["Left", "Right"]
                .map(|label| Choice { label: label.to_owned(), description: format!("To the {label}") })
                .into(),
            multi_select: false,
        };
        self.put(at, name, Body::UserQuestion { questions: vec![asks] })
    }

    /// Asks for consent.
    pub fn permission(&mut self, at: i64, name: &str) -> (Append, Question) {
        self.put(at, name, Body::Permission { action: json!({"title": name, "kind": "edit"}) })
    }

    /// Asks anything.
    pub fn put(&mut self, at: i64, name: &str, body: Body) -> (Append, Question) {
        self.generation += 1;
        let question = Question {
            id: question_id(name),
            generation: Generation(self.generation),
            call: CallKey {
                turn: Some(RecordId::new(format!("turn-{name}")).expect("a record id")),
                call: CallId::new(format!("call-{name}")).expect("a call id"),
            },
            prompt: None,
            author: None,
            title: format!("Title of {name}"),
            body,
            options: vec![VoteOption {
                option_id: "proceed_once".to_owned(),
                name: "Submit".to_owned(),
                kind: "allow_once".to_owned(),
            }],
            asked_at: Micros(at),
            requests: vec![request_id(&format!("r-{name}"))],
            asking: Some(asking(&format!("r-{name}"), 1, at)),
            state: State::Open,
            delivered: false,
            shown: Vec::new(),
        };
        let event = Event::Asked {
            question: question.id.clone(),
            generation: question.generation,
            call: question.call.clone(),
            prompt: None,
            author: None,
            title: question.title.clone(),
            body: question.body.clone(),
            options: question.options.clone(),
            asking: asking(&format!("r-{name}"), 1, at),
        };
        (self.append(at, vec![event], vec![question.clone()]), question)
    }

    /// Asks it again under another request id.
    pub fn ask_again(&mut self, at: i64, question: &Question, request: &str) -> (Append, Question) {
        let mut question = question.clone();
        question.requests.push(request_id(request));
        question.asking = Some(asking(request, 2, at));
        let event = Event::Reasked { generation: question.generation, asking: asking(request, 2, at) };
        (self.append(at, vec![event], vec![question.clone()]), question)
    }

    /// Settles it with a no.
    pub fn settle(&mut self, at: i64, question: &Question) -> (Append, Question) {
        let mut question = question.clone();
        let settlement = Settlement {
            decision: Decision::Declined { option_id: None },
            by: Answerer { client_id: None, name: Some("Ada".to_owned()), surface: "http".to_owned() },
            at: Micros(at),
            response: None,
            policy: None,
        };
        question.state = State::Settled(settlement.clone());
        question.asking = None;
        let event = Event::Settled { generation: question.generation, settlement };
        (self.append(at, vec![event], vec![question.clone()]), question)
    }

    /// Its end is in the agent's history.
    pub fn deliver(&mut self, at: i64, question: &Question) -> (Append, Question) {
        let question = Question { delivered: true, ..question.clone() };
        let event = Event::Delivered { generation: question.generation };
        (self.append(at, vec![event], vec![question.clone()]), question)
    }

    /// Closes it without a decision.
    pub fn close(&mut self, at: i64, question: &Question) -> (Append, Question) {
        let mut question = question.clone();
        question.state = State::Closed { cause: CloseCause::Withdrawn, at: Micros(at) };
        question.asking = None;
        let event = Event::Closed { generation: question.generation, cause: CloseCause::Withdrawn };
        (self.append(at, vec![event], vec![question.clone()]), question)
    }
}

fn asking(request: &str, life: u64, at: i64) -> Asking {
    Asking {
        request: request_id(request),
        life,
        since: Micros(at),
        capture: Capture::FirstResponder,
        ballots: Vec::new(),
    }
}

/// The place of a row in its list.
pub fn cursor(row: &QuestionRow) -> QuestionCursor {
    QuestionCursor { asked_at: row.question.asked_at, id: row.question.id.clone() }
}
