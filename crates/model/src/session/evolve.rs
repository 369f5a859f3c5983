//! The one function that changes a session: every legal pair of state and event is here, and any other is an
//! error.

use std::sync::Arc;

use super::event::Event;
use super::state::{Asking, Origin, Question, SETTLED_KEPT, Session, Shown, State, Turn};
use crate::ids::{Generation, Micros, RequestId};

/// An event that cannot follow: a bug, or a damaged ledger. The session is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {event} is not legal at version {version}: {problem}")]
pub struct Illegal {
    /// The event's name.
    pub event: &'static str,
    /// The version before it.
    pub version: u64,
    /// What is wrong.
    pub problem: &'static str,
}

impl Session {
    /// Folds stored events into a session.
    ///
    /// # Errors
    /// One of them cannot follow.
    pub fn fold(
        id: crate::ids::SessionId,
        events: impl IntoIterator<Item = (Micros, Event)>,
    ) -> Result<Self, Illegal> {
        let mut session = Self::empty(id);
        for (at, event) in events {
            session.evolve(&event, at)?;
        }
        Ok(session)
    }

    /// Takes one event in.
    ///
    /// # Errors
    /// The event cannot follow; nothing has changed.
    pub fn evolve(&mut self, event: &Event, at: Micros) -> Result<(), Illegal> {
        let version = self.version;
        self.apply(event, at).map_err(|problem| Illegal { event: event.name(), version, problem })?;
        if version == 0 {
            self.created_at = at;
        }
        if version == 0 || event.is_news() {
            self.updated_at = at;
        }
        self.version = version + 1;
        Ok(())
    }

    fn apply(&mut self, event: &Event, at: Micros) -> Result<(), &'static str> {
        match event {
            Event::Opened { info } => {
                ensure(self.info.is_none(), "it is open already")?;
                self.info = Some(info.clone());
            }
            _ if self.info.is_none() => return Err("it is not open"),
            _ if self.deleted => return Err("it is deleted"),
            Event::LifeStarted { life, recovered } => {
                ensure(*life > self.life, "a life must be newer than the last")?;
                self.life = *life;
                if *recovered {
                    self.present.clear();
                }
            }
            Event::ClientRegistered { client } => {
                self.clients.insert(client.clone());
                self.present.insert(client.clone());
            }
            Event::Titled { title } => self.title = Some(title.clone()),
            Event::PromptQueued { prompt } => {
                ensure(!self.knows_prompt(&prompt.id), "the prompt is here already")?;
                self.given.note(prompt);
                self.queue.push_back(prompt.clone());
            }
            Event::PromptRemoved { prompt } => {
                let at = self.queue.iter().position(|waiting| waiting.id == *prompt);
                self.queue.remove(at.ok_or("no such prompt waits")?);
            }
            Event::TurnStarted { origin } => self.start_turn(origin, at)?,
            Event::TurnRequeued { prompt } => match self.turn.take() {
                Some(Turn { origin: Origin::Client { prompt: back }, life, .. })
                    if back.id == *prompt && life != self.life =>
                {
                    self.queue.push_front(back);
                }
                other => {
                    self.turn = other;
                    return Err("no such client's turn was interrupted");
                }
            },
            Event::TurnEnded { prompt, .. } => {
                let ends = self.turn.as_ref().is_some_and(|turn| turn.origin.prompt() == prompt);
                ensure(ends, "no such turn")?;
                self.turn = None;
            }
            Event::Asked { generation, question, asking, .. } => {
                ensure(*generation == Generation(self.generation.0 + 1), "generations must count up by one")?;
                ensure(self.question(question).is_none(), "the question's id is used")?;
                self.new_request(&asking.request)?;
                self.generation = *generation;
                self.questions.insert(*generation, Arc::new(asked(event, at)?));
            }
            Event::Reasked { generation, asking } => {
                self.new_request(&asking.request)?;
                let prompt = self.running().map(|turn| turn.origin.prompt().clone());
                let question = self.open_mut(*generation)?;
                question.requests.push(asking.request.clone());
                question.asking = Some(asking.clone());
                question.prompt = prompt.or(question.prompt.take());
            }
            Event::Reissued { generation, request } => {
                self.new_request(request)?;
                let question = self.question_mut(*generation)?;
                ensure(!question.is_open() && !question.delivered, "it is open, or delivered")?;
                question.requests.push(request.clone());
            }
            Event::Unasked { generation, .. } => {
                self.open_mut(*generation)?.asking.take().ok_or("it is not asked")?;
            }
            Event::Shown { generation, surface } => {
                let question = self.question_mut(*generation)?;
                let known = question.shown.iter().any(|shown| shown.surface == *surface);
                ensure(!known, "this surface has shown it")?;
                question.shown.push(Shown { surface: surface.clone(), at });
            }
            Event::Voted { generation, ballot, .. } => {
                let asking: &mut Asking =
                    self.open_mut(*generation)?.asking.as_mut().ok_or("it is not asked")?;
                let voted = asking.ballots.iter().any(|other| other.client == ballot.client);
                ensure(!voted, "this client has voted")?;
                asking.ballots.push(ballot.clone());
            }
            Event::Refused { generation, .. } => {
                self.was_asked(*generation)?;
                *self.refusals.entry(*generation).or_default() += 1;
            }
            Event::Settled { generation, settlement } => {
                let question = self.open_mut(*generation)?;
                question.state = State::Settled(settlement.clone());
                question.asking = None;
            }
            Event::Closed { generation, cause } => {
                let question = self.open_mut(*generation)?;
                question.state = State::Closed { cause: *cause, at };
                question.asking = None;
            }
            Event::Delivered { generation } => {
                let question = self.question_mut(*generation)?;
                ensure(!question.is_open(), "it is open")?;
                question.delivered = true;
                self.forget_old();
            }
            Event::Deleted => self.deleted = true,
        }
        Ok(())
    }

    fn start_turn(&mut self, origin: &Origin, at: Micros) -> Result<(), &'static str> {
        match (&self.turn, origin) {
            (None, Origin::Client { prompt }) => {
                let front = self.queue.front().is_some_and(|waiting| waiting.id == prompt.id);
                ensure(front, "another prompt is first")?;
                self.queue.pop_front();
            }
            (None, _) => {}
            (Some(turn), Origin::Restore { id, .. }) => {
                ensure(turn.life != self.life && turn.origin.prompt() == id, "another turn runs")?;
            }
            (Some(_), _) => return Err("a turn runs"),
        }
        self.turn = Some(Turn { origin: origin.clone(), life: self.life, started_at: at });
        Ok(())
    }

    /// A request id is for one question, for ever (R17).
    fn new_request(&self, request: &RequestId) -> Result<(), &'static str> {
        ensure(self.by_request(request).is_none(), "the request's id is used")
    }

    fn was_asked(&self, generation: Generation) -> Result<(), &'static str> {
        let was = generation > Generation(0) && generation <= self.generation;
        ensure(was, "no such question was asked")
    }

    fn question_mut(&mut self, generation: Generation) -> Result<&mut Question, &'static str> {
        self.questions.get_mut(&generation).map(Arc::make_mut).ok_or("no such question is kept")
    }

    fn open_mut(&mut self, generation: Generation) -> Result<&mut Question, &'static str> {
        let question = self.question_mut(generation)?;
        if question.is_open() { Ok(question) } else { Err("the question is not open") }
    }

    /// Drops the oldest delivered questions beyond [`SETTLED_KEPT`].
    fn forget_old(&mut self) {
        let over = self.questions.len().saturating_sub(SETTLED_KEPT);
        let old: Vec<_> = self
            .questions
            .iter()
            .filter(|(_, q)| q.delivered)
            .map(|(generation, _)| *generation)
            .take(over)
            .collect();
        for generation in old {
            self.questions.remove(&generation);
        }
    }
}

fn ensure(holds: bool, problem: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(problem) }
}

fn asked(event: &Event, at: Micros) -> Result<Question, &'static str> {
    let Event::Asked { question, generation, call, prompt, author, title, body, options, asking } = event
    else {
        return Err("not an asking");
    };
    Ok(Question {
        id: question.clone(),
        generation: *generation,
        call: call.clone(),
        prompt: prompt.clone(),
        author: author.clone(),
        title: title.clone(),
        body: body.clone(),
        options: options.clone(),
        asked_at: at,
        requests: vec![asking.request.clone()],
        asking: Some(asking.clone()),
        state: State::Open,
        delivered: false,
        shown: Vec::new(),
    })
}

impl Event {
    /// Its name in the ledger.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "opened",
            Self::LifeStarted { .. } => "life_started",
            Self::ClientRegistered { .. } => "client_registered",
            Self::Titled { .. } => "titled",
            Self::PromptQueued { .. } => "prompt_queued",
            Self::PromptRemoved { .. } => "prompt_removed",
            Self::TurnStarted { .. } => "turn_started",
            Self::TurnRequeued { .. } => "turn_requeued",
            Self::TurnEnded { .. } => "turn_ended",
            Self::Asked { .. } => "asked",
            Self::Reasked { .. } => "reasked",
            Self::Reissued { .. } => "reissued",
            Self::Unasked { .. } => "unasked",
            Self::Shown { .. } => "shown",
            Self::Voted { .. } => "voted",
            Self::Refused { .. } => "refused",
            Self::Settled { .. } => "settled",
            Self::Closed { .. } => "closed",
            Self::Delivered { .. } => "delivered",
            Self::Deleted => "deleted",
        }
    }

    /// Whether it is something for people to come back to: looking at a session, taking it up and asking it the same
    /// again do not make it newer in a list.
    pub fn is_news(&self) -> bool {
        !matches!(
            self,
            Self::LifeStarted { .. }
                | Self::ClientRegistered { .. }
                | Self::TurnRequeued { .. }
                | Self::TurnStarted { origin: Origin::Restore { .. }, .. }
                | Self::Reasked { .. }
                | Self::Reissued { .. }
                | Self::Unasked { .. }
                | Self::Shown { .. }
                | Self::Refused { .. }
        )
    }

    /// Which question it is about.
    pub fn generation(&self) -> Option<Generation> {
        match self {
            Self::Asked { generation, .. }
            | Self::Reasked { generation, .. }
            | Self::Reissued { generation, .. }
            | Self::Unasked { generation, .. }
            | Self::Shown { generation, .. }
            | Self::Voted { generation, .. }
            | Self::Refused { generation, .. }
            | Self::Settled { generation, .. }
            | Self::Closed { generation, .. }
            | Self::Delivered { generation } => Some(*generation),
            Self::Opened { .. }
            | Self::LifeStarted { .. }
            | Self::ClientRegistered { .. }
            | Self::Titled { .. }
            | Self::PromptQueued { .. }
            | Self::PromptRemoved { .. }
            | Self::TurnStarted { .. }
            | Self::TurnRequeued { .. }
            | Self::TurnEnded { .. }
            | Self::Deleted => None,
        }
    }
}
