//! What must hold after every step, read from what is durable: the ledger and the transcripts.

use std::collections::BTreeMap;

use holdpoint_ledger::{Ledger, QuestionFilter, SessionFilter, StateFilter, StoredEvent};
use holdpoint_model::asked::Asked;
use holdpoint_model::ids::{CallId, ClientId, Generation, PromptId, QuestionId, SessionId};
use holdpoint_model::policy::Capture;
use holdpoint_model::session::{Asking, CallKey, Decision, Event, Question, Session, Settlement, State};

use crate::durable::now;
use crate::ledger::{SimLedger, fold};
use crate::store::{Record, Shared};

/// Checks, and remembers what may not change any more.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    ends: BTreeMap<QuestionId, State>,
    /// How many events a session had: none of them goes away.
    versions: BTreeMap<SessionId, u64>,
    /// Of which version everything was in order. What has not changed needs no second look.
    checked: BTreeMap<SessionId, (u64, usize)>,
    /// So many acknowledgements were looked at.
    acknowledged: usize,
}

/// Every session that the ledger knows, folded.
pub(crate) fn sessions(ledger: &dyn Ledger) -> Vec<Session> {
    let filter = SessionFilter { limit: 1000, ..SessionFilter::default() };
    let rows = now(ledger.sessions(filter)).unwrap_or_default();
    rows.into_iter().filter_map(|row| fold(ledger, &row.session)).collect()
}

impl Checker {
    /// Checks everything that must hold at any time, as far as it may have changed.
    pub(crate) fn check(&mut self, ledger: &SimLedger, store: &Shared) {
        let durable = ledger.durable();
        for session in ledger.sessions() {
            let written = store.lock().histories.get(&session.id).map_or(0, |history| history.0.len());
            let at = (session.version, written);
            if self.checked.get(&session.id) == Some(&at) {
                continue;
            }
            let events = now(durable.events(&session.id)).unwrap_or_default();
            self.grows_only(&session.id, session.version, store);
            asked_once(&session.id, &events, store);
            allowed(&session.id, &events, store);
            ended_once(&session.id, &events, store);
            in_order(&session.id, &events, store);
            self.session(&session, durable, store);
            self.checked.insert(session.id, at);
        }
        for session in ledger.broken() {
            store.violation(format!("{session} cannot be folded"));
        }
        self.acknowledged(durable, store);
        told(durable, store);
    }

    /// Checks all of it, changed or not.
    pub(crate) fn check_all(&mut self, ledger: &SimLedger, store: &Shared) {
        self.checked.clear();
        self.acknowledged = 0;
        self.check(ledger, store);
    }

    fn grows_only(&mut self, session: &SessionId, version: u64, store: &Shared) {
        let before = self.versions.insert(session.clone(), version).unwrap_or(0);
        if version < before {
            store.violation(format!("I4: {session} had {before} events, and has {version}"));
        }
    }

    fn session(&mut self, session: &Session, ledger: &dyn Ledger, store: &Shared) {
        for question in session.questions.values() {
            self.settled_once(question, store);
            // I5: the row is the fold.
            let row = now(ledger.question(&question.id)).ok().flatten().map(|row| row.question);
            if row.as_ref() != Some(question) {
                store.violation(format!("the row of {} is not the fold: {row:?}", question.id));
            }
        }
        let inbox = QuestionFilter {
            state: StateFilter::Open,
            session: Some(session.id.clone()),
            limit: 1000,
            ..QuestionFilter::default()
        };
        let listed = now(ledger.questions(inbox)).unwrap_or_default();
        for question in session.open().filter(|question| question.body.is_question()) {
            if !listed.iter().any(|row| row.question.id == question.id) {
                store.violation(format!("I8: {} is open and not in the inbox", question.id));
            }
        }
        self.history(session, store);
    }

    /// I2: what has ended never changes.
    fn settled_once(&mut self, question: &Question, store: &Shared) {
        if question.is_open() {
            return;
        }
        let first = self.ends.entry(question.id.clone()).or_insert_with(|| question.state.clone());
        if *first != question.state {
            store.violation(format!("I2: {} was {first:?} and is {:?}", question.id, question.state));
        }
    }

    /// I3, I4 and I10, as far as a transcript shows them.
    fn history(&self, session: &Session, store: &Shared) {
        let guard = store.lock();
        let Some(history) = guard.histories.get(&session.id) else { return };
        let history = history.clone();
        drop(guard);
        if let Err(problem) = history.well_formed() {
            store.violation(format!("I10: {}: {problem}", session.id));
        }
        let mut prompts = BTreeMap::new();
        for record in &history.0 {
            match record {
                Record::User { prompt: Some(prompt) } => *prompts.entry(prompt.clone()).or_insert(0) += 1,
                Record::Result { call, text, repaired: false, .. } => {
                    result_has_an_author(session, call, text, store)
                }
                Record::Result { call, repaired: true, .. } => repair_is_no_answer(session, call, store),
                _ => {}
            }
        }
        for (prompt, times) in prompts {
            if times > 1 {
                store.violation(format!("D5: {prompt} was begun {times} times"));
            }
        }
    }

    /// I4: what somebody was told is recorded, is recorded, and so for ever.
    fn acknowledged(&mut self, ledger: &dyn Ledger, store: &Shared) {
        let new = store.lock().acknowledged[self.acknowledged..].to_vec();
        self.acknowledged += new.len();
        for told in new {
            let row = now(ledger.question(&told.question)).ok().flatten();
            let decision = row.as_ref().and_then(|row| decision(&row.question));
            if decision != Some(&told.decision) {
                store.violation(format!(
                    "I4: {} was acknowledged as {:?} and is {row:?}",
                    told.question, told.decision
                ));
            }
        }
    }
}

fn decision(question: &Question) -> Option<&Decision> {
    match &question.state {
        State::Settled(settlement) => Some(&settlement.decision),
        State::Open | State::Closed { .. } => None,
    }
}

/// I4: what is settled is never asked for again.
fn asked_once(session: &SessionId, events: &[StoredEvent], store: &Shared) {
    let mut keys: BTreeMap<_, CallKey> = BTreeMap::new();
    let mut settled: Vec<CallKey> = Vec::new();
    for event in events.iter().map(|stored| &stored.event) {
        match event {
            Event::Asked { generation, call, .. } => {
                if settled.contains(call) {
                    store.violation(format!("I4: {session} asks for {call:?} again"));
                }
                keys.insert(*generation, call.clone());
            }
            Event::Settled { generation, .. } => settled.extend(keys.get(generation).cloned()),
            _ => {}
        }
    }
}

/// V2: who decided was allowed to, by the policy that was captured when the question was last put to people.
fn allowed(session: &SessionId, events: &[StoredEvent], store: &Shared) {
    let mut life = 0;
    let mut asked: BTreeMap<Generation, &Asking> = BTreeMap::new();
    let mut votes: BTreeMap<Generation, Vec<&ClientId>> = BTreeMap::new();
    for event in events.iter().map(|stored| &stored.event) {
        match event {
            Event::LifeStarted { life: newer, .. } => life = *newer,
            Event::Asked { generation, asking, .. } | Event::Reasked { generation, asking } => {
                asked.insert(*generation, asking);
                votes.remove(generation);
            }
            Event::Unasked { generation, .. } => drop(asked.remove(generation)),
            Event::Voted { generation, ballot, .. } => {
                votes.entry(*generation).or_default().push(&ballot.client)
            }
            Event::Settled { generation, settlement } => {
                let asking = asked.get(generation).filter(|asking| asking.life == life);
                let votes = votes.get(generation).map_or(&[][..], Vec::as_slice);
                if let Some(asking) = asking
                    && !may(&asking.capture, settlement, votes)
                {
                    let problem = format!("{settlement:?} under {:?}, after {votes:?}", asking.capture);
                    store.violation(format!("V2: {session} was decided against its policy: {problem}"));
                }
            }
            _ => {}
        }
    }
}

fn may(capture: &Capture, settlement: &Settlement, votes: &[&ClientId]) -> bool {
    if settlement.decision == (Decision::Declined { option_id: None }) {
        // The outcome `cancelled` is everybody's.
        return true;
    }
    let named = |clients: &std::collections::BTreeSet<ClientId>| {
        settlement.by.client_id.as_ref().is_some_and(|client| clients.contains(client))
    };
    match capture {
        Capture::FirstResponder | Capture::LocalOnly => true,
        Capture::Designated { clients } => named(clients),
        Capture::Consensus { clients, quorum } => {
            let mut distinct = votes.to_vec();
            distinct.extend(&settlement.by.client_id);
            distinct.sort_unstable();
            distinct.dedup();
            named(clients) && distinct.len() >= *quorum
        }
    }
}

/// R15, I6: a turn ends once.
fn ended_once(session: &SessionId, events: &[StoredEvent], store: &Shared) {
    let mut ended: Vec<&PromptId> = Vec::new();
    for stored in events {
        if let Event::TurnEnded { prompt, .. } = &stored.event {
            if ended.contains(&prompt) {
                store.violation(format!("I6: the turn of {prompt} in {session} ended twice"));
            }
            ended.push(prompt);
        }
    }
}

/// D5: prompts are begun in the order in which they were accepted.
fn in_order(session: &SessionId, events: &[StoredEvent], store: &Shared) {
    let accepted = events.iter().filter_map(|stored| match &stored.event {
        Event::PromptQueued { prompt } => Some(&prompt.id),
        _ => None,
    });
    let accepted: Vec<_> = accepted.collect();
    let history = store.lock().histories.get(session).cloned().unwrap_or_default();
    let begun: Vec<_> = history
        .0
        .iter()
        .filter_map(|record| match record {
            // A copy has prompts of its original, which nobody accepted here.
            Record::User { prompt: Some(id) } => accepted.iter().position(|accepted| *accepted == id),
            _ => None,
        })
        .collect();
    if !begun.is_sorted() {
        store.violation(format!("D5: {session} began its prompts in the order {begun:?}"));
    }
}

/// What people were told of clients and deletions is so.
fn told(ledger: &dyn Ledger, store: &Shared) {
    let (clients, deleted) = {
        let mut store = store.lock();
        (std::mem::take(&mut store.clients), store.deleted.clone())
    };
    for (session, client) in clients {
        let known = fold(ledger, &session).is_some_and(|session| session.clients.contains(&client));
        if !known {
            store.violation(format!("R16: {client} was told its id, and {session} does not know it"));
        }
    }
    for session in deleted {
        let row = now(ledger.session(&session)).ok().flatten();
        if row.is_none_or(|row| !row.deleted) || store.lock().histories.contains_key(&session) {
            store.violation(format!("D6: {session} was deleted, and is there"));
        }
        let open = QuestionFilter { session: Some(session.clone()), limit: 1, ..QuestionFilter::default() };
        if !now(ledger.questions(open)).unwrap_or_default().is_empty() {
            store.violation(format!("D6: {session} was deleted, and a question of it is open"));
        }
    }
}

fn question_of<'a>(session: &'a Session, call: &CallId) -> Option<&'a Question> {
    session.questions.values().rev().find(|question| question.call.call == *call).map(AsRef::as_ref)
}

/// I3: a result that the model reads is what the ledger says was decided.
fn result_has_an_author(session: &Session, call: &CallId, text: &str, store: &Shared) {
    let Some(question) = question_of(session, call).filter(|question| question.body.is_question()) else {
        return;
    };
    let end = match &question.state {
        State::Open => None,
        State::Settled(settlement) => match &settlement.decision {
            Decision::Answered { answers } => Some(Asked::Answered(answers.clone())),
            Decision::Declined { .. } => Some(Asked::Declined),
            Decision::Selected { .. } => None,
        },
        State::Closed { cause, .. } if cause.is_a_result() => {
            let timed_out = *cause == holdpoint_model::session::CloseCause::TimedOut;
            Some(if timed_out { Asked::TimedOut } else { Asked::CancelledBeforeAnswer })
        }
        State::Closed { .. } => None,
    };
    let expected = end.and_then(|end| end.result(question.body.questions())).map(|(text, _)| text);
    if expected.as_deref() != Some(text) {
        store.violation(format!(
            "I3: the model read {text:?} for {}, which is {:?}",
            question.id, question.state
        ));
    }
}

/// R21: a call whose question was answered is never repaired as if it were not.
fn repair_is_no_answer(session: &Session, call: &CallId, store: &Shared) {
    let Some(question) = question_of(session, call) else { return };
    if matches!(question.state, State::Settled(_)) && question.body.is_question() {
        store.violation(format!("R21: {} was answered, and its call repaired", question.id));
    }
}
