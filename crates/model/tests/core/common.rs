//! What the tests of the core share: short makers for long types.

use holdpoint_model::ids::{CallId, ClientId, Generation, Micros, PromptId, QuestionId, RecordId, RequestId};
use holdpoint_model::policy::{Strategy, Voter};
use holdpoint_model::question::{Question, parse_questions};
use holdpoint_model::session::{
    Answerer, Body, CallKey, Choice, Command, Context, Event, Info, Prompt, Rejection, Session, Tail,
    TurnEnd, VoteOption, decide,
};
use serde_json::{Value, json};

/// Makes an id of a text that is one.
pub(crate) fn id<T: TryFrom<String>>(text: impl Into<String>) -> T
where
    T::Error: std::fmt::Debug,
{
    T::try_from(text.into()).expect("the test's id is well-formed")
}

pub(crate) fn context(restore: bool, strategy: Strategy) -> Context {
    Context { now: Micros(1_000), restore, strategy, quorum: None, max_prompts: None }
}

pub(crate) fn questions(text: &str) -> Vec<Question> {
    parse_questions(&json!({"questions": [{
        "question": text,
        "header": "Pick",
        "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}],
    }]}))
    .expect("the question is well-formed")
}

pub(crate) fn options(names: &[(&str, &str)]) -> Vec<VoteOption> {
    names
        .iter()
        .map(|(option, kind)| VoteOption {
            option_id: (*option).to_owned(),
            name: (*option).to_owned(),
            kind: (*kind).to_owned(),
        })
        .collect()
}

pub(crate) fn question_options() -> Vec<VoteOption> {
    options(&[("proceed_once", "allow_once"), ("cancel", "reject_once")])
}

pub(crate) fn permission_options() -> Vec<VoteOption> {
    options(&[("proceed_once", "allow_once"), ("proceed_always", "allow_always"), ("cancel", "reject_once")])
}

pub(crate) fn key(turn: Option<&str>, call: &str) -> CallKey {
    CallKey { turn: turn.map(id::<RecordId>), call: id::<CallId>(call) }
}

pub(crate) fn voter(client: Option<&str>) -> Voter {
    Voter { client: client.map(id::<ClientId>), loopback: true, proxied: false }
}

pub(crate) fn by(client: Option<&str>) -> Answerer {
    Answerer { client_id: client.map(id::<ClientId>), name: None, surface: "http".to_owned() }
}

pub(crate) fn prompt_of(text: &str, client: Option<&str>) -> Prompt {
    Prompt {
        id: id(text),
        blocks: vec![json!({"type": "text", "text": text})],
        client: client.map(id::<ClientId>),
        at: Micros(1),
        deadline_ms: None,
    }
}

/// A session that is driven by commands, its events kept.
pub(crate) struct Driven {
    pub(crate) session: Session,
    pub(crate) context: Context,
    pub(crate) events: Vec<(Micros, Event)>,
    made: u32,
}

impl Driven {
    /// An open session in its first life.
    pub(crate) fn new(context: Context) -> Self {
        let mut driven = Self { session: Session::empty(id("ses_1")), context, events: Vec::new(), made: 0 };
        let info = Info {
            workspace_cwd: "/w".to_owned(),
            agent: "a".to_owned(),
            source_type: None,
            source_id: None,
            approval_mode: None,
        };
        driven.go(Command::Open { info });
        driven.go(Command::StartLife);
        driven
    }

    /// Decides and takes in; the events that followed, or why none did.
    pub(crate) fn run(&mut self, command: Command) -> Result<Vec<Event>, Rejection> {
        let events = decide(&self.session, command, &self.context)?;
        for event in &events {
            self.session.evolve(event, self.context.now).expect("what decide says can follow");
            self.events.push((self.context.now, event.clone()));
        }
        Ok(events)
    }

    /// As [`Self::run`], for a command that must be accepted.
    pub(crate) fn go(&mut self, command: Command) -> Vec<Event> {
        self.run(command).expect("the command is accepted")
    }

    /// The names of the events that follow.
    pub(crate) fn names(&mut self, command: Command) -> Vec<&'static str> {
        self.go(command).iter().map(Event::name).collect()
    }

    pub(crate) fn attach(&mut self, client: &str) {
        let presented = Some(id(client));
        self.go(Command::Attach { presented, minted: id(client) });
    }

    pub(crate) fn prompt(&mut self, text: &str, client: Option<&str>) -> Vec<Event> {
        self.go(Command::Prompt { prompt: prompt_of(text, client), hold: false })
    }

    pub(crate) fn ask_command(&mut self, turn: Option<&str>, call: &str, body: Body) -> Command {
        self.made += 1;
        let options = if body.is_question() { question_options() } else { permission_options() };
        Command::Ask {
            life: self.session.life,
            question: id::<QuestionId>(format!("q_{}", self.made)),
            request: id::<RequestId>(format!("r{}", self.made)),
            call: key(turn, call),
            title: "title".to_owned(),
            body,
            options,
        }
    }

    /// Asks in words; the events that follow.
    pub(crate) fn ask(&mut self, turn: Option<&str>, call: &str, words: &str) -> Vec<Event> {
        let command = self.ask_command(turn, call, Body::UserQuestion { questions: questions(words) });
        self.go(command)
    }

    /// Asks for consent; the events that follow.
    pub(crate) fn ask_permission(&mut self, turn: Option<&str>, call: &str) -> Vec<Event> {
        let command = self.ask_command(turn, call, Body::Permission { action: json!({"title": "rm"}) });
        self.go(command)
    }

    pub(crate) fn vote(
        &mut self,
        request: &str,
        client: Option<&str>,
        option: Option<&str>,
    ) -> Result<Vec<Event>, Rejection> {
        self.vote_with(request, voter(client), option, Some(json!({"0": "Red"})))
    }

    pub(crate) fn vote_with(
        &mut self,
        request: &str,
        voter: Voter,
        option: Option<&str>,
        answers: Option<Value>,
    ) -> Result<Vec<Event>, Rejection> {
        let by = by(voter.client.as_ref().map(AsRef::as_ref));
        let option = option.map(ToOwned::to_owned);
        self.run(Command::Vote { request: id(request), voter, by, option, answers })
    }

    pub(crate) fn answer(
        &mut self,
        question: &str,
        generation: u64,
        choice: Choice,
        response: Option<&str>,
    ) -> Result<Vec<Event>, Rejection> {
        self.run(Command::Answer {
            question: id(question),
            generation: Generation(generation),
            voter: voter(None),
            by: by(None),
            choice,
            response: response.map(id),
        })
    }

    pub(crate) fn end_turn(&mut self, prompt: &str) -> Vec<Event> {
        let outcome = TurnEnd::Completed { stop_reason: "end_turn".to_owned(), parked: false };
        self.go(Command::EndTurn { life: self.session.life, prompt: id::<PromptId>(prompt), outcome })
    }

    pub(crate) fn reconcile(
        &mut self,
        turn: Option<&str>,
        open: &[&str],
        last: Option<&str>,
        restoring: bool,
    ) -> Vec<Event> {
        let open = open.iter().map(|call| id::<CallId>(*call)).collect();
        let tail = Tail { turn: turn.map(id), open, last_prompt: last.map(id), restoring, given_up: false };
        self.go(Command::Reconcile { tail })
    }

    /// A new process of the daemon takes the session up.
    pub(crate) fn restart(&mut self) {
        self.go(Command::Recover);
        self.go(Command::StartLife);
    }
}
