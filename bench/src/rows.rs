//! Rows for the ledger, made without a daemon.

use holdpoint_ledger::{Append, SessionRow, Urgency};
use holdpoint_model::answers::Answers;
use holdpoint_model::ids::{CallId, Generation, Micros, QuestionId, RecordId, RequestId, SessionId};
use holdpoint_model::policy::Capture;
use holdpoint_model::question::{Choice, Question as Asks};
use holdpoint_model::session::{
    Answerer, Asking, Body, CallKey, Decision, Event, Info, Question, Settlement, State, VoteOption,
};

/// A session, and how much was written of it.
pub(crate) struct Book {
    row: SessionRow,
    version: u64,
    generation: u64,
}

impl Book {
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        let row = SessionRow {
            session: SessionId::new(name)?,
            workspace_cwd: "/work".to_owned(),
            agent: "holdpoint".to_owned(),
            title: Some("Write the release notes".to_owned()),
            created_at: Micros(1),
            updated_at: Micros(1),
            source_type: None,
            source_id: None,
            deleted: false,
        };
        Ok(Self { row, version: 0, generation: 0 })
    }

    fn append(&mut self, at: i64, event: Event, questions: Vec<Question>) -> Append {
        let expected = self.version;
        self.version += 1;
        self.row.updated_at = Micros(at);
        Append {
            session: self.row.session.clone(),
            expected,
            at: Micros(at),
            events: vec![event],
            row: self.row.clone(),
            questions,
            urgency: Urgency::Now,
        }
    }

    /// Its first event.
    pub(crate) fn open(&mut self, at: i64) -> Append {
        let info = Info {
            workspace_cwd: self.row.workspace_cwd.clone(),
            agent: self.row.agent.clone(),
            source_type: None,
            source_id: None,
        };
        self.append(at, Event::Opened { info }, Vec::new())
    }

    /// Asks a question as a model does.
    pub(crate) fn ask(&mut self, name: &str, at: i64) -> anyhow::Result<(Append, Question)> {
        self.generation += 1;
        let asks = Asks {
            question: "Which colour should the first version of the page have?".to_owned(),
            header: "Colour".to_owned(),
            options: [("Red", "the warm one"), ("Blue", "the cold one")]
                .map(|(label, what)| Choice { label: label.to_owned(), description: what.to_owned() })
                .into(),
            multi_select: false,
        };
        let option = |id: &str, name: &str, kind: &str| VoteOption {
            option_id: id.to_owned(),
            name: name.to_owned(),
            kind: kind.to_owned(),
        };
        let asking = Asking {
            request: RequestId::new(format!("r-{name}"))?,
            life: 1,
            since: Micros(at),
            capture: Capture::FirstResponder,
            ballots: Vec::new(),
        };
        let question = Question {
            id: QuestionId::new(format!("q_{name}"))?,
            generation: Generation(self.generation),
            call: CallKey {
                turn: Some(RecordId::new(format!("turn-{name}"))?),
                call: CallId::new(format!("call-{name}"))?,
            },
            prompt: None,
            author: None,
            title: "Which colour should the first version of the page have?".to_owned(),
            body: Body::UserQuestion { questions: vec![asks] },
            options: vec![
                option("proceed_once", "Submit", "allow_once"),
                option("cancel", "Cancel", "reject_once"),
            ],
            asked_at: Micros(at),
            requests: vec![asking.request.clone()],
            asking: Some(asking.clone()),
            state: State::Open,
            delivered: false,
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
            asking,
        };
        Ok((self.append(at, event, vec![question.clone()]), question))
    }

    /// Answers it.
    pub(crate) fn settle(&mut self, at: i64, mut question: Question) -> Append {
        let answers = Answers::from_pairs([(0, "Blue".to_owned())]).expect("there is an answer");
        let settlement = Settlement {
            decision: Decision::Answered { answers },
            by: Answerer { client_id: None, name: None, surface: "http".to_owned() },
            at: Micros(at),
            response: None,
        };
        question.state = State::Settled(settlement.clone());
        question.asking = None;
        let event = Event::Settled { generation: question.generation, settlement };
        self.append(at, event, vec![question])
    }
}
