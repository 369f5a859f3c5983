//! What must hold after every step, read from what is durable: the ledger and the transcripts.

use std::collections::BTreeMap;

use holdpoint_ledger::{Ledger, MemoryLedger, QuestionFilter, SessionFilter, StateFilter};
use holdpoint_model::asked::Asked;
use holdpoint_model::ids::{CallId, QuestionId, SessionId};
use holdpoint_model::session::{CallKey, Decision, Event, Question, Session, State};

use crate::ledger::now;
use crate::store::{Record, Shared};

/// Checks, and remembers what may not change any more.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    ends: BTreeMap<QuestionId, State>,
}

/// Every session that the ledger knows, folded.
pub(crate) fn sessions(ledger: &MemoryLedger) -> Vec<Session> {
    let filter = SessionFilter { limit: 1000, ..SessionFilter::default() };
    let rows = now(ledger.sessions(filter)).unwrap_or_default();
    rows.into_iter().filter_map(|row| fold(ledger, &row.session)).collect()
}

fn fold(ledger: &MemoryLedger, id: &SessionId) -> Option<Session> {
    let events = now(ledger.events(id)).ok()?;
    Session::fold(id.clone(), events.into_iter().map(|stored| (stored.at, stored.event))).ok()
}

impl Checker {
    /// Checks everything that must hold at any time.
    pub(crate) fn check(&mut self, ledger: &MemoryLedger, store: &Shared) {
        let filter = SessionFilter { limit: 1000, ..SessionFilter::default() };
        for row in now(ledger.sessions(filter)).unwrap_or_default() {
            let events: Vec<_> = now(ledger.events(&row.session))
                .unwrap_or_default()
                .into_iter()
                .map(|e| (e.at, e.event))
                .collect();
            asked_once(&row.session, events.iter().map(|(_, event)| event), store);
            match Session::fold(row.session.clone(), events.clone()) {
                Ok(session) => self.session(&session, ledger, store),
                Err(error) => {
                    store.violation(format!("{} cannot be folded: {error}: {events:?}", row.session))
                }
            }
        }
        self.acknowledged(ledger, store);
    }

    fn session(&mut self, session: &Session, ledger: &MemoryLedger, store: &Shared) {
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
    fn acknowledged(&self, ledger: &MemoryLedger, store: &Shared) {
        let acknowledged = store.lock().acknowledged.clone();
        for told in acknowledged {
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
fn asked_once<'a>(session: &SessionId, events: impl Iterator<Item = &'a Event>, store: &Shared) {
    let mut keys: BTreeMap<_, CallKey> = BTreeMap::new();
    let mut settled: Vec<CallKey> = Vec::new();
    for event in events {
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
