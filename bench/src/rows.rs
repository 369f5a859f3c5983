//! Rows for the ledger, made without a daemon.

use holdpoint_ledger::{Append, SessionRow, Urgency};
use holdpoint_model::answers::Answers;
use holdpoint_model::ids::{CallId, Generation, Micros, QuestionId, RecordId, RequestId, SessionId};
use holdpoint_model::policy::Capture;
use holdpoint_model::question::{Choice, Question as Asks};
use holdpoint_model::session::{
    Answerer, Asking, Body, CallKey, Decision, Event, Info, Session, Settlement, VoteOption,
};

/// A session, as the engine holds it.
pub(crate) struct Book {
    state: Session,
}

impl Book {
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        Ok(Self { state: Session::empty(SessionId::new(name)?) })
    }

    fn append(&mut self, at: i64, event: Event) -> anyhow::Result<Append> {
        let expected = self.state.version;
        self.state.evolve(&event, Micros(at))?;
        let question = event.generation().and_then(|generation| self.state.questions.get(&generation));
        let info = self.state.info.as_ref();
        Ok(Append {
            session: self.state.id.clone(),
            expected,
            at: Micros(at),
            row: SessionRow {
                session: self.state.id.clone(),
                workspace_cwd: info.map(|info| info.workspace_cwd.clone()).unwrap_or_default(),
                agent: info.map(|info| info.agent.clone()).unwrap_or_default(),
                title: Some("Write the release notes".to_owned()),
                created_at: self.state.created_at,
                updated_at: self.state.updated_at,
                source_type: None,
                source_id: None,
                deleted: false,
            },
            questions: question.cloned().into_iter().collect(),
            events: vec![event],
            urgency: Urgency::Now,
        })
    }

    /// Its first event.
    pub(crate) fn open(&mut self, at: i64) -> anyhow::Result<Append> {
        let info = Info {
            workspace_cwd: "/work".to_owned(),
            agent: "holdpoint".to_owned(),
            source_type: None,
            source_id: None,
            approval_mode: None,
        };
        self.append(at, Event::Opened { info })
    }

    /// Gives it a title.
    pub(crate) fn title(&mut self, at: i64, title: &str) -> anyhow::Result<Append> {
        self.append(at, Event::Titled { title: title.to_owned() })
    }

    /// Asks a question as a model does.
    pub(crate) fn ask(&mut self, name: &str, at: i64) -> anyhow::Result<Append> {
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
        let event = Event::Asked {
            question: QuestionId::new(format!("q_{name}"))?,
            generation: Generation(self.state.generation.0 + 1),
            call: CallKey {
                turn: Some(RecordId::new(format!("turn-{name}"))?),
                call: CallId::new(format!("call-{name}"))?,
            },
            prompt: None,
            author: None,
            title: asks.question.clone(),
            body: Body::UserQuestion { questions: vec![asks] },
            options: vec![
                option("proceed_once", "Submit", "allow_once"),
                option("cancel", "Cancel", "reject_once"),
            ],
            asking: Asking {
                request: RequestId::new(format!("r-{name}"))?,
                life: self.state.life,
                since: Micros(at),
                capture: Capture::FirstResponder,
                ballots: Vec::new(),
            },
        };
        self.append(at, event)
    }

    /// Answers a question, by its number from 1.
    pub(crate) fn settle(&mut self, at: i64, generation: u64) -> anyhow::Result<Append> {
        let answers = Answers::from_pairs([(0, "Blue".to_owned())]).expect("there is an answer");
        let settlement = Settlement {
            decision: Decision::Answered { answers },
            by: Answerer { client_id: None, name: None, surface: "http".to_owned() },
            at: Micros(at),
            response: None,
            policy: None,
        };
        self.append(at, Event::Settled { generation: Generation(generation), settlement })
    }
}
